"""When a digest is due and which week it tells: days of a time zone, whatever its clocks do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from storage.past import Span

WEEK = 7  # days


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a channel gets its digest. `weekday` 0 is Monday."""

    channel: str
    weekday: int
    hour: int
    minute: int
    zone: ZoneInfo


@dataclass(frozen=True, slots=True)
class Run:
    """One digest: due at `due`, about the seven days before the day on which it is due. `key` names it for ever."""

    schedule: Schedule
    day: date
    due: datetime
    span: Span

    @property
    def key(self) -> str:
        """`digest/C0TRAIN/2026-W48`, by the week in which the span ends, as the channel's time zone counts weeks."""
        year, week, _ = self.day.isocalendar()
        return f"digest/{self.schedule.channel}/{year}-W{week:02}"


def latest(schedule: Schedule, now: datetime) -> Run:
    """Return the run that was due last, at or before `now` (aware)."""
    day = now.astimezone(schedule.zone).date()
    day -= timedelta(days=(day.weekday() - schedule.weekday) % WEEK)
    run = _run(schedule, day)
    return run if run.due <= now else _run(schedule, day - timedelta(days=WEEK))


def following(schedule: Schedule, now: datetime) -> Run:
    """Return the first run that is due after `now` (aware)."""
    return _run(schedule, latest(schedule, now).day + timedelta(days=WEEK))


def days_until(now: datetime, days: int, zone: ZoneInfo) -> Span:
    """Return the span from midnight `days` - 1 days ago until `now`, compared with the same `days` days earlier."""
    local = now.astimezone(zone)
    start = local.date() - timedelta(days=days - 1)
    back = timedelta(days=days)
    before_end = (local.replace(tzinfo=None) - back).replace(tzinfo=zone)
    return Span(
        start=_midnight(start, zone),
        end=now.astimezone(UTC),
        before_start=_midnight(start - back, zone),
        before_end=before_end.astimezone(UTC),
    )


def day_of(moment: datetime, zone: ZoneInfo) -> date:
    """Return the day on which `moment` (aware) falls."""
    return moment.astimezone(zone).date()


def _run(schedule: Schedule, day: date) -> Run:
    # The clock time that a change of clocks skips is read by the clock before the change, and of one that comes twice
    # the first is meant: fold 0 says both.
    due = datetime.combine(day, time(schedule.hour, schedule.minute), schedule.zone).astimezone(UTC)
    week = timedelta(days=WEEK)
    edges = [_midnight(day - each * week, schedule.zone) for each in range(3)]
    return Run(schedule, day, due, Span(edges[1], edges[0], edges[2], edges[1]))


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(), zone).astimezone(UTC)
