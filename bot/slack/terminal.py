"""The same message in a terminal: readable without Slack, with a bar in the state's colour where colours are wanted."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from bot.slack.contract import SlackMessage
from bot.slack.escape import cut

_BOLD, _DIM, _CYAN, _END = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"
_LINK = re.compile(r"<(https?://[^|>]+)\|([^>]*)>")
_MOMENT = re.compile(r"<!date\^[^|>]*\|([^>]*)>")
_PERSON = re.compile(r"<@([UW][A-Z0-9]+)>")


def as_text(message: SlackMessage, *, width: int = 100, coloured: bool = False) -> str:
    """Return the message as lines of about `width` columns; log lines are never wrapped, so they can be searched."""
    bar = f"{_foreground(message.colour)}▌{_END} " if coloured and message.colour else "| "
    shown = [list(_block(block, max(40, width - 2), coloured)) for block in message.blocks]
    lines = [line for block in shown if block for line in [*block, ""]]
    return "\n".join((bar + line).rstrip() for line in lines[:-1])


def _foreground(colour: str) -> str:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"\x1b[38;2;{red};{green};{blue}m"


def _block(block: dict[str, Any], width: int, coloured: bool) -> Iterator[str]:
    kind = block["type"]
    if kind == "header":
        yield from _wrapped(_styled(block["text"]["text"], _BOLD, coloured), width)
    elif kind == "context":
        words = " ".join(_readable(element["text"]) for element in block["elements"])
        for line in words.split("\n"):
            yield from (_styled(part, _DIM, coloured) for part in textwrap.wrap(line, width))
    elif kind == "section":
        if "text" in block:
            yield from _wrapped(_readable(block["text"]["text"]), width)
        for field in block.get("fields", []):
            name, _, value = _readable(field["text"]).partition("\n")
            label = _styled(name.strip("*"), _BOLD, coloured)
            yield from _wrapped(f"{label}: {value}".replace("\n", ", "), width)
    elif kind == "table":
        yield from _table(block["rows"], width)
    elif kind == "rich_text":
        for element in block["elements"]:
            yield from _element(element, width, coloured)


def _table(rows: list[list[dict[str, Any]]], width: int) -> Iterator[str]:
    """The cells in columns; what does not fit the width is cut from the last one, where the words are."""
    lines = [[str(cell.get("text", cell.get("value", ""))) for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    widths[-1] = max(20, min(widths[-1], width - sum(widths[:-1]) - 2 * len(widths[:-1])))
    for line in lines:
        cells = [cut(text, room).ljust(room) for text, room in zip(line, widths, strict=True)]
        yield "  ".join(cells).rstrip()


def _element(element: dict[str, Any], width: int, coloured: bool) -> Iterator[str]:
    kind = element["type"]
    if kind == "rich_text_preformatted":
        yield from (f"    {line}" for line in _inline(element, coloured=False).split("\n"))
    elif kind == "rich_text_list":
        for number, item in enumerate(element["elements"], 1):
            mark = f"{number}. " if element["style"] == "ordered" else "- "
            yield from _wrapped(f"  {mark}{_inline(item, coloured)}", width, indent=" " * (2 + len(mark)))
    else:
        for line in _inline(element, coloured).split("\n"):
            yield from _wrapped(line, width)


def _inline(element: dict[str, Any], coloured: bool) -> str:
    return "".join(_part(part, coloured) for part in element["elements"])


def _part(part: dict[str, Any], coloured: bool) -> str:
    style = part.get("style", {})
    if part["type"] == "user":
        return f"@{part['user_id']}"
    if style.get("bold"):
        return _styled(part["text"], _BOLD, coloured)
    return _styled(part["text"], _CYAN, coloured) if style.get("code") else str(part["text"])


def _styled(text: str, style: str, coloured: bool) -> str:
    return f"{style}{text}{_END}" if coloured else text


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


def _readable(mrkdwn: str) -> str:
    plain = _MOMENT.sub(lambda found: found[1], _PERSON.sub(lambda found: f"@{found[1]}", mrkdwn))
    return html.unescape(_LINK.sub(lambda found: f"{found[2]}: {found[1]}", plain))
