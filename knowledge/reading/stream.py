"""One source, line by line: every line is attributed, and looked at by whoever may want it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor

from knowledge.catalogue import Catalogue
from knowledge.reading import exits
from knowledge.reading.bundle import OF_ONE_HOST
from knowledge.reading.evidence import CaseEvidence, Exit, Hit, Place, Process, Pulse, RankStory
from knowledge.reading.marks import ENDS, FINISHED, FRAME, STACK, STARTS, TRACEBACK
from knowledge.reading.pods import PodReader
from knowledge.reading.prefixes import Prefix, strip_prefix
from knowledge.reading.progress import says_finished, says_got_over, step_of
from knowledge.reading.regions import MANY_RANKS, ONE_RANK, Region, read_regions
from knowledge.reading.roster import KINDS_OF_RANKS, Roster
from knowledge.reading.stacks import StackReader
from knowledge.reading.syslog import host_of_line
from knowledge.reading.text import lines_of, pieces, without_colours
from knowledge.reading.tracebacks import Recorded, TracebackReader, bare, folded
from knowledge.scanning import Candidate, speakers
from knowledge.signature import Says, Signature, SourceKind

_ALONE = re.compile(r"^\s*(?:/job:\w+/replica:\d+/task:)?(?P<rank>\d{1,6})!?(?:\s*|: \[.*)$")
_PROMISE = 3  # lines within which ranks must follow a line that promises them
_LAST_WORDS = 3
_FIRST = 40  # lines of a rank in which its first time is looked for
_IGNORED = "Exception ignored in"  # Python says so of an exception that ends nothing
_At = tuple[int, int]  # the number of a line in its region, from 1, and the bytes of the file before that
_PLAIN = 24  # plain lines of a rank that are kept until something happens
_OFTEN = 2  # times that a rank is heard saying the same in the middle of a large file


class StreamReader:
    """Reads one source into evidence of its own, which is absorbed into the case's afterwards."""

    def __init__(
        self,
        roster: Roster,
        processes: Mapping[int, Process],
        catalogue: Catalogue,
        year: int,
        threads: Executor | None = None,
    ) -> None:
        self._roster = roster
        self._source = roster.source
        self._processes = processes
        self._catalogue = catalogue
        self._year = year
        self._threads = threads
        self._found = CaseEvidence()
        self._tracebacks: dict[int | None, TracebackReader] = {}
        self._recorded = Recorded()
        self._stacks: dict[int | None, StackReader] = {}
        self._exits = exits.ExitReader()
        self._pods = PodReader()
        self._before: dict[int | None, str] = {}  # the last watched line of each rank
        self._naming: Hit | None = None  # a line that names its ranks on the lines that follow
        self._order = 0
        self._of_ranks = False
        self._plain: dict[int | None, deque[tuple[str, _At, int, tuple[Prefix, str] | None, bool]]] = defaultdict(
            lambda: deque(maxlen=_PLAIN)
        )
        self._heard: Counter[int | None] = Counter()  # plain lines of each rank since its last watched one
        self._said: Counter[tuple[int | None, Candidate]] = Counter()  # what a rank said in the middle of a large file
        self._again: dict[int, Counter[Candidate]] = {}  # what each said at the end of one since its last sign of life
        self._latest: dict[tuple[int | None, Candidate], tuple[str, Place]] = {}  # the last time that it was said again
        self._window = self._late = False
        self._looked: Counter[int] = Counter()  # lines of each rank in which its first time was looked for

    def read(self) -> CaseEvidence:
        """Read the source. Raises UnreadableEvidence."""
        source = self._source
        self._of_ranks = source.kind in KINDS_OF_RANKS
        plan = ONE_RANK if source.rank is not None else MANY_RANKS
        cut = False
        with source.open() as stream:
            for region in read_regions(stream, self._catalogue.scanner.literals, plan, self._threads):
                self._read_region(region)
                cut = region.cut
        for rank in list(self._plain):
            self._settle(rank)
        self._take_bare_ends()
        self._match_latest()
        self._found.pods = self._pods.finish()
        for rank, reader in self._stacks.items():
            stack = reader.finish()
            if stack is not None and rank is not None:
                self._found.story(self._roster.attempt, rank).stacks.append(stack)
        unfinished = {rank: begun for rank, reader in self._tracebacks.items() if (begun := reader.unfinished)}
        for rank in {*unfinished, source.rank} if cut else unfinished:
            if rank is not None:
                story = self._found.story(self._roster.attempt, rank)
                story.torn, story.unfinished = story.last, unfinished.get(rank)
        return self._found

    def _read_region(self, region: Region) -> None:
        data = without_colours(region.data)
        raws: list[str] | list[bytes] = lines_of(data) or data.split(b"\n")
        if not raws[-1]:
            raws.pop()
        candidates = self._catalogue.scanner.candidates(data)
        self._found.bytes += len(region.data)
        self._found.lines += len(raws)
        self._window = region.window
        self._late = region.offset > 0 and not region.window
        index = 0
        for stop in (*candidates, len(raws)):
            while index < stop:
                if self._busy():
                    self._read_raw(raws[index], (index + 1, region.offset), None)
                    index += 1
                else:
                    self._hear(raws, index, stop, region.offset)
                    index = stop
            if stop < len(raws):
                self._read_raw(raws[stop], (stop + 1, region.offset), candidates[stop])
                index = stop + 1

    def _read_raw(self, raw: str | bytes, at: _At, candidate: Candidate | None) -> None:
        if not raw and not self._tracebacks and not self._stacks and self._naming is None:
            self._order += 1  # millions of blank lines fit into a small archive
            return
        finished = candidate is not None and not candidate.marks.isdisjoint(FINISHED)
        if candidate is not None and not candidate.entries and candidate.marks <= FINISHED:
            candidate = None
        for piece in (raw,) if isinstance(raw, str) else pieces(raw):
            self._order += 1
            self._read_line(piece, at, candidate, finished)

    def _hear(self, raws: Sequence[str | bytes], start: int, stop: int, offset: int) -> None:
        """Take plain lines of one rank's own file. The last ones before something happens are enough; they are split
        when they turn out to be these."""
        rank = self._source.rank
        first = max(start, stop - _PLAIN)
        self._order += first - start
        self._heard[rank] += first - start
        plain = self._plain[rank]
        for index in range(first, stop):
            raw = raws[index]
            for piece in (raw,) if isinstance(raw, str) else pieces(raw):
                self._order += 1
                self._heard[rank] += 1
                plain.append((piece, (index + 1, offset), self._order, None, False))

    def _busy(self) -> bool:
        """Whether the next plain line may matter to somebody at once; always in a source of many ranks."""
        rank = self._source.rank
        return bool(
            rank is None
            or not self._of_ranks
            or self._tracebacks
            or self._stacks
            or self._naming
            or self._looked[rank] < _FIRST
        )

    def _read_line(self, line: str, at: _At, candidate: Candidate | None, finished: bool) -> None:
        prefix, text = strip_prefix(line, self._roster.habits)
        rank = self._roster.rank_of(prefix, text)
        if self._of_ranks and self._source.rank is None:
            rank = self._recorded.rank_of(rank, text)
        if self._window and candidate is not None and self._said_before(rank, candidate):
            return
        watched = candidate is not None or rank in self._tracebacks or rank in self._stacks or self._naming is not None
        watched = watched or self._exits.amid
        if not text or text.isspace():
            if watched:
                self._watch("", self._place(line, at, rank, prefix), prefix.tagged)
            return
        if rank is not None and self._of_ranks and self._looked[rank] < _FIRST:
            self._look_for_time(self._place(line, at, rank, prefix), rank)
        if self._source.kind is SourceKind.KUBERNETES:
            prefix.host = self._roster.pod_of(text, self._found)
        elif self._source.kind in OF_ONE_HOST:
            prefix.host = prefix.host or host_of_line(line)
        if not watched and self._of_ranks:
            finished = finished and says_finished(text)
            self._plain[rank].append((line, at, self._order, (prefix, text), finished))
            self._heard[rank] += 1
            if finished:
                self._settle(rank)
            return
        self._settle(rank)
        marks = candidate.marks if candidate else frozenset()
        if marks and self._source.attempt is None and not marks.isdisjoint(STARTS):
            for other in list(self._plain):
                self._settle(other)
            attempt = self._roster.attempt
            self._roster.meet_again(text)
            if self._roster.attempt > attempt:
                self._looked.clear()
        place = self._place(line, at, rank, prefix)
        if self._of_ranks:
            self._live(place, text, finished)
        if self._source.kind is SourceKind.KUBERNETES:
            self._pods.feed(text, place)
        self._watch(text, place, prefix.tagged, stack=STACK in marks)
        if self._exits.amid or (marks and not marks.isdisjoint(ENDS)):
            self._found.exits.extend(self._complete(found) for found in self._exits.feed(text, place))
        if candidate and candidate.entries:
            if self._said_again(rank, candidate):
                self._latest[rank, candidate] = text, place
            else:
                self._match(text, place, candidate.entries.values())

    def _place(self, line: str, at: _At, rank: int | None, prefix: Prefix, order: int | None = None) -> Place:
        host = prefix.host or prefix.pod or self._host_of(rank)
        local = prefix.local_rank if rank is None else None
        return Place(
            self._source, at[0], order or self._order, line, rank, host, self._roster.attempt, local, self._year, at[1]
        )  # fmt: skip

    def _said_before(self, rank: int | None, candidate: Candidate) -> bool:
        """Whether a line repeats what this rank said often enough, in a storm from which only its first words matter."""
        if rank in self._tracebacks or rank in self._stacks or self._naming is not None:
            return False
        self._said[rank, candidate] += 1
        return self._said[rank, candidate] > _OFTEN

    def _said_again(self, rank: int | None, candidate: Candidate) -> bool:
        """The same of the end of a large file: its first and last words matter since the rank's last sign of life."""
        if not self._late or rank is None or rank in self._tracebacks or self._naming is not None:
            return False
        said = self._again.setdefault(rank, Counter())
        said[candidate] += 1
        return said[candidate] > _OFTEN

    def _match_latest(self) -> None:
        for (_, candidate), (text, place) in self._latest.items():
            self._match(text, place, candidate.entries.values())
        if self._latest:
            self._found.hits.sort(key=lambda hit: hit.place.order)

    def _look_for_time(self, place: Place, rank: int) -> None:
        """Note a rank's first line with a time: ranks start at about the same moment, so it tells of their clocks."""
        self._looked[rank] += 1
        if place.seconds is not None:
            self._looked[rank] = _FIRST
            self._found.story(place.attempt, rank).first = place

    def _settle(self, rank: int | None) -> None:
        """Read what matters of the plain lines of a rank since the last watched one: their end."""
        plain = self._plain.get(rank)
        if not plain:
            return
        story = self._found.story(self._roster.attempt, rank) if rank is not None else None
        latest: Place | None = None
        words: list[Place] = []
        beats: list[tuple[Place, int]] = []
        for line, at, order, split, finished in reversed(plain):
            prefix, text = split or strip_prefix(line, self._roster.habits)
            if not text or text.isspace():
                continue
            step = step_of(text)
            if step is None and len(words) == _LAST_WORDS and not finished:
                continue
            place = self._place(line, at, rank, prefix, order)
            if story and latest is None:
                latest = story.last = place
            if step is not None:
                beats.append((place, step))
            elif len(words) < _LAST_WORDS:
                words.append(place)
            if finished:
                self._finish(place, story)
        for place, step in reversed(beats):
            self._beat(place, step, story)
        if story:
            story.lines += self._heard[rank]
            story.words = [*story.words, *reversed(words)][-_LAST_WORDS:]
        elif words:
            self._found.words[self._source.name] = words[::-1]
        self._heard[rank] = 0
        plain.clear()

    def _live(self, place: Place, text: str, finished: bool) -> None:
        """Note a watched line as a sign of life."""
        story = self._found.story(place.attempt, place.rank) if place.rank is not None else None
        if story:
            story.lines += 1
            story.last = place
        step = step_of(text)
        if step is not None:
            self._beat(place, step, story)
        if finished and says_finished(text):
            self._finish(place, story)

    def _beat(self, place: Place, step: int, story: RankStory | None) -> None:
        self._pulse(place.attempt).beat(place)
        if place.rank is not None:
            for candidate in self._again.pop(place.rank, ()):
                self._latest.pop((place.rank, candidate), None)
        if story:
            story.last_progress = place
            story.last_step = step if step >= 0 else story.last_step
            if step >= 0:
                story.pace(step, place)

    def _pulse(self, attempt: int) -> Pulse:
        pulse = self._found.pulses.get(attempt)
        if pulse is None:
            pulse = self._found.pulses[attempt] = Pulse()
        return pulse

    def _finish(self, place: Place, story: RankStory | None) -> None:
        self._pulse(place.attempt).finished = place
        if story:
            story.finished = place

    def _take_bare_ends(self) -> None:
        """Whose last words are an exception has failed with it, also where only that line was kept."""
        lasts = [story.last for story in self._found.stories.values() if story.last and story.last in story.words[-1:]]
        lasts += [words[-1] for words in self._found.words.values() if words[-1].order == self._order]
        for place in lasts:
            prefix, text = strip_prefix(place.text, self._roster.habits)
            if whole := bare(text, place, prefix.tagged):
                self._found.tracebacks.append(whole)

    def _watch(self, text: str, place: Place, tagged: bool, *, stack: bool = False) -> None:
        """Feed a line to the readers that are in the middle of something, or begin something with it."""
        if TRACEBACK in text and (whole := folded(text, place, tagged)):
            self._found.tracebacks.append(whole)
        elif TRACEBACK in text or FRAME in text or place.rank in self._tracebacks:
            reader = self._tracebacks.setdefault(place.rank, TracebackReader())
            reader.ignored = reader.ignored or _IGNORED in self._before.get(place.rank, "")
            if TRACEBACK in text:
                reader.warned = says_got_over(self._line_before(place))
            finished = reader.feed(text, place, tagged)
            if finished is not None:
                self._found.tracebacks.append(finished)
            if reader.idle:
                del self._tracebacks[place.rank]
        if place.rank is not None and (stack or place.rank in self._stacks):
            stacks = self._stacks.setdefault(place.rank, StackReader())
            found = stacks.feed(text, place)
            if found is not None:
                self._found.story(place.attempt, place.rank).stacks.append(found)
            if stacks.idle:
                del self._stacks[place.rank]
        if self._naming is not None:
            self._name_ranks(text)
        self._before[place.rank] = text

    def _line_before(self, place: Place) -> str:
        """What the rank said right before a line, where that was no line of the catalogue's."""
        words = self._found.story(place.attempt, place.rank).words if place.rank is not None else []
        return words[-1].text if words and words[-1].order == place.order - 1 else ""

    def _host_of(self, rank: int | None) -> str | None:
        if rank is not None:
            known = self._processes.get(rank)
            if known and known.host:
                return known.host
            if self._source.kind is SourceKind.LAUNCHER and self._source.folder_host:
                return None  # that is where the launcher ran
        return self._source.host

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

    def _match(self, text: str, place: Place, entries: Iterable[Signature]) -> None:
        matches: dict[str, dict[str, str]] = {}
        for entry in entries:
            if entry.sources and self._source.kind is not None and self._source.kind not in entry.sources:
                continue
            captures = entry.match(text)
            if captures is not None:
                matches[entry.id] = captures
        for name in speakers(matches, self._catalogue.entries):
            signature = self._catalogue[name]
            hit = Hit(signature, matches[name], place)
            self._found.hits.append(hit)
            if Says.WAITING in signature.says:
                self._settle(None)
                self._found.words_of_waiting.setdefault(self._source.name, self._found.words.get(self._source.name, []))
            if Says.NAMES_RANK not in signature.says or {"rank", "ranks"} & hit.captures.keys():
                continue
            if (pid := hit.number("pid")) is None:
                self._naming = hit
            elif (rank := self._roster.rank_of_process(pid, None)) is not None:
                hit.captures["rank"] = str(rank)
