"""When a digest is due: once a week by the clock on the wall, whatever is done to that clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from bot.digest.calendar import Schedule, following, latest
from bot.digest.settings import Digest

ZURICH = ZoneInfo("Europe/Zurich")
NIGHT = Schedule("C0NIGHT", weekday=6, hour=2, minute=30, zone=ZURICH)  # Sundays at 02:30: when clocks are changed
MONDAY = Schedule("C0MONDAY", weekday=0, hour=9, minute=0, zone=ZURICH)


def utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


def dues(schedule: Schedule, start: datetime, weeks: int) -> list[datetime]:
    """All moments at which `latest` changes, looked for minute by minute around each."""
    found = []
    now = start
    for _ in range(weeks):
        run = following(schedule, now)
        assert latest(schedule, run.due) == run
        assert latest(schedule, run.due - timedelta(seconds=1)) != run
        found.append(run.due)
        now = run.due
    return found


def test_a_time_that_does_not_exist_is_taken_by_the_clock_before_the_change() -> None:
    # On 29 March 2026 clocks go from 02:00 straight to 03:00: 02:30 is what would have been 02:30, 03:30 now.
    assert dues(NIGHT, utc(2026, 3, 20), 3) == [
        utc(2026, 3, 22, 1, 30),
        utc(2026, 3, 29, 1, 30),
        utc(2026, 4, 5, 0, 30),
    ]


def test_a_time_that_comes_twice_is_taken_once_the_first_time() -> None:
    # On 25 October 2026 it is 02:30 twice: at 00:30 and at 01:30 UTC.
    assert dues(NIGHT, utc(2026, 10, 17), 3) == [
        utc(2026, 10, 18, 0, 30),
        utc(2026, 10, 25, 0, 30),
        utc(2026, 11, 1, 1, 30),
    ]
    again = latest(NIGHT, utc(2026, 10, 25, 1, 30))
    assert again == latest(NIGHT, utc(2026, 10, 25, 0, 30))


@pytest.mark.parametrize(("day", "hours"), [(30, 167), (23, 168)])
def test_a_week_with_a_change_of_clocks_is_an_hour_shorter(day: int, hours: int) -> None:
    span = latest(MONDAY, utc(2026, 3, day, 12)).span
    assert span.end - span.start == timedelta(hours=hours)


def test_the_week_of_the_change_back_is_an_hour_longer_and_weeks_join_without_a_gap() -> None:
    span = latest(MONDAY, utc(2026, 10, 26, 12)).span
    assert span.end - span.start == timedelta(hours=169)
    assert span.start == latest(MONDAY, utc(2026, 10, 19, 12)).span.end == span.before_end


def test_a_key_names_the_week_in_which_the_span_ends() -> None:
    assert latest(MONDAY, utc(2026, 11, 23, 8)).key == "digest/C0MONDAY/2026-W48"
    assert latest(MONDAY, utc(2026, 11, 23, 7, 59)).key == "digest/C0MONDAY/2026-W47"
    # The first of January 2027 is a Friday of the week 53 of 2026.
    friday = Schedule("C0FRIDAY", 4, 9, 0, ZURICH)
    assert latest(friday, utc(2027, 1, 1, 12)).key == "digest/C0FRIDAY/2026-W53"


def test_the_day_is_that_of_the_zone() -> None:
    tokyo = Schedule("C0TOKYO", 0, 0, 5, ZoneInfo("Asia/Tokyo"))
    assert following(tokyo, utc(2026, 11, 21)).due == utc(2026, 11, 22, 15, 5)


def test_without_channels_the_default_channel_gets_it_on_monday_at_nine() -> None:
    assert Digest().schedules("C0DEFAULT") == [Schedule("C0DEFAULT", 0, 9, 0, ZoneInfo("UTC"))]
    assert Digest().schedules("") == []
    assert Digest(enabled=False).schedules("C0DEFAULT") == []


def test_a_channel_takes_from_all_what_it_does_not_say() -> None:
    digest = Digest.model_validate(
        {
            "hour": 8,
            "zone": "Europe/Zurich",
            "channels": [
                {"channel": "C0ONE"},
                {"channel": "C0TWO", "day": "friday", "hour": 0, "minute": 15, "zone": "Asia/Tokyo"},
                {"channel": "C0NONE", "enabled": False},
            ],
        }
    )
    assert digest.schedules("C0DEFAULT") == [
        Schedule("C0ONE", 0, 8, 0, ZURICH),
        Schedule("C0TWO", 4, 0, 15, ZoneInfo("Asia/Tokyo")),
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"zone": "Mars/Olympus"}, "Europe/Zurich"),
        ({"zone": "../etc/passwd"}, "Europe/Zurich"),
        ({"hour": 24}, "23"),
        ({"day": "someday"}, "monday"),
        ({"channels": [{"channel": "C1"}, {"channel": "C1"}]}, "twice"),
    ],
)
def test_a_wrong_setting_is_told(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Digest.model_validate(given)
