"""One message, once, at the channel's pace, whatever Slack does: the real client against a strict fake of Slack."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bot.metrics import Metrics
from bot.outbox import Sender
from bot.settings import Outbox as OutboxSettings
from bot.slack.poster import SlackPoster, web_client
from bot.wake import Wake
from storage.blobs import BlobStore
from storage.database import Database
from storage.outbox import Draft, queue
from storage.repository import Repository
from storage.tables import OutgoingKind
from tests.slack.fake import FakeSlack
from tests.slack.workspace import BOT_TOKEN, CHANNEL

FAST = OutboxSettings(channel_interval_seconds=0, settle_seconds=0, longest_wait_seconds=0.05, refused_wait_seconds=600)


@dataclass
class Office:
    """An outbox with what stands around it."""

    database: Database
    repository: Repository
    slack: FakeSlack
    blobs: BlobStore
    settings: OutboxSettings = field(default_factory=lambda: FAST)
    token: str = BOT_TOKEN
    wake: Wake = field(default_factory=Wake)

    async def say(self, text: str, channel: str = CHANNEL, name: str = "") -> None:
        content = {"text": text, "blocks": [], "colour": "#c62828"}
        async with self.database.writing() as session:
            await queue(session, None, Draft(f"episode/{channel}{name}", channel, content))
        self.wake.call()

    async def reply(self, text: str, part: str = "evidence") -> None:
        """Say something in the thread of what `say` says."""
        content = {"text": text, "blocks": [], "colour": "#c62828"}
        parent = f"episode/{CHANNEL}"
        await self.repository.outbox.queue(Draft(f"{parent}/{part}", CHANNEL, content, parent_key=parent))

    async def share(self, log: bytes) -> None:
        """Share a log in the same thread."""
        parent = f"episode/{CHANNEL}"
        content = {"name": "1-rank-3.log", "title": "rank-3.log", "blob": self.blobs.write("a" * 32, log)}
        draft = Draft(f"{parent}/log", CHANNEL, content, parent_key=parent, kind=OutgoingKind.FILE)
        await self.repository.outbox.queue(draft)

    def sender(self) -> Sender:
        poster = SlackPoster(web_client(self.token, self.slack.base_url, timeout_seconds=1))
        return Sender(self.repository.outbox, poster, self.settings, Metrics(), self.wake, self.blobs)

    async def backlog(self) -> int:
        return (await self.repository.outbox.backlog()).waiting

    async def until(self, done: Callable[[], Awaitable[object]]) -> None:
        """Run a sender until `done` holds."""
        sender = asyncio.create_task(self.sender().run())
        try:
            async with asyncio.timeout(30):
                while not await done():  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        finally:
            sender.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sender

    async def until_sent(self) -> None:
        async def done() -> bool:
            return await self.backlog() == 0

        await self.until(done)

    def texts(self, channel: str = CHANNEL) -> list[str]:
        """Return what stands in the channel."""
        return [message["text"] for message in self.slack.workspace.messages(channel)]

    def thread(self) -> list[dict[str, Any]]:
        """Return what stands under the channel's only message."""
        (parent,) = self.slack.workspace.messages(CHANNEL)
        return self.slack.workspace.thread(parent["ts"])


@pytest.fixture
async def office(tmp_path: Path, slack: FakeSlack) -> AsyncIterator[Office]:
    database = Database(f"sqlite+aiosqlite:///{tmp_path / 'test.db'}")
    await database.migrate()
    yield Office(database, Repository(database), slack, BlobStore(tmp_path / "blobs"))
    await database.close()


async def test_a_message_is_posted_then_edited_in_place(office: Office) -> None:
    await office.say("1 of 2 nodes have reported")
    await office.until_sent()
    await office.say("2 of 2 nodes have reported")
    await office.until_sent()
    assert office.texts() == ["2 of 2 nodes have reported"]
    spoken = [call.method for call in office.slack.calls if call.method.startswith("chat.")]
    assert spoken == ["chat.postMessage", "chat.update"]


@pytest.mark.parametrize("fault", ["drop-before", "error-before"])
async def test_a_post_that_never_arrived_is_posted_again(office: Office, fault: Any) -> None:
    office.slack.fail("chat.postMessage", fault, 1.5)
    await office.say("it failed")
    await office.until_sent()
    assert office.texts() == ["it failed"]
    assert office.slack.called("conversations.history"), "it looked before it posted again"


@pytest.mark.parametrize("fault", ["drop-after", "error-after", "delay-after"])
async def test_a_post_whose_answer_was_lost_is_adopted_not_repeated(office: Office, fault: Any) -> None:
    office.slack.fail("chat.postMessage", fault, 1.5)
    await office.say("it failed")
    await office.until_sent()
    assert office.texts() == ["it failed"]
    await office.say("it failed, and why")
    await office.until_sent()
    assert office.texts() == ["it failed, and why"]
    assert len(office.slack.called("chat.postMessage")) == 1


async def test_a_post_that_is_slow_to_appear_is_waited_for(office: Office) -> None:
    # The client gives up after 1 s, Slack takes the message after 2 s: looking at once would find nothing.
    office.settings = FAST.model_copy(update={"settle_seconds": 4.0})
    office.slack.fail("chat.postMessage", "delay-before", 2.0)
    await office.say("it failed")
    await office.until_sent()
    assert office.texts() == ["it failed"]


async def test_while_slack_cannot_be_asked_nothing_is_posted_again(office: Office) -> None:
    office.slack.fail("chat.postMessage", "drop-after")
    for _ in range(3):
        office.slack.fail("conversations.history", "error-before")
    await office.say("it failed")
    await office.until_sent()
    assert office.texts() == ["it failed"]
    assert len(office.slack.called("conversations.history")) == 4


