"""The one thing to do first: what costs most and is not dealt with yet."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from bot.digest import phrases
from bot.digest.numbers import Cost, title
from storage.past import UNKNOWN, Failure, OpenEpisode, Period
from storage.tables import EpisodeState

UNATTENDED = timedelta(days=1)
"""An episode that nobody took for so long has been forgotten."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do, in a few words, and why, in one sentence. Neither is escaped."""

    do: str
    why: str


@dataclass(frozen=True, slots=True)
class _Candidate:
    advice: Advice
    cost: Cost
    count: int


def first(period: Period) -> Advice | None:
    """Return the one thing to do first, or None where nothing asks for it.

    A node that keeps beginning failures, and a failure that keeps coming back, compete by the GPU-hours they took; then
    an episode that nobody has taken; then the dearest single failure.
    """
    pending = [failure for failure in period.failures if failure.state != EpisodeState.RESOLVED]
    candidates = [*_nodes(pending, period), *_kinds(pending, period)]
    if candidates:
        return max(candidates, key=lambda each: (each.cost.hours, each.count)).advice
    return _unattended(period) or _dearest(pending, period)


def _nodes(pending: Sequence[Failure], period: Period) -> list[_Candidate]:
    of_host: dict[str, list[Failure]] = defaultdict(list)
    for failure in pending:
        for host in failure.suspects:
            of_host[host].append(failure)
    found = []
    for host, failures in of_host.items():
        if len(failures) < 2:
            continue
        causes = Counter(failure.cause for failure in failures)
        blamed = f"{len(failures)} of the {len(period.failures)} failures are put down to it"
        named = phrases.listed([title(cause) for cause, _ in causes.most_common(2)])
        why = f"{blamed} ({named}){_took(failures, period)}.{_with_whom(failures, period)}"
        found.append(_Candidate(Advice(f"Drain and check {host}", why), Cost.of(failures), len(failures)))
    return found


def _kinds(pending: Sequence[Failure], period: Period) -> list[_Candidate]:
    of_kind: dict[str, list[Failure]] = defaultdict(list)
    for failure in pending:
        if failure.fingerprint and failure.cause != UNKNOWN:
            of_kind[failure.fingerprint].append(failure)
    found = []
    for fingerprint, failures in of_kind.items():
        if len(failures) < 2:
            continue
        owners = [owner for owner, _ in Counter(failure.owner for failure in failures if failure.owner).most_common(3)]
        since = period.first_seen.get(fingerprint)
        known = since is not None and since < period.span.start
        seen = f", known since {phrases.day(since, period.span.end)}" if since is not None and known else ""
        whose = f" in jobs of {phrases.listed(owners)}" if owners else ""
        why = f"It came {phrases.times(len(failures))}{whose}{seen}{_took(failures, period)}.{_with_whom(failures, period)}"
        found.append(_Candidate(Advice(f"Fix “{title(failures[0].cause)}”", why), Cost.of(failures), len(failures)))
    return found


def _unattended(period: Period) -> Advice | None:
    waiting = [
        episode
        for episode in period.open
        if episode.assignee is None
        and episode.acknowledged_by is None
        and episode.opened_at <= period.span.end - UNATTENDED
    ]
    if not waiting:
        return None
    oldest = waiting[0]
    others = len(waiting) - 1
    more = f" So {'is one more' if others == 1 else f'are {others} more'}." if others else ""
    days = phrases.duration(period.span.end - oldest.opened_at)
    return Advice(
        f"Give “{title(oldest.cause)}” in {_job(oldest)} to somebody",
        f"It has been open for {days} and is nobody's.{more}",
    )


def _dearest(pending: Sequence[Failure], period: Period) -> Advice | None:
    if not pending:
        return None
    worst = max(pending, key=lambda failure: failure.gpu_hours or 0.0)
    where = f" on {phrases.listed(worst.initiating[:2])}" if worst.initiating else ""
    return Advice(
        f"Look at {_job(worst)}",
        f"“{title(worst.cause)}”{where} is the dearest failure that is not resolved{_took([worst], period)}.{_with_whom([worst], period)}",
    )


def _job(of: Failure | OpenEpisode) -> str:
    return f"{of.name} ({of.job_id})" if of.name else f"job {of.job_id}"


def _took(failures: Sequence[Failure], period: Period) -> str:
    hours, every = Cost.of(failures).hours, Cost.of(period.failures).hours
    if not hours:
        return ""
    share = "" if hours == every else f" of {phrases.hours(every)}"
    return f" and took {phrases.hours(hours)}{share} GPU-hours"


def _with_whom(failures: Sequence[Failure], period: Period) -> str:
    """Who looks after it already, if somebody does."""
    concerned = {failure.episode_id for failure in failures}
    people = {episode.handler for episode in period.open if episode.id in concerned}
    names = sorted(name for name in people if name)
    return f" It is with {phrases.listed(names)}." if names and None not in people else ""
