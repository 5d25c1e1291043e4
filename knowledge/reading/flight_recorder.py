"""Flight-recorder dumps of PyTorch: what each rank had enqueued, started and completed when the job was stuck.

They are JSON, or pickles that only `plain_pickle` opens. A dump does not tell whose it is: its file name does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from knowledge.reading import plain_pickle
from knowledge.reading.compressed import first_bytes, open_log
from knowledge.reading.plain_pickle import MAX_CONTAINERS, RefusedPickleError

MAX_BYTES = 64 << 20  # of one dump, unpacked
MAX_CALLS = 20_000  # of one dump; the last ones count
MAX_MEMBERS = 1 << 20  # of all groups of one dump together
_HEAD = 64 << 10
_WORDS = (b"collective_seq_id", b"profiling_name", b"pg_config", b"record_id")
_NAMED_SO = re.compile(r"(?i)trace|flight|nccl|dump|rank|(?:^|[^a-z])fr(?:[^a-z]|$)")
_PICKLED = re.compile(r"(?i)\.(?:pkl|pickle)$")
_LAST_NUMBER = re.compile(r"(\d{1,6})(?:\.[A-Za-z]+)*$")
_NUMBER = re.compile(r"\d{1,7}")
_BEGINNINGS = frozenset(b"%c" % byte for byte in b"\x1f\x28\x80{ \t\r\n\x0b\x0c")  # of packed, pickled and JSON files
_LIBRARY = ("site-packages", "dist-packages", "/torch/", "/lib/python")


@dataclass(slots=True, frozen=True)
class Call:
    """One operation that a rank handed to its communication library."""

    number: int  # position in the dump, from 1
    group: str  # the process group's name; unique in one process
    seq: int  # the group's sequence number; p2p operations count by themselves
    op: str  # "all_reduce", "send 1->2"
    shapes: str  # of its inputs and outputs, with types
    state: str  # "scheduled", "started" or "completed"
    p2p: bool
    retired: bool  # the watchdog has let go of it: done, or timed out
    where: str  # innermost line of the user's own code, as "fit() (train.py:31)"; empty where not recorded


@dataclass(slots=True)
class Group:
    """A process group, as one rank's dump describes it."""

    name: str
    title: str
    ranks: tuple[int, ...]  # global ranks, in the group's order; empty where not recorded


@dataclass(slots=True)
class Dump:
    """One rank's dump."""

    rank: int
    calls: list[Call]
    groups: dict[str, Group] = field(default_factory=dict)  # by name


class RefusedDumpError(Exception):
    """A file that cannot be taken for a dump; the message says why, in words that follow its name."""


def is_dump(path: Path, name: str) -> bool:
    """Whether a file is a flight-recorder dump, or pretends to be one: by its content first, by its name second.

    Raises UnreadableEvidence.
    """
    head = first_bytes(path, 512)
    if head[:1] not in _BEGINNINGS and not _PICKLED.search(name):
        return False
    if head[:2] == b"\x1f\x8b" or head[:4] == b"\x28\xb5\x2f\xfd":
        with open_log(path) as stream:
            head = stream.read(_HEAD)
    elif head[:1] == b"\x80" or head.lstrip()[:1] == b"{":
        with path.open("rb") as file:
            head = file.read(_HEAD)
    pickled = head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    if pickled or head.lstrip()[:1] == b"{":
        if sum(word in head for word in _WORDS) >= 2:
            return True
    elif not _PICKLED.search(name):
        return False
    return (pickled or bool(_PICKLED.search(name))) and bool(_NAMED_SO.search(name.rsplit("/", 1)[-1]))


def read_dump(path: Path, name: str, rank: int | None) -> Dump:
    """Read a dump; `rank` is what is known of its owner. Raises RefusedDumpError, and UnreadableEvidence."""
    with open_log(path) as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise RefusedDumpError(f"it is larger than {MAX_BYTES >> 20} MiB")
    owner = _LAST_NUMBER.search(name.removesuffix(".gz").removesuffix(".zst"))
    if rank is None and owner is None:
        raise RefusedDumpError("its name does not end with its rank, as nccl_trace_rank_3 does")
    document = _document(data)
    entries = document.get("entries", [])
    if not isinstance(entries, list):
        raise RefusedDumpError("its entries are no list")
    calls = [call for number, entry in _last(entries) if (call := _call(number, entry)) is not None]
    return Dump(rank if rank is not None else int(owner[1]) if owner else 0, calls, dict(_groups(document, entries)))


