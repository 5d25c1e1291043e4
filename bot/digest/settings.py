"""When and where the weekly digest is posted."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, model_validator

from bot.digest.calendar import Schedule
from bot.section import Section


class Day(StrEnum):
    """A day of the week."""

    MONDAY = "monday"
    TUESDAY = "tuesday"
    WEDNESDAY = "wednesday"
    THURSDAY = "thursday"
    FRIDAY = "friday"
    SATURDAY = "saturday"
    SUNDAY = "sunday"


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is no time zone that this machine knows; an example is 'Europe/Zurich'") from error
    return name


Zone = Annotated[str, AfterValidator(_zone)]
"""The name of a time zone in the IANA database."""

Hour = Annotated[int, Field(ge=0, le=23)]
Minute = Annotated[int, Field(ge=0, le=59)]


class ChannelDigest(Section):
    """The digest of one channel. What is not given is as for all."""

    channel: str = Field(min_length=1, max_length=80)
    enabled: bool | None = None
    day: Day | None = None
    hour: Hour | None = None
    minute: Minute | None = None
    zone: Zone | None = None


class Digest(Section):
    """When the digest is posted. Without `channels` it goes to the channel of `[slack]`."""

    enabled: bool = True
    day: Day = Day.MONDAY
    hour: Hour = 9
    minute: Minute = 0
    zone: Zone = "UTC"
    channels: list[ChannelDigest] = Field(default_factory=list)

    @model_validator(mode="after")
    def _each_once(self) -> Digest:
        named = [each.channel for each in self.channels]
        twice = sorted({channel for channel in named if named.count(channel) > 1})
        if twice:
            raise ValueError(f"digest.channels names {', '.join(twice)} twice; a channel gets one digest a week")
        return self

    def schedules(self, default_channel: str) -> list[Schedule]:
        """Return one schedule a channel that wants a digest; `default_channel` where none is named, if there is one."""
        channels = self.channels or ([ChannelDigest(channel=default_channel)] if default_channel else [])
        return [self._schedule(each) for each in channels if (self.enabled if each.enabled is None else each.enabled)]

    def _schedule(self, each: ChannelDigest) -> Schedule:
        return Schedule(
            channel=each.channel,
            weekday=list(Day).index(each.day or self.day),
            hour=self.hour if each.hour is None else each.hour,
            minute=self.minute if each.minute is None else each.minute,
            zone=ZoneInfo(each.zone or self.zone),
        )
