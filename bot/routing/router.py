"""From a diagnosis to channels: rules in their order, the job's own wish, quiet hours. Pure: no clock, no network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from bot.routing.channels import MOST_ASKED, asked_for, is_channel_id, named_in
from bot.routing.quiet import held_until, replacement
from bot.routing.settings import Route
from bot.routing.severity import Severity, severity
from bot.settings import Settings
from bot.slack.escape import literal
from knowledge.diagnosis import Diagnosis
from knowledge.job import JobFacts

_SHOWN = 60  # characters of a job's own text in a reason


@dataclass(frozen=True, slots=True)
class Targets:
    """Where to tell a failure. `holds` says until when (aware, UTC) which of `channels` is not to be disturbed.

    `why` and `warnings` are plain text and hold words of the job: escape them where they are shown.
    """

    channels: tuple[str, ...]
    severity: Severity
    holds: Mapping[str, datetime] = field(default_factory=dict)
    why: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def hold_until(self) -> datetime | None:
        """When the first channel may be told, or None: at once."""
        if not self.channels or any(channel not in self.holds for channel in self.channels):
            return None
        return min(self.holds.values())


class Fit(StrEnum):
    """What became of a rule."""

    MATCHED = "matched"
    DIFFERS = "does not match"
    NOT_REACHED = "not reached"
    SET_ASIDE = "set aside"


@dataclass(frozen=True, slots=True)
class Judged:
    """One rule, what became of it, and why. `number` counts from 1, as people do."""

    number: int
    route: Route
    fit: Fit
    why: str

    @property
    def title(self) -> str:
        """The rule as people call it."""
        return f"route {self.number}" + (f" ({self.route.name})" if self.route.name else "")


@dataclass(frozen=True, slots=True)
class _Place:
    """A channel that somebody asked for, until when it is held back for their sake, and the words for it."""

    channel: str
    hold: datetime | None
    why: str


class Router:
    """The rules of the settings, ready to answer."""

    def __init__(self, settings: Settings) -> None:
        self._routes = settings.routes
        self._routing = settings.routing
        self._default = settings.slack.channel
        allow = settings.routing.override_allow
        self._allowed = named_in(settings) if allow is None else allow

    def warnings(self) -> tuple[str, ...]:
        """Return what is odd about the rules themselves; for the start of the service."""
        return tuple(_unreachable(self._routes))

    def targets(self, job: JobFacts, diagnosis: Diagnosis, now: datetime, *, incidents: int = 1) -> Targets:
        """Return where to tell a failure at `now` (aware); `incidents` is how many failed jobs are told as one."""
        rank, because = severity(job, diagnosis, self._routing.bounds, incidents)
        wanted, warnings = self._wanted(job)
        judged = self.judge(job, diagnosis, incidents=incidents)
        places = [_Place(channel, None, "asked for by the job") for channel in wanted]
        for found in judged:
            if found.fit is Fit.MATCHED:
                places += _placed(found, rank, now)
        if not places and not any(found.fit is Fit.MATCHED for found in judged):
            places.append(_Place(self._default, None, "the default channel"))
            if self._routes:
                warnings.append("no route matched; the default channel was used")
        channels, holds, why = self._after_quiet(places, rank, now)
        return Targets(channels, rank, holds, (f"severity {rank}: {because}", *why), tuple(warnings))

    def judge(self, job: JobFacts, diagnosis: Diagnosis, *, incidents: int = 1) -> list[Judged]:
        """Return for each rule whether it decides about this failure, and why or why not."""
        rank, _ = severity(job, diagnosis, self._routing.bounds, incidents)
        facts = _facts(job, diagnosis)
        asked, _ = self._wanted(job)
        decided: str | None = None
        judged = []
        for number, route in enumerate(self._routes, 1):
            found = self._fit(number, route, facts, rank, decided, asked=bool(asked))
            judged.append(found)
            if found.fit is Fit.MATCHED and not route.goes_on:
                decided = found.title
        return judged

    def _fit(
        self, number: int, route: Route, facts: Mapping[str, str], rank: Severity, decided: str | None, *, asked: bool
    ) -> Judged:
        if decided is not None and not (asked and route.always):
            return Judged(number, route, Fit.NOT_REACHED, f"{decided} decided")
        if difference := _difference(route, facts, rank):
            return Judged(number, route, Fit.DIFFERS, difference)
        if asked and not route.always:
            return Judged(number, route, Fit.SET_ASIDE, "the job names its channels")
        return Judged(number, route, Fit.MATCHED, _agreement(route, facts, rank))

    def _wanted(self, job: JobFacts) -> tuple[tuple[str, ...], list[str]]:
        """Return the channels that the job may and does ask for, and what was ignored."""
        asked = asked_for(job.comment)
        wanted, warnings = [], []
        for name in asked[:MOST_ASKED]:
            shown = literal(name, _SHOWN)
            if not is_channel_id(name):
                warnings.append(f"the job asks for slack-channel={shown}, which is no channel id; ignored")
            elif not any(fnmatchcase(name, pattern) for pattern in self._allowed):
                warnings.append(
                    f"the job asks for slack-channel={shown}, which routing.override_allow forbids; ignored"
                )
            else:
                wanted.append(name)
        if len(asked) > MOST_ASKED:
            warnings.append(f"the job asks for {len(asked)} channels; only the first {MOST_ASKED} were looked at")
        return tuple(wanted), warnings

    def _after_quiet(
        self, places: Sequence[_Place], rank: Severity, now: datetime
    ) -> tuple[tuple[str, ...], dict[str, datetime], list[str]]:
        """Apply the channels' own quiet hours. A channel that several ask for waits only if all of them do."""
        free: dict[str, datetime | None] = {}
        why: list[str] = []
        for place in places:
            periods = self._routing.quiet.get(place.channel, ())
            own = held_until(periods, rank, now)
            channel, hold, note = place.channel, _later(place.hold, own), place.why
            if own and (other := replacement(periods, rank, now)):
                own = held_until(self._routing.quiet.get(other, ()), rank, now)
                channel, hold, note = other, _later(place.hold, own), f"{place.why}; {place.channel} is quiet"
            free[channel] = _earlier(free[channel], hold) if channel in free else hold
            why.append(f"{channel}: {note}" + (f"; quiet until {hold:%Y-%m-%d %H:%M} UTC" if hold else ""))
        return tuple(free), {channel: hold for channel, hold in free.items() if hold}, why


