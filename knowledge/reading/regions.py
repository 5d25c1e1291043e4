"""Which parts of a file are read line by line: all of a small one; of a large one its head, its tail, and what stands
round the lines that a literal of the catalogue marks. The rest is only searched, at the speed of memory.

Files are streamed: no more than a block and a tail of any file is in memory.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from knowledge.scanning import LiteralScanner

BLOCK = 4 << 20  # bytes read at once
PIECE = 128 << 10  # bytes searched at once
BEFORE, AFTER = 2 << 10, 12 << 10  # bytes read round a hit
STORM = 60  # pieces in which one literal may open windows; what repeats more often is only searched for others


@dataclass(slots=True, frozen=True)
class Plan:
    """How much of one file is read line by line. All in bytes."""

    whole: int  # files up to this size are read whole
    head: int
    tail: int


ONE_RANK = Plan(whole=128 << 10, head=6 << 10, tail=16 << 10)
MANY_RANKS = Plan(whole=8 << 20, head=512 << 10, tail=2 << 20)


@dataclass(slots=True, frozen=True)
class Region:
    """Consecutive lines. `data` begins with line number `line` (from 1); `cut`: the file ends there, in mid-line."""

    data: bytes
    line: int
    cut: bool = False


def read_regions(stream: IO[bytes], literals: LiteralScanner, plan: Plan) -> Iterator[Region]:
    """Yield the regions of one file, in order, never the same line twice."""
    first = stream.read(plan.whole + 1)
    if len(first) <= plan.whole:
        yield Region(first, 1, cut=bool(first) and not first.endswith(b"\n"))
        return
    end = first.rfind(b"\n", 0, plan.head) + 1 or plan.head
    yield Region(first[:end], 1)
    search = _Search(literals)
    line = 1 + first.count(b"\n", 0, end)
    waiting: deque[tuple[bytes, int]] = deque()  # pieces that may turn out to be the tail
    size = 0
    for piece in _pieces(first[end:], stream):
        waiting.append((piece, line))
        size += len(piece)
        line += piece.count(b"\n")
        while size - len(waiting[0][0]) >= plan.tail:
            old, number = waiting.popleft()
            size -= len(old)
            yield from search.windows(old, number)
    rest = b"".join(piece for piece, _ in waiting)
    number = waiting[0][1] if waiting else line
    start = rest.rfind(b"\n", 0, max(0, len(rest) - plan.tail)) + 1
    if start:
        yield from search.windows(rest[:start], number)
    yield Region(rest[start:], number + rest.count(b"\n", 0, start), cut=not rest.endswith(b"\n"))


def _pieces(head: bytes, stream: IO[bytes]) -> Iterator[bytes]:
    """Pieces of about PIECE bytes that end with a whole line; a line longer than a block is cut."""
    rest = head
    while True:
        position = 0
        while len(rest) - position > PIECE:
            end = rest.rfind(b"\n", position, position + PIECE) + 1 or rest.find(b"\n", position + PIECE) + 1
            if not end:
                break
            yield rest[position:end]
            position = end
        rest = rest[position:]
        block = stream.read(BLOCK)
        if not block:
            break
        if len(rest) > BLOCK:
            yield rest
            rest = b""
        rest += block
    if rest:
        yield rest


class _Search:
    """Finds the windows round hits, piece after piece."""

    def __init__(self, literals: LiteralScanner) -> None:
        self._literals = literals
        self._seen: Counter[int] = Counter()
        self._over = 0  # bytes of the next piece that still belong to the last window

    def windows(self, piece: bytes, line: int) -> Iterator[Region]:
        """Yield what of a piece is to be read. `line` is the number of its first line."""
        spans: list[list[int]] = []
        if self._over:
            spans.append([0, piece.find(b"\n", min(self._over, len(piece)) - 1) + 1 or len(piece)])
            self._over = 0
        fresh = {number for number in self._literals.present(piece) if self._seen[number] < STORM}
        if fresh:
            self._seen.update(fresh)
            for end, number in self._literals.scan(piece):
                if number in fresh:
                    self._open(spans, piece, end)
        position = 0
        for start, stop in spans:
            line += piece.count(b"\n", position, start)
            yield Region(piece[start:stop], line)
            line += piece.count(b"\n", start, stop)
            position = stop

    def _open(self, spans: list[list[int]], piece: bytes, end: int) -> None:
        start = piece.rfind(b"\n", 0, max(0, end - BEFORE)) + 1
        if end + AFTER > len(piece):
            self._over = max(self._over, end + AFTER - len(piece))
        stop = piece.find(b"\n", min(len(piece), end + AFTER)) + 1 or len(piece)
        if spans and start <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], stop)
        else:
            spans.append([start, stop])
