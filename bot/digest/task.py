"""Posts each digest once: the scheduler wakes, the database decides what is left to post."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger
from sqlalchemy.exc import SQLAlchemyError

from bot.digest import advice
from bot.digest.calendar import Run, Schedule, days_until, latest
from bot.digest.message import Link, Setting, is_native, is_plain, render
from bot.digest.numbers import Numbers, count
from bot.slack.contract import SlackMessage
from storage.database import Database
from storage.digests import Digests as Log
from storage.history import Histories
from storage.outbox import Draft
from storage.past import Period, Span
from storage.types import utc_now

STALE = timedelta(days=6)
"""A digest that was missed for so long is left to the next one."""

LATE = timedelta(hours=1)
"""A digest that comes later than this says so."""

REFUSAL = timedelta(days=90)
"""For how long a channel that refused charts is not asked again."""

UPKEEP_SECONDS = 60

_REFUSED_BLOCKS = frozenset({"invalid_blocks", "invalid_attachments", "invalid_blocks_format", "msg_blocks_too_long"})

log = structlog.get_logger(__name__)


@dataclass
class Digests:
    """The weekly digests of all channels.

    `queued` is called when the outbox has got something to send; `link` knows the address of a message; `native` says
    whether charts and tables can be shown at all. Any number of replicas may run it, and `look` may be called at any
    time: a digest is posted once, because its key stands in the outbox for ever.
    """

    database: Database
    schedules: Sequence[Schedule]
    queued: Callable[[], None] = lambda: None
    now: Callable[[], datetime] = utc_now
    link: Link = lambda _posted: None
    native: bool = True

    def __post_init__(self) -> None:
        self._histories = Histories(self.database)
        self._log = Log(self.database)

    async def run(self) -> None:
        """Post what is due, now and whenever it becomes due, until cancelled."""
        scheduler = self.scheduler()
        scheduler.start()
        try:
            await asyncio.Event().wait()
        finally:
            scheduler.shutdown(wait=False)

    def scheduler(self) -> AsyncIOScheduler:
        """Return the scheduler that wakes in the minute of each schedule, and at times without an occasion."""
        scheduler = AsyncIOScheduler(timezone=UTC, job_defaults={"coalesce": True, "misfire_grace_time": None})
        for schedule in self.schedules:
            when = CronTrigger(
                day_of_week=schedule.weekday, hour=schedule.hour, minute=schedule.minute, timezone=schedule.zone
            )
            scheduler.add_job(self._wake, when, name=f"digest of {schedule.channel}")
        # After a failing database, a clock that was set, or a change of clocks that cron understands otherwise.
        scheduler.add_job(self._wake, IntervalTrigger(seconds=UPKEEP_SECONDS), next_run_time=datetime.now(UTC))
        return scheduler

    async def _wake(self) -> None:
        try:
            await self.look()
        except SQLAlchemyError as error:
            log.error("digest stumbled", error=str(error))

    async def look(self) -> None:
        """Queue every digest that is due and not queued yet, and put plainly what Slack refused with charts."""
        now = self.now()
        begun = await self._histories.begun()
        for schedule in self.schedules:
            run = latest(schedule, now)
            if begun is None or run.span.end <= begun or now - run.due > STALE:
                continue
            if not await self._log.is_queued(run.key):
                await self._post(run, now)
        for key, said in (await self._log.refused(_REFUSED_BLOCKS)).items():
            if is_native(said["blocks"]):
                await self._put_plainly(key, now)

    async def _post(self, run: Run, now: datetime) -> None:
        channel = run.schedule.channel
        native = self.native and not await self.refuses_charts(channel)
        late = run.due.astimezone(run.schedule.zone) if now - run.due > LATE else None
        message = await self._message(run, Setting(now, channel, native, late, self.link))
        if await self._log.queue_once(Draft(run.key, channel, asdict(message))):
            log.info("digest queued", channel=channel, key=run.key, late=late is not None)
            self.queued()

    async def _put_plainly(self, key: str, now: datetime) -> None:
        for schedule in self.schedules:
            run = latest(schedule, now)
            if run.key == key:
                message = await self._message(run, Setting(now, schedule.channel, native=False, link=self.link))
                await self._log.requeue(Draft(key, schedule.channel, asdict(message)))
                log.warning("charts were refused, digest is put plainly", channel=schedule.channel, key=key)
                self.queued()

    async def refuses_charts(self, channel: str) -> bool:
        """Return whether the last digest of `channel` that had something to draw had to be put plainly."""
        for said in await self._log.newest(channel, self.now() - REFUSAL):
            if is_native(said["blocks"]):
                return False
            if is_plain(said["blocks"]):
                return True
        return False

    async def _message(self, run: Run, setting: Setting) -> SlackMessage:
        period = await self._histories.period(run.span, run.schedule.channel)
        return render(count(period, run.schedule.zone), advice.first(period), setting)

    async def due_message(self, schedule: Schedule) -> SlackMessage:
        """Return what the digest that was due last says, with charts and tables."""
        now = self.now()
        return await self._message(latest(schedule, now), Setting(now, schedule.channel, link=self.link))

    async def show(self, channel: str, days: int = 7) -> tuple[SlackMessage, SlackMessage]:
        """Return the digest of the last `days` days of `channel`, and the same without charts and tables."""
        now = self.now()
        zone = next((each.zone for each in self.schedules if each.channel == channel), ZoneInfo("UTC"))
        period, numbers = await counted(self._histories, days_until(now, days, zone), zone, channel)
        plain = render(numbers, advice.first(period), Setting(now, channel, native=False, link=self.link))
        if not self.native or await self.refuses_charts(channel):
            return plain, plain
        return render(numbers, advice.first(period), Setting(now, channel, link=self.link)), plain


async def counted(
    histories: Histories, span: Span, zone: ZoneInfo, channel: str | None = None
) -> tuple[Period, Numbers]:
    """Return the rows of a span and the numbers made of them."""
    period = await histories.period(span, channel)
    return period, count(period, zone)