async def test_retry_after_is_obeyed(office: Office) -> None:
    office.slack.fail("chat.postMessage", "429", 1)
    await office.say("it failed")
    began = asyncio.get_running_loop().time()
    await office.until_sent()
    assert asyncio.get_running_loop().time() - began >= 1.0
    assert office.texts() == ["it failed"]
    assert not office.slack.called("conversations.history"), "a post that was limited did not arrive, for certain"


async def test_each_channel_has_its_pace(office: Office) -> None:
    office.slack.workspace.pace = 0.3  # the fake answers 429 to whoever is faster
    office.settings = FAST.model_copy(update={"channel_interval_seconds": 0.35})
    for number in range(4):
        await office.say(f"incident {number}", name=str(number))
    await office.until_sent()
    assert sorted(office.texts()) == [f"incident {number}" for number in range(4)]
    assert len(office.slack.called("chat.postMessage")) == 4, "none came too fast"


@pytest.mark.parametrize(
    ("channel", "code", "remedy"),
    [
        ("C0ELSEWHERE", "not_in_channel", "/invite"),
        ("C0NOWHERE", "channel_not_found", "id"),
        ("C0OLD", "is_archived", ""),
    ],
)
async def test_what_slack_refuses_is_kept_with_the_remedy_and_holds_up_nobody(
    office: Office, channel: str, code: str, remedy: str
) -> None:
    await office.say("to nobody", channel)
    await office.say("it failed")

    async def done() -> bool:
        return bool(office.texts()) and bool((await office.repository.outbox.backlog()).refused)

    await office.until(done)
    refused = (await office.repository.outbox.backlog()).refused
    assert [(each.channel, each.code) for each in refused] == [(channel, code)]
    assert remedy in refused[0].remedy
    assert office.texts() == ["it failed"]


async def test_a_refused_message_goes_out_once_somebody_has_acted(office: Office) -> None:
    office.token = "xoxb-test-revoked"
    await office.say("it failed")

    async def refused() -> bool:
        return bool((await office.repository.outbox.backlog()).refused)

    await office.until(refused)
    office.token = BOT_TOKEN
    await office.repository.outbox.resume()  # as at a restart
    await office.until_sent()
    assert office.texts() == ["it failed"]


async def test_a_message_somebody_deleted_is_posted_anew(office: Office) -> None:
    await office.say("old words")
    await office.until_sent()
    office.slack.workspace.messages(CHANNEL).clear()
    await office.say("new words")
    await office.until_sent()
    assert office.texts() == ["new words"]


async def test_a_reply_to_a_message_that_was_deleted_brings_the_message_back(office: Office) -> None:
    await office.say("it failed")
    await office.until_sent()
    office.slack.workspace.delete(CHANNEL, office.slack.workspace.messages(CHANNEL)[0]["ts"])
    await office.reply("the line")
    await office.until_sent()
    assert office.texts() == ["it failed"]
    assert [reply["text"] for reply in office.thread()] == ["the line"]


async def test_an_answer_to_a_question_that_was_deleted_is_not_put_into_the_channel(office: Office) -> None:
    asked = office.slack.workspace.say(CHANNEL, "why?")
    office.slack.workspace.delete(CHANNEL, asked["ts"])
    content = {"text": "an answer", "blocks": [], "colour": ""}
    await office.repository.outbox.queue(Draft("answer", CHANNEL, content, thread_ts=asked["ts"]))
    await office.until_sent()
    assert not office.texts()


async def test_stopping_lets_the_message_in_hand_arrive(office: Office) -> None:
    office.slack.fail("chat.postMessage", "delay-after", 0.5)
    await office.say("it failed")
    sender = office.sender()
    running = asyncio.create_task(sender.run())
    async with asyncio.timeout(30):
        while not office.slack.called("chat.postMessage"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    sender.stop()
    await asyncio.wait_for(running, 30)
    assert await office.backlog() == 0


async def test_replies_stand_in_the_thread_and_are_edited_there(office: Office) -> None:
    await office.reply("the line")
    await office.say("it failed")
    await office.until_sent()
    await office.reply("the line, and the one before")
    await office.until_sent()
    assert office.texts() == ["it failed"]
    assert [reply["text"] for reply in office.thread()] == ["the line, and the one before"]


@pytest.mark.parametrize("fault", ["drop-after", "delay-after"])
async def test_a_reply_whose_answer_was_lost_is_adopted_not_repeated(office: Office, fault: Any) -> None:
    await office.say("it failed")
    await office.until_sent()
    office.slack.fail("chat.postMessage", fault, 1.5)
    await office.reply("the line")
    await office.until_sent()
    assert [reply["text"] for reply in office.thread()] == ["the line"]


async def test_a_log_is_shared_in_the_thread_once(office: Office) -> None:
    await office.say("it failed")
    await office.share(b"ValueError: bad shard 17\n")
    await office.until_sent()
    (file,) = [file for message in office.thread() for file in message.get("files", [])]
    assert file["title"] == "rank-3.log"
    assert len(office.slack.called("files.completeUploadExternal")) == 1


async def test_a_log_that_is_gone_does_not_hold_up_anything(office: Office) -> None:
    await office.say("it failed")
    await office.share(b"x")
    for path in (office.blobs._folder).rglob("*.zst"):
        path.unlink()
    await office.reply("the line")
    await office.until_sent()
    assert [reply["text"] for reply in office.thread()] == ["the line"]


async def test_a_message_that_comes_late_says_so(office: Office) -> None:
    office.settings = FAST.model_copy(update={"late_seconds": 0.0})
    await office.say("it failed")
    await office.say("it failed, too", name="/2")
    await office.until_sent()
    first, second = office.texts()
    assert "Delayed by 0 s" in first
    assert "1 more waiting" in first
    assert "more waiting" not in second
