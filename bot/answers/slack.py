"""Questions asked in Slack: in threads of our messages without a mention, elsewhere with one; one answer each.

The answer is queued in the outbox under a key of the question, so that neither Slack's repetitions nor a restart can make
it two. Whoever talks to others in our threads is not interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import structlog
from slack_bolt.async_app import AsyncAck, AsyncApp

from bot.answers.answerer import Answerer, Question
from bot.answers.overheard import is_asked
from bot.answers.rendering import as_message
from bot.answers.reply import Reply, Words
from bot.answers.stored import Finder, Found
from bot.answers.uploads import Uploads
from storage.outbox import Draft, Outbox

SHORTCUT = "diagnose_log"
"""The callback id of "Diagnose this log" in the app's manifest."""

_MENTION = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^>]*)?>")
_MARKUP = re.compile(r"<(?:[#!@][^>|]*\|)?([^>|]*)(?:\|([^>]*))?>")
_OWN_ANSWER = "answer"

log = structlog.get_logger(__name__)

Event = dict[str, Any]


@dataclass(frozen=True)
class Listening:
    """The listeners. `queued` is called when there is something to send."""

    finder: Finder
    answerer: Answerer
    outbox: Outbox
    uploads: Uploads
    queued: Callable[[], None]
    _busy: set[str] = field(default_factory=set)

    async def mentioned(self, event: Event) -> None:
        """Somebody spoke to us."""
        if not _is_of_a_person(event):
            return
        await self._once(event, lambda: self._to_us(event))

    async def wrote(self, event: Event, context: dict[str, Any]) -> None:
        """Somebody wrote where we can hear it: most of it is not for us, and is dropped before anything is looked up."""
        if not _is_of_a_person(event) or event.get("user") == context.get("bot_user_id"):
            return
        text, thread = str(event.get("text", "")), event.get("thread_ts")
        people = _MENTION.findall(text)
        if context.get("bot_user_id") in people or event.get("channel_type") == "im":
            await self._once(event, lambda: self._to_us(event))
        elif thread and thread != event.get("ts") and not people and not event.get("files"):
            found = await self.finder.in_thread(event["channel"], thread, event["user"])
            if found is not None:
                await self._once(event, lambda: self._overheard(event, found))

    async def shortcut(self, ack: AsyncAck, body: dict[str, Any]) -> None:
        """Somebody chose "Diagnose this log" on a message."""
        await ack()
        message = {**body["message"], "channel": body["channel"]["id"]}
        said = {**message, "user": body["user"]["id"]}
        await self._once(
            said,
            lambda: self._read(said, str(message.get("text", "")), ""),
            key=f"{_OWN_ANSWER}/{said['channel']}/{said['ts']}/log",
        )

    async def _once(self, event: Event, answer: Callable[[], Awaitable[_Answer | None]], key: str = "") -> None:
        """Answer what was not answered before, whatever arrives how often; two at once of the same are one."""
        channel, ts = str(event["channel"]), str(event["ts"])
        key = key or f"{_OWN_ANSWER}/{channel}/{ts}"
        if key in self._busy:
            return
        self._busy.add(key)
        try:
            if await self.outbox.knows(key):
                return
            given = await answer()
            if given is None:
                return
            draft = Draft(
                key=key,
                channel=channel,
                content=asdict(as_message(given.reply)),
                thread_ts=str(event.get("thread_ts") or ts),
            )
            await self.outbox.queue(draft, given.episode_id)
            log.info("question answered", channel=channel, ts=ts, intent=given.reply.intent or "not understood")
            self.queued()
        except Exception:
            log.exception("question not answered", channel=channel, ts=ts)
        finally:
            self._busy.discard(key)

    async def _to_us(self, event: Event) -> _Answer | None:
        text = plain_question(str(event.get("text", "")))
        if event.get("files"):
            return await self._read(event, "", text)
        channel, user, thread = event["channel"], event["user"], event.get("thread_ts")
        found = await self.finder.in_thread(channel, thread, user) if thread else None
        found = found or await self.finder.meant(text, channel, user)
        matter, around = found.matter if found else None, self.finder.around(channel, user)
        reply = await self.answerer.answer(Question(text or "help", matter, user, channel, around))
        return _Answer(_introduced(reply, found, asked_in_thread=bool(thread)), found.episode_id if found else None)

    async def _overheard(self, event: Event, found: Found) -> _Answer | None:
        """In our own threads people also talk with each other: what does not look like a question is left alone."""
        text = plain_question(str(event.get("text", "")))
        if not is_asked(text):
            return None
        reply = await self.answerer.answer(Question(text, found.matter, event["user"], event["channel"]))
        if not reply.understood and "?" not in text:
            return None
        return _Answer(reply, found.episode_id)

    async def _read(self, event: Event, log_text: str, question: str) -> _Answer:
        return _Answer(await self.uploads.diagnose(event.get("files") or [], log_text, question), None)


@dataclass(frozen=True, slots=True)
class _Answer:
    reply: Reply
    episode_id: str | None


def register(app: AsyncApp, listening: Listening) -> None:
    """Listen to mentions, to messages, and to the shortcut. Bolt acknowledges events before the listeners run."""

    async def mentioned(event: Event) -> None:
        await listening.mentioned(event)

    async def wrote(event: Event, context: dict[str, Any]) -> None:
        await listening.wrote(event, context)

    async def shortcut(ack: AsyncAck, body: dict[str, Any]) -> None:
        await listening.shortcut(ack, body)

    app.event("app_mention")(mentioned)
    app.event("message")(wrote)
    app.shortcut(SHORTCUT)(shortcut)


def plain_question(text: str) -> str:
    """What was asked, without mentions and Slack's markup."""
    text = _MENTION.sub(" ", text)
    text = _MARKUP.sub(
        lambda found: f" {found[1]} " if found[1].startswith("http") else f" {found[2] or found[1]} ", text
    )
    return " ".join(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").split())


def _is_of_a_person(event: Event) -> bool:
    """Edits, deletions and joins come as subtypes; what bots write is never answered."""
    return (
        event.get("subtype") in (None, "file_share", "thread_broadcast")
        and not event.get("bot_id")
        and not event.get("hidden")
        and bool(event.get("user"))
        and bool(event.get("channel"))
    )


def _introduced(reply: Reply, found: Found | None, *, asked_in_thread: bool) -> Reply:
    """Say which failure is meant, where nobody has named it."""
    if found is None or asked_in_thread or not reply.understood or reply.intent == "help":
        return reply
    return Reply(reply.intent, (Words(f"About {found.title}:"), *reply.parts))
