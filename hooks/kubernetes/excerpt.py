"""The decisive part of a log in bounded memory: its head, its tail, and what looks like trouble between."""

from __future__ import annotations

import re
from collections import deque

TROUBLE = re.compile(
    rb"(?i)error|exception|traceback|fatal|abort|killed|segfault|signal|timed? ?out|panic|out of memory|\boom\b|\bxid\b|"
    rb"nccl warn|failed|refused|\bnan\b|unreachable|no space|stale|core dumped|exit ?code|assert"
)
_BEFORE, _AFTER = 4, 40  # lines kept round one that looks like trouble
_LONGEST = 16 << 10  # bytes of a line


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
        self._near: deque[tuple[int, bytes]] = deque(maxlen=_BEFORE)
        self._follow = 0
        self._number = 0
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        self.read += len(piece)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._take(line + b"\n")
        if len(self._rest) > 4 * _LONGEST:  # a progress bar that never ends its line
            self._take(self._rest + b"\n")
            self._rest = b""

    def text(self) -> bytes:
        """What was kept, in order."""
        if self._rest:
            self._take(self._rest + b"\n")
            self._rest = b""
        lines = list(enumerate(self._head))
        lines += sorted({*self._early, *self._late.lines, *self._tail.lines})
        pieces: list[bytes] = []
        last = -1
        for number, line in lines:
            if number > last + 1:
                pieces.append(b"[firstfault: %d lines left out]\n" % (number - last - 1))
            pieces.append(line)
            last = number
        return b"".join(pieces)

    def _take(self, line: bytes) -> None:
        if len(line) > _LONGEST:
            line = line[: _LONGEST // 2] + b" [...] " + line[-_LONGEST // 2 :]
        number, self._number = self._number, self._number + 1
        if self._room > 0:
            self._room -= len(line)
            if self._room >= 0:
                self._head.append(line)
                return
        self._tail.add(number, line)
        if TROUBLE.search(line):
            for near in self._near:
                self._keep(*near)
            self._near.clear()
            self._follow = _AFTER
        if self._follow > 0:
            self._follow -= 1
            self._keep(number, line)
        else:
            self._near.append((number, line))

    def _keep(self, number: int, line: bytes) -> None:
        if self._early_room >= len(line):
            self._early_room -= len(line)
            self._early.append((number, line))
        else:
            self._early_room = 0
            self._late.add(number, line)


class _Ring:
    """The last lines, of so many bytes."""

    def __init__(self, budget: int) -> None:
        self.lines: deque[tuple[int, bytes]] = deque()
        self._budget, self._size = budget, 0

    def add(self, number: int, line: bytes) -> None:
        self.lines.append((number, line))
        self._size += len(line)
        while self._size > self._budget and len(self.lines) > 1:
            self._size -= len(self.lines.popleft()[1])
