"""What reading leaves behind: hits, tracebacks, exits and one story a rank. Attribution sees nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

from knowledge.job import JobFacts
from knowledge.reading.bundle import Source
from knowledge.reading.clocks import Timestamp, parse_time
from knowledge.reading.flight_recorder import Dump
from knowledge.signature import Signature


class Place:
    """Where a line stands and who wrote it. `order` grows through one source (lines, and pieces of lines).

    `local` is the local rank in front of the line, where the rank itself is not known. What costs time is done when asked
    for: parsing the line's time, and counting the lines of the file before the region in which the line was found.
    """

    __slots__ = ("_nth", "_region", "_time", "attempt", "host", "local", "order", "rank", "source", "text", "year")

    def __init__(
        self,
        source: Source,
        line: int,
        order: int,
        text: str,
        rank: int | None,
        host: str | None,
        attempt: int,
        local: int | None,
        year: int,
        region: int = 0,
    ) -> None:
        """`line` is the number of the line, from 1, in what follows the first `region` bytes of the file."""
        self.source, self.order, self.text = source, order, text
        self._nth, self._region = line, region
        self.rank, self.host, self.attempt, self.local, self.year = rank, host, attempt, local, year
        self._time: Timestamp | bool | None = False

    def __reduce__(self) -> tuple[type[Place], tuple[object, ...]]:
        """Places are many among what forked readers send back: as arguments they are half as long."""
        return Place, (
            self.source, self._nth, self.order, self.text, self.rank, self.host, self.attempt, self.local, self.year,
            self._region,
        )  # fmt: skip

    @property
    def line(self) -> int:
        """The number of the line in its file, from 1. Raises UnreadableEvidence."""
        return self._nth + self.source.lines_before(self._region)

    @property
    def time(self) -> Timestamp | None:
        """The line's own timestamp, or None."""
        if isinstance(self._time, bool):
            self._time = parse_time(self.text, self.year)
        return self._time

    @property
    def seconds(self) -> float | None:
        """Seconds since the epoch by the line's own clock, or None."""
        return self.time.seconds if self.time else None


@dataclass(slots=True, eq=False)
class Hit:
    """A catalogue entry that matched a line."""

    signature: Signature
    captures: dict[str, str]
    place: Place

    def number(self, name: str) -> int | None:
        """A capture as an integer, or None where it is absent or not a number."""
        try:
            return int(self.captures[name])
        except (KeyError, ValueError):
            return None


@dataclass(slots=True)
class Frame:
    """One frame of a traceback."""

    path: str
    line: int
    function: str

    @property
    def ours(self) -> bool:
        """Whether this is the user's code: not an installed package, the standard library or a frozen module."""
        return not any(
            part in self.path
            for part in ("site-packages", "dist-packages", "/lib/python", "<frozen", "<string>", "/torch/")
        ) and not self.path.startswith("torch/")


@dataclass(slots=True)
class Traceback:
    """One Python traceback. `blocks` are its chained exceptions, the original one first."""

    start: Place
    end: Place
    exception: str  # type name as printed, with module
    message: str
    frames: list[Frame]
    tagged: bool  # printed by torch.distributed's hook for uncaught exceptions
    chained_to: Traceback | None = None  # the exception that this one was raised from or while handling
    last_order: int = 0  # order of the last line that belongs to its message
    warned: bool = False  # a warning that tells of an error got over stands right before it

    @property
    def original(self) -> Traceback:
        """The first exception of the chain."""
        return self.chained_to.original if self.chained_to else self

    @property
    def innermost_user_frame(self) -> Frame | None:
        """The last frame in the user's own code."""
        return next((frame for frame in reversed(self.frames) if frame.ours), None)


@dataclass(slots=True)
class Stack:
    """Where a living process was, by faulthandler or py-spy: function names, innermost first."""

    place: Place
    functions: list[str]


@dataclass(slots=True)
class Exit:
    """How a launcher or the scheduler says that a process ended."""

    place: Place
    code: int  # exit status; negative: ended by that signal
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    first: bool = False  # the launcher says that this was the first it saw
    by: str = ""  # "torchrun", "srun", "mpirun", "deepspeed", "slurmd", "kubernetes", "paddle", "parent", "site"
    last_spawned: bool = False  # the launcher names a command line that need not be the failing one


