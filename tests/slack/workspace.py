"""A Slack workspace in memory, as strict as Slack: membership, scopes, limits, threads, one message a second a channel."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.slack import blockkit

BOT_TOKEN = "xoxb-test-not-a-token"
APP_TOKEN = "xapp-test-not-a-token"
SIGNING_SECRET = "test-signing-secret"
CHANNEL = "C0TRAINFAIL"
BOT_ID = "B0FIRSTFAULT"
BOT_USER = "U0FIRSTFAULT"
APP_ID = "A0FIRSTFAULT"
TEAM = "T0TEST"
SITE = "https://example.test/"

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
    """A channel: its messages (oldest first), their threads by the parent's ts, and who is in it."""

    id: str
    name: str
    private: bool = False
    member: bool = True
    archived: bool = False
    im: str | None = None  # the person, where it is a direct conversation
    people: set[str] = field(default_factory=lambda: {"U0ALICE", "U0BOB"})
    messages: list[dict[str, Any]] = field(default_factory=list)
    threads: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    last_post: float = float("-inf")

    @property
    def kind(self) -> str:
        """The `channel_type` of events."""
        return "im" if self.im else "group" if self.private else "channel"

    def at(self, ts: str) -> dict[str, Any] | None:
        """Return the message or reply that stands at `ts`."""
        everything = [*self.messages, *(reply for replies in self.threads.values() for reply in replies)]
        return next((message for message in everything if message["ts"] == ts), None)

    def add(self, message: dict[str, Any], thread_ts: str | None) -> bool:
        """Put a message into the thread of `thread_ts`; where no parent stands there it goes astray: False."""
        if thread_ts is None:
            self.messages.append(message)
            return True
        if not any(parent["ts"] == thread_ts for parent in self.messages):
            self.messages.append(message)
            return False
        message["thread_ts"] = thread_ts
        self.threads.setdefault(thread_ts, []).append(message)
        return True


