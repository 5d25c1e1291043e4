"""Which parts of a file are read line by line: all of a small one; of a large one its head, its tail, and what stands
round the lines that a literal of the catalogue marks. The rest is only searched, at the speed of memory.

Files are streamed: of a large one, no more than its tail and a piece is in memory. Nobody counts its lines: a region
tells where it begins in bytes, and lines are counted when a number is asked for.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from knowledge.reading.compressed import LogStream
from knowledge.reading.text import without_colours
from knowledge.scanning import LiteralScanner

PIECE = 512 << 10  # bytes searched at once: few enough to stay in a cache of the core; longer lines are cut
BEFORE, AFTER = 2 << 10, 12 << 10  # bytes read round a hit
AHEAD = 6  # pieces that are searched before they are looked at, where threads do that
_ESCAPE = 0x1B  # begins what colours a terminal
_DEAF = 1  # pieces in a row in which a storm drowns all else before it is no longer looked for


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


def read_regions(
    stream: LogStream, literals: LiteralScanner, plan: Plan, threads: Executor | None = None
) -> Iterator[Region]:
    """Yield the regions of one file, in order, never the same line twice.

    `threads` search the next pieces of a large file while the caller looks at what was found in the last one.
    """
    large = stream.size is not None and stream.size > plan.whole
    first = stream.read(1 + (plan.head if large else plan.whole))
    if len(first) <= plan.whole and not large:
        yield Region(first, 0, cut=bool(first) and not first.endswith(b"\n"))
        return
    offset = first.rfind(b"\n", 0, plan.head) + 1 or min(plan.head, len(first))
    yield Region(first[:offset], 0)
    search = _Search(literals, plan.storm)
    tail = _Tail(plan.tail)
    stretches = _stretches(_pieces(memoryview(first)[offset:], stream), offset, tail, (stream.size or 0) - plan.tail)
    for stretch, look in _looked_at(stretches, search, threads):
        yield from search.windows(stretch, look)
        stretch.free()
    rest, offset = tail.rest()
    yield Region(rest, offset, cut=not rest.endswith(b"\n"))


@dataclass(slots=True, frozen=True)
class _Stretch:
    """Part of a file that is searched and not read: the first `length` bytes of `text`, `offset` bytes into the file.

    Where it is coloured, `text` is without that, and `raw` as it stands there.
    """

    text: bytes | bytearray
    length: int
    offset: int
    raw: bytes | bytearray | None = None

    @classmethod
    def of(cls, raw: bytes | bytearray, length: int, offset: int) -> _Stretch:
        """The first `length` bytes of `raw`."""
        if raw.find(_ESCAPE, 0, length) < 0:
            return cls(raw, length, offset)
        text = without_colours(bytes(memoryview(raw)[:length]))
        return cls(text, len(text), offset, raw)

    def place(self, start: int) -> int:
        """Where in the file the line begins that begins at `start` of `text`."""
        if self.raw is None:
            return self.offset + start
        at = -1
        for _ in range(self.text.count(b"\n", 0, start)):
            at = self.raw.find(b"\n", at + 1)
        return self.offset + at + 1

    def free(self) -> None:
        """Give the buffer back that it stands in."""
        buffer = self.text if self.raw is None else self.raw
        if isinstance(buffer, bytearray):
            _buffers.append(buffer)


class _Tail:
    """What may turn out to be the last `size` bytes of a file."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._parts: deque[bytes] = deque()
        self._held = self._end = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def grow(self, part: bytes, end: int) -> Iterator[_Stretch]:
        """Take the bytes before `end` in the file, and give back what is no tail any more."""
        self._parts.append(part)
        self._held += len(part)
        self._end = end
        while self._held - len(self._parts[0]) >= self._size:
            old = self._parts.popleft()
            self._held -= len(old)
            yield _Stretch.of(old, len(old), end - self._held - len(old))

    def settle(self, end: int) -> Iterator[_Stretch]:
        """Give back what is too much, now that the file is at its end."""
        self._end = end
        rest = b"".join(self._parts)
        start = rest.rfind(b"\n", 0, max(0, len(rest) - self._size)) + 1
        self._parts = deque([rest[start:]])
        self._held = len(rest) - start
        if start:
            yield _Stretch.of(rest, start, self._end - len(rest))

    def rest(self) -> tuple[bytes, int]:
        """The tail, and where in the file it begins."""
        return b"".join(self._parts), self._end - self._held


