"""What reading leaves behind: hits, tracebacks, exits and one story a rank. Attribution sees nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

from knowledge.job import JobFacts
from knowledge.reading.bundle import Source
from knowledge.reading.clocks import Timestamp
from knowledge.signature import Signature


@dataclass(slots=True, frozen=True)
class Place:
    """Where a line stands and who wrote it. `order` grows through one source (lines, and pieces of lines)."""

    source: Source
    line: int
    order: int
    text: str
    rank: int | None
    host: str | None
    time: Timestamp | None
    attempt: int = 0
    local: int | None = None  # the local rank in front of the line, where the rank itself is not known

    @property
    def seconds(self) -> float | None:
        """Seconds since the epoch by the line's own clock, or None."""
        return self.time.seconds if self.time else None


@dataclass(slots=True, frozen=True)
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
    by: str = ""  # "torchrun", "srun", "mpirun", "deepspeed", "slurmd", "kubernetes"
    last_spawned: bool = False  # the launcher names a command line that need not be the failing one


@dataclass(slots=True)
class Process:
    """What start-up lines say about a rank."""

    rank: int
    host: str | None = None
    local_rank: int | None = None
    pid: int | None = None
    bus: str | None = None
    address: str | None = None


@dataclass(slots=True)
class Pulse:
    """Signs of life of one attempt, from whichever rank they come."""

    first: Place | None = None  # the first progress line
    last: Place | None = None
    count: int = 0
    finished: Place | None = None  # somebody said that training was done

    @property
    def pace(self) -> float:
        """Seconds between progress lines, on average; 0 where not known."""
        if not self.first or not self.last or self.count < 2 or self.first.seconds is None or self.last.seconds is None:
            return 0.0
        return max(0.0, (self.last.seconds - self.first.seconds) / (self.count - 1))


@dataclass(slots=True)
class RankStory:
    """One rank in one attempt, as its own lines tell it."""

    rank: int
    attempt: int = 0
    lines: int = 0
    first: Place | None = None
    last: Place | None = None  # the last line that is not noise of the launcher
    words: list[Place] = field(default_factory=list)  # the last lines that are neither progress nor a catalogue's
    last_step: int | None = None
    last_progress: Place | None = None
    finished: Place | None = None  # it said that training was done
    truncated: bool = False  # the file ends in the middle of a line
    hits: list[Hit] = field(default_factory=list)
    tracebacks: list[Traceback] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)


@dataclass(slots=True)
class CaseEvidence:
    """All that was read about one job."""

    job: JobFacts
    sources: list[Source] = field(default_factory=list)
    stories: dict[tuple[int, int], RankStory] = field(default_factory=dict)  # (attempt, rank)
    processes: dict[int, Process] = field(default_factory=dict)  # by rank, the latest attempt's
    hits: list[Hit] = field(default_factory=list)  # all, also those of no rank
    tracebacks: list[Traceback] = field(default_factory=list)  # all
    exits: list[Exit] = field(default_factory=list)
    world_size: int | None = None
    addresses: dict[str, str] = field(default_factory=dict)  # ip → host
    pod_nodes: dict[str, str] = field(default_factory=dict)  # pod → node
    interfaces: dict[str, tuple[str, str]] = field(default_factory=dict)  # host → network interface and its address
    pulses: dict[int, Pulse] = field(default_factory=dict)  # by attempt
    last_lines: dict[str, Place] = field(default_factory=dict)  # by source name
    bytes: int = 0
    lines: int = 0

    @property
    def last_attempt(self) -> int:
        """The number of the latest attempt that left lines."""
        return max((attempt for attempt, _ in self.stories), default=0)

    def story(self, attempt: int, rank: int) -> RankStory:
        """The story of a rank in an attempt, begun when it is asked for."""
        key = (attempt, rank)
        if key not in self.stories:
            self.stories[key] = RankStory(rank=rank, attempt=attempt)
        return self.stories[key]