class Workspace:
    """The methods of Slack's Web API about conversations and people. `pace`: least seconds between two posts.

    `astray` holds messages that were meant for a thread which does not exist. `missing_scopes` are refused.
    """

    def __init__(self, pace: float = 1.0) -> None:
        self.pace = pace
        channels = [
            Channel(CHANNEL, "train-failures"),
            Channel("C0ELSEWHERE", "elsewhere", member=False),
            Channel("G0SECRET", "secret-project", private=True, member=False),
            Channel("C0OLD", "old-stuff", archived=True),
            Channel("G0TEAM", "team-private", private=True, people={"U0ALICE"}),
            Channel("D0ALICE", "", im="U0ALICE", people={"U0ALICE"}),
        ]
        self.channels = {channel.id: channel for channel in channels}
        self.users = {
            "U0ALICE": {"id": "U0ALICE", "name": "alice", "real_name": "Alice Example", "email": "alice@example.test"},
            "U0BOB": {"id": "U0BOB", "name": "bob", "real_name": "Bob Example", "email": "bob@example.test"},
        }
        self.ephemerals: list[dict[str, Any]] = []
        self.astray: list[dict[str, Any]] = []
        self.reactions: list[dict[str, Any]] = []
        self.missing_scopes: set[str] = set()
        self.posted: Callable[[Channel, dict[str, Any]], None] = lambda channel, message: None
        self._last_ts = 0

    def messages(self, channel: str = CHANNEL) -> list[dict[str, Any]]:
        """Return what stands in a channel itself, oldest first."""
        return self.channels[channel].messages

    def thread(self, ts: str, channel: str = CHANNEL) -> list[dict[str, Any]]:
        """Return the replies to the message at `ts`, oldest first."""
        return self.channels[channel].threads.get(ts, [])

    def say(self, channel: str, text: str, thread_ts: str | None = None, **more: Any) -> dict[str, Any]:
        """Let a person or another app write."""
        message = {"type": "message", "user": "U0ALICE", "ts": self.stamp(), "text": text, **more}
        self.channels[channel].add(message, thread_ts)
        return message

    def auth_test(self, arguments: Arguments) -> Answer:
        return {"url": SITE, "team_id": TEAM, "team": "Example", "user_id": BOT_USER, "bot_id": BOT_ID}

    def post(self, arguments: Arguments) -> Answer:
        channel = self._open(arguments.get("channel", ""))
        content = _content(arguments)
        now = time.monotonic()
        if now - channel.last_post < self.pace:
            raise TooFast(self.pace - (now - channel.last_post))
        channel.last_post = now
        message = {"type": "message", "user": BOT_USER, "bot_id": BOT_ID, "ts": self.stamp(), **content}
        if "metadata" in arguments:
            message["metadata"] = _metadata(arguments["metadata"])
        self.place(channel, message, arguments.get("thread_ts"))
        return {"channel": channel.id, "ts": message["ts"], "message": message}

    def place(self, channel: Channel, message: dict[str, Any], thread_ts: str | None) -> None:
        """Put a message of ours where it belongs, and tell who listens."""
        if not channel.add(message, thread_ts):
            self.astray.append(message)
        self.posted(channel, message)

    def ephemeral(self, arguments: Arguments) -> Answer:
        channel = self._open(arguments.get("channel", ""))
        if arguments.get("user") not in channel.people:
            raise SlackError("user_not_in_channel")
        content = _content(arguments)
        thread_ts = arguments.get("thread_ts")
        self.ephemerals.append({"channel": channel.id, "user": arguments["user"], "thread_ts": thread_ts, **content})
        return {"message_ts": self.stamp()}

    def update(self, arguments: Arguments) -> Answer:
        channel = self.channel(arguments.get("channel", ""))
        message = channel.at(arguments.get("ts", ""))
        if message is None:
            raise SlackError("message_not_found")
        if message.get("bot_id") != BOT_ID:
            raise SlackError("cant_update_message")
        content = _content(arguments)
        message.pop("blocks", None)  # text without blocks removes them
        message |= content
        message["edited"] = {"user": BOT_USER, "ts": self.stamp()}
        return {"channel": channel.id, "ts": message["ts"], "text": message["text"], "message": message}

    def take_back(self, arguments: Arguments) -> Answer:
        """Let the app delete a message of its own."""
        channel, ts = self.channel(arguments.get("channel", "")), str(arguments.get("ts", ""))
        message = channel.at(ts)
        if message is None:
            raise SlackError("message_not_found")
        if message.get("bot_id") != BOT_ID:
            raise SlackError("cant_delete_message")
        for held in (channel.messages, *channel.threads.values()):
            held[:] = [each for each in held if each["ts"] != ts]
        return {"channel": channel.id, "ts": ts}

    def delete(self, channel: str, ts: str) -> None:
        """Let a person delete a message and its thread."""
        held = self.channels[channel]
        held.messages[:] = [message for message in held.messages if message["ts"] != ts]
        held.threads.pop(ts, None)

    def history(self, arguments: Arguments) -> Answer:
        channel = self._read(arguments)
        oldest, latest = float(arguments.get("oldest") or 0), float(arguments.get("latest") or "inf")
        inclusive = str(arguments.get("inclusive", "")).lower() in {"1", "true"}
        wanted = [
            {**message, **_folded(channel, message)}
            for message in reversed(channel.messages)
            if oldest < float(message["ts"]) < latest or (inclusive and float(message["ts"]) in {oldest, latest})
        ]
        return _page(arguments, wanted)

    def replies(self, arguments: Arguments) -> Answer:
        channel = self._read(arguments)
        ts = arguments.get("ts", "")
        found = channel.at(ts)
        if found is None:
            raise SlackError("thread_not_found")
        parent = channel.at(str(found.get("thread_ts", ts))) or found
        oldest = float(arguments.get("oldest") or 0)
        younger = [reply for reply in channel.threads.get(parent["ts"], []) if float(reply["ts"]) > oldest]
        return _page(arguments, [{**parent, **_folded(channel, parent)}, *younger])

    def permalink(self, arguments: Arguments) -> Answer:
        channel = self.channel(arguments.get("channel", ""))
        if channel.at(str(arguments.get("message_ts", ""))) is None:
            raise SlackError("message_not_found")
        address = f"{SITE}archives/{channel.id}/p{arguments['message_ts'].replace('.', '')}"
        return {"channel": channel.id, "permalink": address}

    def info(self, arguments: Arguments) -> Answer:
        channel = self.channel(arguments.get("channel", ""))
        if channel.private and not channel.member:
            raise SlackError("channel_not_found")
        return {"channel": _described(channel)}

    def members(self, arguments: Arguments) -> Answer:
        return {"members": sorted(self._read(arguments).people), "response_metadata": {"next_cursor": ""}}

    def conversations_of(self, arguments: Arguments) -> Answer:
        user = arguments.get("user", BOT_USER)
        shared = [
            _described(channel)
            for channel in self.channels.values()
            if channel.member and not channel.archived and (user == BOT_USER or user in channel.people)
        ]
        return {"channels": shared, "response_metadata": {"next_cursor": ""}}

    def open_direct(self, arguments: Arguments) -> Answer:
        user = arguments.get("users", "")
        if user not in self.users:
            raise SlackError("user_not_found")
        name = f"D0{user.removeprefix('U0')}"
        self.channels.setdefault(name, Channel(name, "", im=user, people={user}))
        return {"channel": {"id": name}}

    def user_info(self, arguments: Arguments) -> Answer:
        return {"user": self._user(lambda user: user["id"] == arguments.get("user"))}

    def user_by_email(self, arguments: Arguments) -> Answer:
        return {"user": self._user(lambda user: user["email"] == arguments.get("email"))}

    def react(self, arguments: Arguments) -> Answer:
        channel = self.channel(arguments.get("channel", ""))
        if channel.at(arguments.get("timestamp", "")) is None:
            raise SlackError("message_not_found")
        if arguments in self.reactions:
            raise SlackError("already_reacted")
        self.reactions.append(arguments)
        return {}

    def channel(self, name: str) -> Channel:
        """Return a channel by its id. Raises SlackError where there is none."""
        if name not in self.channels:
            raise SlackError("channel_not_found")
        return self.channels[name]

    def stamp(self) -> str:
        """Return the next time stamp: unique, and later than all before."""
        self._last_ts = max(self._last_ts + 1, time.time_ns() // 1000)
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    def _open(self, name: str) -> Channel:
        """A channel in which we may post; people and names are accepted as Slack does."""
        for channel in self.channels.values():
            if name in {channel.id, channel.im} or (channel.name and name.removeprefix("#") == channel.name):
                if channel.archived:
                    raise SlackError("is_archived")
                if not channel.member:
                    raise SlackError("channel_not_found" if channel.private else "not_in_channel")
                return channel
        raise SlackError("channel_not_found")

    def _read(self, arguments: Arguments) -> Channel:
        channel = self.channel(arguments.get("channel", ""))
        if not channel.member:
            raise SlackError("channel_not_found" if channel.private else "not_in_channel")
        return channel

    def _user(self, wanted: Callable[[dict[str, str]], bool]) -> dict[str, Any]:
        user = next((user for user in self.users.values() if wanted(user)), None)
        if user is None:
            raise SlackError("user_not_found" if "users:read" not in self.missing_scopes else "users_not_found")
        profile = {"real_name": user["real_name"], "display_name": user["name"], "email": user["email"]}
        return {"id": user["id"], "name": user["name"], "real_name": user["real_name"], "profile": profile}


def _described(channel: Channel) -> dict[str, Any]:
    return {
        "id": channel.id,
        "name": channel.name,
        "is_channel": channel.kind == "channel",
        "is_im": channel.kind == "im",
        "is_private": channel.private,
        "is_member": channel.member,
        "is_archived": channel.archived,
    }


def _folded(channel: Channel, message: dict[str, Any]) -> dict[str, Any]:
    replies = channel.threads.get(message["ts"], [])
    return {"thread_ts": message["ts"], "reply_count": len(replies)} if replies else {}


def _page(arguments: Arguments, wanted: list[dict[str, Any]]) -> Answer:
    limit = int(arguments.get("limit") or 100)
    if not 1 <= limit <= 999:
        raise SlackError("invalid_limit")
    start = int(arguments.get("cursor") or 0)
    page = wanted[start : start + limit]
    if str(arguments.get("include_all_metadata", "")).lower() not in {"1", "true"}:
        page = [{key: value for key, value in message.items() if key != "metadata"} for message in page]
    more = len(wanted) > start + limit
    return {
        "messages": page,
        "has_more": more,
        "response_metadata": {"next_cursor": str(start + limit) if more else ""},
    }


def _content(arguments: Arguments) -> dict[str, Any]:
    """Return text, blocks and attachments, or refuse them as Slack does."""
    text, blocks = arguments.get("text", ""), arguments.get("blocks") or []
    attachments = arguments.get("attachments") or []
    if not (text or blocks or attachments):
        raise SlackError("no_text")
    if len(text) > 4_000:
        raise SlackError("msg_too_long")  # Slack would send several messages; for us that is a fault
    if str(arguments.get("reply_broadcast", "")).lower() in {"1", "true"}:
        raise SlackError("invalid_arguments", response_metadata={"messages": ["replies are never broadcast here"]})
    if found := blockkit.problems(blocks):
        raise SlackError("invalid_blocks", response_metadata={"messages": found})
    if found := blockkit.attachment_problems(attachments):
        raise SlackError("invalid_attachments", response_metadata={"messages": found})
    if found := blockkit.message_problems(blocks, attachments):
        raise SlackError("invalid_blocks", response_metadata={"messages": found})
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
