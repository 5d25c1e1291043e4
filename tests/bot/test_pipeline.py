"""From reports to a verdict and a message, as a channel sees it through the console that stands in for Slack."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

import bot.demo
from bot.server import running
from knowledge import diagnose
from tests.bot.conftest import FAILED_RANK_0, Client, settings_in

RECORDING = Path(bot.demo.__path__[0]) / "recording"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pipeline")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(folder: Path) -> AsyncIterator[Client]:
    async with running(settings_in(folder)) as service, aiohttp.ClientSession() as session:
        yield Client(session, service.url)


async def test_a_recorded_job_is_diagnosed_as_the_command_line_does(client: Client, folder: Path) -> None:
    incident_id = await client.open("recorded", job=json.loads((RECORDING / "job.json").read_text()))
    for log in sorted((RECORDING / "logs").rglob("*.log")):
        name = log.relative_to(RECORDING / "logs").as_posix()
        assert (await client.put(incident_id, name, log.read_bytes()))[0] == 202
    await client.complete(incident_id)
    incident = await client.incident(incident_id, lambda it: it["diagnosis"] and it["messages"])
    expected = diagnose([RECORDING])
    document = incident["diagnosis"]["document"]
    assert document["cause"]["id"] == expected.cause.id
    assert document["initiating"] == expected.initiating.model_dump()
    assert [line["text"] for line in document["evidence"]] == [line.text for line in expected.evidence]
    assert document["stats"]["lines"] > 100
    assert incident["state"] == "diagnosed"


async def test_the_message_is_edited_as_nodes_report_never_repeated(client: Client, folder: Path) -> None:
    incident_id = await client.open("edited", expected_reporters=2)
    await client.complete(incident_id)
    message = (await client.incident(incident_id, lambda it: it["messages"]))["messages"][0]
    assert [action["action"] for action in said(folder, message["ts"])] == ["post"]
    await client.put(incident_id, "gpu-n02/rank-1.log", FAILED_RANK_0)
    await client.complete(incident_id, reporter="gpu-n02")
    await client.incident(incident_id, lambda _: "ValueError" in json.dumps(said(folder, message["ts"])[-1]))
    assert {action["action"] for action in said(folder, message["ts"])[1:]} == {"update"}
    assert [each["ts"] for each in (await client.incident(incident_id))["messages"]].count(message["ts"]) == 1


async def test_what_is_no_failure_is_stored_and_not_said(client: Client, folder: Path) -> None:
    incident_id = await client.report(
        "cancelled", b"step 41 loss 2.31\nstep 42 loss 2.30\n", state="CANCELLED", reason="CANCELLED by 1001"
    )
    incident = await client.incident(incident_id, lambda it: it["diagnosis"])
    assert incident["diagnosis"]["document"]["outcome"] == "not-a-failure"
    await client.report("after", state="FAILED")
    await client.incident(await client.open("after"), lambda it: it["messages"])
    assert (await client.incident(incident_id))["messages"] == []


async def test_a_report_without_any_log_says_so(client: Client) -> None:
    incident_id = await client.open("no-logs", expected_reporters=1, job={"state": "NODE_FAIL"})
    await client.complete(incident_id)
    incident = await client.incident(incident_id, lambda it: it["diagnosis"] and it["messages"])
    assert incident["diagnosis"]["error"] is None
    assert incident["diagnosis"]["document"]["outcome"] == "failed"


async def test_it_is_told_whether_all_that_came_was_diagnosed_though_the_verdict_stays(client: Client) -> None:
    incident_id = await client.open("same-again", expected_reporters=2, job={"state": "TIMEOUT"})
    assert not (await client.incident(incident_id))["current"]
    await client.complete(incident_id)
    await client.incident(incident_id, lambda it: it["current"])
    await client.complete(incident_id, reporter="gpu-n02")
    incident = await client.incident(incident_id, lambda it: it["current"])
    assert incident["diagnosis"]["version"] == 1


def said(folder: Path, ts: str) -> list[dict[str, Any]]:
    """Return what the console's message at `ts` said, first to last."""
    record = folder / "console.jsonl"
    lines = record.read_text().splitlines() if record.exists() else []
    return [line for line in map(json.loads, lines) if line["ts"] == ts]
