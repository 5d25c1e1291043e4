"""The numbers of the hand-made week, each worked out on paper."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from bot.digest.calendar import Schedule, days_until, latest
from bot.digest.numbers import Cost, Median, Numbers, count
from storage.database import Database
from storage.history import Histories
from storage.past import Span
from tests.digest.week import CHANNEL, ELSEWHERE, MONDAY_AFTER, ZURICH

SPAN = latest(Schedule(CHANNEL, 0, 9, 0, ZURICH), MONDAY_AFTER).span


async def of_week(database: Database, channel: str | None = CHANNEL) -> Numbers:
    return count(await Histories(database).period(SPAN, channel), ZURICH)


def test_the_week_is_seven_days_of_the_zone() -> None:
    sunday = datetime(2026, 11, 15, 23, tzinfo=UTC)
    assert (SPAN.start, SPAN.end) == (sunday, sunday + timedelta(days=7))
    assert (SPAN.before_start, SPAN.before_end) == (sunday - timedelta(days=7), sunday)


async def test_failures_are_counted_and_compared(filled: Database) -> None:
    numbers = await of_week(filled)
    assert (numbers.failures, numbers.jobs, numbers.before) == (30, 30, 5)


async def test_gpu_hours_are_ranks_times_run_time(filled: Database) -> None:
    numbers = await of_week(filled)
    # 4 × 512 × 2 h, 8 × 64 × 0.5 h, 6 × 128 × 1 h, 5 × 8 × 0.25 h, 2 × 16 × 3 h, 2 × 8 × 1 h; 3 have no ranks
    assert numbers.cost == Cost(4096 + 256 + 768 + 10 + 96 + 16, unknown=3)
    assert numbers.cost_before == Cost(512 * 2 + 2 * 128 + 8, unknown=1)


async def test_causes_stand_dearest_first(filled: Database) -> None:
    lines = (await of_week(filled)).causes
    assert [(line.cause, line.count, line.before, line.cost.hours, line.kinds, line.new_kinds) for line in lines] == [
        ("gpu-lost", 4, 1, 4096, 1, 0),
        ("link-down", 6, 2, 768, 1, 0),
        ("gpu-oom", 8, 0, 256, 1, 1),
        ("unknown", 2, 0, 96, 0, 0),
        ("app-exception", 7, 1, 26, 2, 1),
        ("disk-full", 3, 1, 0, 1, 0),
    ]
    assert lines[0].title == "GPU fell off the bus"


async def test_what_was_seen_before_is_told_from_what_is_new(filled: Database) -> None:
    numbers = await of_week(filled)
    assert (numbers.new_kinds, numbers.known_kinds, numbers.unexplained) == (2, 4, 2)


async def test_nodes_that_began_failures(filled: Database) -> None:
    nodes = (await of_week(filled)).nodes
    assert [(node.host, node.count, node.suspected, node.cost.hours) for node in nodes] == [
        ("gpu-n17", 4, 4, 4096),
        ("gpu-n05", 2, 0, 256),
        ("gpu-n02", 2, 0, 64),
    ]


async def test_each_day_has_its_bar(filled: Database) -> None:
    numbers = await of_week(filled)
    assert numbers.bar_days == 1
    assert [bar.first_day.day for bar in numbers.bars] == [16, 17, 18, 19, 20, 21, 22]
    assert [bar.now for bar in numbers.bars] == [2, 4, 6, 7, 6, 2, 3]
    assert [bar.before for bar in numbers.bars] == [2, 1, 1, 0, 0, 0, 1]


async def test_how_long_people_took_is_the_median(filled: Database) -> None:
    numbers = await of_week(filled)
    # 6, 12, 30 and 60 minutes; 1, 3 and 5 hours
    assert numbers.acknowledged == Median(timedelta(minutes=21), 4)
    assert numbers.resolved == Median(timedelta(hours=3), 3)


async def test_wrong_verdicts_and_false_alarms_are_counted_by_episode(filled: Database) -> None:
    numbers = await of_week(filled)
    assert (numbers.judged_wrong, numbers.false_alarms) == (1, 1)


async def test_what_is_open_is_open_now_oldest_first(filled: Database) -> None:
    numbers = await of_week(filled)
    assert [episode.id for episode in numbers.open] == ["e-gpu", "e-oom", "e-dark1", "e-dark2", "e-disk"]
    assert numbers.open_count == 5
    assert [(episode.assignee, episode.handler) for episode in numbers.open] == [
        (None, "bob"),
        (None, None),
        (None, None),
        (None, None),
        ("U0CAROL", "carol"),
    ]


async def test_a_channel_counts_only_what_was_told_there(filled: Database) -> None:
    other = await of_week(filled, ELSEWHERE)
    assert (other.failures, other.before, other.known_kinds, other.open_count) == (1, 0, 1, 1)
    assert (await of_week(filled, "C0NOBODY")).failures == 0


async def test_a_channel_id_that_is_part_of_another_is_another_channel(filled: Database) -> None:
    assert (await of_week(filled, CHANNEL[:-1])).failures == 0
    assert (await of_week(filled, "%")).failures == 0


async def test_the_terminal_counts_everything(filled: Database) -> None:
    everything = await of_week(filled, None)
    assert (everything.failures, everything.open_count) == (32, 6)
    # The other channel had seen the fingerprint on 1 November.
    assert (everything.new_kinds, everything.known_kinds) == (1, 5)


async def test_a_long_span_has_bars_of_several_days(filled: Database) -> None:
    span = days_until(MONDAY_AFTER, 30, ZURICH)
    numbers = count(await Histories(filled).period(span, CHANNEL), ZURICH)
    assert (numbers.first_day, numbers.last_day) == (date(2026, 10, 25), date(2026, 11, 23))
    assert (numbers.bar_days, len(numbers.bars)) == (3, 10)
    assert sum(bar.now for bar in numbers.bars) == numbers.failures == 37


def test_the_days_until_now_are_compared_with_as_long_a_time() -> None:
    now = datetime(2026, 11, 24, 9, 30, tzinfo=UTC)
    assert days_until(now, 7, ZoneInfo("UTC")) == Span(
        start=datetime(2026, 11, 18, tzinfo=UTC),
        end=now,
        before_start=datetime(2026, 11, 11, tzinfo=UTC),
        before_end=datetime(2026, 11, 17, 9, 30, tzinfo=UTC),
    )


async def test_an_empty_database_has_nothing_to_tell(database: Database) -> None:
    numbers = await of_week(database)
    assert (numbers.failures, numbers.cost, numbers.causes, numbers.acknowledged) == (0, Cost(), [], None)
