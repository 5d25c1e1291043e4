"""What Firstfault asks Slack for, why, and what it does without. Manifests, docs and `doctor` follow these lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope of the bot token. `required`: the service is of no use without it."""

    name: str
    why: str
    without: str
    required: bool = False


SCOPES = (
    Scope("chat:write", "post messages, edit them, answer in threads", "nothing can be posted", required=True),
    Scope("commands", "the command /diagnose and the message shortcut", "neither can be used", required=True),
    Scope(
        "channels:history",
        "read replies in threads of its own messages; after a crash, find its own message before posting again",
        "questions in threads of public channels need a mention, and a message whose answer was lost waits for a person",
        required=True,
    ),
    Scope("groups:history", "the same in private channels", "private channels have no questions without a mention"),
    Scope("app_mentions:read", "answer when it is mentioned", "mentions are not heard; /diagnose still works"),
    Scope("im:history", "answer in direct messages and the agent panel", "direct messages are not heard"),
    Scope("im:write", "open a direct message to answer in where it may not post", "such answers are lost to the asker"),
    Scope("assistant:write", "the agent panel: prompts and a status", "the panel offers no prompts; all else works"),
    Scope(
        "files:read", "fetch a log that a person drops with a mention", "dropped files are not read; paste the lines"
    ),
    Scope("files:write", "put the redacted log and the picture in the thread", "threads have the lines, but no files"),
    Scope("users:read", "look people up, which users:read.email builds on", "no owner is found by e-mail"),
    Scope(
        "users:read.email",
        "find a job's owner by e-mail, and a person's own failures for the Home tab",
        "owners are mentioned, and the Home tab knows whose failures are whose, only where slack.people names them",
    ),
    Scope(
        "channels:read",
        "know which channels a person shares with it, for the Home tab; let doctor see whether it is in a channel",
        "the Home tab shows nothing of channels, and doctor cannot tell before the first post",
    ),
    Scope("groups:read", "the same for private channels", "the same for private channels"),
)

APP_SCOPE = "connections:write"
"""The scope of the app token, which opens the Socket Mode connection."""

EVENTS = {
    "app_mention": "app_mentions:read",
    "message.channels": "channels:history",
    "message.groups": "groups:history",
    "message.im": "im:history",
    "app_home_opened": None,
}
"""The events to subscribe to, each with the scope it needs."""

SHORTCUT = "diagnose_log"
"""The callback id of the message shortcut."""

METHODS: dict[str, tuple[str, ...]] = {
    "apps.connections.open": (),  # the app token's
    "assistant.threads.setStatus": ("chat:write",),
    "assistant.threads.setSuggestedPrompts": ("assistant:write",),
    "auth.test": (),
    "chat.delete": ("chat:write",),
    "chat.getPermalink": (),
    "chat.postEphemeral": ("chat:write",),
    "chat.postMessage": ("chat:write",),
    "chat.update": ("chat:write",),
    "conversations.history": ("channels:history", "groups:history", "im:history"),
    "conversations.info": ("channels:read", "groups:read"),
    "conversations.members": ("channels:read", "groups:read"),
    "conversations.open": ("im:write",),
    "conversations.replies": ("channels:history", "groups:history", "im:history"),
    "files.completeUploadExternal": ("files:write",),
    "files.getUploadURLExternal": ("files:write",),
    "files.info": ("files:read",),
    "files.uploadV2": ("files:write",),
    "users.conversations": ("channels:read", "groups:read"),
    "users.info": ("users:read",),
    "users.lookupByEmail": ("users:read.email", "users:read"),
    "views.open": (),
    "views.publish": (),
    "views.push": (),
    "views.update": (),
}
"""The methods of Slack's Web API that may be called, each with the scopes it needs; channels by their kind."""


def missing(granted: Collection[str]) -> Iterator[Scope]:
    """Yield the scopes that the token has not, required ones first."""
    yield from sorted((scope for scope in SCOPES if scope.name not in granted), key=lambda scope: not scope.required)