def _stretches(
    pieces: Iterable[tuple[bytearray, int]], offset: int, tail: _Tail, before_tail: int
) -> Iterator[_Stretch]:
    """All that lies between the head of a file, which ends at `offset`, and its tail, which is left in `tail`. What ends
    `before_tail` is surely none of it."""
    for text, length in pieces:
        searched = 0
        if not tail and offset + length <= before_tail:
            searched = length
        elif not tail:
            searched = text.rfind(b"\n", 0, max(0, before_tail - offset)) + 1
        begins, offset = offset, offset + length
        last = bytes(memoryview(text)[searched:length])
        if searched:
            yield _Stretch.of(text, searched, begins)
        else:
            _buffers.append(text)
        if last:
            yield from tail.grow(last, offset)
    yield from tail.settle(offset)


def _looked_at(
    stretches: Iterable[_Stretch], search: _Search, threads: Executor | None
) -> Iterator[tuple[_Stretch, _Look]]:
    """Each stretch with what is in it."""
    if threads is None:
        for stretch in stretches:
            yield stretch, search.look(stretch)
        return
    waiting: deque[tuple[_Stretch, Future[_Look]]] = deque()
    for stretch in stretches:
        waiting.append((stretch, threads.submit(search.look, stretch)))
        if len(waiting) > AHEAD:
            earliest, look = waiting.popleft()
            yield earliest, look.result()
    for earliest, look in waiting:
        yield earliest, look.result()


_buffers: list[bytearray] = []  # that are free: making one costs as much as searching a tenth of it


def _free_buffer() -> bytearray:
    return _buffers.pop() if _buffers else bytearray(PIECE)


def _pieces(head: memoryview, stream: LogStream) -> Iterator[tuple[bytearray, int]]:
    """A buffer, and how much of it is the next piece, first from `head`; whoever takes it adds it to the free ones.

    A piece ends with a whole line, unless that is longer than the buffer.
    """
    buffer, kept = _free_buffer(), 0
    while True:
        view = memoryview(buffer)
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
        full, kept = buffer, filled - end
        buffer = _free_buffer()
        buffer[:kept] = view[end:filled]
        yield full, end
    if kept:
        yield buffer, kept


_Look = list[tuple[int, int]] | frozenset[int]
"""What is in a stretch: where it ends and the number of the literal, for each hit; in a storm, only the numbers."""


class _Search:
    """Finds the windows round hits, stretch after stretch."""

    def __init__(self, literals: LiteralScanner, storm: int) -> None:
        self._all = self._literals = literals
        self._storm = storm
        self._opened: Counter[int] = Counter()  # windows of each literal
        self._deaf = 0  # stretches in a row in which only literals were found that no longer open windows
        self._over = 0  # bytes of the next stretch that still belong to the last window

    def look(self, stretch: _Stretch) -> _Look:
        """Search. May be done for several stretches at once, and before those before them were made windows of."""
        literals, piece = self._literals, memoryview(stretch.text)[: stretch.length]
        hits = literals.few(piece)
        return frozenset(literals.present(piece)) if hits is None else hits

    def windows(self, stretch: _Stretch, look: _Look) -> Iterator[Region]:
        """Yield what is to be read of a stretch."""
        text, length = stretch.text, stretch.length
        spans: list[list[int]] = []
        if self._over:
            spans.append([0, text.find(b"\n", min(self._over, length) - 1, length) + 1 or length])
            self._over = 0
        piece = memoryview(text)[:length]
        for end, number in self._worth_opening(piece, look):
            if self._opened[number] < self._storm:
                self._opened[number] += 1
                before, after = (0, 0) if number in self._literals.alone else (BEFORE, AFTER)
                self._open(spans, text, length, end - before, end + after)
        for start, stop in spans:
            yield Region(bytes(piece[start:stop]), stretch.place(start), window=True)

    def _worth_opening(self, piece: memoryview, look: _Look) -> list[tuple[int, int]]:
        """Hits of a piece, as many as may open windows at least; none where all are of literals that have opened enough."""
        hits = look if isinstance(look, list) else None
        present = look if isinstance(look, frozenset) else {number for _, number in look}
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

    def _open(self, spans: list[list[int]], text: bytes | bytearray, length: int, first: int, last: int) -> None:
        start = text.rfind(b"\n", 0, max(0, first)) + 1
        if last > length:
            self._over = max(self._over, last - length)
        stop = text.find(b"\n", min(length, last), length) + 1 or length
        while spans and start <= spans[-1][1]:
            earlier = spans.pop()
            start, stop = min(start, earlier[0]), max(stop, earlier[1])
        spans.append([start, stop])
