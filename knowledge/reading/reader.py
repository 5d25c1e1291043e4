"""From a bundle to evidence. Small bundles are read in turn; large ones by several processes, a share of files each."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from knowledge.catalogue import Catalogue
from knowledge.reading.bundle import Bundle
from knowledge.reading.evidence import CaseEvidence, Process
from knowledge.reading.exits import number_attempts
from knowledge.reading.flight_recorder import RefusedDumpError, read_dump
from knowledge.reading.roster import Roster
from knowledge.reading.shares import in_shares, workers
from knowledge.reading.stream import StreamReader
from knowledge.signature import SourceKind

LARGE = 64 << 20  # bytes from which several processes pay


def read_evidence(bundle: Bundle, catalogue: Catalogue) -> CaseEvidence:
    """Read all sources of a bundle. Raises UnreadableEvidence for a file that cannot be read."""
    with _uncollected():
        return _read(bundle, catalogue)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Reading makes many objects and no cycles: looking for cycles all the time would cost a quarter of it."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _read(bundle: Bundle, catalogue: Catalogue) -> CaseEvidence:
    case = CaseEvidence(job=bundle.job, world_size=bundle.job.world_size, sources=bundle.sources)
    sizes = [source.path.stat().st_size for source in bundle.sources]
    shared = workers() > 1 and len(sizes) > 1 and sum(sizes) > LARGE
    rosters = _learn(case, shared)
    when = bundle.job.started_at or bundle.job.ended_at or _newest(bundle)
    readers = [StreamReader(roster, case.processes, catalogue, when.year) for roster in rosters]
    if shared:
        catalogue.scanner.literals.prepare()
        for part in in_shares(lambda number: readers[number].read(), sizes):
            case.absorb(part)
    else:
        for reader in readers:
            case.absorb(reader.read())
    case.settle()
    number_attempts(case.exits, case.last_attempt)
    _read_dumps(case, bundle)
    return case


def _learn(case: CaseEvidence, shared: bool) -> list[Roster]:
    """Learn from the heads of all sources who writes where."""
    siblings = sum(source.kind in (SourceKind.RANK, None) for source in case.sources)
    rosters = [Roster(source) for source in case.sources]
    if not shared:
        for roster in rosters:
            roster.learn(case, siblings)
        return rosters

    def learn(number: int) -> tuple[Roster, CaseEvidence]:
        told = CaseEvidence()
        rosters[number].learn(told, siblings)
        return rosters[number], told

    learned = in_shares(learn, [1] * len(rosters))
    for _, told in learned:
        case.meet(told)
    case.sources[:] = [roster.source for roster, _ in learned]
    return [roster for roster, _ in learned]


def _read_dumps(case: CaseEvidence, bundle: Bundle) -> None:
    for source in bundle.dumps:
        try:
            dump = read_dump(source.path, source.name, source.rank)
        except RefusedDumpError as error:
            case.refused.append(
                f"What the flight recorder in {source.name} holds: the file was not read, because {error}."
            )
            continue
        case.dumps.append((source, dump))
        case.bytes += source.path.stat().st_size
        case.processes.setdefault(dump.rank, Process(dump.rank))


def _newest(bundle: Bundle) -> datetime:
    stamps = [source.path.stat().st_mtime for source in bundle.sources]
    return datetime.fromtimestamp(max(stamps, default=0), UTC)
