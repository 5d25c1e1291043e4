"""The digest of the hand-made week, as a person sees it."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from bot.digest.calendar import Schedule
from bot.digest.task import Digests
from bot.slack.contract import SlackMessage
from storage.database import Database
from tests.digest import week


def digest() -> list[SlackMessage]:
    """Return the message of Monday, 23 November."""
    return [asyncio.run(_digest())]


async def _digest() -> SlackMessage:
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite+aiosqlite:///{Path(folder) / 'week.db'}")
        await database.migrate()
        await week.fill(database)
        schedule = Schedule(week.CHANNEL, 0, 9, 0, week.ZURICH)
        digests = Digests(database, [schedule], now=lambda: week.MONDAY_AFTER, link=lambda _: "https://example.test/")
        message = await digests.due_message(schedule)
        await database.close()
        return message
