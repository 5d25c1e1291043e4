"""From a bundle to evidence: every line is cleaned, attributed, and looked at by whoever may want it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from knowledge.catalogue import Catalogue
from knowledge.reading import exits, identity, progress
from knowledge.reading.bundle import Bundle, Source
from knowledge.reading.clocks import parse_time
from knowledge.reading.evidence import CaseEvidence, Exit, Hit, Place, Process, Pulse, Traceback
from knowledge.reading.kinds import recognise
from knowledge.reading.prefixes import Habits, Prefix, learn_habits, strip_prefix
from knowledge.reading.regions import Region, read_regions
from knowledge.reading.stacks import MARKS as STACK_MARKS
from knowledge.reading.stacks import StackReader
from knowledge.reading.text import pieces
from knowledge.reading.tracebacks import START, TracebackReader
from knowledge.scanning import LiteralScanner, speakers
from knowledge.signature import Says, SignatureRole, SourceKind

_SAMPLE = 256 << 10  # bytes at the head of a file from which its habits are learned
_INLINE_RANK = re.compile(r"\b(?:rank[ =:]|\[Rank )(?P<rank>\d{1,6})\b")
_BARE_RANK = re.compile(r"\[Rank (?P<rank>\d{1,6})\]")
_PYTHON_LOG_PID = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +(?P<pid>\d+) ")
_AGENT = re.compile(
    r"^(?:srun|slurmstepd|mpirun|prterun|torchrun)[\w-]*: |^[IWEF]\d{4} [\d:.]+ +\d+ torch/distributed/(?:run|elastic|launcher)"
)
_ALONE = re.compile(r"^\s*(?:/job:\w+/replica:\d+/task:)?(?P<rank>\d{1,6})\s*$")
_ORDER_DOUBT = 3  # lines in which a promised rank must follow
_LAST_WORDS = 3
_DESCRIBED = re.compile(r"^Name: +(?P<pod>[\w.-]+)$")
_ON_NODE = re.compile(r"^Node: +(?P<node>[A-Za-z][\w.-]*)")
_POD_IN_EVENT = re.compile(r"\bpod/(?P<pod>[\w.-]+)")
_POD_IN_LIST = re.compile(r"^(?P<pod>[a-z0-9][a-z0-9.-]+) +\d+/\d+ +[A-Z]\w+ ")
_HOST_OF_POD = re.compile(r"Successfully assigned (?:[\w-]+/)?(?P<pod>[\w.-]+) to (?P<node>[\w.-]+)")
_ROLES_OF_RANKS = (SourceKind.RANK, SourceKind.COMBINED, SourceKind.LAUNCHER, None)


def read_evidence(bundle: Bundle, catalogue: Catalogue) -> CaseEvidence:
    """Read all sources of a bundle. Raises UnreadableEvidence for a file that cannot be read."""
    case = CaseEvidence(job=bundle.job, world_size=bundle.job.world_size)
    year = (bundle.job.started_at or bundle.job.ended_at or _newest(bundle)).year
    structure = LiteralScanner([START, "exitcode", "srun: error"])
    siblings = sum(source.kind in (SourceKind.RANK, None) for source in bundle.sources)
    files = [_SourceReader(source, catalogue, case, year, siblings) for source in bundle.sources]
    for file in files:
        file.introduce()
    for file in files:
        file.read(structure)
    case.sources = [file.source for file in files]
    return case


def _pod_in_name(name: str) -> str | None:
    found = re.search(r"describe[-_](?P<pod>[a-z0-9][\w.-]*?)\.(?:txt|log|ya?ml)$", name)
    return found["pod"] if found and found["pod"] not in ("pods", "pod", "job", "jobs") else None


def _newest(bundle: Bundle) -> datetime:
    stamps = [Path(source.path).stat().st_mtime for source in bundle.sources]
    return datetime.fromtimestamp(max(stamps, default=0), UTC)


class _SourceReader:
    def __init__(self, source: Source, catalogue: Catalogue, case: CaseEvidence, year: int, siblings: int) -> None:
        self.source = source
        self._siblings = siblings  # sources that may each be one rank's
        self._catalogue = catalogue
        self._case = case
        self._year = year
        self._habits = Habits()
        self._ranks_by_pid: dict[int, int] = {}
        self._ranks_by_local: dict[int, set[int]] = {}
        self._tracebacks: dict[int | None, TracebackReader] = {}
        self._stacks: dict[int | None, StackReader] = {}
        self._exits = exits.ExitReader()
        self._naming: Hit | None = None  # a line that names its ranks on the line that follows
        self._subject: str | None = _pod_in_name(source.name)
        self._order = 0
        self._attempt = source.attempt or 0
        self._pids: dict[int, list[int]] = {}  # by rank, in order: a new one is a new attempt

    # -- first pass: the head of the file says what it is and who is in it

    def introduce(self) -> None:
        with self.source.open() as stream:
            head = stream.read(_SAMPLE)
        lines = [piece for raw in head.split(b"\n") for piece in pieces(raw)]
        self._habits = learn_habits(lines[:4000])
        ranks: Counter[int] = Counter()
        hosts: Counter[str] = Counter()
        for line in lines:
            if "Successfully assigned" in line and (found := _HOST_OF_POD.search(line)):
                self._case.pod_nodes[found["pod"]] = found["node"]
            prefix, text = strip_prefix(line, self._habits)
            if prefix.rank is not None:
                ranks[prefix.rank] += 1
            if not identity.MARKS.search(text):
                continue
            who = identity.introduce(text)
            if who is None:
                continue
            rank = who.rank if who.rank is not None else prefix.rank
            if rank is None and self.source.kind is SourceKind.RANK:
                rank = self.source.rank
            if who.host:
                hosts[who.host] += 1
                if who.address:
                    self._case.addresses[who.address] = who.host
                    if who.interface:
                        self._case.interfaces[who.host] = (who.interface, who.address)
            if who.world_size and who.rank is not None:
                self._case.world_size = max(self._case.world_size or 0, who.world_size)
            if rank is not None:
                if who.rank is not None and not text.startswith("#"):
                    ranks[rank] += 1
                self._know(rank, who, prefix)
        self.source.kind = recognise(self.source, lines, ranks, self._habits)
        if len(ranks) > 1:
            self.source.rank = None
        elif len(ranks) == 1 and (self.source.kind is SourceKind.RANK or self._siblings > 1):
            self.source.rank = next(iter(ranks))
            self.source.kind = self.source.kind or SourceKind.RANK
        if self.source.host is None and len(hosts) == 1:
            self.source.host = next(iter(hosts))

    def _know(self, rank: int, who: identity.Introduction, prefix: Prefix) -> None:
        known = self._case.processes.setdefault(rank, Process(rank))
        known.host = who.host or known.host or prefix.host
        known.pid = who.pid or known.pid
        known.bus = who.bus or known.bus
        known.address = who.address or known.address
        local = who.local_rank if who.local_rank is not None else prefix.local_rank
        if local is not None:
            known.local_rank = local
            self._ranks_by_local.setdefault(local, set()).add(rank)
        if who.pid:
            self._ranks_by_pid[who.pid] = rank

    # -- second pass: the lines

    def read(self, structure: LiteralScanner) -> None:
        if self.source.local_rank is not None and self.source.rank is None:
            known = self._rank_of_local(self.source.local_rank)
            self.source.rank = self.source.local_rank if known is None else known
        region = None
        with self.source.open() as stream:
            for region in read_regions(stream, structure):
                self._read_region(region)
        for rank, reader in self._stacks.items():
            stack = reader.finish()
            if stack is not None and rank is not None:
                self._case.story(self._attempt, rank).stacks.append(stack)
        if region is not None and region.cut and self.source.rank is not None:
            self._case.story(self.source.attempt or 0, self.source.rank).truncated = True

    def _read_region(self, region: Region) -> None:
        raws = region.data.split(b"\n")
        if raws and not raws[-1]:
            raws.pop()
        ends: list[int] = []
        position = 0
        for raw in raws:
            position += len(raw) + 1
            ends.append(position)
        candidates = self._catalogue.scanner.candidates(region.data, ends)
        self._case.bytes += len(region.data)
        self._case.lines += len(raws)
        for index, raw in enumerate(raws):
            entries = candidates.get(index, ())
            for piece in pieces(raw):
                self._order += 1
                self._read_line(piece, region.line + index, entries)

    def _read_line(self, line: str, number: int, entries: object) -> None:
        prefix, text = strip_prefix(line, self._habits)
        rank, tagged = self._rank_of(prefix, text)
        interesting = bool(entries) or exits.MARKS.search(text) is not None
        host = prefix.host or prefix.pod or self._host_of(rank)
        if self.source.kind is SourceKind.KUBERNETES:
            host = self._subject_of(text)
        if self.source.attempt is None and identity.MARKS.search(text):
            self._count_attempts(text)
        attempt = self._attempt
        local = prefix.local_rank if rank is None else None
        place = Place(self.source, number, self._order, line, rank, host, None, attempt, local)
        is_progress = bool(text.strip()) and self._live(rank, attempt, place, text)
        if interesting or START in text or self._reading(rank):
            place = replace(place, time=parse_time(line, self._year))
            self._feed_traceback(rank, text, place, prefix.tagged or tagged)
        if interesting:
            for found in self._exits.feed(text, place):
                self._case.exits.append(self._complete(found))
            if not is_progress or len(text) < 400:
                self._match(text, place, entries)
        self._feed_stack(rank, text, place)
        if self._naming is not None:
            self._name_ranks(text)
        if text.strip():
            self._case.last_lines[self.source.name] = place
            if rank is not None and not is_progress and not interesting and rank not in self._tracebacks:
                words = self._case.story(attempt, rank).words
                words.append(place)
                del words[:-_LAST_WORDS]

    def _subject_of(self, text: str) -> str | None:
        """The pod that a line of Kubernetes' own words is about; `describe` names it once, above."""
        if found := _DESCRIBED.match(text):
            self._subject = found["pod"]
        elif self._subject and (found := _ON_NODE.match(text)):
            self._case.pod_nodes[self._subject] = found["node"]
        elif (found := _POD_IN_EVENT.search(text)) or (found := _POD_IN_LIST.match(text)):
            return found["pod"]
        return self._subject

    def _count_attempts(self, text: str) -> None:
        """A rank that introduces itself again as another process was started again."""
        who = identity.introduce(text)
        if who is None or who.rank is None or who.pid is None or "NCCL" in text:
            return
        pids = self._pids.setdefault(who.rank, [])
        if who.pid not in pids:
            pids.append(who.pid)
            self._attempt = max(self._attempt, len(pids) - 1)
        self._ranks_by_pid[who.pid] = who.rank

    def _reading(self, rank: int | None) -> bool:
        reader = self._tracebacks.get(rank)
        return reader is not None

    def _rank_of(self, prefix: Prefix, text: str) -> tuple[int | None, bool]:
        """The rank that wrote a line, and whether the line itself says so."""
        source = self.source
        if prefix.rank is not None:
            if _AGENT.match(text):
                return None, False
            return prefix.rank, prefix.tagged
        if source.kind not in _ROLES_OF_RANKS:
            return None, False
        if prefix.local_rank is not None:
            rank = self._rank_of_local(prefix.local_rank)
            return rank if rank is not None else self._group_rank(text), False
        if prefix.pid is not None and prefix.pid in self._ranks_by_pid:
            return self._ranks_by_pid[prefix.pid], False
        if source.rank is not None:
            return source.rank, False
        process = identity.nccl_process(text) if "NCCL" in text else None
        if process:
            return self._ranks_by_pid.get(process[1]), False
        if _AGENT.match(text):
            return None, False
        found = _INLINE_RANK.search(text[:160]) if "ank" in text[:160] else None
        if found and "local_rank" not in text[:160]:
            return int(found["rank"]), False
        found = _PYTHON_LOG_PID.match(text)
        if found:
            return self._ranks_by_pid.get(int(found["pid"])), False
        return None, False

    @staticmethod
    def _group_rank(text: str) -> int | None:
        """Before 2.3, PyTorch wrote `[Rank N]` and no group: the default group's, so global."""
        found = _BARE_RANK.search(text[:160]) if "[Rank " in text[:160] else None
        return int(found["rank"]) if found and "[PG " not in text[:160] else None

    def _rank_of_local(self, local: int) -> int | None:
        """The rank with a local rank, where this source holds one node only."""
        ranks = self._ranks_by_local.get(local, ())
        return next(iter(ranks)) if len(ranks) == 1 else None

    def _host_of(self, rank: int | None) -> str | None:
        if rank is not None:
            known = self._case.processes.get(rank)
            if known and known.host:
                return known.host
        return self.source.host

    def _live(self, rank: int | None, attempt: int, place: Place, text: str) -> bool:
        """Note a line as a sign of life; return whether it tells of progress."""
        if self.source.kind not in _ROLES_OF_RANKS:
            return False
        story = self._case.story(attempt, rank) if rank is not None else None
        if story:
            story.lines += 1
            story.first = story.first or place
            story.last = place
        if not progress.MARKS.search(text):
            return False
        step = progress.step_of(text)
        pulse = self._case.pulses.setdefault(attempt, Pulse())
        if step is not None:
            place = replace(place, time=parse_time(place.text, self._year))
            pulse.first = pulse.first or place
            pulse.last = place
            pulse.count += 1
            if story:
                story.last_progress = place
                story.last_step = step if step >= 0 else story.last_step
        if progress.says_finished(text):
            pulse.finished = place
            if story:
                story.finished = place
        return step is not None

    def _feed_traceback(self, rank: int | None, text: str, place: Place, tagged: bool) -> None:
        if START in text and rank not in self._tracebacks:
            self._tracebacks[rank] = TracebackReader()
        reader = self._tracebacks.get(rank)
        if reader is None:
            return
        finished: Traceback | None = reader.feed(text, place, tagged)
        if finished is not None:
            self._case.tracebacks.append(finished)
            if rank is not None:
                self._case.story(place.attempt, rank).tracebacks.append(finished)

    def _feed_stack(self, rank: int | None, text: str, place: Place) -> None:
        if rank is None:
            return
        reader = self._stacks.get(rank)
        if reader is None:
            if not STACK_MARKS.search(text):
                return
            reader = self._stacks[rank] = StackReader()
        stack = reader.feed(text, place)
        if stack is not None:
            self._case.story(place.attempt, rank).stacks.append(stack)

    def _name_ranks(self, text: str) -> None:
        """Some lines end with a colon, and the ranks stand alone on the next."""
        assert self._naming is not None
        found = _ALONE.match(text)
        if found:
            known = self._naming.captures.get("ranks")
            self._naming.captures["ranks"] = f"{known},{found['rank']}" if known else found["rank"]
        elif "ranks" in self._naming.captures or self._order - self._naming.place.order > _ORDER_DOUBT:
            self._naming = None

    def _complete(self, found: Exit) -> Exit:
        if found.rank is None and found.pid is not None:
            found.rank = self._ranks_by_pid.get(found.pid)
        if found.rank is None and found.local_rank is not None:
            found.rank = self._rank_of_local(found.local_rank)
        if found.host is None and found.rank is not None:
            found.host = self._host_of(found.rank)
        return found

    def _match(self, text: str, place: Place, entries: object) -> None:
        matches: dict[str, dict[str, str]] = {}
        for entry in entries:  # type: ignore[attr-defined]
            if entry.sources and self.source.kind is not None and self.source.kind not in entry.sources:
                continue
            captures = entry.match(text)
            if captures is not None:
                matches[entry.id] = captures
        for name in speakers(matches, self._catalogue.entries):  # type: ignore[arg-type]
            signature = self._catalogue[name]
            if signature.role is SignatureRole.NOISE:
                continue
            hit = Hit(signature, matches[name], place)
            self._case.hits.append(hit)
            if Says.NAMES_RANK in signature.says and not {"rank", "ranks"} & hit.captures.keys():
                self._naming = hit
            if place.rank is not None:
                self._case.story(place.attempt, place.rank).hits.append(hit)
