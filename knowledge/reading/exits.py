"""How launchers and the scheduler say that a process ended: torchrun, srun, mpirun, Hydra, DeepSpeed, slurmd."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from knowledge.reading.bundle import Source
from knowledge.reading.evidence import CaseEvidence, Exit, Place
from knowledge.tables.exits import signal_of, signals

_WORDS = {signal.word.lower(): number for number, signal in signals().items()} | {"out of memory": 9}
"""How srun names a signal. A step that exceeded its memory was killed."""
_NAMES = {signal.name: number for number, signal in signals().items()}

_TORCHRUN_FAILED = re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\)")
_AGENT = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +(?P<pid>\d+) ")
_BLOCK_HOST = re.compile(r"^\s*host\s+: (?P<host>\S+)")
_BLOCK_RANK = re.compile(r"^\s*rank\s+: (?P<rank>\d+) \(local_rank: (?P<local>\d+)\)")
_BLOCK_CODE = re.compile(r"^\s*exitcode\s+: (?P<code>-?\d+) \(pid: (?P<pid>\d+)\)")
_SRUN = re.compile(r"srun: error: (?P<host>[^\s:]+): tasks? (?P<tasks>[\d,-]+): (?P<how>.+)$")
_SRUN_CODE = re.compile(r"Exited with exit code (?P<code>\d+)")
_MPI_SIGNAL = re.compile(
    r"process rank (?P<rank>\d+) with PID (?P<pid>\d+) on node (?P<host>\S+) exited on signal (?P<signal>\d+)"
)
_MPI_NOTICE = "noticed that process rank "
_MPI_NAME = re.compile(r"Process name: \[(?:\[\d+,\d+\],|prterun-\S+@\d+,)(?P<rank>\d+)\]")
_MPI_CODE = re.compile(r"Exit code:\s+(?P<code>\d+)")
_HYDRA_PID = re.compile(r"PID (?P<pid>\d+) RUNNING AT (?P<host>\S+)")
_HYDRA_RANK = re.compile(r"RANK (?P<rank>\d+) PID (?P<pid>\d+) RUNNING AT (?P<host>\S+)")
_HYDRA_CODE = re.compile(r"EXIT CODE: (?P<code>\d+)|KILLED BY SIGNAL: (?P<signal>\d+)")
_DEEPSPEED = re.compile(r"--local_rank=(?P<local>\d+)'.*exits with return code = (?P<code>-?\d+)")
_SLURMD = re.compile(
    r"\[\d+\.\w+\] task (?P<rank>\d+) \((?P<pid>\d+)\) exited(?: with exit code (?P<code>\d+)|\. Killed by signal (?P<signal>\d+))"
)
_PARENT = re.compile(
    r"(?:--local[-_]rank[= ',]+(?P<local>\d{1,4})\b.{0,1500})?died with <Signals\.SIG\w{1,9}: (?P<signal>\d{1,2})>"
)
_COMPOSER = re.compile(r"[Gg]lobal rank (?P<rank>\d{1,6}) \(PID (?P<pid>\d+)\) exited with code (?P<code>-?\d+)")
_PADDLE = re.compile(r"the trainer process with rank=\[(?P<ranks>[\d, ]{1,2000})\] was aborted")
_LIGHTNING = re.compile(
    r"(?:\[rank: (?P<local>\d+)\] )?Child process with PID (?P<pid>\d+) terminated with code (?P<code>-?\d+)"
)
_SPAWN = re.compile(r"process (?P<rank>\d+) terminated with (?:signal (?P<signal>SIG\w+)|exit code (?P<code>\d+))")
_SITE = re.compile(
    r"\b(?:[Rr]ank|RANK|[Ww]orker|[Tt]ask|[Tt]rainer|[Pp]roc(?:ess)?)(?: ?[#:=]? ?| rank )(?P<rank>\d{1,6})\b(?: ?\([^()]{0,80}\))?,? "
    r"(?:has |was )?(?:exited|died|ended|terminated|finished|failed|returned|crashed|killed)\b[^.;]{0,20}?"
    r"\b(?:status|code|rc|returncode|signal)[ =:]{1,3}(?P<code>-?\d{1,3})\b"
)
"""A site's own launcher, of which every one has its own words."""


MOST = 1 << 17
"""Ranks or tasks that one line names at most; what goes on beyond is a misreading, or somebody's trap."""


def expand(ranges: str) -> list[int]:
    """`1,3-5` → [1, 3, 4, 5], the first MOST of them."""
    numbers: list[int] = []
    for part in ranges.split(","):
        low, _, high = part.partition("-")
        if low.isdecimal():
            first, last = int(low), int(high) if high.isdecimal() else int(low)
            numbers.extend(range(first, min(last + 1, first + MOST - len(numbers))))
    return numbers


def counting(case: CaseEvidence) -> set[Source]:
    """The sources that tell by themselves where an attempt ends and the next begins."""
    places = [hit.place for hit in case.hits] + [pulse.last for pulse in case.pulses.values() if pulse.last]
    return {place.source for place in places if place.attempt and place.source.attempt is None}


def number_attempts(exits: Sequence[Exit], last: int, counted: Collection[Source] = ()) -> None:
    """Tell to which attempt the words of torchrun's agents belong, where only the ranks' logs are numbered, or others
    than those that have `counted` attempts themselves.

    An agent says once an attempt that it failed, and lists its workers when it gives up: `last` is the last attempt.
    """
    numbered = {found.place.source for found in exits if found.place.attempt or found.place.source.attempt is not None}
    numbered.update(counted)
    agents: dict[tuple[Source, str], list[Place]] = {}
    for found in exits:
        place = found.place
        if found.by != "torchrun" or place.source in numbered:
            continue
        if not _TORCHRUN_FAILED.search(place.text):
            place.attempt = last
        else:
            agent = _AGENT.search(place.text)
            agents.setdefault((place.source, agent["pid"] if agent else ""), []).append(place)
    for places in agents.values():
        for later, place in enumerate(reversed(places)):
            place.attempt = max(0, last - later)


