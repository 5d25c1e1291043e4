"""`firstfault report` against the service: what it makes of job.json, and what it says of it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import aiohttp
import pytest

from bot.server import running
from tests.bot.conftest import TOKEN, Client, settings_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a job's logs and a token."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/rank-0.log").write_text("RuntimeError: boom\n")
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text(TOKEN)
    return tmp_path


async def report(folder: Path, *options: str, job: dict[str, object] | None = None) -> tuple[int, str, str]:
    """Status, standard output and standard error of the command in a home without settings."""
    if job is not None:
        await asyncio.to_thread((folder / "job.json").write_text, json.dumps(job))
        options = (*options, "--job", str(folder / "job.json"))
    command = ["-m", "bot.cli", "report", "--logs", str(folder / "logs"), *options]
    env = {"HOME": str(folder), "FIRSTFAULT_HOOK_CONFIG": str(folder / "hook.conf")}
    pipe = asyncio.subprocess.PIPE
    run = await asyncio.create_subprocess_exec(sys.executable, *command, env=env, stdout=pipe, stderr=pipe)
    out, err = await run.communicate()
    return run.returncode or 0, out.decode(), err.decode()


async def reported(folder: Path, job: dict[str, object] | None) -> tuple[dict[str, object], str]:
    """The incident that a running service has of it, and what the command said beside it."""
    async with running(settings_in(folder / "data")) as service, aiohttp.ClientSession() as session:
        to = ("--bot", service.url, "--token-file", str(folder / "token"))
        status, out, err = await report(folder, *to, job=job)
        assert status == 0, err
        word, incident, address = out.split()
        assert (word, address) == ("incident", f"{service.url}/v1/incidents/{incident}")
        _, seen = await Client(session, service.url).ask("GET", f"/v1/incidents/{incident}")
        return seen, err


@pytest.mark.parametrize("signal", ["SIGKILL", "kill", " 9", 9])
async def test_a_signal_is_told_by_name_or_number(folder: Path, signal: object) -> None:
    seen, _ = await reported(folder, {"job_id": "881", "signal": signal})
    assert seen["job"]["signal"] == 9  # type: ignore[index]


async def test_a_time_without_a_zone_is_taken_for_utc_and_said(folder: Path) -> None:
    times = {"started_at": "2026-11-30T08:05:38", "ended_at": "2026-11-30T10:05:38+01:00"}
    _, said = await reported(folder, {"job_id": "881", **times})
    assert "job.json: started_at has no zone and is taken for UTC" in said
    assert "ended_at" not in said


async def test_a_job_without_an_id_says_that_the_next_call_makes_another(folder: Path) -> None:
    seen, said = await reported(folder, None)
    assert f"the job has no job_id and is now {seen['key']['job_id']}" in said  # type: ignore[index]
    _, said = await reported(folder, {"job_id": "881"})
    assert "no job_id" not in said
    assert "only to who sends the token" in said


async def test_without_a_service_named_anywhere_it_says_how_to_name_one(folder: Path) -> None:
    status, out, err = await report(folder)
    assert (status, out) == (2, "")
    assert err.startswith("firstfault: name the service: --bot URL --token-file FILE, or make ")


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ({"scheduler": "My LSF"}, 'scheduler must be one lower-case word, such as "lsf"'),
        ({"signal": "SIGNOTHING"}, 'signal must be a number or a name, such as 9 or "SIGKILL"'),
        ({"exit_code": "bad"}, "exit_code must be a whole number"),
        ({"attempt": -1}, "attempt must be a whole number from 0"),
        ({"job_id": ""}, "job_id must have 1 to 200 characters, in one line"),
        ({"nodes": "n1"}, 'nodes must be a list, such as ["gpu-n17", "gpu-n18"]'),
        ({"name": ["a"]}, "name must be text"),
        ({"ended_at": "yesterday"}, 'ended_at must be a time, such as "2026-11-30T08:05:38Z"'),
    ],
)
async def test_a_wrong_field_is_told_in_words_of_the_page(folder: Path, job: dict[str, object], why: str) -> None:
    status, out, err = await report(folder, "--bot", "http://127.0.0.1:9", "--token-file", f"{folder}/token", job=job)
    assert (status, out) == (2, "")
    assert err == f"firstfault: {folder}/job.json: {why}; see docs/reporting.md\n"
