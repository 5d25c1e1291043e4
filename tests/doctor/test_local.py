"""What the doctor says of the machine: real folders, real databases, a real service."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from bot.doctor import local
from bot.doctor.examine import check_at_start, examine
from bot.doctor.finding import Finding, Level
from bot.server import running
from bot.settings import Settings
from storage.database import Database
from tests.slack.fake import FakeSlack
from tests.slack.workspace import BOT_TOKEN, CHANNEL, SIGNING_SECRET


def settings(folder: Path, **more: Any) -> Settings:
    """Settings of a service without Slack, with its data in `folder` and a port that nobody has."""
    listen = more.pop("listen", {"port": free_port()})
    slack = {"mode": "console", "channel": "C0MAIN"}
    given = {"data_dir": folder / "data", "slack": slack, "listen": listen, **more}
    return Settings.model_validate(given)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def examined(given: Settings) -> dict[str, Finding]:
    findings = await examine(given)
    assert all(finding.remedy for finding in findings if finding.level is not Level.OK)
    return {finding.check: finding for finding in findings}


async def test_before_the_first_start_nothing_fails_and_nothing_is_made(tmp_path: Path) -> None:
    given = settings(tmp_path)
    found = await examined(given)
    assert [check for check, finding in found.items() if finding.level is not Level.OK] == ["public_url"]
    assert "first start" in found["database"].detail
    assert "data_dir is made at the first start" in found["logs"].detail
    assert "no service runs" in found["port"].detail
    assert not given.data_dir.exists()


async def test_a_folder_for_data_that_is_there_is_not_said_to_be_made(tmp_path: Path) -> None:
    given = settings(tmp_path)
    given.data_dir.mkdir()
    assert (await examined(given))["logs"].detail.endswith(f"free in {given.data_dir}")


async def test_beside_a_service_it_says_that_it_runs_and_is_fit(tmp_path: Path) -> None:
    given = settings(tmp_path)
    async with running(given):
        found = await examined(given)
    assert found["service"].level is Level.OK
    assert found["database"].level is Level.OK
    assert "those of this version" in found["database"].detail


@pytest.fixture
async def stranger() -> AsyncIterator[int]:
    """The port of a program that is not ours."""

    async def hello(request: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


async def test_a_port_that_another_program_has_fails(tmp_path: Path, stranger: int) -> None:
    finding = (await examined(settings(tmp_path, listen={"port": stranger})))["port"]
    assert finding.level is Level.FAIL
    assert "another program" in finding.detail


async def test_an_address_that_leads_elsewhere_is_a_warning(tmp_path: Path, stranger: int) -> None:
    finding = (await examined(settings(tmp_path, public_url=f"http://127.0.0.1:{stranger}")))["public_url"]
    assert finding.level is Level.WARN
    assert "HTTP 200" in finding.detail


async def test_an_address_that_leads_to_the_service_is_well(tmp_path: Path) -> None:
    port = free_port()
    given = settings(tmp_path, listen={"port": port}, public_url=f"http://127.0.0.1:{port}")
    async with running(given):
        assert (await examined(given))["public_url"].level is Level.OK


def over_http(slack: FakeSlack) -> dict[str, Any]:
    given = {"channel": CHANNEL, "bot_token": BOT_TOKEN, "signing_secret": SIGNING_SECRET, "api_url": slack.base_url}
    return {"mode": "http", **given}


async def test_over_http_the_address_that_slack_calls_must_turn_strangers_away(
    tmp_path: Path, slack: FakeSlack
) -> None:
    port = free_port()
    given = settings(tmp_path, listen={"port": port}, public_url=f"http://127.0.0.1:{port}", slack=over_http(slack))
    async with running(given):
        assert (await examined(given))["events address"].level is Level.OK
    assert (await examined(given))["events address"].level is Level.WARN


async def test_an_address_that_takes_anything_is_not_ours(tmp_path: Path, slack: FakeSlack, stranger: int) -> None:
    given = settings(tmp_path, public_url=f"http://127.0.0.1:{stranger}", slack=over_http(slack))
    assert "HTTP 200" in (await examined(given))["events address"].detail


async def test_tables_of_another_version_are_a_warning(tmp_path: Path) -> None:
    given = settings(tmp_path)
    database = Database(given.database)
    await database.migrate()
    await database.downgrade("base")
    await database.close()
    finding = (await examined(given))["database"]
    assert finding.level is Level.WARN
    assert "migrates" in finding.remedy


async def test_a_file_that_is_no_database_fails_and_stays_as_it_is(tmp_path: Path) -> None:
    given = settings(tmp_path)
    given.data_dir.mkdir()
    file = given.data_dir / "firstfault.db"
    file.write_text("this is no database, but somebody's notes\n" * 100)
    finding = (await examined(given))["database"]
    assert finding.level is Level.FAIL
    assert file.read_text().startswith("this is no database")


@pytest.mark.parametrize(
    "url",
    ["postgresql+asyncpg://me:hunter2@127.0.0.1:9/db", "sqlite+aiosqlite://me:hunter2@/x", "hunter2", "hunter2://"],
)
async def test_a_database_that_cannot_be_used_fails_without_showing_its_password(tmp_path: Path, url: str) -> None:
    found = await examined(settings(tmp_path, database_url=url))
    assert found["database"].level is Level.FAIL
    assert "me:hunter2" not in str(found)


def test_a_folder_in_which_nothing_can_be_written_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (finding,) = local.disk(tmp_path / "file" / "data")
    assert finding.level is Level.FAIL
    assert "data_dir" in finding.remedy


@pytest.mark.parametrize(
    ("free", "level"), [(10 << 30, Level.OK), (1 << 30, Level.WARN), (100 << 20, Level.FAIL)], ids=str
)
def test_room_on_the_disk_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, level: Level) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    (finding,) = local.disk(tmp_path)
    assert finding.level is level


async def test_a_cluster_whose_token_cannot_be_read_fails(tmp_path: Path) -> None:
    found = await examined(settings(tmp_path, clusters={"alps": {"token_file": tmp_path / "missing"}}))
    assert found["cluster alps"].level is Level.FAIL


async def test_a_rule_that_is_never_reached_is_a_warning(tmp_path: Path) -> None:
    routes = [{"channels": ["C0A"]}, {"name": "late", "channels": ["C0B"]}]
    assert (await examined(settings(tmp_path, routes=routes)))["routes"].level is Level.WARN


async def test_the_start_logs_what_is_wrong_and_goes_on(tmp_path: Path) -> None:
    given = settings(tmp_path, routes=[{"channels": ["C0A"]}, {"channels": ["C0B"]}])
    with capture_logs() as logs:
        wrong = await check_at_start(given)
    assert [finding.check for finding in wrong] == ["routes"]
    assert [(entry["log_level"], entry["check"]) for entry in logs] == [("warning", "routes")]
    assert logs[0]["remedy"]


async def test_a_check_that_breaks_does_not_end_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*given: object) -> list[Finding]:
        raise RuntimeError("no idea")

    monkeypatch.setattr("bot.doctor.examine.examine_slack", broken)
    with capture_logs() as logs:
        assert await asyncio.create_task(check_at_start(settings(tmp_path))) == []
    assert "no idea" in logs[-1]["error"]
