"""Posting to Slack exactly once: messages that carry a mark, so that one whose answer was lost is found again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.api import SLACK_API, THREAD_GONE, answered, web_client
from bot.slack.contract import Posted, PosterError, Refused, SlackFile, SlackMessage, Unreachable
from bot.slack.message import HEADLINE_BLOCKS
from bot.slack.upload import VISIBLE_SECONDS, share

__all__ = ["EVENT_TYPE", "SLACK_API", "SlackPoster", "answered", "web_client", "wire"]

EVENT_TYPE = "firstfault_incident"
CLOCK_SKEW = timedelta(minutes=5)  # Slack stamps messages by its own clock
PAGE = 200  # messages a call of conversations.history
MAX_PAGES = 50

Found = dict[str, Any]


def wire(message: SlackMessage) -> dict[str, Any]:
    """Return the arguments of chat.postMessage and chat.update: headline first, the rest beside the coloured bar."""
    if not message.colour:
        return {"text": message.text, "blocks": message.blocks, "attachments": []}
    above, beside = message.blocks[:HEADLINE_BLOCKS], message.blocks[HEADLINE_BLOCKS:]
    attachments = [{"color": message.colour, "blocks": beside}] if beside else []
    return {"text": message.text, "blocks": above, "attachments": attachments}


class SlackPoster:
    """The `Poster` that talks to Slack. Pacing and waiting are the caller's: RateLimited says how long."""

    def __init__(self, client: AsyncWebClient, visible_seconds: float = VISIBLE_SECONDS) -> None:
        self._client = client
        self._visible_seconds = visible_seconds
        self._bot_id: str | None = None
        self._site = ""

    async def introduce(self) -> None:
        """Ask Slack once who we are; `link` knows the workspace from then on. Raises like `update`."""
        if not self._site:
            answer = await answered(self._client.auth_test())
            self._bot_id, self._site = answer.get("bot_id"), str(answer.get("url") or "")

    async def post(self, channel: str, message: SlackMessage, key: str, thread: str | None = None) -> Posted:
        """Post once. After Unreachable the message may stand in the channel: `find` it before trying again."""
        with suppress(PosterError):
            await self.introduce()
        metadata = {"event_type": EVENT_TYPE, "event_payload": {"key": key}}
        call = self._client.chat_postMessage(
            channel=channel,
            thread_ts=thread,
            metadata=metadata,
            link_names=False,
            unfurl_links=False,
            unfurl_media=False,
            **wire(message),
        )
        answer = await answered(call)
        posted = Posted(channel=str(answer["channel"]), ts=str(answer["ts"]))
        if thread is not None and "thread_ts" not in (answer.get("message") or {"thread_ts": thread}):
            await self._astray(posted)
        return posted

    async def _astray(self, posted: Posted) -> None:
        """Take back a reply whose thread is gone: Slack puts it into the channel itself, and says so only by silence."""
        with suppress(PosterError):
            await answered(self._client.chat_delete(channel=posted.channel, ts=posted.ts))
        raise Refused(THREAD_GONE, "the message above the thread was deleted; it is posted anew")

    async def update(self, channel: str, ts: str, message: SlackMessage) -> None:
        """Replace the message in place; its mark stays."""
        await answered(self._client.chat_update(channel=channel, ts=ts, link_names=False, **wire(message)))

    async def find(self, channel: str, key: str, since: datetime, thread: str | None = None) -> Posted | None:
        """Look for our own message marked `key`. `channel` must be an id: Slack reads history by id only."""
        oldest = f"{(since - CLOCK_SKEW).timestamp():.6f}"
        async for found in self._own(channel, thread, oldest):
            if _is_marked(found, key):
                return Posted(channel=channel, ts=str(found["ts"]))
        return None

    async def upload(self, channel: str, thread: str, file: SlackFile) -> Posted:
        """Share a file in a thread and wait until it shows there. Unreachable where it does not show in time."""
        return await share(self._client, channel, thread, file, self._visible_seconds)

    async def find_file(self, channel: str, thread: str, name: str) -> Posted | None:
        """Look for our own file by its name."""
        async for found in self._own(channel, thread, oldest=None):
            for file in found.get("files") or []:
                if file.get("name") == name:
                    return Posted(channel=channel, ts=str(file["id"]))
        return None

    def link(self, posted: Posted) -> str | None:
        """Return the address of a message, or None until Slack was asked who we are."""
        return f"{self._site}archives/{posted.channel}/p{posted.ts.replace('.', '')}" if self._site else None

    async def _own(self, channel: str, thread: str | None, oldest: str | None) -> AsyncIterator[Found]:
        """Yield our messages in a channel, newest first, or in a thread, oldest first."""
        await self.introduce()
        cursor = ""
        for _ in range(MAX_PAGES):
            page = await self._page(channel, thread, oldest, cursor)
            for found in page.get("messages", []):
                if found.get("bot_id", self._bot_id) == self._bot_id:
                    yield found
            cursor = (page.get("response_metadata") or {}).get("next_cursor", "")
            if not cursor:
                return
        raise Unreachable(f"channel {channel} holds more than {MAX_PAGES * PAGE} messages to look through")

    async def _page(self, channel: str, thread: str | None, oldest: str | None, cursor: str) -> Found:
        asked: dict[str, Any] = {"channel": channel, "oldest": oldest, "limit": PAGE, "include_all_metadata": True}
        if thread is None:
            return await answered(self._client.conversations_history(cursor=cursor or None, **asked))
        return await answered(self._client.conversations_replies(ts=thread, cursor=cursor or None, **asked))


def _is_marked(found: Found, key: str) -> bool:
    metadata = found.get("metadata") or {}
    return metadata.get("event_type") == EVENT_TYPE and (metadata.get("event_payload") or {}).get("key") == key
