"""The examples of the documents as they stand there: those with curl run by a shell against the running service."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path

import aiohttp
import pytest

import bot
from bot.server import running
from bot.settings import load
from tests.bot.conftest import FAILED_RANK_0, TOKEN, Client, settings_in

ROOT = Path(bot.__file__).parents[1]
PAGE = ROOT / "docs" / "reporting.md"


def examples(url: str) -> str:
    """All blocks of the page that call curl, one script, with the service's address in them."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    script = "\n".join(block for block in blocks if "curl" in block)
    assert "https://firstfault.example.com" in script
    return "set -eu\n" + script.replace("https://firstfault.example.com", url)


@pytest.mark.parametrize("page", ["README.md", "docs/reporting.md", "docs/slurm.md"])
def test_what_is_typed_where_the_package_is_installed_names_its_path(page: str) -> None:
    blocks = (ROOT / page).read_text("utf-8").split("```")[1::2]
    typed = re.findall(r"(\S*)firstfault (?:cluster|hook) ", "\n".join(blocks))
    assert typed
    assert set(typed) == {"/opt/firstfault/bin/"}


def test_the_smallest_settings_leave_the_clusters_to_the_command(tmp_path: Path) -> None:
    smallest = (ROOT / "docs" / "configuration.md").read_text("utf-8").split("```toml\n")[1].partition("```")[0]
    (tmp_path / "firstfault.toml").write_text(smallest)
    settings = load(tmp_path / "firstfault.toml")
    assert settings.slack.channel == "C0123456789"
    assert settings.clusters == {}


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl here")
async def test_an_example_that_is_refused_shows_why(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("another-test-not-a-token\n")
    (tmp_path / "logs").mkdir()
    async with running(settings_in(tmp_path / "data")) as service:
        shell = await asyncio.create_subprocess_exec(
            "sh", "-c", examples(service.url), cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )  # fmt: skip
        out, err = await asyncio.wait_for(shell.communicate(), 60)
    assert shell.returncode
    assert err.count(b"401") == 1, "nothing is tried after the incident was not opened"
    assert b"firstfault cluster add NAME" in out


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl here")
async def test_every_example_with_curl_works_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "logs").mkdir()
    names = ["rank-0.log", "a 100% full disk #2?.log", "node-1/rank-[8].log"]
    (tmp_path / "logs" / "node-1").mkdir()
    for name in names:
        (tmp_path / "logs" / name).write_bytes(FAILED_RANK_0)
    async with running(settings_in(tmp_path / "data")) as service, aiohttp.ClientSession() as session:
        client = Client(session, service.url)
        shell = await asyncio.create_subprocess_exec(
            "sh", "-c", examples(service.url), cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )  # fmt: skip
        out, err = await asyncio.wait_for(shell.communicate(), 60)
        assert shell.returncode == 0, err.decode()
        decoder, answers = json.JSONDecoder(), []
        text = out.decode().strip()
        while text:
            answer, end = decoder.raw_decode(text)
            answers.append(answer)
            text = text[end:].lstrip()
        *logs, _, shown, alerts = answers
        assert [log["bytes"] for log in logs] == [len(FAILED_RANK_0)] * len(names)
        assert shown["key"]["job_id"] == "881"
        assert {each["name"] for each in shown["logs"]} == {f"gpu-n17/{name}" for name in names}
        told = await client.incident(alerts["incidents"][0]["id"], lambda it: it["diagnosis"])
        assert "device-side assert" in json.dumps(told["diagnosis"]["document"])
        reported = await client.incident(shown["id"], lambda it: it["diagnosis"])
        assert "bad shard 17" in json.dumps(reported["diagnosis"]["document"])
