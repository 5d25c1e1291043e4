"""Reading a stored log again: its end, the lines round one, the lines round a moment. Bounded, and never on the event loop."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Protocol, TypeVar

from bot.answers.reply import Line
from knowledge.errors import UnreadableEvidence
from knowledge.reading.clocks import parse_time
from knowledge.reading.compressed import open_log
from knowledge.reading.text import clean
from knowledge.redaction import redact
from storage.blobs import BlobStore
from storage.incidents import IncidentView

MAX_LINES = 200  # of one answer
MAX_BYTES = 256 << 20  # of one log that are gone through
_PIECE = 1 << 20
_TAIL = 256 << 10  # bytes in which the last lines are looked for
_NEAR = 120  # lines in which a stamp is looked for
_NEVER = 900.0  # seconds from a moment beyond which a line says nothing about it
_WINDOW = 64 << 10  # bytes shown round a line at most

T = TypeVar("T")
Keep = Callable[[str], bool]
"""Whether a line is wanted."""


class Logs(Protocol):
    """The logs of one incident, as they were kept: without secrets."""

    async def tail(self, name: str, count: int, keep: Keep | None = None) -> list[Line]:
        """Return the last `count` lines of a log that are wanted. A log that is gone has none."""
        ...

    async def around(self, name: str, line: int, span: int) -> list[Line]:
        """Return a line and `span` lines on either side of it."""
        ...

    async def at(self, name: str, when: datetime, span: int) -> list[Line]:
        """Return up to `span` lines on either side of a moment, by the log's own clock."""
        ...


@dataclass(frozen=True, slots=True)
class _Logs:
    async def tail(self, name: str, count: int, keep: Keep | None = None) -> list[Line]:
        """Return the last `count` lines of a log that are wanted. A log that is gone has none."""
        return await self._read(name, lambda file: _tail(file, name, min(count, MAX_LINES), keep))

    async def around(self, name: str, line: int, span: int) -> list[Line]:
        """Return a line and `span` lines on either side of it."""
        return await self._read(name, lambda file: _around(file, name, line, min(span, MAX_LINES // 2)))

    async def at(self, name: str, when: datetime, span: int) -> list[Line]:
        """Return up to `span` lines on either side of a moment, by the log's own clock."""
        return await self._read(name, lambda file: _at(file, name, when, min(span, MAX_LINES // 2)))

    async def _read(self, name: str, look: Callable[[IO[bytes]], list[Line]]) -> list[Line]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class FolderLogs(_Logs):
    """Logs that lie in a folder, or were named one by one: name → path."""

    paths: Mapping[str, Path]

    async def _read(self, name: str, look: Callable[[IO[bytes]], list[Line]]) -> list[Line]:
        path = self.paths.get(name)
        if path is None:
            return []

        def read() -> list[Line]:
            try:
                with open_log(path) as file:
                    return look(file)
            except UnreadableEvidence:
                return []

        return await asyncio.to_thread(read)


@dataclass(frozen=True, slots=True)
class StoredLogs(_Logs):
    """Logs of an incident in the blob store."""

    view: IncidentView
    blobs: BlobStore

    async def _read(self, name: str, look: Callable[[IO[bytes]], list[Line]]) -> list[Line]:
        blob = next((log.blob for log in self.view.logs if log.name == name), None)
        if blob is None:
            return []
        try:
            data = await self.blobs.get(blob)
        except FileNotFoundError:
            return []
        return await asyncio.to_thread(lambda: look(io.BytesIO(data)))


def _tail(file: IO[bytes], name: str, count: int, keep: Keep | None) -> list[Line]:
    """Only the end is looked at, and of a stream of many ranks more of it."""
    wanted = _TAIL if keep is None else 16 * _TAIL
    held = b""
    ended = 0  # lines that end before `held`
    for piece in _pieces(file):
        held += piece
        if len(held) > 2 * wanted:
            cut = held.rfind(b"\n", 0, len(held) - wanted) + 1
            ended += held.count(b"\n", 0, cut)
            held = held[cut:]
    raws = held.split(b"\n")
    if not raws[-1]:
        raws.pop()
    found: list[Line] = []
    for index in range(len(raws) - 1, -1, -1):
        text = _text(raws[index])
        if text.strip() and (keep is None or keep(text)):
            found.append(Line(name, ended + index + 1, redact(text)))
            if len(found) == count:
                break
    return found[::-1]


def _around(file: IO[bytes], name: str, line: int, span: int) -> list[Line]:
    first, last = max(1, line - span), line + span
    passed, found, rest = 0, list[Line](), b""
    for piece in _pieces(file):
        ends = piece.count(b"\n")
        if passed + ends < first - 1:
            passed, rest = passed + ends, piece[piece.rfind(b"\n") + 1 :] if ends else (rest + piece)[-_WINDOW:]
            continue
        raws = (rest + piece).split(b"\n")
        rest = raws.pop()
        found += [_line(name, passed + nth, raw) for nth, raw in enumerate(raws, 1) if first <= passed + nth <= last]
        passed += len(raws)
        if passed >= last:
            return found
    if rest and first <= passed + 1 <= last:
        found.append(_line(name, passed + 1, rest))
    return found


def _at(file: IO[bytes], name: str, when: datetime, span: int) -> list[Line]:
    """The times of a log grow, so the moment is found by halving."""
    data = b"".join(_pieces(file))
    wanted = when.timestamp()
    low, high = 0, len(data)
    while high - low > 256:
        middle = data.find(b"\n", (low + high) // 2, high) + 1
        stamp = _stamp_from(data, middle, when.year) if middle else None
        if not middle or stamp is None or stamp >= wanted:
            high = (low + high) // 2
        else:
            low = middle
    number = data.count(b"\n", 0, low) + 1
    raws = data[low : low + _WINDOW].split(b"\n")
    found = ((nth, parse_time(_text(raw), when.year)) for nth, raw in enumerate(raws))
    skip = next((nth for nth, stamp in found if stamp is not None and stamp.seconds >= wanted), len(raws) - 1)
    lines = _around(io.BytesIO(data), name, number + skip, span)
    times = [told.seconds for line in lines if (told := parse_time(line.text, when.year))]
    return lines if any(abs(seconds - wanted) <= _NEVER for seconds in times) else []


def _stamp_from(data: bytes, start: int, year: int) -> float | None:
    for raw in data[start : start + _WINDOW].split(b"\n", _NEAR)[:_NEAR]:
        stamp = parse_time(_text(raw), year)
        if stamp is not None:
            return stamp.seconds
    return None


def _line(name: str, number: int, raw: bytes) -> Line:
    return Line(name, number, redact(_text(raw)))


def _text(raw: bytes) -> str:
    """Of a progress bar that writes itself anew, the last state."""
    return clean(raw.rstrip(b"\r").rpartition(b"\r")[2])


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    left = MAX_BYTES
    while left > 0 and (piece := file.read(min(_PIECE, left))):
        left -= len(piece)
        yield piece
