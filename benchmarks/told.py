"""A case as other diagnosers get it: every line with the rank that wrote it and its time. That is more than most can tell
by themselves, so they are seen at their best."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from knowledge.reading.bundle import open_bundle
from knowledge.reading.clocks import parse_time
from knowledge.reading.evidence import CaseEvidence
from knowledge.reading.prefixes import strip_prefix
from knowledge.reading.roster import Roster
from knowledge.reading.text import pieces
from knowledge.signature import SourceKind

_ERROR = re.compile(r"error|exception|fail|terminate", re.IGNORECASE)
_VARIABLE = re.compile(r"0x[0-9a-f]+|\d+")
_BLOCK = re.compile(r"Root Cause \(first observed failure\):")
_FIELD = re.compile(r"^\W*(?P<name>time|rank|exitcode)\s+: (?P<value>\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Line:
    """One line. Without a time of its own it has that of the line before it; in a file without any, the end of time."""

    rank: int | None
    seconds: float
    text: str


@dataclass(slots=True)
class Told:
    """All lines of ranks and launchers, file after file."""

    lines: list[Line] = field(default_factory=list)

    def as_collected(self) -> str:
        """The files one after the other, labelled as `srun --label` does."""
        return "\n".join(_labelled(line) for line in self.lines) + "\n"

    def merged(self) -> str:
        """The lines of all ranks in order of time, labelled."""
        return "\n".join(_labelled(line) for line in self.in_time()) + "\n"

    def in_time(self) -> list[Line]:
        """The lines in order of time; those without one stay behind those before them."""
        return sorted(self.lines, key=lambda line: line.seconds)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a diagnoser says: the ranks it names and its words for the cause, or None where it says nothing of it."""

    ranks: frozenset[int] = frozenset()
    words: str | None = None


def tell(case: Path) -> Told:
    """Read the logs of a case folder. Kernel, node and scheduler logs are left out: none of the others reads them."""
    bundle = open_bundle([case])
    when = bundle.job.ended_at or bundle.job.started_at
    year = when.year if when else 2026
    told = Told()
    known = CaseEvidence(job=bundle.job)
    rosters = [Roster(source) for source in bundle.sources]
    for roster in rosters:
        roster.learn(known, len(rosters))
    for roster in rosters:
        if roster.source.kind in (SourceKind.KERNEL, SourceKind.NODE, SourceKind.SCHEDULER, SourceKind.KUBERNETES):
            continue
        with roster.source.open() as stream:
            texts = [piece for raw in stream for piece in pieces(raw)]
        times = [parse_time(text, year) for text in texts]
        seconds = next((time.seconds for time in times if time), math.inf)
        for whole, time in zip(texts, times, strict=True):
            prefix, text = strip_prefix(whole, roster.habits)
            seconds = time.seconds if time else seconds
            told.lines.append(Line(roster.rank_of(prefix, text), seconds, text))
    return told


def earliest_error(told: Told) -> Answer:
    """The first line in order of time that speaks of an error."""
    found = next((line for line in told.in_time() if _ERROR.search(line.text)), None)
    return Answer(one(found.rank), found.text) if found else Answer()


def odd_one_out(told: Told) -> Answer:
    """The rank whose last error, numbers aside, no other rank has."""
    last: dict[int, str] = {}
    for line in told.lines:
        if line.rank is not None:
            last.setdefault(line.rank, "")
            if _ERROR.search(line.text):
                last[line.rank] = line.text
    shapes = {rank: _VARIABLE.sub("#", text)[-120:] for rank, text in last.items()}
    counts = Counter(shapes.values())
    odd = [rank for rank, shape in shapes.items() if counts[shape] == 1]
    if len(odd) == 1 and len(counts) > 1:
        return Answer(one(odd[0]), last[odd[0]] or None)
    return Answer(words=next(iter(last.values()), None) if len(counts) == 1 else None)


def torchelastic(told: Told) -> Answer:
    """What torchrun says itself: the earliest of its agents' blocks on the first observed failure."""
    blocks = _BLOCK.split("\n".join(line.text for line in told.lines))[1:]
    found = [dict(_FIELD.findall(block[:600])) for block in blocks]
    first = min(
        (block for block in found if block.get("rank", "").isdigit()),
        key=lambda block: block.get("time", ""),
        default=None,
    )
    return Answer(one(int(first["rank"])), f"exitcode {first.get('exitcode')}") if first else Answer()


def one(rank: int | None) -> frozenset[int]:
    """The one rank that is named, if any."""
    return frozenset() if rank is None else frozenset({rank})


def _labelled(line: Line) -> str:
    return line.text if line.rank is None else f"{line.rank}: {line.text}"
