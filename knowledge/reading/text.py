"""From bytes to clean lines, whatever the bytes are."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_LINE = 4096
"""Characters of a line that are looked at; what follows is cut."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


_ANSI_BYTES = re.compile(rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,2048}(?:\x07|\x1b\\)?|[@-Z\\-_])")


def without_colours(data: bytes) -> bytes:
    """The same lines without what makes a terminal colour them, which may stand in the middle of what is searched for."""
    return _ANSI_BYTES.sub(b"", data) if b"\x1b" in data else data


def clean(raw: bytes) -> str:
    """Decode one line (UTF-8, other bytes replaced), without ANSI sequences and control characters, cut to MAX_LINE."""
    text = raw[: 4 * MAX_LINE].decode("utf-8", "replace")
    if text.isprintable():
        return text[:MAX_LINE]
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return _CONTROL.sub("", text)[:MAX_LINE]


def pieces(raw: bytes) -> Sequence[str]:
    """The clean lines inside one physical line: progress bars write `\\r` where others write a newline."""
    raw = raw.rstrip(b"\r\n")
    return [clean(piece) for piece in raw.split(b"\r") if piece] if b"\r" in raw else (clean(raw),)


_ORDINARY = bytes(range(0x20, 0x7F)) + b"\t\n"


def lines_of(data: bytes) -> list[str] | None:
    """The clean lines of a stretch of a file in which nothing is to be cleaned or cut, many at once; else None."""
    if data.translate(None, _ORDINARY):
        return None
    lines = data.decode("ascii").split("\n")
    return lines if len(max(lines, key=len)) <= MAX_LINE else None
