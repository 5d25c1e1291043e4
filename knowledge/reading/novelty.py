"""Was something like this line said before? Asked of the files themselves, of few lines, and only when nothing else speaks."""

from __future__ import annotations

import re

from knowledge.errors import UnreadableEvidence
from knowledge.reading.bundle import Source
from knowledge.reading.evidence import Place

_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|(?:/[\w.+-]+){2,}|\b[0-9a-fA-F]{8,}\b|\d+|['\"]")
_SHORTEST = 10  # characters by which a line can be known again
MAX_BYTES = 64 << 20
_BLOCK = 4 << 20


def constant_part(text: str) -> str:
    """The longest stretch of a line in which nothing stands that differs from one time to the next."""
    return max((part.strip() for part in _VARIABLE.split(text)), key=len, default="")


def said_before(place: Place, text: str, line: int) -> bool:
    """Whether `text`, that stands at `place`, was said in its source before line `line`, or is too short to know it again."""
    return _stands(place.source, text, line)


def said_in(source: Source, text: str) -> bool:
    """Whether another source has the like of `text` anywhere, or it is too short to know it again."""
    return _stands(source, text, None)


def _stands(source: Source, text: str, before: int | None) -> bool:
    part = constant_part(text).encode()
    if len(part) < _SHORTEST:
        return True
    number, read, rest = 1, 0, b""
    try:
        with source.open() as stream:
            while read < MAX_BYTES and (block := stream.read(_BLOCK)):
                read += len(block)
                block = rest + block
                found = block.find(part)
                if found >= 0:
                    return before is None or number + block.count(b"\n", 0, found) < before
                keep = max(0, len(block) - len(part) + 1)
                number += block.count(b"\n", 0, keep)
                rest = block[keep:]
    except UnreadableEvidence:
        return True
    return False
