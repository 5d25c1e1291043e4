"""The whole service against a Slack server that nobody here wrote: from the post to the answer to a person's question."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.server import running
from bot.settings import Slack, SlackMode
from bot.slack.app import EVENTS_PATH
from bot.slack.poster import EVENT_TYPE, web_client
from tests.bot.conftest import Client, settings_in
from tests.bot.rehearsal import fails, settles
from tests.slack.emulator import BOT_TOKEN, PERSON_TOKEN, SIGNING_SECRET, Emulator
from tests.slack.judges import builders, house, sdk
from tests.slack.judges.sent import Payload

pytestmark = pytest.mark.emulator

Message = dict[str, Any]


@dataclass
class Night:
    """The service, the workspace as the app and as a person see it, and a cluster that reports."""

    channel: str
    app: AsyncWebClient
    alice: AsyncWebClient
    client: Client

    async def fails(self, job_id: str) -> None:
        """Let the recorded job fail under a number; return when all is said."""
        await fails(self.client, job_id)

    async def settles(self) -> None:
        """Wait until nothing has waited to be sent for a while."""
        await settles(self.client)

    async def messages(self) -> list[Message]:
        """What the service has said in the channel itself."""
        page = await self.app.conversations_history(channel=self.channel, include_all_metadata=True)
        return [said for said in page["messages"] if (said.get("metadata") or {}).get("event_type") == EVENT_TYPE]

    async def thread(self, ts: str) -> list[Message]:
        """The replies under a message."""
        page = await self.app.conversations_replies(channel=self.channel, ts=ts, limit=200)
        return list(page["messages"][1:])

    async def answer(self, ts: str, question: str) -> Message:
        """Ask in a thread as a person; return what the service says next."""
        before = len(await self.thread(ts))
        await self.alice.chat_postMessage(channel=self.channel, thread_ts=ts, text=question)
        async with asyncio.timeout(30):
            while len(thread := await self.thread(ts)) < before + 2:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await self.settles()
        asked, *answers = (await self.thread(ts))[before:]
        assert asked["text"] == question
        assert len(answers) == 1, thread
        return dict(answers[0])


@pytest.fixture
async def night(emulated: Emulator, tmp_path: Path) -> AsyncIterator[Night]:
    app = web_client(BOT_TOKEN, emulated.base_url)
    listed = await app.conversations_list(types="public_channel")
    channel = next(each["id"] for each in listed["channels"] if each["name"] == "train-failures")
    await app.conversations_join(channel=channel)
    workspace = Slack(
        mode=SlackMode.HTTP,
        channel=channel,
        bot_token=BOT_TOKEN,
        signing_secret=SIGNING_SECRET,
        api_url=emulated.base_url,
    )
    async with aiohttp.ClientSession() as session, running(settings_in(tmp_path, slack=workspace)) as service:
        await emulated.subscribe(service.url + EVENTS_PATH)
        yield Night(channel, app, web_client(PERSON_TOKEN, emulated.base_url), Client(session, service.url))


async def test_from_the_post_to_an_answer_with_a_citation(night: Night) -> None:
    await night.fails("48213")
    (posted,) = await night.messages()
    assert "48213" in posted["text"]
    assert not posted.get("edited")

    thread = await night.thread(posted["ts"])
    shown = json.dumps(thread, ensure_ascii=False)
    assert "rank 5" in shown.lower()
    assert ".log:" in shown, "the evidence is cited"
    (shared,) = [reply for reply in thread if reply.get("files")]
    log = (await night.app.files_info(file=shared["files"][0]["id"]))["file"]
    assert log["title"].endswith(".log")
    assert log["size"] > 100

    await night.fails("48399")
    (edited,) = await night.messages()
    assert edited["ts"] == posted["ts"], "edited in place"
    assert edited["edited"]
    assert "48399" in json.dumps(edited)

    answer = await night.answer(posted["ts"], "why this rank?")
    assert ".log:" in json.dumps(answer), "it cites file and line"
    assert "rank 5" in json.dumps(answer).lower()

    unlikely = await night.answer(posted["ts"], "is it safe to restart?")
    assert "restart" in json.dumps(unlikely).lower()
    for said in (*await night.messages(), *await night.thread(posted["ts"])):
        if said.get("blocks"):
            content = {"text": said["text"], "blocks": said["blocks"], "attachments": said.get("attachments") or []}
            payload = Payload(said["ts"], "message", content)
            assert [*sdk.problems(payload), *builders.problems(payload), *house.problems(payload)] == []
