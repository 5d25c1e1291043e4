"""`kill -9` at the worst moments: after the restart, each incident has one message."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

import pytest

from tests.bot.conftest import ServiceProcess
from tests.slack.fake import FakeSlack
from tests.slack.workspace import CHANNEL

Start = Callable[..., Awaitable[ServiceProcess]]


async def settled(service: ServiceProcess, incident_id: str) -> None:
    """Wait until the service has nothing left to say."""
    await service.client.incident(incident_id, lambda it: it["messages"])
    async with asyncio.timeout(30):
        while "firstfault_outbox_waiting 0.0" not in (await service.client.ask("GET", "/metrics"))[1]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def the_one_message(slack: FakeSlack) -> str:
    """Return what the channel's only message says."""
    (message,) = slack.workspace.messages(CHANNEL)
    posted = [call.arguments["metadata"]["event_payload"]["key"] for call in slack.called("chat.postMessage")]
    assert len(posted) == len(set(posted)), "nothing is posted twice, in the thread neither"
    return str(message["text"])


async def test_between_intake_and_diagnosis(start: Start, slack: FakeSlack) -> None:
    service = await start(first_post_seconds=2)
    incident_id = await service.client.open(job={"name": "pretrain", "state": "FAILED"}, expected_reporters=2)
    assert (await service.client.put(incident_id, "rank-0.log", b"ValueError: bad shard 17\n"))[0] == 202
    await service.client.complete(incident_id)
    await service.end(signal.SIGKILL)
    assert slack.workspace.messages(CHANNEL) == []

    await service.start()
    await settled(service, incident_id)
    assert "pretrain" in the_one_message(slack)


@pytest.mark.parametrize("moment", [0.0, 0.3, 1.0])
async def test_at_any_moment_after_the_last_report(start: Start, slack: FakeSlack, moment: float) -> None:
    service = await start(first_post_seconds=0)
    incident_id = await service.client.report()
    await asyncio.sleep(moment)
    await service.end(signal.SIGKILL)
    await service.start()
    await settled(service, incident_id)
    assert "pretrain" in the_one_message(slack)


@pytest.mark.parametrize("fault", ["delay-before", "delay-after"])
async def test_while_slack_takes_the_message(start: Start, slack: FakeSlack, fault: str) -> None:
    """The request is under way: Slack has it already, or takes it only after the service has started again."""
    slack.fail("chat.postMessage", fault, 3)  # type: ignore[arg-type]
    service = await start(first_post_seconds=0)
    incident_id = await service.client.report()
    async with asyncio.timeout(30):
        while not slack.called("chat.postMessage"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await service.end(signal.SIGKILL)
    await service.start()
    await settled(service, incident_id)
    assert "pretrain" in the_one_message(slack)


async def test_a_polite_end_finishes_the_message_in_hand(start: Start, slack: FakeSlack) -> None:
    slack.fail("chat.postMessage", "delay-after", 1)
    service = await start(first_post_seconds=0)
    incident_id = await service.client.report()
    async with asyncio.timeout(30):
        while not slack.called("chat.postMessage"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await service.end(signal.SIGTERM) == 0
    await service.start()
    assert (await service.client.incident(incident_id))["messages"]
    the_one_message(slack)
    assert not slack.called("conversations.history"), "nothing was in doubt"
