"""What people do in Slack: they write, mention, click, submit, share and look; Slack tells the app of it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from tests.slack import payloads
from tests.slack.files import Files
from tests.slack.views import Views
from tests.slack.workspace import BOT_USER, CHANNEL, Channel, Workspace

Payload = dict[str, Any]


class People(ABC):
    """Every deed returns how the app acknowledged it; without an acknowledgement within 3 s it raises TimeoutError.

    With `retry=n` Slack delivers the same once more, n times, as if the acknowledgement had been lost.
    """

    def __init__(self, pace: float) -> None:
        self.workspace = Workspace(pace)
        self.files = Files(self.workspace)
        self.views = Views(self.workspace)

    @abstractmethod
    async def deliver(self, kind: str, payload: Payload, retry: int = 0) -> Payload:
        """Send a payload to the app and return its acknowledgement."""

    @abstractmethod
    def response_url(self) -> str:
        """Return an address for answers."""

    async def slash(
        self, text: str, command: str = "/diagnose", user: str = "U0ALICE", channel: str = CHANNEL
    ) -> Payload:
        """Type a slash command."""
        trigger = self.views.trigger()
        payload = payloads.slash_payload(text, command, self.response_url(), user, channel, trigger)
        return await self.deliver("slash_commands", payload)

    async def click(
        self,
        ts: str,
        action_id: str,
        value: str | None = None,
        *,
        user: str = "U0ALICE",
        channel: str = CHANNEL,
        retry: int = 0,
        message: Payload | None = None,
    ) -> Payload:
        """Use a button or select of the message at `ts`; `message` is what the person still sees, if older."""
        room = self.workspace.channel(channel)
        shown = message or room.at(ts)
        assert shown is not None, f"no message stands at {ts}"
        element, block_id = _element(shown, action_id)
        attached = element not in [each for block in shown.get("blocks", []) for each in block.get("elements", [])]
        action = payloads.taken(element, block_id, value)
        trigger, answer = self.views.trigger(), self.response_url()
        seen = copy.deepcopy({**shown, "ts": ts})
        payload = payloads.block_actions(action, seen, room, self.workspace.users[user], trigger, answer)
        if attached:
            payload["container"] |= {"type": "message_attachment", "attachment_id": 1, "is_app_unfurl": False}
        return await self.deliver("interactive", payload, retry)

    async def click_home(self, action_id: str, value: str | None = None, *, user: str = "U0ALICE") -> Payload:
        """Use a button or select of the person's Home tab."""
        view = self.views.homes[user]
        element, block_id = _element(view, action_id)
        action = payloads.taken(element, block_id, value)
        payload = payloads.home_action(action, view, self.workspace.users[user], self.views.trigger())
        return await self.deliver("interactive", payload)

    async def submit(
        self, view: Payload, state: dict[str, str | None], *, user: str = "U0ALICE", retry: int = 0
    ) -> Payload:
        """Submit a modal with `state` (action id → value); returns the acknowledgement's payload."""
        values: Payload = {}
        left = dict(state)
        for block in view["blocks"]:
            if block["type"] == "input":
                element = block["element"]
                value = left.pop(element["action_id"], _initial(element))
                assert value is not None or block.get("optional"), f"Slack asks for {element['action_id']} first"
                values[block["block_id"]] = {element["action_id"]: payloads.chosen(element, value)}
        assert not left, f"the modal has no {sorted(left)}"
        payload = payloads.view_submission(view, values, self.workspace.users[user], self.views.trigger())
        answer = await self.deliver("interactive", payload, retry)
        if answer.get("response_action") == "errors":
            assert answer["errors"], "an error without a word"
            assert answer["errors"].keys() <= {
                block["block_id"] for block in view["blocks"] if block["type"] == "input"
            }
        elif answer.get("response_action") == "update":
            self.views.replace(view, self.views._checked({"view": answer["view"]}, "modal"))
        return answer

    async def mention(
        self, text: str, channel: str = CHANNEL, thread_ts: str | None = None, user: str = "U0ALICE", retry: int = 0
    ) -> Payload:
        """Write a message that mentions the app: it arrives as `app_mention` and as `message`. Returns the message."""
        return await self._say(f"<@{BOT_USER}> {text}", channel, thread_ts, user, retry, mention=True)

    async def write(
        self, text: str, channel: str = CHANNEL, thread_ts: str | None = None, user: str = "U0ALICE", retry: int = 0
    ) -> Payload:
        """Write a message. Returns it."""
        return await self._say(text, channel, thread_ts, user, retry)

    async def share_file(
        self,
        name: str,
        content: bytes,
        text: str = "",
        *,
        channel: str = CHANNEL,
        thread_ts: str | None = None,
        user: str = "U0ALICE",
        mention: bool = True,
    ) -> Payload:
        """Drop a file with a message, which mentions the app unless told otherwise. Returns the message."""
        file = self.files.create(name, content, user)
        words = f"<@{BOT_USER}> {text}".strip() if mention else text
        described = [self.files.described(file)]
        said = await self._say(words, channel, thread_ts, user, 0, mention=mention, files=described)
        file.channel, file.thread_ts, file.ts = channel, thread_ts, said["ts"]
        shared = {"type": "file_shared", "file_id": file.id, "user_id": user, "file": {"id": file.id}}
        await self._tell({**shared, "channel_id": channel, "event_ts": said["ts"]}, 0)
        return said

    async def edit(self, ts: str, text: str, channel: str = CHANNEL) -> None:
        """Change an own message: it arrives as `message_changed`."""
        room = self.workspace.channel(channel)
        message = room.at(ts)
        assert message is not None, f"no message stands at {ts}"
        before = dict(message)
        message["text"] = text
        changed = {"type": "message", "subtype": "message_changed", "channel": channel, "channel_type": room.kind}
        now = self.workspace.stamp()
        await self._tell({**changed, "message": message, "previous_message": before, "ts": now, "event_ts": now}, 0)

    async def shortcut(self, ts: str, callback_id: str, *, channel: str = CHANNEL, user: str = "U0ALICE") -> Payload:
        """Choose a shortcut in the menu of the message at `ts`."""
        room = self.workspace.channel(channel)
        message = room.at(ts)
        assert message is not None, f"no message stands at {ts}"
        person, trigger = self.workspace.users[user], self.views.trigger()
        payload = payloads.message_action(callback_id, message, room, person, trigger, self.response_url())
        return await self.deliver("interactive", payload)

    async def global_shortcut(self, callback_id: str, user: str = "U0ALICE") -> Payload:
        """Choose a shortcut that belongs to no message."""
        person = self.workspace.users[user]
        return await self.deliver("interactive", payloads.global_shortcut(callback_id, person, self.views.trigger()))

    async def open_home(self, user: str = "U0ALICE", tab: str = "home") -> Payload:
        """Open the app's Home tab, or with `tab="messages"` the conversation with it."""
        channel = self.workspace.open_direct({"users": user})["channel"]["id"]
        opened = {"type": "app_home_opened", "user": user, "channel": channel, "tab": tab}
        return await self._tell({**opened, "event_ts": self.workspace.stamp()}, 0)

    async def _say(
        self,
        text: str,
        channel: str,
        thread_ts: str | None,
        user: str,
        retry: int,
        *,
        mention: bool = False,
        files: list[Payload] | None = None,
    ) -> Payload:
        room = self.workspace.channel(channel)
        more: Payload = {"files": files, "subtype": "file_share"} if files else {}
        said = self.workspace.say(channel, text, thread_ts, user=user, **more)
        for inner in _events(said, room, mention=mention):
            await self._tell(inner, retry)
        return said

    async def _tell(self, inner: Payload, retry: int) -> Payload:
        return await self.deliver("events_api", payloads.event(inner), retry)


def _events(said: Payload, room: Channel, *, mention: bool) -> Iterator[Payload]:
    """One message of a person makes up to two events: the app hears those only of channels it is in."""
    if not room.member:
        return
    heard = {**said, "channel": room.id, "event_ts": said["ts"]}
    if mention and room.kind != "im":
        yield {**{key: value for key, value in heard.items() if key != "subtype"}, "type": "app_mention"}
    yield {**heard, "channel_type": room.kind}


def _element(shown: Payload, action_id: str) -> tuple[Payload, str]:
    attached = [block for attachment in shown.get("attachments", []) for block in attachment.get("blocks", [])]
    for number, block in enumerate([*shown.get("blocks", []), *attached]):
        for element in [*block.get("elements", []), block.get("accessory"), block.get("element")]:
            if isinstance(element, dict) and element.get("action_id") == action_id:
                return element, block.get("block_id", f"given{number}")
    raise AssertionError(f"nothing to click is called {action_id}")


def _initial(element: Payload) -> str | None:
    option = element.get("initial_option")
    return option["value"] if option else element.get("initial_value") or element.get("initial_user")
