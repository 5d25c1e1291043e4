"""Text line by line: which lines are looked at, what is hidden between their characters, and what they open."""

from __future__ import annotations

import re

from knowledge.redaction.blocks import Block, open_key, open_value
from knowledge.redaction.commands import COMMANDS
from knowledge.redaction.names import ASSIGNMENTS
from knowledge.redaction.shapes import EMAIL, SHAPES
from knowledge.redaction.suspects import end_of_line, find_suspects
from knowledge.redaction.told import TOLD

_RULES = (*SHAPES, *COMMANDS, ASSIGNMENTS, *TOLD, EMAIL)
_LINE_END = re.compile(r"([\r\n])")  # progress bars overwrite with \r, so that ends a line too
_LINE_END_OF_BYTES = re.compile(rb"([\r\n])")
_COLOUR = re.compile(rb"\x1b\[[0-?]{0,40}[ -/]{0,4}[@-~]")
_MANY_COLOURS = 32
_UNSEEN = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_NULS_FOR_UNSEEN = bytes(0 if _UNSEEN.fullmatch(bytes([byte])) else byte for byte in range(256))
_STUCK = re.compile(rb"(\[redacted:[a-z][a-z0-9-]{0,40}:[0-9a-f]{4}\])(?:\x00++[^\s\"',;&|<>\x00]++)++")
"""A placeholder, and what was behind a part of a secret that looked like a whole one."""
_SHORT = 16_384  # bytes that are not worth the time of making the search for suspects ready
_SHORTEST = 4  # characters of a line that can hold no secret


def redact(text: str, salt: bytes = b"") -> str:
    """Return `text` with every secret replaced; the number of lines stays. Doing it twice changes nothing more.

    `salt` (its first 40 bytes) keys the digits of the placeholders; without one they are all 0.
    """
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # surrogates that stand for no byte
        return _every_line(text, salt)
    return redact_bytes(data, salt).decode("utf-8", "surrogateescape")


def redact_bytes(data: bytes, salt: bytes = b"") -> bytes:
    """As `redact`, for bytes of any kind: what is not UTF-8 stays as it is.

    A line whose secret was parted by colours, by NULs (UTF-16 has one beside each letter) or by other characters that
    nobody sees loses them.
    """
    data, unseen = _redact_seen(data, salt)
    if not unseen:
        return data
    parted = _without_unseen(data)
    first = _STUCK.sub(rb"\1", _redact_seen(parted, salt)[0])  # as if such characters parted words
    joined = first.replace(b"\0", b"")
    last, _ = _redact_seen(joined, salt)  # as if they stood inside of words
    if first == parted and last == joined:
        return data
    versions = (_LINE_END_OF_BYTES.split(version) for version in (data, parted, first, joined, last))
    return b"".join(
        line if parted_line == first_line and joined_line == last_line else last_line
        for line, parted_line, first_line, joined_line, last_line in zip(*versions, strict=True)
    )


def _without_unseen(data: bytes) -> bytes:
    """Put a NUL for each escape of colours and each other character that nobody sees."""
    for _ in range(_MANY_COLOURS):  # replacing one colour everywhere is much faster than searching for all of them
        at = data.find(b"\x1b[")
        found = _COLOUR.match(data, at) if at >= 0 else None
        if found is None:
            break
        data = data.replace(found[0], b"\0")
    if b"\x1b[" in data:
        data = _COLOUR.sub(b"\0", data)
    return data.translate(_NULS_FOR_UNSEEN)


def _redact_seen(data: bytes, salt: bytes) -> tuple[bytes, bool]:
    """Redact what can be seen as it stands; also say whether there are characters that cannot be seen."""
    if len(data) <= _SHORT:
        text = data.decode("utf-8", "surrogateescape")
        return _every_line(text, salt).encode("utf-8", "surrogateescape"), _UNSEEN.search(data) is not None
    suspects = find_suspects(data)
    reader = _Reader(salt)
    pieces: list[bytes] = []
    done = 0

    def read(start: int, end: int) -> None:
        nonlocal done
        line = reader.read(data[start:end].decode("utf-8", "surrogateescape"))
        pieces.append(data[done:start])
        pieces.append(line.encode("utf-8", "surrogateescape"))
        done = end

    for start, end in suspects.lines(data):
        while reader.inside and done + 1 < start:  # `done` is where the line before ends
            read(done + 1, end_of_line(data, done + 1))
        read(start, end)
    while reader.inside and done < len(data):
        read(done + 1, end_of_line(data, done + 1))
    return b"".join([*pieces, data[done:]]), suspects.unseen


def _every_line(text: str, salt: bytes) -> str:
    pieces = _LINE_END.split(text)
    reader = _Reader(salt)
    pieces[::2] = [reader.read(line) for line in pieces[::2]]
    return "".join(pieces)


class _Reader:
    """Reads lines in order; lines that cannot hold a secret may be left out while it is not `inside` a block."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._block: Block | None = None

    @property
    def inside(self) -> bool:
        return self._block is not None

    def read(self, line: str) -> str:
        """Return the line without secrets."""
        taken = self._block.take(line, self._salt) if self._block else None
        if taken is not None:
            kept, goes_on = taken
            self._block = self._block if goes_on else None
            return _clean(kept, self._salt)
        line, self._block = open_key(line, self._salt)
        line = _clean(line, self._salt)
        self._block = self._block or open_value(line)
        return line


def _clean(line: str, salt: bytes) -> str:
    if len(line) <= _SHORTEST:
        return line
    lowered = line.lower()
    wanted = [rule for rule in _RULES if any(trigger in lowered for trigger in rule.triggers)]
    # A replacement can lay bare what stood beside it, so go on until nothing changes; two rounds are the rule.
    for _ in range(4):
        before = line
        for rule in wanted:
            line = rule.apply(line, salt)
        if line == before:
            break
    return line
