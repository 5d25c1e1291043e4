"""Quiet hours: when a channel wants to hear only what matters. Wall clocks, so daylight saving moves them along."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from bot.routing.channels import ChannelId
from bot.routing.severity import Severity
from bot.section import Section

_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)\s*[-–]\s*(?:([01]\d|2[0-3]):([0-5]\d)|(24):(00))")
_LONGEST = timedelta(days=8)
"""Quiet for longer than this is quiet for ever: periods repeat every week."""


class Day(StrEnum):
    """A day of the week."""

    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"


class Quiet(Section):
    """A period of every week. What is less severe than `below` waits until it ends, or goes to `instead` meanwhile.

    `days` are those on which it begins: 22:00-07:00 of "fri" ends on Saturday morning.
    """

    hours: str
    zone: str = Field(max_length=64)
    days: tuple[Day, ...] = Field(default=tuple(Day), min_length=1)
    below: Severity = Severity.HIGH
    instead: ChannelId | None = None

    @field_validator("hours")
    @classmethod
    def _readable(cls, value: str) -> str:
        found = _HOURS.fullmatch(value.strip())
        if found is None:
            raise ValueError('give quiet hours as "22:00-07:00"')
        if found[1] == found[3] and found[2] == found[4]:
            raise ValueError('quiet hours begin and end at the same time; "00:00-24:00" is a whole day')
        return value.strip()

    @field_validator("zone")
    @classmethod
    def _known(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError):
            raise ValueError("no such time zone is known here; names look like Europe/Zurich") from None
        return value

    @field_validator("below")
    @classmethod
    def _holds_something(cls, value: Severity) -> Severity:
        if value is Severity.LOW:
            raise ValueError("below 'low' there is nothing; give 'medium' or 'high'")
        return value

    def until(self, now: datetime) -> datetime | None:
        """Return when the period that `now` (aware) lies in ends, in UTC; None outside of it."""
        zone = ZoneInfo(self.zone)
        today = now.astimezone(zone).date()
        for day in (today, today - timedelta(days=1)):
            if list(Day)[day.weekday()] in self.days:
                begin, end = self._period(day, zone)
                if begin <= now < end:
                    return end
        return None

    def _period(self, day: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
        begins, ends = self._clock
        last = day + timedelta(days=1) if ends <= begins else day
        return _utc(day, begins, zone), _utc(last, ends, zone)

    @cached_property
    def _clock(self) -> tuple[time, time]:
        """Midnight as the end is 00:00 of the next day."""
        found = _HOURS.fullmatch(self.hours)
        assert found is not None
        ends = time() if found[5] else time(int(found[3]), int(found[4]))
        return time(int(found[1]), int(found[2])), ends


def held_until(periods: Sequence[Quiet], severity: Severity, now: datetime) -> datetime | None:
    """Return when a failure of `severity` may be told again, or None: at once. Periods that touch count as one.

    Raises ValueError where the periods leave no moment of the week free.
    """
    holding = [period for period in periods if not severity.reaches(period.below)]
    moment = now
    while ends := [end for period in holding if (end := period.until(moment)) is not None]:
        moment = max(ends)
        if moment - now > _LONGEST:
            raise ValueError("these quiet hours never end")
    return None if moment == now else moment


def replacement(periods: Sequence[Quiet], severity: Severity, now: datetime) -> str | None:
    """Return the channel to tell a failure in while one of the periods holds it back, or None: it waits."""
    for period in periods:
        if period.instead and not severity.reaches(period.below) and period.until(now) is not None:
            return period.instead
    return None


def _one_or_several(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _ending(periods: tuple[Quiet, ...]) -> tuple[Quiet, ...]:
    held_until(periods, Severity.LOW, datetime(2026, 1, 5, tzinfo=UTC))
    return periods


Periods = Annotated[tuple[Quiet, ...], BeforeValidator(_one_or_several), AfterValidator(_ending)]
"""One table of quiet hours, or a list of them."""


def _utc(day: date, clock: time, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, clock, zone).astimezone(UTC)
