"""Catalogue text as Markdown: what a message contains must not become markup."""

from __future__ import annotations

import re

from bot.slack.escape import clean, cut

_CODE = re.compile(r"(`[^`\n]+`)")
_LIVE = re.compile(r"[\\*<>\[\]]|(?<!\w)_|_(?!\w)")


def text(value: str) -> str:
    """One paragraph in which only code spans are live."""
    parts = _CODE.split(" ".join(clean(value).split()))
    return "".join(
        part if number % 2 else _LIVE.sub(lambda found: "\\" + found[0], part.replace("`", "\\`"))
        for number, part in enumerate(parts)
    )


def cell(value: str, limit: int = 400) -> str:
    """A table's cell."""
    return text(cut(value, limit)).replace("|", "\\|")


def code(value: str) -> str:
    """A code span of one line, whatever backticks it holds."""
    line = " ".join(clean(value).split())
    fence = "`"
    while fence in line:
        fence += "`"
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def code_cell(value: str, limit: int = 130) -> str:
    """A code span inside a table's cell."""
    return code(cut(value, limit)).replace("|", "\\|")


def block(value: str, language: str = "") -> str:
    """A fenced block, verbatim but harmless."""
    inner = clean(value).rstrip()
    fence = "```"
    while fence in inner:
        fence += "`"
    return f"{fence}{language}\n{inner}\n{fence}"
