"""What Slack sends to an app, word for word as far as its pages tell."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import time
from typing import Any

from tests.slack.workspace import APP_ID, BOT_USER, CHANNEL, SIGNING_SECRET, TEAM, Channel

Payload = dict[str, Any]

_EVENTS = itertools.count(1)


def slash_payload(
    text: str,
    command: str,
    response_url: str,
    user: str = "U0ALICE",
    channel: str = CHANNEL,
    trigger: str = "1.2.3",
) -> dict[str, str]:
    """Return what Slack sends for a slash command."""
    return {
        "command": command,
        "text": text,
        "user_id": user,
        "user_name": user.removeprefix("U0").lower(),
        "channel_id": channel,
        "team_id": TEAM,
        "api_app_id": APP_ID,
        "response_url": response_url,
        "trigger_id": trigger,
    }


def event(inner: Payload) -> Payload:
    """Return an event as the Events API wraps it; repeated deliveries are the same payload."""
    return {
        "token": "not-a-token",
        "team_id": TEAM,
        "api_app_id": APP_ID,
        "event": inner,
        "type": "event_callback",
        "event_id": f"Ev0TEST{next(_EVENTS):05d}",
        "event_time": int(time.time()),
        "authorizations": [{"enterprise_id": None, "team_id": TEAM, "user_id": BOT_USER, "is_bot": True}],
        "is_ext_shared_channel": False,
    }


def block_actions(
    action: Payload, message: Payload, channel: Channel, person: Payload, trigger: str, response_url: str
) -> Payload:
    """Return what Slack sends when somebody uses a button or a select of a message."""
    container = {"type": "message", "message_ts": message["ts"], "channel_id": channel.id, "is_ephemeral": False}
    if "thread_ts" in message:
        container["thread_ts"] = message["thread_ts"]
    return {
        "type": "block_actions",
        **_who(person, trigger),
        "container": container,
        "channel": {"id": channel.id, "name": channel.name or "directmessage"},
        "message": message,
        "state": {"values": {}},
        "response_url": response_url,
        "actions": [action],
    }


def home_action(action: Payload, view: Payload, person: Payload, trigger: str) -> Payload:
    """Return what Slack sends when somebody uses a button or a select of a Home tab or modal."""
    container = {"type": "view", "view_id": view["id"]}
    shown = {**view, "state": {"values": {}}}
    return {
        "type": "block_actions",
        **_who(person, trigger),
        "container": container,
        "view": shown,
        "actions": [action],
    }


def view_submission(view: Payload, values: Payload, person: Payload, trigger: str) -> Payload:
    """Return what Slack sends when somebody submits a modal."""
    shown = {**view, "state": {"values": values}}
    return {"type": "view_submission", **_who(person, trigger), "view": shown, "response_urls": []}


def message_action(
    callback: str, message: Payload, channel: Channel, person: Payload, trigger: str, response_url: str
) -> Payload:
    """Return what Slack sends for a shortcut in a message's menu."""
    return {
        "type": "message_action",
        "callback_id": callback,
        **_who(person, trigger),
        "action_ts": f"{time.time():.6f}",
        "message_ts": message["ts"],
        "channel": {"id": channel.id, "name": channel.name or "directmessage"},
        "message": message,
        "response_url": response_url,
    }


def global_shortcut(callback: str, person: Payload, trigger: str) -> Payload:
    """Return what Slack sends for a shortcut that belongs to no message."""
    return {"type": "shortcut", "callback_id": callback, **_who(person, trigger), "action_ts": f"{time.time():.6f}"}


def taken(element: Payload, block_id: str, value: str | None) -> Payload:
    """Return the `actions` entry for an element that was used. Raises AssertionError for what no client offers."""
    kind = element["type"]
    action = {"action_id": element["action_id"], "block_id": block_id, "type": kind, "action_ts": f"{time.time():.6f}"}
    if kind == "button":
        return {**action, "text": element["text"], **({"value": element["value"]} if "value" in element else {})}
    return {**action, **chosen(element, value)}


def chosen(element: Payload, value: str | None) -> Payload:
    """Return how Slack reports what was chosen or typed. Raises AssertionError for what no client offers."""
    kind = element["type"]
    if kind in {"static_select", "overflow", "radio_buttons"}:
        groups = element.get("option_groups") or [{"options": element.get("options", [])}]
        option = next((each for group in groups for each in group["options"] if each["value"] == value), None)
        assert option is not None or value is None, f"{value!r} cannot be chosen"
        return {"type": kind, "selected_option": option}
    if kind == "external_select":
        text = {"type": "plain_text", "text": str(value), "emoji": True}
        return {"type": kind, "selected_option": {"text": text, "value": value} if value else None}
    if kind in {"users_select", "channels_select", "conversations_select"}:
        return {"type": kind, f"selected_{kind.split('_')[0].removesuffix('s')}": value}
    if kind == "plain_text_input":
        assert value is None or len(value) <= element.get("max_length", 3_000), "nobody can type that much"
        return {"type": kind, "value": value or None}
    raise AssertionError(f"the fake cannot use a {kind}")


def signed(
    body: str, *, secret: str = SIGNING_SECRET, age_seconds: int = 0, retry: tuple[int, str] | None = None
) -> dict[str, str]:
    """Return the headers with which Slack signs an HTTP request, and those of a repeated one."""
    stamp = str(int(time.time()) - age_seconds)
    digest = hmac.new(secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
    kind = "application/json" if body.startswith("{") else "application/x-www-form-urlencoded"
    headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}", "Content-Type": kind}
    again = {"X-Slack-Retry-Num": str(retry[0]), "X-Slack-Retry-Reason": retry[1]} if retry else {}
    return headers | again


def _who(person: Payload, trigger: str) -> Payload:
    user = {"id": person["id"], "username": person["name"], "name": person["name"], "team_id": TEAM}
    return {
        "user": user,
        "team": {"id": TEAM, "domain": "example"},
        "api_app_id": APP_ID,
        "token": "not-a-token",
        "trigger_id": trigger,
        "enterprise": None,
        "is_enterprise_install": False,
    }
