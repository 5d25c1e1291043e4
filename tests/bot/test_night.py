"""A night in Slack with the whole service: it posts, people act and ask, and the same failure comes again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.server import running
from bot.settings import Slack, SlackMode
from bot.slack import buttons, modals
from tests.bot.conftest import Client, settings_in
from tests.bot.rehearsal import fails, settles
from tests.slack.fake import FakeSlack
from tests.slack.workspace import APP_TOKEN, BOT_TOKEN, CHANNEL


@dataclass
class Night:
    """The service, a workspace, and a cluster that reports."""

    slack: FakeSlack
    client: Client

    async def fails(self, job_id: str) -> str:
        """Let the recorded job fail under a number; return the incident's id once it was told."""
        return await fails(self.client, job_id)

    async def settles(self) -> None:
        """Wait until all is said."""
        await settles(self.client)

    async def until(self, holds: Callable[[], object]) -> Any:
        async with asyncio.timeout(60):
            while not (found := holds()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return found

    @property
    def message(self) -> dict[str, Any]:
        """The newest message of the channel itself."""
        return self.slack.workspace.messages(CHANNEL)[-1]

    def thread(self) -> list[str]:
        """What stands under it, with all that blocks say."""
        return [json.dumps(reply, ensure_ascii=False) for reply in self.slack.workspace.thread(self.message["ts"])]

    def answers(self) -> list[str]:
        """The answers to questions in it."""
        return [reply for reply in self.thread() if '"key": "answer/' in reply]


@pytest.fixture
async def night(tmp_path: Path, slack: FakeSlack, session: aiohttp.ClientSession) -> AsyncIterator[Night]:
    workspace = Slack(
        mode=SlackMode.SOCKET, channel=CHANNEL, bot_token=BOT_TOKEN, app_token=APP_TOKEN, api_url=slack.base_url
    )
    async with running(settings_in(tmp_path, slack=workspace)) as service:
        found = Night(slack, Client(session, service.url))
        await found.until(lambda: slack.sockets)
        yield found


async def test_from_the_failure_to_its_end(night: Night) -> None:
    await night.fails("48213")
    ts = night.message["ts"]
    assert len(night.slack.workspace.messages(CHANNEL)) == 1
    assert any("ranks" in reply.lower() for reply in night.thread())
    assert any('"files"' in reply for reply in night.thread()), "the log is there"

    await night.slack.click(ts, buttons.ACKNOWLEDGE)
    await night.until(lambda: "acknowledged" in night.message["text"].lower())
    assert night.message["ts"] == ts, "edited in place"

    await night.slack.write("why this rank?", thread_ts=ts, retry=2)
    await night.until(lambda: night.answers())
    await night.settles()
    (answer,) = night.answers()
    assert ".log:" in answer, "it cites a line"

    await night.slack.click(ts, buttons.RESOLVE)
    view = await night.until(lambda: night.slack.views.opened[-1] if night.slack.views.opened else None)
    await night.slack.submit(view, {modals.REASON: "fixed", modals.NOTE: "the shard was replaced"})
    await night.until(lambda: "resolved" in night.message["text"].lower())
    assert "the shard was replaced" in json.dumps(night.message)
    assert night.slack.slowest < 3


async def test_again_after_it_was_resolved_is_a_new_message_that_knows_the_old(night: Night) -> None:
    await night.fails("48213")
    first = night.message
    await night.slack.click(first["ts"], buttons.RESOLVE)
    view = await night.until(lambda: night.slack.views.opened[-1] if night.slack.views.opened else None)
    await night.slack.submit(view, {modals.REASON: "fixed"})
    await night.until(lambda: "resolved" in night.message["text"].lower())
    await night.fails("48399")
    await night.until(lambda: len(night.slack.workspace.messages(CHANNEL)) == 2)
    shown = json.dumps(night.message)
    assert first["ts"].replace(".", "") in shown, "it links the old one"
    assert "2nd time" in shown


async def test_the_same_failure_while_it_is_open_is_counted_in_the_old_message(night: Night) -> None:
    await night.fails("48213")
    await night.fails("48399")
    await night.until(lambda: "48399" in json.dumps(night.message))
    assert len(night.slack.workspace.messages(CHANNEL)) == 1


async def test_a_mute_keeps_a_channel_quiet(night: Night) -> None:
    await night.fails("48213")
    await night.slack.click(night.message["ts"], buttons.MUTE, "8h")
    await night.until(lambda: "muted" in night.message["text"].lower())
    posts = len(night.slack.called("chat.postMessage"))
    await night.fails("48399")
    await night.until(lambda: "48399" in json.dumps(night.message))
    assert len(night.slack.called("chat.postMessage")) == posts


async def test_the_slash_command_finds_the_job_and_the_channels_state(night: Night) -> None:
    await night.fails("48213")
    for line, expected in (("48213", ".log:"), ("status", "48213"), ("history", "48213"), ("digest", "1")):
        night.slack.responses.clear()
        await night.slack.slash(line)
        await night.until(lambda: night.slack.responses)
        assert expected in json.dumps(night.slack.responses[-1]), line
