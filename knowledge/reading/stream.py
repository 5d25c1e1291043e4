"""One source, line by line: every line is attributed, and looked at by whoever may want it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from knowledge.catalogue import Catalogue
from knowledge.reading import exits, identity, progress
from knowledge.reading.clocks import parse_time
from knowledge.reading.evidence import CaseEvidence, Exit, Hit, Place, Process, Pulse
from knowledge.reading.marks import TRACEBACK
from knowledge.reading.prefixes import strip_prefix
from knowledge.reading.regions import MANY_RANKS, ONE_RANK, Region, read_regions
from knowledge.reading.roster import KINDS_OF_RANKS, Roster
from knowledge.reading.stacks import MARKS as STACK_MARKS
from knowledge.reading.stacks import StackReader
from knowledge.reading.text import pieces
from knowledge.reading.tracebacks import TracebackReader
from knowledge.scanning import speakers
from knowledge.signature import Says, Signature, SignatureRole, SourceKind

_ALONE = re.compile(r"^\s*(?:/job:\w+/replica:\d+/task:)?(?P<rank>\d{1,6})\s*$")
_PROMISE = 3  # lines within which ranks must follow a line that promises them
_LAST_WORDS = 3


class StreamReader:
    """Reads one source into evidence of its own, which is absorbed into the case's afterwards."""

    def __init__(self, roster: Roster, processes: dict[int, Process], catalogue: Catalogue, year: int) -> None:
        self._roster = roster
        self._source = roster.source
        self._processes = processes
        self._catalogue = catalogue
        self._year = year
        self._found = CaseEvidence()
        self._tracebacks: dict[int | None, TracebackReader] = {}
        self._stacks: dict[int | None, StackReader] = {}
        self._exits = exits.ExitReader()
        self._naming: Hit | None = None  # a line that names its ranks on the lines that follow
        self._order = 0
        self._of_ranks = False

    def read(self) -> CaseEvidence:
        """Read the source. Raises UnreadableEvidence."""
        source = self._source
        self._of_ranks = source.kind in KINDS_OF_RANKS
        plan = ONE_RANK if source.rank is not None else MANY_RANKS
        cut = False
        with source.open() as stream:
            for region in read_regions(stream, self._catalogue.scanner.literals, plan):
                self._read_region(region)
                cut = region.cut
        for rank, reader in self._stacks.items():
            stack = reader.finish()
            if stack is not None and rank is not None:
                self._found.story(self._roster.attempt, rank).stacks.append(stack)
        if cut and source.rank is not None:
            self._found.story(self._roster.attempt, source.rank).truncated = True
        return self._found

    def _read_region(self, region: Region) -> None:
        raws = region.data.split(b"\n")
        if not raws[-1]:
            raws.pop()
        ends: list[int] = []
        position = 0
        for raw in raws:
            position += len(raw) + 1
            ends.append(position)
        candidates = self._catalogue.scanner.candidates(region.data, ends)
        self._found.bytes += len(region.data)
        self._found.lines += len(raws)
        number = region.line
        for index, raw in enumerate(raws):
            entries = candidates.get(index, ())
            for piece in pieces(raw):
                self._order += 1
                self._read_line(piece, number + index, entries)

    def _read_line(self, line: str, number: int, entries: Sequence[Signature]) -> None:
        prefix, text = strip_prefix(line, self._roster.habits)
        if not text or text.isspace():
            if self._tracebacks or self._stacks:
                self._blank(line, number, self._roster.rank_of(prefix, text))
            return
        rank = self._roster.rank_of(prefix, text)
        host = prefix.host or prefix.pod or self._host_of(rank)
        if self._source.kind is SourceKind.KUBERNETES:
            host = self._roster.pod_of(text, self._found)
        elif self._source.attempt is None and identity.MARKS.search(text):
            self._roster.meet_again(text)
        attempt = self._roster.attempt
        local = prefix.local_rank if rank is None else None
        place = Place(self._source, number, self._order, line, rank, host, None, attempt, local)
        moved = self._of_ranks and self._live(place, text)
        ending = exits.MARKS.search(text) is not None
        if entries or ending or rank in self._tracebacks or TRACEBACK in text:
            place = replace(place, time=parse_time(line, self._year))
            self._feed_traceback(text, place, prefix.tagged)
        if ending:
            self._found.exits.extend(self._complete(found) for found in self._exits.feed(text, place))
        if entries:
            self._match(text, place, entries)
        elif not ending and not moved and rank is not None and rank not in self._tracebacks:
            words = self._found.story(attempt, rank).words
            words.append(place)
            del words[:-_LAST_WORDS]
        if rank is not None and (rank in self._stacks or STACK_MARKS.search(text)):
            self._feed_stack(text, place)
        if self._naming is not None:
            self._name_ranks(text)

    def _blank(self, line: str, number: int, rank: int | None) -> None:
        """An empty line ends nothing in a traceback, and ends a stack."""
        place = Place(self._source, number, self._order, line, rank, None, None, self._roster.attempt)
        if rank in self._tracebacks:
            self._feed_traceback("", place, tagged=False)
        if rank in self._stacks:
            self._feed_stack("", place)

    def _host_of(self, rank: int | None) -> str | None:
        if rank is not None:
            known = self._processes.get(rank)
            if known and known.host:
                return known.host
        return self._source.host

    def _live(self, place: Place, text: str) -> bool:
        """Note a line as a sign of life; return whether it tells of progress."""
        story = self._found.story(place.attempt, place.rank) if place.rank is not None else None
        if story:
            story.lines += 1
            story.first = story.first or place
            story.last = place
        if not progress.MARKS.search(text):
            return False
        step = progress.step_of(text)
        pulse = self._found.pulses.setdefault(place.attempt, Pulse())
        if step is not None:
            place = replace(place, time=parse_time(place.text, self._year))
            pulse.beat(place)
            if story:
                story.last_progress = place
                story.last_step = step if step >= 0 else story.last_step
        if progress.says_finished(text):
            pulse.finished = place
            if story:
                story.finished = place
        return step is not None

    def _feed_traceback(self, text: str, place: Place, tagged: bool) -> None:
        reader = self._tracebacks.get(place.rank)
        if reader is None:
            if TRACEBACK not in text:
                return
            reader = self._tracebacks[place.rank] = TracebackReader()
        finished = reader.feed(text, place, tagged)
        if finished is not None:
            self._found.tracebacks.append(finished)

    def _feed_stack(self, text: str, place: Place) -> None:
        assert place.rank is not None
        reader = self._stacks.setdefault(place.rank, StackReader())
        stack = reader.feed(text, place)
        if stack is not None:
            self._found.story(place.attempt, place.rank).stacks.append(stack)

    def _name_ranks(self, text: str) -> None:
        """Some lines end with a colon, and the ranks stand alone on the lines that follow."""
        assert self._naming is not None
        found = _ALONE.match(text)
        if found:
            known = self._naming.captures.get("ranks")
            self._naming.captures["ranks"] = f"{known},{found['rank']}" if known else found["rank"]
        elif "ranks" in self._naming.captures or self._order - self._naming.place.order > _PROMISE:
            self._naming = None

    def _complete(self, found: Exit) -> Exit:
        if found.rank is None:
            found.rank = self._roster.rank_of_process(found.pid, found.local_rank)
        if found.host is None and found.rank is not None:
            found.host = self._host_of(found.rank)
        return found

    def _match(self, text: str, place: Place, entries: Sequence[Signature]) -> None:
        matches: dict[str, dict[str, str]] = {}
        for entry in entries:
            if entry.sources and self._source.kind is not None and self._source.kind not in entry.sources:
                continue
            captures = entry.match(text)
            if captures is not None:
                matches[entry.id] = captures
        for name in speakers(matches, self._catalogue.entries):
            signature = self._catalogue[name]
            if signature.role is SignatureRole.NOISE:
                continue
            hit = Hit(signature, matches[name], place)
            self._found.hits.append(hit)
            if Says.NAMES_RANK in signature.says and not {"rank", "ranks"} & hit.captures.keys():
                self._naming = hit
