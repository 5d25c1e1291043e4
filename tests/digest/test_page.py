"""`firstfault digest`: the numbers in a terminal and as a document."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bot.cli.digest import parse_days
from bot.cli.main import app
from bot.digest import advice
from bot.digest.numbers import count
from bot.digest.page import document, page
from storage.database import Database
from storage.history import Histories
from storage.tables import Cluster
from storage.types import utc_now
from tests.digest import week
from tests.digest.test_message import failure, numbers_of, opened
from tests.digest.test_numbers import SPAN
from tests.digest.week import CHANNEL, ELSEWHERE, MONDAY_AFTER, ZURICH
from tests.slack.test_escape import HOSTILE


async def test_the_page_says_what_the_message_says(filled: Database) -> None:
    period = await Histories(filled).period(SPAN, CHANNEL)
    lines = page(count(period, ZURICH), advice.first(period), now=MONDAY_AFTER, width=200).split("\n")
    assert lines[:5] == [
        "30 training failures, 16–22 Nov: 25 more than the week before",
        "",
        "Do first: Drain and check gpu-n17.",
        "  4 of the 30 failures are put down to it (GPU fell off the bus) and took 4,096 of 5,242 GPU-hours.",
        "  It is with bob.",
    ]
    assert "GPU-hours lost        at least 5,242, 3,954 more than the week before" in lines
    assert "  Thu 19  ████████████████████████ 7 (before: 0)" in lines
    assert "Uncaught exception in the training program         7       1         26  1 of 2" in lines
    assert "  · gpu-n05 began 2 failures, 256 GPU-hours: Network link went down" in lines
    assert "  · eval (5000): Disk full (3 times), open for 13 h, assigned to carol (job of erin)" in lines


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_control_character_reaches_the_terminal(text: str) -> None:
    failures = [failure(number, name=text, owner=text, cause=text, initiating=(text,)) for number in (1, 2)]
    waiting = [opened(number, name=text, owner=text, cause=text) for number in (1, 2)]
    shown = page(numbers_of(failures, waiting), advice.Advice(text, text), now=MONDAY_AFTER, width=80)
    assert [character for character in shown if not character.isprintable() and character != "\n"] == []


async def test_the_document_holds_every_number(filled: Database) -> None:
    period = await Histories(filled).period(SPAN, CHANNEL)
    numbers = count(period, ZURICH)
    told = json.loads(json.dumps(document(numbers, advice.first(period), now=MONDAY_AFTER, channel=CHANNEL)))
    assert told["schema"] == 1
    assert (told["failures"], told["failures_before"], told["open_count"]) == (30, 5, 5)
    assert told["gpu_hours"] == {"hours": 5242.0, "unknown": 3}
    assert told["kinds"] == {"new": 2, "known": 4, "unexplained": 2}
    assert told["acknowledged"] == {"median_seconds": 1260.0, "count": 4}
    assert (told["start"], told["end"]) == ("2026-11-15T23:00:00+00:00", "2026-11-22T23:00:00+00:00")
    assert document(replace(numbers, acknowledged=None), None, now=MONDAY_AFTER, channel=None)["first"] is None


@pytest.mark.parametrize(
    ("since", "days"),
    [("7d", 7), ("2w", 14), ("1D", 1), ("366d", 366), ("367d", None), ("0d", None), ("7", None), ("-7d", None)],
)
def test_a_time_is_days_or_weeks(since: str, days: int | None) -> None:
    assert parse_days(since) == days


def test_the_command_reads_the_services_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("FIRSTFAULT_SLACK__MODE", "console")
    monkeypatch.chdir(tmp_path)
    missing = CliRunner().invoke(app, ["digest"])
    assert missing.exit_code == 1
    assert "there is no database" in missing.stderr

    async def fill() -> None:
        database = Database(f"sqlite+aiosqlite:///{tmp_path / 'firstfault.db'}")
        await database.migrate()
        async with database.writing() as session:
            session.add(Cluster(id=1, name="alps", token_hash="0" * 64))
            await session.flush()
            for channel, hours in ((CHANNEL, (1, 2, 3)), (ELSEWHERE, (4,))):
                heard = [utc_now() - timedelta(days=1, hours=each) for each in hours]
                await week.tell(session, 1, week.Told(f"e-{channel}", week.OOM, heard, [channel]), first_job=hours[0])
        await database.close()

    asyncio.run(fill())
    found = CliRunner().invoke(app, ["digest", "--since", "1w", "--json"])
    assert found.exit_code == 0
    assert json.loads(found.stdout)["failures"] == 4
    assert "3 training failures" in CliRunner().invoke(app, ["digest", "--channel", CHANNEL]).stdout
    assert CliRunner().invoke(app, ["digest", "--since", "soon"]).exit_code == 2
