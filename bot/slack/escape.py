"""The one place that makes text harmless: log lines, job names and user names come from anywhere.

Slack reads `<!channel>`, `<@U…>`, `<#C…>` and `<https://…|text>` in mrkdwn and in `text` as live; three entities stop
that. `literal` is for fields that Slack shows as they are (plain_text, rich_text), `mrkdwn` for all others.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime

ELLIPSIS = "…"

_TERMINAL = re.compile(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # operating system command: window title, hyperlink
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # control sequence: colours, cursor
    r"|\x1b[ -/]*[0-~]?"
)
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_SPECIAL = re.compile(r"[^\n -~]")
_HARD_LIMIT = 200_000  # characters looked at, whatever comes


def clean(text: str) -> str:
    """Return `text` without terminal sequences, control, bidirectional, zero-width and other invisible characters.

    Line breaks stay; tabs, form feeds and exotic spaces become one space each.
    """
    text = _TERMINAL.sub("", text[:_HARD_LIMIT])
    text = text.replace("\r\n", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    return _SPECIAL.sub(lambda found: _visible(found[0]), text)


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if character in "\t\r\v\f\x85" or category == "Zs":
        return " "
    if category == "Cs":  # half of a surrogate pair: JSON could not carry it
        return "\ufffd"
    return "" if category in {"Cc", "Cf", "Cn"} else character


def literal(text: str, limit: int, *, lines: int = 1) -> str:
    """Return clean text of at most `limit` characters and `lines` lines, for fields in which Slack parses nothing."""
    return cut(_folded(text, lines), limit)


def mrkdwn(text: str, limit: int, *, lines: int = 1) -> str:
    """Return clean text in which nothing is live, of at most `limit` characters counted after escaping."""
    return _escaped(_folded(text, lines), limit)


def code(text: str, limit: int) -> str:
    """Return a mrkdwn code span of at most `limit` characters around `text`; backticks cannot end it early."""
    inner = mrkdwn(text.replace("`", "\u02cb"), limit - 2)
    return f"`{inner}`" if inner else ""


def link(url: str, label: str, limit: int = 3000) -> str:
    """Return a live mrkdwn link, or only its label when `url` is not an http address that Slack can take whole."""
    shown = mrkdwn(label.replace("|", "/"), 200)
    address = url.strip()
    if not re.fullmatch(r"https?://[^\s<>|\x00-\x1f]+", address):
        return shown
    linked = f"<{address.replace('&', '&amp;')}|{shown}>"
    return linked if len(linked) <= limit else shown


def person(user: str) -> str:
    """Return a live mention of a person by Slack's id; what is no id stays plain text."""
    return f"<@{user}>" if re.fullmatch(r"[UW][A-Z0-9]{1,30}", user) else mrkdwn(user, 60)


def moment(at: datetime) -> str:
    """Return a date and time that every reader sees by the own clock."""
    return f"<!date^{int(at.timestamp())}^{{date_short_pretty}} {{time}}|{at.day} {at:%b %H:%M %Z}>"


def cut(text: str, limit: int) -> str:
    """Shorten to `limit` characters, at a line break or space where one is near the end, marked with an ellipsis.

    >>> cut("cannot allocate memory", 18)
    'cannot allocate…'
    """
    if len(text) <= limit:
        return text
    if limit < 1:
        return ""
    kept = text[: limit - 1]
    if not text[limit - 1].isspace():
        boundary = max(kept.rfind(" "), kept.rfind("\n"))
        if boundary > limit // 2:
            kept = kept[:boundary]
    return kept.rstrip() + ELLIPSIS


def _folded(text: str, lines: int) -> str:
    """At most `lines` lines, none blank, runs of blanks made one where only one line is wanted."""
    text = clean(text)
    if lines == 1:
        return " ".join(text.split())
    kept = [line.rstrip() for line in text.split("\n") if line.strip()]
    return "\n".join(kept[:lines]) + (f"\n{ELLIPSIS}" if len(kept) > lines else "")


def _escaped(text: str, limit: int) -> str:
    room = limit
    for position, character in enumerate(text):
        room -= len(_ENTITIES.get(character, character))
        if room < 0:
            return _escaped_whole(text, position, limit)
    return _entities(text)


def _escaped_whole(text: str, position: int, limit: int) -> str:
    """Cut `text` before `position` so that, escaped, it fits `limit` with its ellipsis and no entity is split."""
    while position > 0 and len(shown := _entities(cut(text, position))) > limit:
        position -= max(1, (len(shown) - limit) // 5)
    return _entities(cut(text, position))


def _entities(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