def _placed(found: Judged, rank: Severity, now: datetime) -> list[_Place]:
    route = found.route
    hold = held_until(route.quiet, rank, now)
    if hold and (other := replacement(route.quiet, rank, now)):
        return [_Place(other, None, f"{found.title} is quiet")]
    return [_Place(channel, hold, found.title) for channel in route.channels]


def _facts(job: JobFacts, diagnosis: Diagnosis) -> dict[str, str]:
    facts = {"cluster": job.cluster, "partition": job.partition, "account": job.account, "user": job.user}
    facts |= {"job": job.name, "cause": diagnosis.cause.id, "layer": diagnosis.cause.layer}
    return {name: (value or "")[:200] for name, value in facts.items()}


def _difference(route: Route, facts: Mapping[str, str], rank: Severity) -> str:
    """Return the first condition that the failure does not meet; empty: it meets all."""
    for name, patterns in route.conditions():
        if not any(fnmatchcase(facts[name], pattern) for pattern in patterns):
            known = f"is {_shown(facts[name])}" if facts[name] else "is not known"
            return f"{name} {known}, not {' or '.join(patterns)}"
    if route.severity and not rank.reaches(route.severity):
        return f"severity is {rank}, not {route.severity} or more"
    return ""


def _agreement(route: Route, facts: Mapping[str, str], rank: Severity) -> str:
    met = [f"{name} is {_shown(facts[name])}" for name, _ in route.conditions()]
    met += [f"severity is {rank}"] if route.severity else []
    return ", ".join(met) or "it takes everything"


def _shown(value: str) -> str:
    return literal(value, _SHOWN)


def _unreachable(routes: Sequence[Route]) -> Iterator[str]:
    for later, route in enumerate(routes):
        for earlier, before in enumerate(routes[:later]):
            if not before.goes_on and before.covers(route):
                yield (
                    f"{Judged(later + 1, route, Fit.NOT_REACHED, '').title} is never reached: "
                    f"{Judged(earlier + 1, before, Fit.MATCHED, '').title} takes all that it would"
                )
                break


def _later(first: datetime | None, second: datetime | None) -> datetime | None:
    return max(first, second) if first and second else first or second


def _earlier(first: datetime | None, second: datetime | None) -> datetime | None:
    return min(first, second) if first and second else None
