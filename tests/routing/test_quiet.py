"""Quiet hours are wall clocks of their zone, over midnight, weekends and daylight saving."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import TypeAdapter, ValidationError

from bot.routing.quiet import Periods, Quiet, held_until, replacement
from bot.routing.severity import Severity

ZURICH = ZoneInfo("Europe/Zurich")


def quiet(hours: str = "22:00-07:00", zone: str = "Europe/Zurich", **more: Any) -> Quiet:
    return Quiet.model_validate({"hours": hours, "zone": zone, **more})


def at(text: str) -> datetime:
    """A moment by Zurich's clocks."""
    return datetime.fromisoformat(text).replace(tzinfo=ZURICH)


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-12-02 21:59", None),
        ("2026-12-02 22:00", "2026-12-03 07:00"),
        ("2026-12-03 03:12", "2026-12-03 07:00"),
        ("2026-12-03 06:59", "2026-12-03 07:00"),
        ("2026-12-03 07:00", None),
        ("2026-12-03 12:00", None),
    ],
)
def test_a_night_begins_and_ends_by_the_clock(now: str, until: str | None) -> None:
    assert held_until([quiet()], Severity.LOW, at(now)) == (at(until) if until else None)


def test_days_are_those_on_which_a_period_begins() -> None:
    friday_night = quiet(days=["fri"])
    assert friday_night.until(at("2026-12-05 03:00")) == at("2026-12-05 07:00")  # Saturday morning
    assert friday_night.until(at("2026-12-04 03:00")) is None  # the night from Thursday
    assert friday_night.until(at("2026-12-05 23:00")) is None


def test_a_weekend_of_two_whole_days_is_one_period() -> None:
    weekend = quiet("00:00-24:00", days=["sat", "sun"])
    assert held_until([weekend], Severity.LOW, at("2026-12-05 10:00")) == at("2026-12-07 00:00")


def test_periods_that_touch_or_overlap_are_one() -> None:
    periods = [quiet("00:00-24:00", days=["sat", "sun"]), quiet("20:00-08:00")]
    assert held_until(periods, Severity.LOW, at("2026-12-04 21:00")) == at("2026-12-07 08:00")


@pytest.mark.parametrize(
    ("now", "until", "hours"),
    [
        ("2026-03-28 22:00", "2026-03-29 07:00", 8),  # clocks go forward in this night
        ("2026-10-24 22:00", "2026-10-25 07:00", 10),  # and back in this one
        ("2026-12-02 22:00", "2026-12-03 07:00", 9),
    ],
)
def test_seven_in_the_morning_is_seven_in_summer_and_in_winter(now: str, until: str, hours: int) -> None:
    ends = held_until([quiet()], Severity.LOW, at(now))
    assert ends == at(until)
    assert ends is not None
    assert (ends - at(now).astimezone(UTC)).total_seconds() == hours * 3600


def test_the_zone_decides_not_the_machine() -> None:
    moment = datetime(2026, 12, 3, 3, 12, tzinfo=UTC)
    assert quiet(zone="Asia/Tokyo").until(moment) is None
    assert quiet(zone="America/New_York").until(moment) == datetime(2026, 12, 3, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("below", "passes"),
    [("high", [Severity.HIGH]), ("medium", [Severity.MEDIUM, Severity.HIGH])],
)
def test_what_is_severe_enough_passes(below: str, passes: list[Severity]) -> None:
    night = [quiet(below=below)]
    assert [rank for rank in Severity if held_until(night, rank, at("2026-12-03 03:00")) is None] == passes


def test_what_is_held_back_may_go_elsewhere_meanwhile() -> None:
    night = [quiet(instead="C0NIGHT")]
    assert replacement(night, Severity.LOW, at("2026-12-03 03:00")) == "C0NIGHT"
    assert replacement(night, Severity.HIGH, at("2026-12-03 03:00")) is None
    assert replacement(night, Severity.LOW, at("2026-12-03 12:00")) is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"hours": "22-7"}, "22:00-07:00"),
        ({"hours": "25:00-07:00"}, "22:00-07:00"),
        ({"hours": "07:00-07:00"}, "begin and end at the same time"),
        ({"zone": "Mars/Olympus"}, "no such time zone"),
        ({"zone": "../../etc/passwd"}, "no such time zone"),
        ({"zone": ""}, "no such time zone"),
        ({"days": []}, "at least 1"),
        ({"days": ["someday"]}, "'mon'"),
        ({"below": "low"}, "there is nothing"),
        ({"instead": "#night"}, "not its name"),
        ({"until": "noon"}, "not permitted"),
    ],
)
def test_wrong_quiet_hours_say_what_is_wrong(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        quiet(**wrong)  # type: ignore[arg-type]


def test_quiet_hours_that_never_end_are_refused() -> None:
    periods: TypeAdapter[tuple[Quiet, ...]] = TypeAdapter(Periods)
    day = {"hours": "06:00-22:00", "zone": "Europe/Zurich"}
    night = {"hours": "22:00-06:00", "zone": "Europe/Zurich"}
    assert len(periods.validate_python(night)) == 1
    with pytest.raises(ValidationError, match="never end"):
        periods.validate_python([day, night])
    assert periods.validate_python([{**day, "days": ["mon"]}, night])
