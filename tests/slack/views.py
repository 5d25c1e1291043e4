"""Modals and Home tabs: triggers that live three seconds and work once, views that are checked as Slack checks them."""

from __future__ import annotations

import itertools
import time
import uuid
from typing import Any

from tests.slack import blockkit
from tests.slack.workspace import APP_ID, BOT_ID, TEAM, Answer, Arguments, SlackError, Workspace


class Views:
    """`opened` holds all modals in order, `homes` the Home tab of each person."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.opened: list[dict[str, Any]] = []
        self.homes: dict[str, dict[str, Any]] = {}
        self.trigger_seconds = 3.0
        self._triggers: dict[str, float] = {}
        self._used: set[str] = set()
        self._numbers = itertools.count(1)

    def trigger(self) -> str:
        """Return a trigger for something that a person does now."""
        trigger = f"{next(self._numbers)}.{uuid.uuid4().int % 10**9}.{uuid.uuid4().hex}"
        self._triggers[trigger] = time.monotonic() + self.trigger_seconds
        return trigger

    def open(self, arguments: Arguments) -> Answer:
        view = self._checked(arguments, "modal")
        trigger = arguments.get("trigger_id", "")
        if trigger not in self._triggers:
            raise SlackError("invalid_trigger_id")
        if trigger in self._used:
            raise SlackError("exchanged_trigger_id")
        if time.monotonic() > self._triggers[trigger]:
            raise SlackError("expired_trigger_id")
        self._used.add(trigger)
        opened = self._named(view)
        self.opened.append(opened)
        return {"view": opened}

    def update(self, arguments: Arguments) -> Answer:
        view = self._checked(arguments, "modal")
        shown = next((view for view in self.opened if view["id"] == arguments.get("view_id")), None)
        if shown is None:
            raise SlackError("not_found")
        if arguments.get("hash", shown["hash"]) != shown["hash"]:
            raise SlackError("hash_conflict")
        self.replace(shown, view)
        return {"view": shown}

    def publish(self, arguments: Arguments) -> Answer:
        view = self._checked(arguments, "home")
        user = arguments.get("user_id", "")
        if user not in self.workspace.users:
            raise SlackError("user_not_found")
        self.homes[user] = self._named(view)
        return {"view": self.homes[user]}

    def replace(self, shown: dict[str, Any], view: dict[str, Any]) -> None:
        """Show something else in an open modal."""
        named = self._named(view)
        shown.clear()
        shown.update(named)

    def _checked(self, arguments: Arguments, kind: str) -> dict[str, Any]:
        view = arguments.get("view")
        found = blockkit.view_problems(view)
        if not isinstance(view, dict) or view.get("type") != kind:
            found.append(f"view: must be a {kind}")
        if found:
            raise SlackError("invalid_arguments", response_metadata={"messages": found})
        return dict(view or {})

    def _named(self, view: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        blocks = [{"block_id": f"b{number}.{place}", **block} for place, block in enumerate(view["blocks"])]
        named = {"id": f"V0TEST{number:04d}", "hash": f"{number}.abcdef", "team_id": TEAM, "app_id": APP_ID}
        return {"callback_id": "", "private_metadata": "", **view, **named, "blocks": blocks, "bot_id": BOT_ID}
