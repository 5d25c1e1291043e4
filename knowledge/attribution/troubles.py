"""A rank's own trouble: an error that it met itself, that it did not get over, and that blames nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from knowledge.attribution.notation import numbers
from knowledge.reading.evidence import Hit, Place, RankStory, Traceback
from knowledge.reading.progress import says_got_over
from knowledge.signature import Says, SignatureRole

OF_THE_GROUP = ("DistBackendError", "DistNetworkError", "DistStoreError", "DistError")
"""Exceptions of torch.distributed: without an entry that says more, they tell of others' trouble."""

LAUNCHERS = ("ChildFailedError", "CalledProcessError", "ProcessRaisedException", "ProcessExitedException")
"""Exceptions by which a launcher tells that a process which it started had failed."""

_WRAPPERS = (
    *LAUNCHERS,
    "RayTaskError", "WorkerGroupError", "SystemExit", "TrainingFailedError", "ActorDiedError", "SignalException",
)  # fmt: skip

Handled = Callable[[Place, int], bool]
"""Whether training went on after a message: its first place, and the order of its last line."""


@dataclass(slots=True)
class Own:
    """A rank's own trouble: a root signature, an uncaught exception, or both on one line."""

    rank: int
    order: int
    hit: Hit | None = None
    traceback: Traceback | None = None

    @property
    def key(self) -> str:
        """What makes two ranks' troubles the same trouble."""
        if self.hit:
            return self.hit.signature.id
        assert self.traceback
        return f"{self.traceback.original.exception}"

    @property
    def place(self) -> Place:
        """The line that tells it."""
        if self.hit:
            return self.hit.place
        assert self.traceback
        return self.traceback.end

    @property
    def seconds(self) -> float | None:
        """When, by the clock of the line, if it has one."""
        return self.place.seconds


def troubles_of(rank: int, hits: Iterable[Hit], tracebacks: Iterable[Traceback], handled: Handled) -> list[Own]:
    """A rank's own troubles that were not `handled`, in the order they were written; rank -1: nobody's."""
    by_line: dict[tuple[str, int], list[Hit]] = {}
    for hit in hits:
        by_line.setdefault((hit.place.source.name, hit.place.order), []).append(hit)
    found: list[Own] = []
    used: set[tuple[str, int]] = set()
    tracebacks = list(tracebacks)
    chained = {id(traceback.chained_to) for traceback in tracebacks if traceback.chained_to}
    for traceback in tracebacks:
        if id(traceback) in chained or handled(traceback.end, traceback.last_order):
            continue
        own = _of_traceback(rank, traceback, by_line, used)
        if own:
            found.append(own)
    for place, same in by_line.items():
        for hit in same:
            if hit.signature.role is SignatureRole.ROOT and place not in used and not _names_others(hit, rank):
                if handled(hit.place, hit.place.order) or says_got_over(hit.place.text):
                    continue
                found.append(Own(rank, hit.place.order, hit=hit))
    return sorted(found, key=lambda own: own.order)


def _of_traceback(
    rank: int, traceback: Traceback, by_line: dict[tuple[str, int], list[Hit]], used: set[tuple[str, int]]
) -> Own | None:
    chain: list[Traceback] = []
    link: Traceback | None = traceback
    while link:
        chain.append(link)
        link = link.chained_to
    for link in reversed(chain):
        places = [(link.end.source.name, order) for order in range(link.end.order, link.last_order + 1)]
        hits = [hit for place in places for hit in by_line.get(place, [])]
        hits = [hit for hit in hits if hit.place.order == link.end.order or not is_last_act(hit)]
        used.update(places)
        root = next(
            (hit for hit in hits if hit.signature.role is SignatureRole.ROOT and not _names_others(hit, rank)), None
        )
        if root:
            return Own(rank, link.end.order, hit=root, traceback=traceback)
        if any(hit.signature.role not in _MERE and not _uncaught(hit, link) for hit in hits):
            return None  # the exception only says that somebody else failed
    name = traceback.original.exception.rsplit(".", 1)[-1]
    own_command = name == "CalledProcessError" and traceback.tagged  # of a rank, not of what started it
    if name == "KeyboardInterrupt" or (name in _WRAPPERS + OF_THE_GROUP and not own_command):
        return None
    return Own(rank, traceback.end.order, traceback=traceback)


_MERE = (SignatureRole.CONFIRMATION, SignatureRole.ADVICE)


def _uncaught(hit: Hit, traceback: Traceback) -> bool:
    """Whether words of clean-up are what ended the program all the same: its own code raised it in the midst of training."""
    inner = traceback.frames[-1] if traceback.frames else None
    return hit.signature.role is SignatureRole.TEARDOWN and traceback.tagged and inner is not None and inner.ours


def is_last_act(hit: Hit) -> bool:
    """Whether a line tells only that the rank gave up, as MPI's wrapper of Python does after any exception."""
    return hit.signature.role is SignatureRole.ROOT and hit.signature.cause in ("app-abort", "silent-exit")


def _names_others(hit: Hit, rank: int) -> bool:
    """Whether a line accuses ranks other than the one that wrote it."""
    if Says.NAMES_RANK not in hit.signature.says:
        return False
    named = hit.captures.get("ranks") or hit.captures.get("rank")
    return named is not None and rank not in numbers(named)


_PREPARED = 8  # lines of a rank from what was queued before a thread of it died


def dead_thread(story: RankStory) -> Own | None:
    """The exception of a thread after which its rank went on for no more than what that thread had prepared."""
    dead = [one for one in story.tracebacks if one.frames and one.frames[0].function == "_bootstrap_inner"]
    owns = troubles_of(story.rank, story.hits, dead[-1:], lambda *_: False)
    own, end = next((own for own in owns if own.traceback), None), story.last
    if own is None or end is None or own.traceback is None or end.source != own.place.source:
        return None
    return own if end.order - own.traceback.last_order <= _PREPARED else None
