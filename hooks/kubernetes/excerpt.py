"""The decisive part of a log in bounded memory: its head, its tail, and what looks like trouble between."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache

import hyperscan

_WORDS = (
    "error", "exception", "traceback", "fatal", "abort", "killed", "segfault", "signal", "time ?out", "timed out", "panic",
    "out of memory", r"\boom\b", r"\bxid\b", "nccl warn", "failed", "refused", r"\bnan\b", "unreachable", "no space", "stale",
    "core dumped", "exit ?code", "assert",
)  # fmt: skip
"""Looked for in whole blocks: most of a training log has none of them, and is passed over as fast as it is read."""
_BEFORE, _AFTER = 4, 40  # lines kept round one that looks like trouble
_LONGEST = 16 << 10  # bytes of a line
_BLOCK = 64 << 10  # bytes looked at together


class Excerpt:
    """Takes a log piece by piece and keeps at most about `budget` bytes of it.

    A quarter is for the head, a half for the tail, and a quarter for trouble between them: half of that for the
    first, half for the last. What is left out is marked by a line of its own.
    """

    def __init__(self, budget: int) -> None:
        self.read = 0
        self._head: list[bytes] = []
        self._tail = _Ring(budget // 2)
        self._early: list[tuple[int, bytes]] = []
        self._late = _Ring(budget // 8)
        self._room, self._early_room = budget // 4, budget // 8
        self._before: tuple[int, bytes] = (0, b"")  # the block before, and the number of its first line
        self._follow = 0
        self._number = self._head_lines = 0
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        self.read += len(piece)
        self._rest += piece
        while len(self._rest) >= _BLOCK:  # always cut at the same places, however the bytes arrive
            cut = self._rest.rfind(b"\n", 0, _BLOCK) + 1
            if cut:
                block, self._rest = self._rest[:cut], self._rest[cut:]
            else:  # a progress bar that never ends its line
                block, self._rest = self._rest[:_BLOCK] + b"\n", self._rest[_BLOCK:]
            self._take(block)

    @property
    def lines(self) -> int:
        """Lines taken, about."""
        return self._number

    def text(self) -> bytes:
        """What was kept, in order."""
        if self._rest:
            self._take(self._rest if self._rest.endswith(b"\n") else self._rest + b"\n")
            self._rest = b""
        pieces, last = list(self._head), self._head_lines - 1
        for number, line in sorted({*self._early, *self._late.lines(), *self._tail.lines()}):
            if number > last + 1:
                pieces.append(b"[firstfault: %d lines left out]\n" % (number - last - 1))
            pieces.append(line)
            last = number
        return b"".join(pieces)

    def _take(self, block: bytes) -> None:
        if any(b"\n" not in block[start : start + _LONGEST] for start in range(0, len(block) - _LONGEST, _LONGEST)):
            block = b"".join(map(_shortened, block.splitlines(keepends=True)))
        first, self._number = self._number, self._number + block.count(b"\n")
        if self._room > 0:
            cut = len(block) if len(block) <= self._room else block.rfind(b"\n", 0, self._room) + 1
            self._head.append(block[:cut])
            self._room = self._room - cut if cut == len(block) else 0
            first += block.count(b"\n", 0, cut)
            self._head_lines, block = first, block[cut:]
            if not block:
                return
        self._tail.add(first, block)
        trouble = _places_of_trouble(block)
        if self._follow or trouble:
            self._keep_trouble(first, block, trouble)
        self._before = (first, block)

    def _keep_trouble(self, first: int, block: bytes, trouble: list[int]) -> None:
        lines = [*_lines(*self._before)][-_BEFORE:] + list(_lines(first, block))
        begin = len(lines) - block.count(b"\n")
        kept = offset = 0  # index of the first line not kept yet; end of the line before
        places = deque(trouble)
        for at in range(begin, len(lines)):
            offset += len(lines[at][1])
            found = False
            while places and places[0] <= offset:
                places.popleft()
                found = True
            if found:
                for near in lines[max(kept, at - _BEFORE) : at]:
                    self._keep(*near)
                kept, self._follow = at, _AFTER
            if self._follow > 0:
                self._follow -= 1
                self._keep(*lines[at])
                kept = at + 1

    def _keep(self, number: int, line: bytes) -> None:
        if self._early_room >= len(line):
            self._early_room -= len(line)
            self._early.append((number, line))
        else:
            self._early_room = 0
            self._late.add(number, line)


class _Ring:
    """The last lines, of so many bytes, in blocks with the number of their first line."""

    def __init__(self, budget: int) -> None:
        self._blocks: deque[tuple[int, bytes]] = deque()
        self._budget, self._size = budget, 0

    def add(self, number: int, block: bytes) -> None:
        self._blocks.append((number, block))
        self._size += len(block)
        while self._size - len(self._blocks[0][1]) >= self._budget:
            self._size -= len(self._blocks.popleft()[1])

    def lines(self) -> Iterator[tuple[int, bytes]]:
        over = self._size - self._budget
        for block in self._blocks:
            for number, line in _lines(*block):
                if over > 0:
                    over -= len(line)
                else:
                    yield number, line


@cache
def _scanner() -> tuple[hyperscan.Database, hyperscan.Scratch]:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = [hyperscan.HS_FLAG_CASELESS] * len(_WORDS)
    database.compile(expressions=[word.encode() for word in _WORDS], elements=len(_WORDS), flags=flags)
    return database, hyperscan.Scratch(database)


def _places_of_trouble(block: bytes) -> list[int]:
    """Where words of trouble end, in order."""
    found: list[int] = []
    database, scratch = _scanner()
    database.scan(block, match_event_handler=lambda _id, _start, end, *_: found.append(end), scratch=scratch)
    return found


def _lines(first: int, block: bytes) -> Iterator[tuple[int, bytes]]:
    return enumerate((line + b"\n" for line in block.split(b"\n")[:-1]), first)


def _shortened(line: bytes) -> bytes:
    return line if len(line) <= _LONGEST else line[: _LONGEST // 2] + b" [...] " + line[-_LONGEST // 2 :]
