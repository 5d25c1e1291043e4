"""A digest is posted once: over restarts, replicas, changes of clocks, days without the service, and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import update
from sqlmodel import col, select

from bot.digest.calendar import Schedule
from bot.digest.task import Digests
from storage.database import Database
from storage.history import Histories
from storage.tables import Cluster, OutboxState, Outgoing
from storage.types import utc_now
from tests.digest.week import CHANNEL, ELSEWHERE, MONDAY_AFTER, ZURICH, at

MONDAY = Schedule(CHANNEL, 0, 9, 0, ZURICH)
KEY = f"digest/{CHANNEL}/2026-W48"


class Clock:
    """The time of a test."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


def service(
    database: Database, now: datetime, schedules: Sequence[Schedule] = (MONDAY,), **more: Any
) -> tuple[Digests, Clock]:
    """A service that has just been started."""
    clock = Clock(now)
    return Digests(database, schedules, now=clock, **more), clock


async def queued(database: Database) -> dict[str, dict[str, Any]]:
    """What stands in the outbox, by key."""
    async with database.reading() as session:
        return {row.key: row.content for row in await session.scalars(select(Outgoing))}


async def keys(database: Database) -> list[str]:
    return sorted(await queued(database))


async def test_it_is_posted_in_the_minute_in_which_it_is_due(filled: Database) -> None:
    digests, clock = service(filled, MONDAY_AFTER - timedelta(seconds=1))
    await digests.look()
    assert KEY not in await keys(filled)
    clock.now = MONDAY_AFTER
    await digests.look()
    said = (await queued(filled))[KEY]
    assert said["text"].startswith("📊 30 training failures, 16–22 Nov: 25 more than the week before\nDo first: ")
    assert "comes late" not in said["text"]


async def test_a_restart_in_the_scheduled_minute_posts_nothing_twice(filled: Database) -> None:
    for seconds in (0, 20, 40):
        digests, _ = service(filled, MONDAY_AFTER + timedelta(seconds=seconds))
        await digests.look()
    async with filled.reading() as session:
        [row] = await session.scalars(select(Outgoing).where(Outgoing.key == KEY))
    assert (row.revision, row.channel, row.episode_id, row.state) == (1, CHANNEL, None, OutboxState.QUEUED)


async def test_many_replicas_post_it_once(filled: Database) -> None:
    told: list[str] = []
    replicas = [service(filled, MONDAY_AFTER, queued=lambda number=number: told.append(number))[0] for number in "abcd"]
    await asyncio.gather(*(replica.look() for replica in replicas))
    assert await keys(filled) == [KEY]
    assert len(told) == 1


async def test_what_was_missed_is_caught_up_once_and_says_so(filled: Database) -> None:
    digests, clock = service(filled, MONDAY_AFTER + timedelta(days=2))
    await digests.look()
    clock.now += timedelta(hours=1)
    await digests.look()
    assert await keys(filled) == [KEY]
    said = (await queued(filled))[KEY]["text"]
    assert "This comes late: it was due on Monday 23 Nov at 09:00 CET." in said
    assert said.startswith("📊 30 training failures, 16–22 Nov")


async def test_what_was_missed_for_a_week_is_left_to_the_next_one(filled: Database) -> None:
    digests, clock = service(filled, MONDAY_AFTER + timedelta(days=6, seconds=1))
    await digests.look()
    assert await keys(filled) == []
    clock.now = MONDAY_AFTER + timedelta(days=7)
    await digests.look()
    assert await keys(filled) == [f"digest/{CHANNEL}/2026-W49"]


async def test_a_time_that_does_not_exist_and_one_that_comes_twice_are_posted_once(filled: Database) -> None:
    night = Schedule(CHANNEL, 6, 2, 30, ZURICH)
    digests, clock = service(filled, datetime(2026, 10, 24, 22, tzinfo=UTC), [night])
    while clock.now < datetime(2026, 10, 25, 4, tzinfo=UTC):  # the night in which 02:30 comes twice
        await digests.look()
        clock.now += timedelta(minutes=30)
    assert await keys(filled) == [f"digest/{CHANNEL}/2026-W43"]
    clock.now = datetime(2027, 3, 27, 22, tzinfo=UTC)  # the night in which there is no 02:30
    while clock.now < datetime(2027, 3, 28, 4, tzinfo=UTC):
        await digests.look()
        clock.now += timedelta(minutes=30)
    assert [key for key in await keys(filled) if "2027" in key] == [f"digest/{CHANNEL}/2027-W12"]


async def test_nothing_is_posted_of_a_time_before_the_service_was_set_up(filled: Database) -> None:
    async with filled.writing() as session:
        await session.execute(update(Cluster).values(created_at=at(23, 0)))
    digests, clock = service(filled, MONDAY_AFTER)
    await digests.look()
    assert await keys(filled) == []
    clock.now += timedelta(days=7)
    await digests.look()
    assert await keys(filled) == [f"digest/{CHANNEL}/2026-W49"]


