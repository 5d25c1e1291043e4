"""`firstfault cluster`: a token, shown once, that works until it is taken away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from bot.cli.cluster import add, database_of, remove, show
from bot.server import running
from bot.settings import Settings, Slack, SlackMode
from tests.bot.conftest import TOKEN, Client, opening, settings_in


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "firstfault.toml"
    file.write_text(f'data_dir = "{tmp_path / "data"}"\nslack = {{ mode = "console" }}\n')
    return file


def test_a_new_token_lets_the_cluster_in_and_the_old_one_no_longer(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add("rhine", config) == 0
    told = capsys.readouterr()
    first = told.out.strip()
    assert str(tmp_path / "data") in told.err, "a token of another database lets nobody in"
    assert add("rhine", config) == 1
    assert "--renew" in capsys.readouterr().err
    assert add("rhine", config, renew=True) == 0
    second = capsys.readouterr().out.strip()

    async def statuses() -> list[int]:
        async with running(settings_in(tmp_path / "data")) as service, aiohttp.ClientSession() as session:
            client = Client(session, service.url)
            return [
                (await client.ask("POST", "/v1/incidents", token=token, json=opening()))[0] for token in (first, second)
            ]

    assert asyncio.run(statuses()) == [401, 202]
    kept = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert second.encode() not in kept


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "x" * 101])
def test_a_name_that_is_no_name_is_refused(config: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert add(name, config) == 2
    assert capsys.readouterr().out == ""


def test_a_token_that_is_removed_lets_nobody_in_and_the_incidents_stay(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add("rhine", config)
    token = capsys.readouterr().out.strip()

    async def open_and_remove() -> list[int]:
        async with running(settings_in(tmp_path / "data")) as service, aiohttp.ClientSession() as session:
            client = Client(session, service.url)
            first, _ = await client.ask("POST", "/v1/incidents", token=token, json=opening())
            assert await asyncio.to_thread(remove, "rhine", config) == 0  # while the service runs
            second, _ = await client.ask("POST", "/v1/incidents", token=token, json=opening())
            return [first, second]

    assert asyncio.run(open_and_remove()) == [202, 401]
    assert remove("rhine", config) == 1
    capsys.readouterr()
    assert show(config) == 0
    (row,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("rhine")]
    assert (row[1], row[3]) == ("removed", "1")
    assert add("rhine", config) == 0
    show(config)
    assert "removed" not in capsys.readouterr().out


def test_a_cluster_that_never_reported_is_gone_altogether(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add("rhine", config)
    assert remove("rhine", config) == 0
    capsys.readouterr()
    assert show(config) == 0
    assert "no cluster may report" in capsys.readouterr().out


def test_all_clusters_are_listed_with_where_their_token_is(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(config.read_text() + f'[clusters.elbe]\ntoken = "{"x" * 20}"\n')
    add("rhine", config)
    capsys.readouterr()
    assert show(config) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert list(rows) == ["NAME", "rhine", "elbe"]
    assert rows["rhine"].split()[1] == "yes"
    assert "from the settings" in rows["elbe"]


def test_what_cannot_be_removed_is_said(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert remove("nobody", config) == 1
    assert "no cluster 'nobody'" in capsys.readouterr().err
    config.write_text(config.read_text() + f'[clusters.elbe]\ntoken = "{"x" * 20}"\n')
    assert remove("elbe", config) == 1
    assert "out of the settings" in capsys.readouterr().err


@pytest.mark.parametrize("renew", [False, True])
def test_no_token_is_handed_out_that_the_settings_would_void(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], renew: bool
) -> None:
    config.write_text(config.read_text() + f'[clusters.alps]\ntoken = "{TOKEN}"\n')
    assert add("alps", config, renew=renew) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "alps has its token from the settings (clusters.alps); change it there and restart the service" in told.err
    assert not (tmp_path / "data").exists()


def test_looking_and_removing_name_the_database_and_make_none(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(config) == 0
    told = capsys.readouterr()
    assert "no cluster may report" in told.out
    assert f"{tmp_path / 'data'}/firstfault.db, which is not made yet" in told.err
    assert remove("rhine", config) == 1
    assert f"{tmp_path / 'data'}/firstfault.db, which is not made yet" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
    add("rhine", config)
    capsys.readouterr()
    show(config)
    assert capsys.readouterr().err == f"firstfault: the database is sqlite+aiosqlite:///{tmp_path}/data/firstfault.db\n"
    assert remove("elbe", config) == 1
    assert f"{tmp_path}/data/firstfault.db" in capsys.readouterr().err


def test_the_password_of_a_database_is_not_shown() -> None:
    settings = Settings(
        database_url="postgresql+asyncpg://me:hunter2@db.example.com/ff", slack=Slack(mode=SlackMode.CONSOLE)
    )
    assert database_of(settings) == "postgresql+asyncpg://me:***@db.example.com/ff"