@dataclass(slots=True)
class Ended:
    """A container of a pod that ended for good, as far as is known. A serving one runs beside the others all along."""

    place: Place
    container: str
    init: bool
    serving: bool
    code: int  # exit status; negative: ended by that signal
    reason: str
    seconds: float | None = None  # when, since the epoch


@dataclass(slots=True)
class Pod:
    """One pod."""

    name: str
    node: str | None = None
    address: str | None = None
    ranks: range | None = None
    main: str | None = None  # the container that trains
    replaced: bool = False  # another one has its place in the last attempt
    ends: list[Ended] = field(default_factory=list)

    @property
    def host(self) -> str:
        """The node that it ran on, where that is known."""
        return self.node or self.name

    @property
    def failed_init(self) -> Ended | None:
        """The init container that failed: nothing after it was started."""
        return next((ended for ended in self.ends if ended.init and not ended.serving and ended.code != 0), None)

    @property
    def failed_aside(self) -> Ended | None:
        """The container that failed the pod although the one that trains ended well."""
        if self.ended is None or self.ended.code != 0:
            return None
        aside = (ended for ended in self.ends if not ended.init and ended.container != self.main)
        return next((ended for ended in aside if ended.code != 0), None)

    @property
    def ended(self) -> Ended | None:
        """How the container that trains ended."""
        return next((ended for ended in self.ends if not ended.init and ended.container == self.main), None)


@dataclass(slots=True)
class Process:
    """What start-up lines say about a rank."""

    rank: int
    host: str | None = None
    local_rank: int | None = None
    pid: int | None = None
    bus: str | None = None
    address: str | None = None


_STEPS = 16  # of one rank, by which its host's clock is compared with others'
_INTERVALS = 24  # progress lines over which the pace is measured


@dataclass(slots=True)
class Pulse:
    """Signs of life of one attempt, from whichever rank they come."""

    last: Place | None = None  # the last progress line
    count: int = 0  # progress lines that were read; most of a long log's are not
    finished: Place | None = None  # somebody said that training was done
    recent: list[Place] = field(default_factory=list)  # the last progress lines of one source

    def beat(self, place: Place) -> None:
        """Note a progress line."""
        last = self.last
        if last is None or (last.source is not place.source and last.source != place.source):
            self.recent = []
        self.last = place
        self.count += 1
        self.recent.append(place)
        del self.recent[:-_INTERVALS]

    @property
    def pace(self) -> float:
        """Seconds between progress lines of late, on average; 0 where not known."""
        times = [place.seconds for place in self.recent if place.seconds is not None]
        return max(0.0, (times[-1] - times[0]) / (len(times) - 1)) if len(times) > 1 else 0.0

    def absorb(self, other: Pulse) -> None:
        """Take what another source told of the same attempt."""
        newer = self.last is None or (
            other.last is not None and (other.last.seconds or 0.0) >= (self.last.seconds or 0.0)
        )
        if other.last is not None and newer:
            self.last, self.recent = other.last, other.recent
        self.count += other.count
        self.finished = other.finished or self.finished


@dataclass(slots=True)
class RankStory:
    """One rank in one attempt, as its own lines tell it."""

    rank: int
    attempt: int = 0
    lines: int = 0
    first: Place | None = None  # its first line with a time
    last: Place | None = None
    words: list[Place] = field(default_factory=list)  # the last lines that are neither progress nor a catalogue's
    last_step: int | None = None
    last_progress: Place | None = None
    steps: dict[int, Place] = field(default_factory=dict)  # its last steps, each with its line
    finished: Place | None = None  # it said that training was done
    torn: Place | None = None  # the last line of a file that ends in the middle of one, or of a traceback
    unfinished: Place | None = None  # where a traceback begins whose end is lost
    hits: list[Hit] = field(default_factory=list)
    tracebacks: list[Traceback] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)

    def pace(self, step: int, place: Place) -> None:
        """Note a step; only the last ones are kept."""
        self.steps[step] = place
        if len(self.steps) > _STEPS:
            del self.steps[next(iter(self.steps))]

    def absorb(self, other: RankStory) -> None:
        """Take what a later source told of the same rank."""
        self.lines += other.lines
        self.first = self.first or other.first
        self.last = other.last or self.last
        self.words = other.words or self.words
        self.last_step = other.last_step if other.last_step is not None else self.last_step
        self.last_progress = other.last_progress or self.last_progress
        for step, place in other.steps.items():
            self.pace(step, place)
        self.finished = other.finished or self.finished
        self.torn = self.torn or other.torn
        self.unfinished = self.unfinished or other.unfinished
        self.stacks += other.stacks