async def test_a_service_that_nobody_has_set_up_posts_nothing(database: Database) -> None:
    digests, _ = service(database, MONDAY_AFTER)
    await digests.look()
    assert await keys(database) == []


async def test_each_channel_gets_its_own(filled: Database) -> None:
    schedules = [MONDAY, Schedule(ELSEWHERE, 0, 8, 0, ZoneInfo("UTC"))]
    digests, _ = service(filled, MONDAY_AFTER, schedules)
    await digests.look()
    said = await queued(filled)
    assert said[f"digest/{ELSEWHERE}/2026-W48"]["text"].startswith("📊 1 training failure, 16–22 Nov: 1 more than")
    assert "gpu-n17" not in said[f"digest/{ELSEWHERE}/2026-W48"]["text"]


async def test_an_empty_week_is_one_line(filled: Database) -> None:
    digests, _ = service(filled, MONDAY_AFTER + timedelta(days=14))
    await digests.look()
    [said] = (await queued(filled)).values()
    assert (
        said["text"] == "✅ No training failures, 30 Nov – 6 Dec (1 the week before). 5 older failures are still open."
    )
    assert len(said["blocks"]) == 1


async def refuse(database: Database, key: str, error: str = "invalid_blocks") -> None:
    async with database.writing() as session:
        refused = {"state": OutboxState.REFUSED, "error": error}
        await session.execute(update(Outgoing).where(col(Outgoing.key) == key).values(**refused))


def kinds(said: dict[str, Any]) -> set[str]:
    return {block["type"] for block in said["blocks"]}


async def test_a_workspace_without_charts_gets_letters_instead_and_is_not_asked_again(filled: Database) -> None:
    digests, _ = service(filled, MONDAY_AFTER)
    await digests.look()
    assert kinds((await queued(filled))[KEY]) >= {"data_visualization", "table"}
    await refuse(filled, KEY)
    await digests.look()
    async with filled.reading() as session:
        [row] = await session.scalars(select(Outgoing))
    assert row.state == OutboxState.QUEUED
    assert kinds(row.content) == {"header", "rich_text", "section", "context"}
    assert "Mon 16  ███████ 2 (before: 2)" in str(row.content["blocks"])
    again, _ = service(filled, MONDAY_AFTER + timedelta(days=1))
    shown, plain = await again.show(CHANNEL)
    assert shown == plain
    elsewhere, _ = await again.show("C0OTHER")
    assert elsewhere.text.startswith("✅ No training failures")


async def test_plain_words_that_are_refused_are_left_to_people(filled: Database) -> None:
    digests, clock = service(filled, MONDAY_AFTER, native=False)
    await digests.look()
    await refuse(filled, KEY)
    clock.now += timedelta(hours=2)
    await digests.look()
    async with filled.reading() as session:
        [row] = await session.scalars(select(Outgoing))
    assert (row.state, row.revision) == (OutboxState.REFUSED, 1)


async def test_a_channel_that_is_gone_is_no_reason_to_do_without_charts(filled: Database) -> None:
    digests, _ = service(filled, MONDAY_AFTER)
    await digests.look()
    await refuse(filled, KEY, error="channel_not_found")
    await digests.look()
    assert kinds((await queued(filled))[KEY]) >= {"data_visualization", "table"}


async def test_the_last_days_can_be_shown_at_any_time(filled: Database) -> None:
    digests, _ = service(filled, MONDAY_AFTER - timedelta(days=2))
    shown, _ = await digests.show(CHANNEL)
    assert shown.text.startswith("📊 26 training failures, 15–21 Nov: ")
    assert await keys(filled) == []


async def test_the_running_service_posts_what_is_due_when_it_starts(filled: Database) -> None:
    arrived = asyncio.Event()
    digests, _ = service(filled, MONDAY_AFTER, queued=arrived.set)
    running = asyncio.create_task(digests.run())
    async with asyncio.timeout(10):
        await arrived.wait()
    running.cancel()
    await asyncio.wait([running])
    assert await keys(filled) == [KEY]


async def test_the_scheduler_wakes_in_the_minute_of_each_schedule(filled: Database) -> None:
    digests, _ = service(filled, MONDAY_AFTER, [MONDAY, Schedule(ELSEWHERE, 4, 17, 45, ZURICH)])
    scheduler = digests.scheduler()
    scheduler.start(paused=True)
    moments = {job.name: job.next_run_time for job in scheduler.get_jobs()}
    scheduler.shutdown(wait=False)
    now = utc_now()
    for name, weekday, clock in ((CHANNEL, 0, "09:00"), (ELSEWHERE, 4, "17:45")):
        moment = moments[f"digest of {name}"].astimezone(ZURICH)
        assert (moment.weekday(), f"{moment:%H:%M}") == (weekday, clock)
        assert now < moment <= now + timedelta(days=7, hours=1)


async def test_the_first_cluster_tells_when_the_service_was_set_up(filled: Database) -> None:
    assert await Histories(filled).begun() == at(1, month=10)
