"""The second opinion: the same code against a Slack server that nobody here wrote."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.app import EVENTS_PATH, build_app, events_handler
from bot.slack.commands import Commands
from bot.slack.contract import Refused, SlackFile, SlackMessage
from bot.slack.message import HEADLINE_BLOCKS, render
from bot.slack.poster import SlackPoster, web_client
from bot.slack.thread import replies
from tests.slack import blockkit, samples, scenes
from tests.slack.emulator import BOT_TOKEN, PERSON_TOKEN, SIGNING_SECRET, Emulator
from tests.slack.patience import until
from tests.slack.test_escape import HOSTILE

pytestmark = pytest.mark.emulator
EARLIER = datetime.now(UTC) - timedelta(hours=1)


@dataclass
class Room:
    """The channel, as the app and as a person see it."""

    channel: str
    poster: SlackPoster
    bot: AsyncWebClient
    alice: AsyncWebClient

    async def message(self, ts: str) -> dict[str, Any]:
        """What stands in the channel at `ts`."""
        page = await self.bot.conversations_history(channel=self.channel, include_all_metadata=True)
        found: dict[str, Any] = next(message for message in page["messages"] if message["ts"] == ts)
        return found


@pytest.fixture
async def room(emulated: Emulator) -> Room:
    """The app, member of the channel."""
    bot = web_client(BOT_TOKEN, emulated.base_url)
    listed = await bot.conversations_list(types="public_channel,private_channel")
    channel = next(each["id"] for each in listed["channels"] if each["name"] == "train-failures")
    await bot.conversations_join(channel=channel)
    return Room(channel, SlackPoster(bot), bot, web_client(PERSON_TOKEN, emulated.base_url))


async def test_a_post_stands_in_the_channel_with_blocks_and_fallback(room: Room) -> None:
    message = render(*samples.gpu_lost())
    posted = await room.poster.post(room.channel, message, "post")
    stored = await room.message(posted.ts)
    assert stored["text"] == message.text
    assert stored["blocks"] == message.blocks[:HEADLINE_BLOCKS]
    assert stored["attachments"] == [{"color": message.colour, "blocks": message.blocks[HEADLINE_BLOCKS:]}]


async def test_an_update_edits_in_place(room: Room) -> None:
    posted = await room.poster.post(room.channel, render(*samples.gpu_lost()), "update")
    later = render(*samples.host_oom())
    await room.poster.update(posted.channel, posted.ts, later)
    stored = await room.message(posted.ts)
    assert stored["text"] == later.text
    assert stored["blocks"] == later.blocks[:HEADLINE_BLOCKS]
    assert stored["edited"]


async def test_a_message_is_found_by_its_mark(room: Room) -> None:
    posted = await room.poster.post(room.channel, render(*samples.time_limit()), "find")
    assert await room.poster.find(room.channel, "find", EARLIER) == posted
    assert await room.poster.find(room.channel, "never posted", EARLIER) is None


async def test_replies_stand_in_the_thread_and_are_found_and_edited_there(room: Room) -> None:
    job, diagnosis, _ = samples.gpu_lost()
    parent = await room.poster.post(room.channel, scenes.lost_gpu(), "parent")
    found = replies(job, diagnosis, scenes.standing(), scenes.dossier(), [], [])
    told = {reply.part: reply.content for reply in found if isinstance(reply.content, SlackMessage)}
    for part, content in told.items():
        posted = await room.poster.post(room.channel, content, f"parent/{part}", parent.ts)
        assert await room.poster.find(room.channel, f"parent/{part}", EARLIER, parent.ts) == posted
        await room.poster.update(room.channel, posted.ts, content)
    thread = await room.bot.conversations_replies(channel=room.channel, ts=parent.ts)
    assert [message["text"] for message in thread["messages"][1:]] == [content.text for content in told.values()]
    assert [message["blocks"] for message in thread["messages"][1:]] == [content.blocks for content in told.values()]
    (button, *_) = (await room.message(parent.ts))["attachments"][0]["blocks"][-1]["elements"]
    assert button["action_id"] == "acknowledge"


async def test_a_log_is_shared_in_the_thread_and_found_there(room: Room) -> None:
    parent = await room.poster.post(room.channel, scenes.plain(), "with a log")
    log = SlackFile("rank-2.err", "Log of rank 2", "ValueError: expected <int>\n")
    shared = await room.poster.upload(room.channel, parent.ts, log)
    assert await room.poster.find_file(room.channel, parent.ts, log.name) == shared
    info = await room.bot.files_info(file=shared.ts)
    assert info["file"]["title"] == log.title


async def test_hostile_text_stays_inert(room: Room) -> None:
    job, diagnosis, status = samples.python_exception()
    text = " ".join(HOSTILE[name] for name in ("broadcast", "user", "fence", "ansi", "right-to-left"))
    evidence = [diagnosis.evidence[0].model_copy(update={"text": text})]
    cause = diagnosis.cause.model_copy(update={"title": text, "summary": text})
    hostile = diagnosis.model_copy(update={"evidence": evidence, "cause": cause})
    posted = await room.poster.post(room.channel, render(job, hostile, status), "hostile")
    stored = await room.message(posted.ts)
    blocks = stored["blocks"] + stored["attachments"][0]["blocks"]
    assert blockkit.live(stored["text"]) == []
    live = [found for each in blockkit.parsed_texts(blocks) for found in blockkit.live(each)]
    assert live == [f"<{samples.URL}|Incident>"]
    assert "\x1b" not in str(stored)
    assert "\u202e" not in str(stored)


async def test_a_private_channel_refuses_a_stranger(room: Room) -> None:
    with pytest.raises(Refused) as refused:
        await room.poster.post("secret-project", render(*samples.gpu_lost()), "private")
    assert "invite" in refused.value.remedy


async def test_a_signed_event_reaches_the_app(room: Room, emulated: Emulator) -> None:
    app, heard = build_app(room.bot, Commands(), SIGNING_SECRET), []

    @app.event("message")
    async def note(event: dict[str, Any]) -> None:
        heard.append(event["text"])

    service = web.Application()
    service.router.add_post(EVENTS_PATH, events_handler(app, SIGNING_SECRET))
    runner = web.AppRunner(service)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    await emulated.subscribe(f"http://127.0.0.1:{runner.addresses[0][1]}{EVENTS_PATH}")
    await room.alice.chat_postMessage(channel=room.channel, text="why did rank 3 fail?")
    await until(lambda: heard)
    await runner.cleanup()
    assert heard[0] == "why did rank 3 fail?"
