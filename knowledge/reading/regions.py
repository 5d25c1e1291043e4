"""Which parts of a file are read line by line: all of a small one; of a large one its head, its tail, and a window
round every line in which a literal of the catalogue stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from knowledge.scanning import LiteralScanner

WHOLE = 24 << 20
"""Bytes up to which a file is read whole."""
HEAD = 2 << 20
TAIL = 6 << 20
BLOCK = 4 << 20
BEFORE, AFTER = 4 << 10, 16 << 10  # bytes round a hit
STORM = 400  # windows that one literal may open


@dataclass(slots=True, frozen=True)
class Region:
    """`data` begins with line number `line` (from 1). `whole` when nothing was left out of the file."""

    data: bytes
    line: int
    whole: bool
    cut: bool  # the file's very last line has no newline


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """Blocks that end with a whole line, except the last."""
    rest = b""
    while block := stream.read(BLOCK):
        block = rest + block
        end = block.rfind(b"\n") + 1
        if not end and len(block) < 4 * BLOCK:
            rest = block
            continue
        end = end or len(block)
        rest = block[end:]
        yield block[:end]
    if rest:
        yield rest


def read_regions(stream: IO[bytes], literals: LiteralScanner) -> Iterator[Region]:
    """Yield the regions of one file, in order, never the same line twice."""
    data = stream.read(WHOLE + 1)
    if len(data) <= WHOLE:
        yield Region(data, 1, whole=True, cut=bool(data) and not data.endswith(b"\n"))
        return
    line = 1
    seen: Counter[int] = Counter()
    tail: list[tuple[bytes, int]] = []
    size = 0
    first = True
    for block in _chain(data, stream):
        if first:
            yield Region(block, line, whole=False, cut=False)
            first = False
        else:
            tail.append((block, line))
            size += len(block)
            while size - len(tail[0][0]) >= TAIL:
                old, number = tail.pop(0)
                size -= len(old)
                yield from _windows(old, number, literals, seen)
        line += block.count(b"\n")
    for block, number in tail:
        yield Region(block, number, whole=False, cut=block is tail[-1][0] and not block.endswith(b"\n"))


def _chain(data: bytes, stream: IO[bytes]) -> Iterator[bytes]:
    end = data.rfind(b"\n", 0, HEAD) + 1 or HEAD
    yield data[:end]
    position = end
    while len(data) - position > BLOCK:
        cut = data.rfind(b"\n", position, position + BLOCK) + 1 or position + BLOCK
        yield data[position:cut]
        position = cut
    rest = _Joined(data[position:], stream)
    yield from _blocks(rest)  # type: ignore[arg-type]


class _Joined:
    """A stream of bytes already read, then the rest of the file."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self._head, self._stream = head, stream

    def read(self, size: int) -> bytes:
        if self._head:
            head, self._head = self._head, b""
            return head
        return self._stream.read(size)


def _windows(block: bytes, line: int, literals: LiteralScanner, seen: Counter[int]) -> Iterator[Region]:
    spans: list[list[int]] = []
    for end, number in literals.scan(block):
        seen[number] += 1
        if seen[number] > STORM:
            continue
        start = block.rfind(b"\n", 0, max(0, end - BEFORE)) + 1
        stop = block.find(b"\n", min(len(block), end + AFTER)) + 1 or len(block)
        if spans and start <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], stop)
        else:
            spans.append([start, stop])
    position = 0
    for start, stop in spans:
        line += block.count(b"\n", position, start)
        yield Region(block[start:stop], line, whole=False, cut=False)
        line += block.count(b"\n", start, stop)
        position = stop
