"""From a bundle to evidence. Small bundles are read in turn; large ones by several processes, a share of files each."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime

from knowledge.catalogue import Catalogue
from knowledge.job import MOST_UNREAD
from knowledge.reading import numbering
from knowledge.reading.bundle import Bundle, Source
from knowledge.reading.evidence import CaseEvidence, Process
from knowledge.reading.exits import counting, number_attempts
from knowledge.reading.flight_recorder import RefusedDumpError, read_dump
from knowledge.reading.pods import exits_of
from knowledge.reading.roster import Roster
from knowledge.reading.shares import in_shares, workers
from knowledge.reading.stream import StreamReader
from knowledge.signature import SourceKind

LARGE = 64 << 20  # bytes from which several processes pay
LONG = 16 << 20  # bytes of one file from which several threads pay


def read_evidence(bundle: Bundle, catalogue: Catalogue, meanwhile: Callable[[], object] = lambda: None) -> CaseEvidence:
    """Read all sources of a bundle. Raises UnreadableEvidence for a file that cannot be read.

    `meanwhile` is done while other processes read; not at all where there are none.
    """
    case = CaseEvidence(job=bundle.job, world_size=bundle.job.world_size, sources=bundle.sources)
    _Reading(bundle, catalogue, case).read(meanwhile)
    case.settle()
    number_attempts(case.exits, case.last_attempt, counting(case))
    case.exits += exits_of(case.pods.values(), case.last_attempt)
    for pod in case.pods.values():
        if pod.address:
            case.addresses.setdefault(pod.address, pod.host)
    _read_dumps(case, bundle)
    return case


@dataclass(slots=True)
class _Told:
    """What a run of neighbouring sources told: in their heads, about processes, and in all their lines."""

    rosters: list[Roster] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    heads: CaseEvidence = field(default_factory=CaseEvidence)
    lines: CaseEvidence = field(default_factory=CaseEvidence)


class _Reading:
    """Heads first, since they tell who is who in other files too; then all lines.

    A file that by its name is one rank's own introduces nobody else, so its head may wait until it is read.
    """

    def __init__(self, bundle: Bundle, catalogue: Catalogue, case: CaseEvidence) -> None:
        self._catalogue, self._case = catalogue, case
        stats = [source.path.stat() for source in bundle.sources]
        self._sizes = [stat.st_size for stat in stats]
        newest = datetime.fromtimestamp(max((stat.st_mtime for stat in stats), default=0), UTC)
        self._year = (bundle.job.started_at or bundle.job.ended_at or newest).year
        self._rosters = [Roster(source) for source in bundle.sources]
        self._siblings = sum(source.kind in (SourceKind.RANK, None) for source in bundle.sources)

    def read(self, meanwhile: Callable[[], object]) -> None:
        """Read everything into the case."""
        total, case = len(self._rosters), self._case
        if workers() == 1 or total < 2 or sum(self._sizes) <= LARGE:
            told = self._learn(range(total))
            case.meet(told.heads)
            numbering.number(self._rosters, case)
            case.absorb(self._read(range(total), ()).lines)
            return
        waiting = {number for number, source in enumerate(case.sources) if source.kind is SourceKind.RANK}
        asked = [number for number in range(total) if number not in waiting]
        if asked:
            learned: list[Roster] = []
            for told in in_shares(lambda part: self._learn(asked[part.start : part.stop]), [1] * len(asked)):
                case.meet(told.heads)
                learned += told.rosters
            for number, roster in zip(asked, learned, strict=True):
                self._rosters[number] = roster
        numbering.number(self._rosters, case)
        self._catalogue.scanner.literals.prepare()
        read: list[Source] = []
        for told in in_shares(lambda part: self._read(part, waiting), self._sizes, meanwhile):
            case.meet(told.heads)
            case.absorb(told.lines)
            read += told.sources
        case.sources[:] = read

    def _threads(self, number: int) -> AbstractContextManager[ThreadPoolExecutor | None]:
        """Threads to search a file with that is large and has no others beside it to keep the processors busy."""
        size = self._sizes[number]
        if workers() == 1 or size < LONG or 2 * size < sum(self._sizes):
            return nullcontext()
        self._catalogue.scanner.literals.prepare()
        return ThreadPoolExecutor(workers(), "search")

    def _learn(self, numbers: Iterable[int]) -> _Told:
        told = _Told()
        for number in numbers:
            self._rosters[number].learn(told.heads, self._siblings)
            told.rosters.append(self._rosters[number])
        return told

    def _read(self, numbers: Iterable[int], waiting: Collection[int]) -> _Told:
        told, known = _Told(), self._case.processes
        for number in numbers:
            roster = self._rosters[number]
            processes: Mapping[int, Process] = known
            if number in waiting:
                head = CaseEvidence()
                if (rank := roster.source.rank) is not None and rank in known:
                    head.processes[rank] = copy(known[rank])
                roster.learn(head, self._siblings)
                told.heads.meet(head)
                processes = ChainMap(head.processes, known) if known else head.processes
            with self._threads(number) as threads:
                reader = StreamReader(roster, processes, self._catalogue, self._year, threads)
                told.lines.absorb(reader.read())
            told.sources.append(roster.source)
        return told


def _read_dumps(case: CaseEvidence, bundle: Bundle) -> None:
    refused = list(bundle.packed)
    for source in bundle.dumps:
        try:
            dump = read_dump(source.path, source.name, source.rank)
        except RefusedDumpError as error:
            refused.append(f"What the flight recorder in {source.name} holds: the file was not read, because {error}.")
            continue
        case.dumps.append((source, dump))
        case.bytes += source.path.stat().st_size
        case.processes.setdefault(dump.rank, Process(dump.rank))
    case.refused += refused[:MOST_UNREAD]
    if len(refused) > MOST_UNREAD:
        case.refused.append(f"What {len(refused) - MOST_UNREAD} more files hold, which could not be read either.")