_UNKNOWN = JobFacts()  # one for all, since making one costs as much as reading ten lines


@dataclass(slots=True)
class CaseEvidence:
    """All that was read about one job."""

    job: JobFacts = field(default_factory=lambda: _UNKNOWN)
    sources: list[Source] = field(default_factory=list)
    stories: dict[tuple[int, int], RankStory] = field(default_factory=dict)  # (attempt, rank)
    processes: dict[int, Process] = field(default_factory=dict)  # by rank, the latest attempt's
    hits: list[Hit] = field(default_factory=list)  # all, also those of no rank
    tracebacks: list[Traceback] = field(default_factory=list)  # all
    exits: list[Exit] = field(default_factory=list)
    world_size: int | None = None
    addresses: dict[str, str] = field(default_factory=dict)  # ip → host
    pod_nodes: dict[str, str] = field(default_factory=dict)  # pod → node
    words: dict[str, list[Place]] = field(default_factory=dict)  # by source: the last ones of nobody known
    words_of_waiting: dict[str, list[Place]] = field(default_factory=dict)  # the same, when the first gave up waiting
    pods: dict[str, Pod] = field(default_factory=dict)  # by name, as they are described
    pods_started: set[str] = field(default_factory=set)  # of which a container ran
    pods_done: set[str] = field(default_factory=set)  # that came to a good end
    interfaces: dict[str, tuple[str, str]] = field(default_factory=dict)  # host → network interface and its address
    pulses: dict[int, Pulse] = field(default_factory=dict)  # by attempt
    dumps: list[tuple[Source, Dump]] = field(default_factory=list)  # of flight recorders
    refused: list[str] = field(default_factory=list)  # what could not be read, and why, as a fact that is missing
    bytes: int = 0
    lines: int = 0

    @property
    def last_attempt(self) -> int:
        """The number of the latest attempt that left lines."""
        return max((*(attempt for attempt, _ in self.stories), *self.pulses), default=0)

    def story(self, attempt: int, rank: int) -> RankStory:
        """The story of a rank in an attempt, begun when it is asked for."""
        key = (attempt, rank)
        if key not in self.stories:
            self.stories[key] = RankStory(rank=rank, attempt=attempt)
        return self.stories[key]

    def meet(self, other: CaseEvidence) -> None:
        """Take what the head of one source told about processes; sources come in their order."""
        for rank, told in other.processes.items():
            known = self.processes.setdefault(rank, told)
            if known is told:
                continue
            for name in ("host", "local_rank", "pid", "bus", "address"):
                value = getattr(told, name)
                if value is not None:
                    setattr(known, name, value)
        self.addresses.update(other.addresses)
        self.interfaces.update(other.interfaces)
        self.pod_nodes.update(other.pod_nodes)
        self.world_size = max(self.world_size or 0, other.world_size or 0) or None

    def absorb(self, other: CaseEvidence) -> None:
        """Take what one source told; sources come in their order."""
        for key, story in other.stories.items():
            if (known := self.stories.setdefault(key, story)) is not story:
                known.absorb(story)
        for attempt, pulse in other.pulses.items():
            if (same := self.pulses.setdefault(attempt, pulse)) is not pulse:
                same.absorb(pulse)
        self.hits += other.hits
        self.tracebacks += other.tracebacks
        self.exits += other.exits
        self.pod_nodes.update(other.pod_nodes)
        self.pods_started |= other.pods_started
        self.pods_done |= other.pods_done
        self.pods.update(other.pods)
        self.words.update(other.words)
        self.words_of_waiting.update(other.words_of_waiting)
        self.bytes += other.bytes
        self.lines += other.lines

    def settle(self) -> None:
        """Give each rank's story its hits and tracebacks, once all sources are read."""
        for hit in self.hits:
            if hit.place.rank is not None:
                self.story(hit.place.attempt, hit.place.rank).hits.append(hit)
        for traceback in self.tracebacks:
            if traceback.end.rank is not None:
                self.story(traceback.end.attempt, traceback.end.rank).tracebacks.append(traceback)
