"""From a bundle to evidence. Small bundles are read in turn; large ones by several processes, a share of files each."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime

from knowledge.catalogue import Catalogue
from knowledge.reading.bundle import Bundle
from knowledge.reading.evidence import CaseEvidence, Process
from knowledge.reading.exits import number_attempts
from knowledge.reading.flight_recorder import RefusedDumpError, read_dump
from knowledge.reading.roster import Roster
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
    siblings = sum(source.kind in (SourceKind.RANK, None) for source in bundle.sources)
    rosters = [Roster(source) for source in bundle.sources]
    for roster in rosters:
        roster.learn(case, siblings)
    when = bundle.job.started_at or bundle.job.ended_at or _newest(bundle)
    readers = [StreamReader(roster, case.processes, catalogue, when.year) for roster in rosters]
    sizes = [source.path.stat().st_size for source in bundle.sources]
    workers = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    if workers > 1 and len(sizes) > 1 and sum(sizes) > LARGE:
        catalogue.scanner.literals.prepare()
        _read_in_shares(case, readers, sizes, workers)
    else:
        for reader in readers:
            case.absorb(reader.read())
    case.settle()
    number_attempts(case.exits, case.last_attempt)
    _read_dumps(case, bundle)
    return case


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


_readers: Sequence[StreamReader] = ()


def _read_share(numbers: Sequence[int]) -> list[tuple[int, CaseEvidence]]:
    return [(number, _readers[number].read()) for number in numbers]


def _read_in_shares(case: CaseEvidence, readers: Sequence[StreamReader], sizes: Sequence[int], workers: int) -> None:
    """Forked processes inherit what the heads of the files told, and send back what they found."""
    global _readers  # noqa: PLW0603 - how forked workers come by the readers
    _readers = readers
    shares: list[list[int]] = [[] for _ in range(workers * 4)]
    loads = [0] * len(shares)
    for number in sorted(range(len(readers)), key=lambda number: -sizes[number]):
        lightest = loads.index(min(loads))
        shares[lightest].append(number)
        loads[lightest] += sizes[number] + 1
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
        parts = dict(part for share in pool.map(_read_share, shares) for part in share)
    for number in range(len(readers)):
        case.absorb(parts[number])
    _readers = ()
