"""A reply as a Slack message, and as text for terminals. Lines of logs stand in blocks in which nothing is parsed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from bot.answers.reply import Command, Line, Part, Quotes, Reply, Steps, Words
from bot.slack import rich
from bot.slack.contract import Block, SlackMessage
from bot.slack.escape import literal, mrkdwn
from bot.terminal import Layout, one_line

MAX_CHARACTERS = 11_500  # of all blocks as JSON
MAX_TEXT = 3_000
MAX_LINE = 300
COLOUR = "#9e9e9e"

_PERSON = re.compile(r"@([UW][A-Z0-9]{2,20})\b")


def as_message(reply: Reply) -> SlackMessage:
    """Return the message; whatever the reply holds, it fits Slack's limits and nothing is live."""
    shown: list[rich.Element] = []
    room = MAX_CHARACTERS
    for part in reply.parts:
        for element in _elements(part, room):
            size = len(json.dumps(element))
            if size > room - 200:
                shown.append(rich.section(rich.plain("… more than fits here. Ask for less at once.")))
                return _message(reply, shown)
            shown.append(element)
            room -= size
    return _message(reply, shown)


def _message(reply: Reply, elements: list[rich.Element]) -> SlackMessage:
    blocks: list[Block] = [rich.rich_text(*(elements or [rich.section(rich.plain("No answer."))]))]
    return SlackMessage(text=_fallback(reply), blocks=blocks, colour=COLOUR)


def _elements(part: Part, room: int) -> Iterator[rich.Element]:
    match part:
        case Words():
            yield rich.section(*_words(part))
        case Steps():
            if part.heading:
                yield rich.section(rich.bold(literal(part.heading, 200)))
            items = [rich.prose(literal(item, 500)) for item in part.items if item.strip()]
            if items:
                yield rich.listing("ordered" if part.numbered else "bullet", items)
        case Command():
            yield rich.listing(
                "bullet", [[rich.code(literal(part.run, 600)), rich.plain(f" → {literal(part.expect, 400)}")]]
            )
        case Quotes():
            if part.heading:
                yield rich.section(rich.bold(literal(part.heading, 200)))
            kept, hidden = _fitting(part, room)
            if kept:
                yield rich.preformatted("\n".join(kept))
            if hidden:
                yield rich.section(rich.plain(f"and {hidden} more {'line' if hidden == 1 else 'lines'}"))


def _words(part: Words) -> list[rich.Element]:
    """Prose, in which people who are meant are shown by name."""
    elements: list[rich.Element] = []
    text, position = literal(part.text, 2_500, lines=12), 0
    for found in _PERSON.finditer(text):
        if found[1] in part.people:
            elements += rich.prose(text[position : found.start()])
            elements.append({"type": "user", "user_id": found[1]})
            position = found.end()
    rest = text[position:]
    return elements + (rich.prose(rest) if rest else []) or [rich.plain(" ")]


def _fitting(part: Quotes, room: int) -> tuple[list[str], int]:
    """Lines of a log from its end, others from their beginning: what is cut is what matters less."""
    lines = [cited(line) for line in part.lines]
    kept: list[str] = []
    for line in reversed(lines) if part.run else lines:
        room -= len(json.dumps(line)) + 4
        if room < 600:
            break
        kept.append(line)
    return kept[::-1] if part.run else kept, len(lines) - len(kept) + part.folded


def cited(line: Line) -> str:
    """`rank-3.log:512  the line`."""
    return f"{literal(line.place, 200)}  {literal(line.text, MAX_LINE)}"


def _fallback(reply: Reply) -> str:
    """The answer in plain words, for notifications and clients without blocks."""
    told: list[str] = []
    for part in reply.parts:
        match part:
            case Words():
                told.append(part.text)
            case Steps():
                told += part.items
            case Command():
                told.append(f"{part.run} → {part.expect}")
            case Quotes():
                told += [cited(line) for line in part.lines[:3]]
    text = ""
    for sentence in told:
        room = MAX_TEXT - len(text) - 1
        if room < 40:
            break
        text += ("\n" if text else "") + mrkdwn(sentence, min(800, room))
    return text or "No answer."


def as_text(reply: Reply, *, width: int = 80, colour: bool = False) -> str:
    """Return the reply for a terminal, ending in a newline."""
    layout = Layout.on(width, colour=colour)
    return "\n".join("\n".join(lines) + "\n" for part in reply.parts if (lines := list(_lines(layout, part))))


def _lines(layout: Layout, part: Part) -> Iterable[str]:
    style = layout.style
    match part:
        case Words():
            yield from layout.wrapped(one_line(part.text), 0)
        case Steps():
            if part.heading:
                yield style.strong(one_line(part.heading))
            for number, item in enumerate(filter(str.strip, part.items), 1):
                yield from layout.item(f"{number}." if part.numbered else "·", one_line(item))
        case Command():
            yield "  $ " + style.command(one_line(part.run))
            yield from map(style.good, layout.item("  →", one_line(part.expect)))
        case Quotes():
            if part.heading:
                yield style.strong(one_line(part.heading))
            for line in part.lines:
                yield style.faint(f"  {one_line(line.place)}") + f"  {style.log(literal(line.text, MAX_LINE))}"
            if part.folded:
                yield style.faint(f"  and {part.folded} more")
