"""Which parts of a file are read line by line: all of a small one; of a large one its head, its tail, and what stands
round the lines that a literal of the catalogue marks. The rest is only searched, at the speed of memory.

Files are streamed: of a large one, no more than its tail and a piece is in memory. Nobody counts its lines: a region
tells where it begins in bytes, and lines are counted when a number is asked for.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass

from knowledge.reading.compressed import LogStream
from knowledge.scanning import LiteralScanner

PIECE = 256 << 10  # bytes searched at once: few enough to stay in the core's own cache; longer lines are cut
BEFORE, AFTER = 2 << 10, 12 << 10  # bytes read round a hit
_DEAF = 2  # pieces in which a storm drowns all else before it is no longer looked for


@dataclass(slots=True, frozen=True)
class Plan:
    """How much of one file is read line by line, in bytes."""

    whole: int  # files up to this size are read whole
    head: int
    tail: int
    storm: int  # hits for which one literal may open windows; what repeats more often is only searched for others


ONE_RANK = Plan(whole=128 << 10, head=6 << 10, tail=12 << 10, storm=8)
MANY_RANKS = Plan(whole=8 << 20, head=512 << 10, tail=2 << 20, storm=3000)


@dataclass(slots=True, frozen=True)
class Region:
    """Consecutive lines. `data` begins `offset` bytes into the file; `cut`: the file ends there, in mid-line."""

    data: bytes
    offset: int
    cut: bool = False
    window: bool = False  # from the middle of a large file


def read_regions(stream: LogStream, literals: LiteralScanner, plan: Plan) -> Iterator[Region]:
    """Yield the regions of one file, in order, never the same line twice."""
    large = stream.size is not None and stream.size > plan.whole
    first = stream.read(1 + (plan.head if large else plan.whole))
    if len(first) <= plan.whole and not large:
        yield Region(first, 0, cut=bool(first) and not first.endswith(b"\n"))
        return
    offset = first.rfind(b"\n", 0, plan.head) + 1 or min(plan.head, len(first))
    yield Region(first[:offset], 0)
    search = _Search(literals, plan.storm)
    before_tail = (stream.size or 0) - plan.tail  # what ends there is surely none of the tail
    tail: deque[bytes] = deque()  # what may turn out to be it
    held = 0
    for text, length in _pieces(memoryview(first)[offset:], stream):
        searched = 0
        if not tail and offset + length <= before_tail:
            searched = length
        elif not tail:
            searched = text.rfind(b"\n", 0, max(0, before_tail - offset)) + 1
        if searched:
            yield from search.windows(text, searched, offset)
        if searched < length:
            tail.append(bytes(memoryview(text)[searched:length]))
            held += length - searched
            while held - len(tail[0]) >= plan.tail:
                old = tail.popleft()
                held -= len(old)
                yield from search.windows(old, len(old), offset + length - held - len(old))
        offset += length
    rest = b"".join(tail)
    offset -= len(rest)
    start = rest.rfind(b"\n", 0, max(0, len(rest) - plan.tail)) + 1
    if start:
        yield from search.windows(rest, start, offset)
    yield Region(rest[start:], offset + start, cut=not rest.endswith(b"\n"))


_buffers: list[bytearray] = []  # that are free: making one costs as much as searching a tenth of it


def _pieces(head: memoryview, stream: LogStream) -> Iterator[tuple[bytearray, int]]:
    """One buffer, filled again and again, first from `head`, and how much of it is the next piece.

    A piece ends with a whole line, unless that is longer than the buffer.
    """
    buffer = _buffers.pop() if _buffers else bytearray(PIECE)
    try:
        yield from _filled(buffer, head, stream)
    finally:
        _buffers.append(buffer)


def _filled(buffer: bytearray, head: memoryview, stream: LogStream) -> Iterator[tuple[bytearray, int]]:
    view = memoryview(buffer)
    kept = 0
    while True:
        if head:
            got = min(len(head), PIECE - kept)
            view[kept : kept + got], head = head[:got], head[got:]
        else:
            got = stream.readinto(view[kept:])
        filled = kept + got
        if not got:
            break
        end = buffer.rfind(b"\n", 0, filled) + 1 or buffer.rfind(b"\r", 0, filled) + 1
        if not end and filled < PIECE:
            kept = filled
            continue
        end = end or filled
        yield buffer, end
        kept = filled - end
        view[:kept] = view[end:filled]
    if kept:
        yield buffer, kept


class _Search:
    """Finds the windows round hits, piece after piece."""

    def __init__(self, literals: LiteralScanner, storm: int) -> None:
        self._all = self._literals = literals
        self._storm = storm
        self._opened: Counter[int] = Counter()  # windows of each literal
        self._deaf = 0  # pieces in a row in which only literals were found that no longer open windows
        self._over = 0  # bytes of the next piece that still belong to the last window

    def windows(self, text: bytes | bytearray, length: int, offset: int) -> Iterator[Region]:
        """Yield what is to be read of a piece: the first `length` bytes of `text`, which are `offset` bytes into the file."""
        spans: list[list[int]] = []
        if self._over:
            spans.append([0, text.find(b"\n", min(self._over, length) - 1, length) + 1 or length])
            self._over = 0
        piece = memoryview(text)[:length]
        for end, number in self._worth_opening(piece):
            if self._opened[number] < self._storm:
                self._opened[number] += 1
                self._open(spans, text, length, end)
        for start, stop in spans:
            yield Region(bytes(piece[start:stop]), offset + start, window=True)

    def _worth_opening(self, piece: memoryview) -> list[tuple[int, int]]:
        """Hits of a piece, as many as may open windows at least; none where all are of literals that have opened enough."""
        hits = self._literals.few(piece)
        present = {number for _, number in hits} if hits is not None else self._literals.present(piece)
        wanted = {
            number: self._storm - self._opened[number] for number in present if self._opened[number] < self._storm
        }
        if wanted:
            self._deaf = 0
            return hits if hits is not None else self._literals.first(piece, wanted)
        self._deaf = self._deaf + 1 if present else 0
        if self._deaf == _DEAF:
            self._literals = self._all.without(
                frozenset(number for number, count in self._opened.items() if count >= self._storm)
            )
        return []

    def _open(self, spans: list[list[int]], text: bytes | bytearray, length: int, end: int) -> None:
        start = text.rfind(b"\n", 0, max(0, end - BEFORE)) + 1
        if end + AFTER > length:
            self._over = max(self._over, end + AFTER - length)
        stop = text.find(b"\n", min(length, end + AFTER), length) + 1 or length
        if spans and start <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], stop)
        else:
            spans.append([start, stop])
