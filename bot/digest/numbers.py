"""The numbers of a digest, from the rows of its span: counted, summed, ranked, and nothing guessed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from statistics import median
from zoneinfo import ZoneInfo

from bot.digest.calendar import day_of
from knowledge.causes import load_causes
from storage.past import UNKNOWN, Failure, OpenEpisode, Period, Span

MAX_BARS = 14


@dataclass(frozen=True, slots=True)
class Cost:
    """GPU-hours of failed attempts: ranks times run time. `unknown` attempts told no ranks or times."""

    hours: float = 0.0
    unknown: int = 0

    @classmethod
    def of(cls, failures: Iterable[Failure]) -> Cost:
        """Sum over failures."""
        hours = [failure.gpu_hours for failure in failures]
        return cls(sum(each for each in hours if each is not None), hours.count(None))


@dataclass(frozen=True, slots=True)
class CauseLine:
    """What one cause did; `new_kinds` of its `kinds` of failure were seen for the first time."""

    cause: str
    title: str
    count: int
    before: int
    cost: Cost
    kinds: int
    new_kinds: int


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node that began failures, and the cause of most of them. `suspected` of them blame the node itself."""

    host: str
    count: int
    suspected: int
    title: str
    cost: Cost


@dataclass(frozen=True, slots=True)
class Bar:
    """Failures of some days, and of as many days a span earlier."""

    first_day: date
    now: int
    before: int


@dataclass(frozen=True, slots=True)
class Median:
    """How long it took, in the middle of `count` cases."""

    duration: timedelta
    count: int


@dataclass(frozen=True, slots=True)
class Numbers:
    """All that a digest says. Kinds of failure are told apart by fingerprint; the unexplained have none."""

    span: Span
    zone: ZoneInfo
    failures: int
    jobs: int
    before: int
    cost: Cost
    cost_before: Cost
    causes: list[CauseLine]
    new_kinds: int
    known_kinds: int
    unexplained: int
    nodes: list[NodeLine]
    bars: list[Bar]
    bar_days: int
    acknowledged: Median | None
    resolved: Median | None
    judged_wrong: int
    false_alarms: int
    open: list[OpenEpisode]
    open_count: int

    @property
    def last_day(self) -> date:
        """The last day that the span touches."""
        return day_of(self.span.end - timedelta(microseconds=1), self.zone)

    @property
    def first_day(self) -> date:
        """The day on which the span begins."""
        return day_of(self.span.start, self.zone)


def count(period: Period, zone: ZoneInfo) -> Numbers:
    """Return the numbers of a period, its days those of `zone`."""
    failures = period.failures
    explained = {failure.fingerprint for failure in failures if _is_explained(failure)}
    new = {fingerprint for fingerprint in explained if _is_new(fingerprint, period)}
    bars, bar_days = _bars(period, zone)
    return Numbers(
        span=period.span,
        zone=zone,
        failures=len(failures),
        jobs=len({(failure.cluster, failure.job_id) for failure in failures}),
        before=len(period.before),
        cost=Cost.of(failures),
        cost_before=Cost.of(period.before),
        causes=_causes(period, new),
        new_kinds=len(new),
        known_kinds=len(explained - new),
        unexplained=sum(1 for failure in failures if not _is_explained(failure)),
        nodes=_nodes(failures),
        bars=bars,
        bar_days=bar_days,
        acknowledged=_median(period.until_acknowledged),
        resolved=_median(period.until_resolved),
        judged_wrong=period.judged_wrong,
        false_alarms=period.false_alarms,
        open=period.open,
        open_count=period.open_count,
    )


def title(cause: str) -> str:
    """Return a cause's title; its id where this version does not know it."""
    known = load_causes().get(cause)
    if known is not None:
        return known.title
    return "Cause unknown" if cause == UNKNOWN else cause


def _is_explained(failure: Failure) -> bool:
    return bool(failure.fingerprint) and failure.cause != UNKNOWN


def _is_new(fingerprint: str, period: Period) -> bool:
    return period.first_seen.get(fingerprint, period.span.start) >= period.span.start


def _causes(period: Period, new: set[str]) -> list[CauseLine]:
    """Dearest first, then most frequent."""
    before = Counter(failure.cause for failure in period.before)
    of_cause: dict[str, list[Failure]] = defaultdict(list)
    for failure in period.failures:
        of_cause[failure.cause].append(failure)
    lines = []
    for cause, failures in of_cause.items():
        kinds = {failure.fingerprint for failure in failures if _is_explained(failure)}
        cost = Cost.of(failures)
        line = CauseLine(cause, title(cause), len(failures), before[cause], cost, len(kinds), len(kinds & new))
        lines.append(line)
    return sorted(lines, key=lambda line: (-line.cost.hours, -line.count, line.cause))


def _nodes(failures: Sequence[Failure]) -> list[NodeLine]:
    """Most failures first."""
    of_host: dict[str, list[Failure]] = defaultdict(list)
    for failure in failures:
        for host in failure.initiating:
            of_host[host].append(failure)
    lines = []
    for host, begun in of_host.items():
        [(cause, _)] = Counter(failure.cause for failure in begun).most_common(1)
        suspected = sum(1 for failure in begun if host in failure.suspects)
        lines.append(NodeLine(host, len(begun), suspected, title(cause), Cost.of(begun)))
    return sorted(lines, key=lambda line: (-line.count, -line.suspected, -line.cost.hours, line.host))


def _bars(period: Period, zone: ZoneInfo) -> tuple[list[Bar], int]:
    """Return at most MAX_BARS bars of equally many days, and that number of days."""
    span = period.span
    first, last = day_of(span.start, zone), day_of(span.end - timedelta(microseconds=1), zone)
    days = (last - first).days + 1
    size = -(-days // MAX_BARS)
    now = _by_bar(period.failures, first, size, zone)
    before = _by_bar(period.before, day_of(span.before_start, zone), size, zone)
    bars = [
        Bar(first + timedelta(days=number * size), now[number], before[number]) for number in range(-(-days // size))
    ]
    return bars, size


def _by_bar(failures: Iterable[Failure], first: date, size: int, zone: ZoneInfo) -> Counter[int]:
    return Counter((day_of(failure.at, zone) - first).days // size for failure in failures)


def _median(durations: Sequence[timedelta]) -> Median | None:
    if not durations:
        return None
    return Median(timedelta(seconds=median(each.total_seconds() for each in durations)), len(durations))


def age(episode: OpenEpisode, now: datetime) -> timedelta:
    """How long an episode has been open."""
    return now - episode.opened_at
