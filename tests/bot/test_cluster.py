"""`firstfault cluster add`: a token, shown once, that works."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from bot.cli.cluster import add
from bot.server import running
from tests.bot.conftest import Client, opening, settings_in


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "firstfault.toml"
    file.write_text(f'data_dir = "{tmp_path / "data"}"\nslack = {{ mode = "console" }}\n')
    return file


def test_a_new_token_lets_the_cluster_in_and_the_old_one_no_longer(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add("rhine", config) == 0
    first = capsys.readouterr().out.strip()
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
