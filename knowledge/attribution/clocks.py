"""Hosts' clocks: how far each is from the others, by moments that all ranks share.

Clocks run apart by seconds, and by whole hours where hosts write different time zones. Ranks that train together make the
same step, and give up on the same collective, at the same moment; they start at about the same moment. What cannot be
compared is not compared: then causes decide, not times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from statistics import median

from knowledge.attribution.view import CaseView
from knowledge.reading.evidence import Place

Clock = tuple[str, bool]
"""A host, and whether its lines tell their zone: the same host may write both."""

Moment = tuple[str, str, str]
"""What ranks share: its kind ("step", "timeout"), the process group, and its number."""

SURE = 2.0
"""Seconds by which the clocks of a well-kept cluster differ."""

_TIMEOUT_DOUBT = 5.0  # seconds: ranks begin to wait at different moments
_START_DOUBT = 600.0  # seconds within which ranks of one job begin to write
_START_TOLERANCE = 15.0  # seconds of it that do not yet speak against well-kept clocks
_HOUR = 3600.0


@dataclass(slots=True, frozen=True)
class Offset:
    """What to take from a clock's readings to have the reference's, and by how much that may be wrong. Seconds."""

    seconds: float
    doubt: float


_UNKNOWN = Offset(0.0, inf)


@dataclass(slots=True)
class Clocks:
    """The clocks of one job."""

    view: CaseView
    offsets: dict[Clock, Offset]

    def of(self, place: Place) -> Clock:
        """The clock by which a line was written."""
        return _clock(self.view, place)

    def seconds(self, place: Place) -> float | None:
        """When a line was written, by the reference clock as far as `doubt` says; None where it has no time."""
        if place.seconds is None:
            return None
        return place.seconds - self.offsets.get(self.of(place), _UNKNOWN).seconds

    def doubt(self, one: Place, other: Place) -> float:
        """Seconds by which two lines' times, as `seconds` gives them, may be wrong against each other."""
        if self.of(one) == self.of(other):
            return 0.0
        return max(self.offsets.get(self.of(place), _UNKNOWN).doubt for place in (one, other))


def estimate(view: CaseView, places: Iterable[Place]) -> Clocks:
    """Compare the clocks by which `places` were written: all with the one that most ranks write by."""
    clocks = {_clock(view, place) for place in places if place.seconds is not None}
    starts: dict[Clock, list[float]] = {}
    shared: dict[Moment, dict[Clock, list[float]]] = {}
    for rank, story in view.stories.items() if len(clocks) > 1 else ():
        if story.first is not None and story.first.seconds is not None:
            starts.setdefault(_clock(view, story.first), []).append(story.first.seconds)
        moments: dict[Moment, Place] = {("step", "", str(step)): place for step, place in story.steps.items()}
        for hit in view.waiting.get(rank, []):
            if seq := hit.captures.get("seq"):
                moments.setdefault(("timeout", hit.captures.get("pg", ""), seq), hit.place)
        for moment, place in moments.items():
            if place.seconds is not None and (clock := _clock(view, place)) in clocks:
                shared.setdefault(moment, {}).setdefault(clock, []).append(place.seconds)
    if not clocks:
        return Clocks(view, {})
    reference = max(sorted(clocks), key=lambda clock: len(starts.get(clock, ())))
    offsets = {clock: _compare(clock, reference, shared, starts) for clock in clocks if clock != reference}
    return Clocks(view, {reference: Offset(0.0, SURE), **offsets})


def _clock(view: CaseView, place: Place) -> Clock:
    host = place.host or (view.host_of(place.rank) if place.rank is not None else None)
    return host or "", place.time is not None and place.time.zoned


def _compare(
    clock: Clock,
    reference: Clock,
    shared: dict[Moment, dict[Clock, list[float]]],
    starts: dict[Clock, list[float]],
) -> Offset:
    apart: dict[str, list[float]] = {}
    for moment, readings in shared.items():
        if clock in readings and reference in readings:
            apart.setdefault(moment[0], []).append(median(readings[clock]) - median(readings[reference]))
    for kind, doubt in (("step", SURE), ("timeout", _TIMEOUT_DOUBT)):
        if kind in apart:
            middle = median(apart[kind])
            return Offset(middle, max(doubt, 2 * median(abs(one - middle) for one in apart[kind])))
    return _by_starts(clock, reference, starts)


def _by_starts(clock: Clock, reference: Clock, starts: dict[Clock, list[float]]) -> Offset:
    """Only the beginnings can be compared: they tell a time zone, and how far the clocks may be apart at most."""
    if clock not in starts or reference not in starts:
        return _UNKNOWN
    apart = median(starts[clock]) - median(starts[reference])
    zone = _HOUR * round(apart / _HOUR)
    rest = abs(apart - zone)
    if rest > _START_DOUBT or (zone and clock[1] and reference[1]):
        return _UNKNOWN
    return Offset(zone, SURE if rest <= _START_TOLERANCE else rest)
