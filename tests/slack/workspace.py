"""A Slack workspace in memory, as strict as Slack: membership, limits, metadata, one message a second a channel."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from tests.slack import blockkit

BOT_TOKEN = "xoxb-test-not-a-token"
APP_TOKEN = "xapp-test-not-a-token"
SIGNING_SECRET = "test-signing-secret"
CHANNEL = "C0TRAINFAIL"
BOT_ID = "B0FIRSTFAULT"
BOT_USER = "U0FIRSTFAULT"

Arguments = dict[str, Any]
Answer = dict[str, Any]


class SlackError(Exception):
    """Slack's `{"ok": false, "error": …}`."""

    def __init__(self, code: str, **more: Any) -> None:
        super().__init__(code)
        self.answer = {"ok": False, "error": code, **more}


class TooFast(Exception):  # noqa: N818
    """HTTP 429."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"wait {retry_after} s")
        self.retry_after = max(1, round(retry_after))


@dataclass
class Channel:
    """A channel, the messages in it (oldest first), and whether our app may post there."""

    id: str
    name: str
    private: bool = False
    member: bool = True
    archived: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)
    last_post: float = float("-inf")


class Workspace:
    """The methods of Slack's Web API that the service calls. `pace` is the least time in seconds between two posts."""

    def __init__(self, pace: float = 1.0) -> None:
        self.pace = pace
        channels = [
            Channel(CHANNEL, "train-failures"),
            Channel("C0ELSEWHERE", "elsewhere", member=False),
            Channel("G0SECRET", "secret-project", private=True, member=False),
            Channel("C0OLD", "old-stuff", archived=True),
        ]
        self.channels = {channel.id: channel for channel in channels}
        self._last_ts = 0

    def messages(self, channel: str = CHANNEL) -> list[dict[str, Any]]:
        """Return what stands in a channel, oldest first."""
        return self.channels[channel].messages

    def say(self, channel: str, text: str, **more: Any) -> dict[str, Any]:
        """Let a person or another app write."""
        message = {"type": "message", "user": "U0ALICE", "ts": self._ts(), "text": text, **more}
        self.channels[channel].messages.append(message)
        return message

    def auth_test(self, arguments: Arguments) -> Answer:
        return {"url": "https://example.test/", "team_id": "T0TEST", "user_id": BOT_USER, "bot_id": BOT_ID}

    def post(self, arguments: Arguments) -> Answer:
        channel = self._channel(arguments.get("channel", ""), by_name=True)
        if channel.archived:
            raise SlackError("is_archived")
        if not channel.member:
            raise SlackError("channel_not_found" if channel.private else "not_in_channel")
        content = _content(arguments)
        now = time.monotonic()
        if now - channel.last_post < self.pace:
            raise TooFast(self.pace - (now - channel.last_post))
        channel.last_post = now
        message = {"type": "message", "user": BOT_USER, "bot_id": BOT_ID, "ts": self._ts(), **content}
        if "metadata" in arguments:
            message["metadata"] = _metadata(arguments["metadata"])
        channel.messages.append(message)
        return {"channel": channel.id, "ts": message["ts"], "message": message}

    def update(self, arguments: Arguments) -> Answer:
        channel = self._channel(arguments.get("channel", ""), by_name=False)
        message = next((message for message in channel.messages if message["ts"] == arguments.get("ts")), None)
        if message is None:
            raise SlackError("message_not_found")
        if message.get("bot_id") != BOT_ID:
            raise SlackError("cant_update_message")
        content = _content(arguments)
        message.pop("blocks", None)  # text without blocks removes them
        message |= content
        message["edited"] = {"user": BOT_USER, "ts": self._ts()}
        return {"channel": channel.id, "ts": message["ts"], "text": message["text"], "message": message}

    def history(self, arguments: Arguments) -> Answer:
        channel = self._channel(arguments.get("channel", ""), by_name=False)
        if not channel.member:
            raise SlackError("channel_not_found" if channel.private else "not_in_channel")
        oldest, limit = float(arguments.get("oldest") or 0), int(arguments.get("limit") or 100)
        if not 1 <= limit <= 999:
            raise SlackError("invalid_limit")
        newest_first = [message for message in reversed(channel.messages) if float(message["ts"]) > oldest]
        start = int(arguments.get("cursor") or 0)
        page = newest_first[start : start + limit]
        if str(arguments.get("include_all_metadata", "")).lower() not in {"1", "true"}:
            page = [{key: value for key, value in message.items() if key != "metadata"} for message in page]
        more = len(newest_first) > start + limit
        return {
            "messages": page,
            "has_more": more,
            "response_metadata": {"next_cursor": str(start + limit) if more else ""},
        }

    def _channel(self, name: str, *, by_name: bool) -> Channel:
        for channel in self.channels.values():
            if name == channel.id or (by_name and name.removeprefix("#") == channel.name):
                return channel
        raise SlackError("channel_not_found")

    def _ts(self) -> str:
        self._last_ts = max(self._last_ts + 1, time.time_ns() // 1000)
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"


def _content(arguments: Arguments) -> dict[str, Any]:
    """Return text, blocks and attachments, or refuse them as Slack does."""
    text, blocks = arguments.get("text", ""), arguments.get("blocks") or []
    attachments = arguments.get("attachments") or []
    if not (text or blocks or attachments):
        raise SlackError("no_text")
    if len(text) > 4_000:
        raise SlackError("msg_too_long")  # Slack would send several messages; for us that is a fault
    if found := blockkit.problems(blocks):
        raise SlackError("invalid_blocks", response_metadata={"messages": found})
    if found := blockkit.attachment_problems(attachments):
        raise SlackError("invalid_attachments", response_metadata={"messages": found})
    if blockkit.size(blocks, attachments) > blockkit.MAX_CHARACTERS:
        raise SlackError("msg_blocks_too_long")
    return {"text": text, "blocks": blocks, "attachments": attachments}


def _metadata(metadata: Any) -> dict[str, Any]:
    if not isinstance(metadata, dict) or metadata.keys() != {"event_type", "event_payload"}:
        raise SlackError("invalid_metadata_format")
    if any(isinstance(value, dict | list) for value in metadata["event_payload"].values()):
        raise SlackError("invalid_metadata_schema")
    if len(str(metadata)) > 8_000:
        raise SlackError("metadata_too_large")
    return metadata
