"""`firstfault digest`: the numbers of the last days, from the service's database."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from zoneinfo import ZoneInfo

from sqlalchemy.exc import SQLAlchemyError

from bot.cli.output import coloured, width, write
from bot.digest import advice
from bot.digest.calendar import days_until
from bot.digest.page import document, page
from bot.digest.task import counted
from bot.settings import Settings, SettingsInvalidError, load
from storage.database import Database
from storage.history import Histories
from storage.types import utc_now

MAX_DAYS = 366
_SINCE = re.compile(r"(\d{1,4})\s*(d|w)", re.IGNORECASE)


class _CannotReadError(Exception):
    """The database cannot tell; the message says what to do."""


def run(since: str, *, channel: str | None = None, as_json: bool = False, config: Path | None = None) -> int:
    """Print the digest of the time `since` ("7d", "2w"), of one channel or of all; return the exit status.

    Exit status: 0 printed, 1 the database cannot be read, 2 a setting or an option is wrong. The service may run
    meanwhile.
    """
    days = parse_days(since)
    if days is None:
        print(f"firstfault: --since takes days or weeks up to {MAX_DAYS} days, such as 7d or 2w", file=sys.stderr)
        return 2
    try:
        write(asyncio.run(_text(load(config, for_slack=False), days, channel, as_json=as_json)))
    except SettingsInvalidError as error:
        for line in str(error).splitlines():
            print(f"firstfault: {line}", file=sys.stderr)
        return 2
    except (_CannotReadError, SQLAlchemyError, OSError) as error:
        print(f"firstfault: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    return 0


def parse_days(since: str) -> int | None:
    """Return how many days `since` means, or None where it means no time up to MAX_DAYS."""
    found = _SINCE.fullmatch(since.strip())
    if found is None:
        return None
    days = int(found[1]) * (7 if found[2].lower() == "w" else 1)
    return days if 1 <= days <= MAX_DAYS else None


async def _text(settings: Settings, days: int, channel: str | None, *, as_json: bool) -> str:
    now, zone = utc_now(), _zone(settings, channel)
    database = Database(settings.database)
    try:
        await _check(database)
        period, numbers = await counted(Histories(database), days_until(now, days, zone), zone, channel)
    finally:
        await database.close()
    first = advice.first(period)
    if as_json:
        return json.dumps(document(numbers, first, now=now, channel=channel), indent=2, ensure_ascii=False) + "\n"
    return page(numbers, first, now=now, width=width(), colour=coloured())


async def _check(database: Database) -> None:
    if database.file is not None and not database.file.is_file():
        raise _CannotReadError(f"there is no database {database.file}; is this the service's data_dir?")
    if not await database.is_current():
        raise _CannotReadError("the database is of another version; start the service of this version once")


def _zone(settings: Settings, channel: str | None) -> ZoneInfo:
    scheduled = settings.digest.schedules(settings.slack.channel)
    own = (schedule.zone for schedule in scheduled if schedule.channel == channel)
    return next(own, ZoneInfo(settings.digest.zone))
