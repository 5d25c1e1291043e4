"""The examples of docs/reporting.md, run as they stand there by a shell with curl, against the running service."""

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
from tests.bot.conftest import FAILED_RANK_0, TOKEN, Client, settings_in

PAGE = Path(bot.__file__).parents[1] / "docs" / "reporting.md"


def examples(url: str) -> str:
    """All blocks of the page that call curl, one script, with the service's address in them."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    script = "\n".join(block for block in blocks if "curl" in block)
    assert "https://firstfault.example.com" in script
    return "set -eu\n" + script.replace("https://firstfault.example.com", url)


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
    assert b"401" in err
    assert b"firstfault cluster add NAME" in out


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl here")
async def test_every_example_with_curl_works_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-0.log").write_bytes(FAILED_RANK_0)
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
        log, _, shown, alerts = answers
        assert log["bytes"] == len(FAILED_RANK_0)
        assert shown["key"]["job_id"] == "881"
        assert [each["name"] for each in shown["logs"]] == ["gpu-n17/rank-0.log"]
        told = await client.incident(alerts["incidents"][0]["id"], lambda it: it["diagnosis"])
        assert "device-side assert" in json.dumps(told["diagnosis"]["document"])
        reported = await client.incident(shown["id"], lambda it: it["diagnosis"])
        assert "bad shard 17" in json.dumps(reported["diagnosis"]["document"])
