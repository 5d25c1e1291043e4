"""A storm: hundreds of jobs die at once, the service is killed in the middle, and people get one message."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest

from tests.bot.conftest import Client, ServiceProcess
from tests.slack.fake import FakeSlack
from tests.slack.workspace import CHANNEL

JOBS = 500
STALE = b"""\
step 41 loss 2.31
Traceback (most recent call last):
  File "/home/alice/train.py", line 88, in <module>
    main()
  File "/home/alice/train.py", line 61, in main
    torch.save(state, path)
OSError: [Errno 116] Stale file handle: '/mnt/ckpt/run-%d/step-41.pt'
"""


async def report(client: Client, job: int) -> str:
    """Report a job as a hook with a spool does: again and again until it was taken."""
    while True:
        try:
            return await client.report(str(50_000 + job), STALE % job, name=f"job-{job}", user=f"user{job % 40}")
        except (aiohttp.ClientError, AssertionError):
            await asyncio.sleep(0.2)


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    """A Slack that refuses more than one post a second in a channel."""
    async with FakeSlack(pace=1.0) as server:
        yield server


async def test_a_storm_is_stored_whole_and_told_once(
    start: Callable[..., Awaitable[ServiceProcess]], slack: FakeSlack
) -> None:
    service = await start(first_post_seconds=0, channel_interval_seconds=1)
    jobs = iter(range(JOBS))
    incidents: dict[int, str] = {}

    async def hook() -> None:
        for job in jobs:
            incidents[job] = await report(service.client, job)

    hooks = [asyncio.create_task(hook()) for _ in range(12)]
    while len(incidents) < JOBS // 2:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    await service.end(signal.SIGKILL)
    await service.start()
    await asyncio.gather(*hooks)
    assert len(set(incidents.values())) == JOBS

    for incident_id in incidents.values():
        async with asyncio.timeout(240):
            await service.client.incident(incident_id, lambda it: it["diagnosis"])
    async with asyncio.timeout(60):
        while f"{JOBS} failures" not in parent(slack):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    async with asyncio.timeout(60):
        while "firstfault_outbox_waiting 0.0" not in (await service.client.ask("GET", "/metrics"))[1]:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    assert "tale file handle" in parent(slack)
    posts = slack.called("chat.postMessage")
    keys = [post.arguments["metadata"]["event_payload"]["key"] for post in posts]
    assert len(keys) == len(set(keys)), "nothing was posted twice"
    stamps = sorted(float(message["ts"]) for message in spoken(slack))
    assert all(later - earlier >= 0.99 for earlier, later in itertools.pairwise(stamps))


def parent(slack: FakeSlack) -> str:
    """Return what the channel's only message says."""
    messages = slack.workspace.messages(CHANNEL)
    assert len(messages) <= 1, [message["text"][:80] for message in messages]
    return str(messages[0]["text"]) if messages else ""


def spoken(slack: FakeSlack) -> list[dict[str, str]]:
    """Return the message and its thread, without files, which Slack counts apart."""
    (message,) = slack.workspace.messages(CHANNEL)
    return [message, *(reply for reply in slack.workspace.thread(message["ts"]) if not reply.get("files"))]
