"""Small builders for Block Kit. Rich text shows its text as it is, so nothing from a log can become live in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

from bot.slack.contract import Block
from bot.slack.escape import literal

Element = dict[str, Any]


def header(text: str) -> Block:
    """A large line of plain text; Slack takes 150 units of UTF-16. `:names:` stay words: a job may be `a:fire:b`."""
    return {"type": "header", "text": {"type": "plain_text", "text": literal(text, 145), "emoji": False}}


def context(mrkdwn: str) -> Block:
    """A small grey line of mrkdwn that is escaped already."""
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": mrkdwn}]}


def rich_text(*elements: Element) -> Block:
    """A block of sections, lists and preformatted lines."""
    return {"type": "rich_text", "elements": list(elements)}


def section(*parts: Element) -> Element:
    """One paragraph."""
    return {"type": "rich_text_section", "elements": list(parts)}


def plain(text: str) -> Element:
    """Words without a style; the caller has cleaned them."""
    return {"type": "text", "text": text}


def bold(text: str) -> Element:
    """Words that must be seen first."""
    return {"type": "text", "text": text, "style": {"bold": True}}


def code(text: str) -> Element:
    """Something to copy: a command, a path."""
    return {"type": "text", "text": text, "style": {"code": True}}


def prose(text: str) -> list[Element]:
    """A sentence in which words between backticks are code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an odd backtick: leave all as they are
        return [plain(text)]
    return [code(part) if number % 2 else plain(part) for number, part in enumerate(parts) if part]


def preformatted(text: str) -> Element:
    """A log line, shown as it is."""
    return {"type": "rich_text_preformatted", "elements": [plain(text)]}


def listing(style: Literal["ordered", "bullet"], items: Sequence[Sequence[Element]]) -> Element:
    """A numbered or dotted list."""
    return {"type": "rich_text_list", "style": style, "elements": [section(*item) for item in items]}


def cell(text: str) -> Element:
    """A cell of a table; Slack takes no empty ones."""
    return {"type": "raw_text", "text": text or "–"}


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> Block:
    """A table with a first row of heads; the columns of `right` are aligned to the right. Texts are cleaned already."""
    settings = [{"align": "right" if column in right else "left"} for column in range(len(heads))]
    lines = [[cell(text) for text in row] for row in (heads, *rows)]
    return {"type": "table", "rows": lines, "column_settings": settings}


def words(text: str) -> Element:
    """A text object of plain text in which `:names:` stay words."""
    return {"type": "plain_text", "text": text, "emoji": False}


MAX_TABLE_ROWS = 100  # with the heads, and what is said of the rest
MAX_TABLE_CHARACTERS = 9_500  # of all cells; Slack takes 10,000
MAX_CHARACTERS = 11_500  # of all blocks as JSON


def fitting(build: Callable[[int], list[Block]], most: int = MAX_TABLE_ROWS) -> tuple[int, list[Block]]:
    """Return the largest number of rows, at most `most`, with which what `build` makes fits a message, and that."""
    low, high = 0, min(most, MAX_TABLE_ROWS - 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _fits(build(middle)) else (low, middle - 1)
    return low, build(low)


def _fits(blocks: list[Block]) -> bool:
    rows = [row for block in blocks for row in block.get("rows", [])]
    cells = sum(len(cell["text"]) for row in rows for cell in row)
    short = len(rows) <= MAX_TABLE_ROWS and cells <= MAX_TABLE_CHARACTERS
    return short and len(json.dumps(blocks, ensure_ascii=False)) <= MAX_CHARACTERS