def _shell(code: int) -> int:
    """A shell's 128+N means signal N."""
    signal = signal_of(code)
    return code if signal is None else -signal


class ExitReader:
    """Reads the launcher's words of one source. Blocks span lines, so it keeps a little state."""

    def __init__(self) -> None:
        self._root_cause = False
        self._site = False  # a site's own launcher told of an end in failure
        self._tasks = 0  # that srun named so far
        self._host: str | None = None
        self._rank: tuple[int, int] | None = None
        self._mpi_rank: int | None = None
        self._notice: tuple[str, Place] | None = None  # of Open MPI, which breaks its lines anywhere
        self._hydra: tuple[int | None, str] | None = None

    @property
    def amid(self) -> bool:
        """Whether the next line, whatever it is, may go on with what the last one began to tell."""
        return self._notice is not None

    def feed(self, text: str, place: Place) -> Iterator[Exit]:
        """Take one line with a mark of `marks.ENDS`, or any while `amid` one; yield the exits it tells of."""
        if self._notice is not None:
            (begun, place), self._notice = self._notice, None
            text = f"{begun} {text.strip()}"
        elif _MPI_NOTICE in text and not _MPI_SIGNAL.search(text):
            self._notice = text, place
            return
        if "Root Cause (first observed failure)" in text:
            self._root_cause = True
        elif found := _BLOCK_HOST.match(text):
            self._host = found["host"]
        elif found := _BLOCK_RANK.match(text):
            self._rank = (int(found["rank"]), int(found["local"]))
        elif found := _BLOCK_CODE.match(text):
            if self._rank:
                yield Exit(
                    place, int(found["code"]), self._rank[0], self._rank[1], self._host, int(found["pid"]),
                    first=self._root_cause, by="torchrun",
                )  # fmt: skip
            self._rank, self._root_cause = None, False
        elif found := _TORCHRUN_FAILED.search(text):
            code, local = int(found["code"]), int(found["local"])
            yield Exit(place, code, None, local, None, int(found["pid"]), first=True, by="torchrun")
        elif found := _SRUN.search(text):
            yield from self._srun(found, place)
        elif found := _MPI_SIGNAL.search(text):
            yield Exit(place, -int(found["signal"]), int(found["rank"]), host=found["host"], first=True, by="mpirun")
        elif found := _MPI_NAME.search(text):
            self._mpi_rank = int(found["rank"])
        elif self._mpi_rank is not None and (found := _MPI_CODE.search(text)):
            yield Exit(place, _shell(int(found["code"])), self._mpi_rank, first=True, by="mpirun")
            self._mpi_rank = None
        elif found := _HYDRA_RANK.search(text) or _HYDRA_PID.search(text):
            rank = found.groupdict().get("rank")
            self._hydra = (int(rank) if rank else None, found["host"])
        elif self._hydra and (found := _HYDRA_CODE.search(text)):
            code = -int(found["signal"]) if found["signal"] else _shell(int(found["code"]))
            yield Exit(place, code, self._hydra[0], host=self._hydra[1], first=True, by="mpirun")
            self._hydra = None
        elif found := _DEEPSPEED.search(text):
            yield Exit(
                place, int(found["code"]), None, int(found["local"]), first=True, by="deepspeed", last_spawned=True
            )
        elif found := _SLURMD.search(text):
            code = -int(found["signal"]) if found["signal"] else _shell(int(found["code"]))
            yield Exit(place, code, int(found["rank"]), pid=int(found["pid"]), by="slurmd")
        elif found := _SPAWN.search(text):
            name = found["signal"]
            code = -_NAMES.get(name, 9) if name else int(found["code"])
            yield Exit(place, code, int(found["rank"]), first=True, by="spawn")
        elif found := _PARENT.search(text):
            child = int(found["local"]) if found["local"] else None
            yield Exit(
                place, -int(found["signal"]), None, child, first=True, by="parent", last_spawned=child is not None
            )
        elif found := _LIGHTNING.search(text):
            child = int(found["local"]) if found["local"] else None
            yield Exit(place, int(found["code"]), None, child, pid=int(found["pid"]), first=True, by="lightning")
        elif found := _COMPOSER.search(text):
            yield Exit(place, int(found["code"]), int(found["rank"]), pid=int(found["pid"]), by="composer")
        elif found := _PADDLE.search(text):
            aborted = expand(found["ranks"].replace(" ", ""))
            for rank in aborted:  # its exit code is not told; what a process says is 1
                yield Exit(place, 1, rank, first=len(aborted) == 1, by="paddle")

        elif found := _SITE.search(text):
            code = -int(found["code"]) if "signal" in found[0] else _shell(int(found["code"]))
            first, self._site = not self._site and code not in (0, -15), self._site or code not in (0, -15)
            yield Exit(place, code, int(found["rank"]), first=first, by="site")

    def _srun(self, found: re.Match[str], place: Place) -> Iterator[Exit]:
        how = found["how"]
        number = _SRUN_CODE.search(how)
        if number:
            code = _shell(int(number["code"]))
        else:
            word = how.lower().split(" (core")[0].strip(" .")
            if word not in _WORDS:
                return
            code = -_WORDS[word]
        tasks = expand(found["tasks"])[: 2 * MOST - self._tasks]
        self._tasks += len(tasks)
        for task in tasks:
            yield Exit(place, code, task, host=found["host"], by="srun")