def _document(data: bytes) -> Mapping[Any, Any]:
    if data.lstrip()[:1] == b"{":
        if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
            raise RefusedDumpError(f"it builds more than {MAX_CONTAINERS} containers")
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise RefusedDumpError("it is no whole JSON document") from error
    else:
        try:
            found = plain_pickle.load(data)
        except RefusedPickleError as error:
            raise RefusedDumpError(str(error)) from error
    if not isinstance(found, dict):
        raise RefusedDumpError("it holds no dictionary at its top")
    return found


def _last(entries: list[Any]) -> Iterator[tuple[int, Mapping[Any, Any]]]:
    first = max(0, len(entries) - MAX_CALLS)
    for number, entry in enumerate(entries[first:], start=first + 1):
        if isinstance(entry, dict):
            yield number, entry


def _call(number: int, entry: Mapping[Any, Any]) -> Call | None:
    p2p = entry.get("is_p2p") is True
    seq = entry.get("p2p_seq_id" if p2p else "collective_seq_id", entry.get("seq_id"))
    if not isinstance(seq, int):
        return None
    return Call(
        number=number, group=_group_of(entry)[0], seq=seq, op=_text(entry.get("profiling_name")).rpartition(":")[2],
        shapes=_shapes(entry), state=_text(entry.get("state")), p2p=p2p, retired=entry.get("retired") is True,
        where=_where(entry.get("frames")),
    )  # fmt: skip


def _text(value: object) -> str:
    """A string of a dump, cut to a length that fits a line, without what would not show on it."""
    return "".join(filter(str.isprintable, value[:80])) if isinstance(value, str) else ""


def _group_of(entry: Mapping[Any, Any]) -> tuple[str, str]:
    """Name and title of an entry's process group; the oldest dumps number their groups only."""
    named = entry.get("process_group")
    if isinstance(named, list | tuple) and named:
        return _text(named[0]), _text(named[1]) if len(named) > 1 else ""
    number = entry.get("pg_id")
    return str(number) if isinstance(number, int) else "", ""


def _groups(document: Mapping[Any, Any], entries: list[Any]) -> Iterator[tuple[str, Group]]:
    for _, entry in _last(entries):
        name, title = _group_of(entry)
        yield name, Group(name, title, ())
    config, room = document.get("pg_config"), MAX_MEMBERS
    for key, said in config.items() if isinstance(config, dict) else ():
        ranks = said.get("ranks") if isinstance(said, dict) else said
        numbers: Iterable[Any] = ranks if isinstance(ranks, list) else ()
        if isinstance(ranks, str):
            numbers = (found[0] for found in _NUMBER.finditer(ranks))
        members = tuple(int(number) for number in islice(numbers, room) if isinstance(number, str | int))
        room -= len(members)
        name = str(key)[:80]
        if members:
            yield name, Group(name, _text(said.get("desc")) if isinstance(said, dict) else "", members)


def _shapes(entry: Mapping[Any, Any]) -> str:
    parts = []
    for way in ("input", "output"):
        sizes, types = entry.get(f"{way}_sizes"), entry.get(f"{way}_dtypes")
        if isinstance(sizes, list | tuple) and sizes:
            names = types if isinstance(types, list | tuple) else ()
            kinds = "/".join(sorted({_text(name) for name in names[:64]}))
            parts.append(f"{way} {', '.join(_size(size) for size in sizes[:8])}{' ' + kinds if kinds else ''}")
    return "; ".join(parts)


def _size(size: object) -> str:
    numbers = size[:8] if isinstance(size, list | tuple) else ()
    return "x".join(str(number) for number in numbers if isinstance(number, int) and abs(number) < 1 << 63) or "scalar"


def _where(frames: object) -> str:
    """The innermost frame outside libraries; frames come innermost first."""
    for frame in frames[:100] if isinstance(frames, list | tuple) else ():
        if isinstance(frame, dict):
            path, line = frame.get("filename"), frame.get("line")
            if isinstance(path, str) and isinstance(line, int) and not any(part in path for part in _LIBRARY):
                return f"{_text(frame.get('name'))}() ({_text(path.rsplit('/', 1)[-1])}:{line % 10**7})"
    return ""
