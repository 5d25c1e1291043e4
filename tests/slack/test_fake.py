"""The fake is as strict as Slack: otherwise what passes here would fail there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.app import EVENTS_PATH, build_app, events_handler
from bot.slack.commands import Commands
from bot.slack.connection import SocketConnection
from tests.slack.fake import FakeSlack
from tests.slack.patience import until
from tests.slack.workspace import APP_TOKEN, BOT_TOKEN, CHANNEL, SIGNING_SECRET

BUTTON = {"type": "button", "action_id": "go", "text": {"type": "plain_text", "text": "Go"}, "value": "7"}
BLOCKS = [{"type": "actions", "elements": [BUTTON]}]
MODAL: dict[str, Any] = {
    "type": "modal",
    "callback_id": "ask",
    "title": {"type": "plain_text", "text": "Ask"},
    "submit": {"type": "plain_text", "text": "Send"},
    "blocks": [
        {
            "type": "input",
            "block_id": "words",
            "label": {"type": "plain_text", "text": "Words"},
            "element": {"type": "plain_text_input", "action_id": "words"},
        }
    ],
}


@pytest.fixture
def client(slack: FakeSlack) -> AsyncWebClient:
    return AsyncWebClient(BOT_TOKEN, base_url=slack.base_url)


async def refused(call: Any) -> str:
    with pytest.raises(SlackApiError) as error:
        await call
    return str(error.value.response["error"])


class Heard:
    """An app that writes down what it hears."""

    def __init__(self, client: AsyncWebClient) -> None:
        self.app = build_app(client, Commands(), SIGNING_SECRET)
        self.bodies: list[dict[str, Any]] = []
        for kind in ("message", "app_mention", "app_home_opened", "file_shared"):
            self.app.event(kind)(self._event)
        self.app.action("go")(self._event)
        self.app.view("ask")(self._submitted)
        self.app.shortcut("read")(self._event)

    async def _event(self, ack: AsyncAck, body: dict[str, Any]) -> None:
        await ack()
        self.bodies.append(body)

    async def _submitted(self, ack: AsyncAck, body: dict[str, Any]) -> None:
        await ack(response_action="errors", errors={"words": "too few"})
        self.bodies.append(body)

    def events(self) -> list[str]:
        return [body["event"]["type"] for body in self.bodies if "event" in body]


@pytest.fixture(params=["socket", "http"])
async def heard(slack: FakeSlack, client: AsyncWebClient, request: pytest.FixtureRequest) -> AsyncIterator[Heard]:
    """An app that hears over Socket Mode, and one that hears over HTTP."""
    listener = Heard(client)
    if request.param == "socket":
        socket = SocketConnection(listener.app, APP_TOKEN)
        await socket.start()
        await until(lambda: slack.sockets)
        yield listener
        await socket.stop()
        return
    service = web.Application()
    service.router.add_post(EVENTS_PATH, events_handler(listener.app, SIGNING_SECRET))
    runner = web.AppRunner(service)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    slack.http_address = f"http://127.0.0.1:{runner.addresses[0][1]}{EVENTS_PATH}"
    yield listener
    await runner.cleanup()


async def test_a_click_tells_message_person_and_value(slack: FakeSlack, heard: Heard, client: AsyncWebClient) -> None:
    posted = await client.chat_postMessage(channel=CHANNEL, text="x", blocks=BLOCKS)
    await slack.click(posted["ts"], "go", user="U0BOB")
    (body,) = heard.bodies
    assert body["actions"][0]["value"] == "7"
    assert body["container"]["message_ts"] == posted["ts"]
    assert body["user"]["id"] == "U0BOB"
    assert body["channel"]["id"] == CHANNEL


async def test_what_the_message_does_not_offer_cannot_be_clicked(slack: FakeSlack, client: AsyncWebClient) -> None:
    posted = await client.chat_postMessage(channel=CHANNEL, text="x", blocks=BLOCKS)
    with pytest.raises(AssertionError, match="nothing to click"):
        await slack.click(posted["ts"], "stop")


async def test_a_mention_arrives_as_mention_and_as_message(slack: FakeSlack, heard: Heard) -> None:
    said = await slack.mention("why?")
    await until(lambda: len(heard.bodies) == 2)
    assert sorted(heard.events()) == ["app_mention", "message"]
    assert {body["event"]["ts"] for body in heard.bodies} == {said["ts"]}
    assert len({body["event_id"] for body in heard.bodies}) == 2


async def test_a_repeated_event_keeps_its_id(slack: FakeSlack, heard: Heard) -> None:
    await slack.write("hello", retry=2)
    await until(lambda: len(heard.bodies) == 3)
    assert len({body["event_id"] for body in heard.bodies}) == 1


async def test_channels_without_the_app_stay_unheard(slack: FakeSlack, heard: Heard) -> None:
    await slack.mention("psst", channel="C0ELSEWHERE")
    await slack.write("aloud")
    await until(lambda: heard.bodies)
    assert [body["event"]["text"] for body in heard.bodies] == ["aloud"]


async def test_a_modal_is_submitted_and_may_be_sent_back(
    slack: FakeSlack, heard: Heard, client: AsyncWebClient
) -> None:
    await client.views_open(trigger_id=slack.views.trigger(), view=MODAL)
    answer = await slack.submit(slack.views.opened[-1], {"words": "ah"})
    assert answer["errors"] == {"words": "too few"}
    assert heard.bodies[0]["view"]["state"]["values"]["words"]["words"]["value"] == "ah"
    with pytest.raises(AssertionError, match="asks for words"):
        await slack.submit(slack.views.opened[-1], {})


async def test_shortcuts_home_and_files_are_told(slack: FakeSlack, heard: Heard, client: AsyncWebClient) -> None:
    posted = slack.workspace.say(CHANNEL, "Traceback (most recent call last):")
    await slack.shortcut(posted["ts"], "read")
    assert heard.bodies[-1]["message"]["text"].startswith("Traceback")
    await slack.open_home()
    said = await slack.share_file("job.log", b"boom", "what is this?")
    await until(lambda: len(heard.bodies) == 5)
    assert heard.events() == ["app_home_opened", "app_mention", "message", "file_shared"]
    assert said["files"][0]["name"] == "job.log"


async def test_the_app_hears_itself_only_where_it_echoes(
    slack: FakeSlack, heard: Heard, client: AsyncWebClient
) -> None:
    slack.echo = True
    await client.chat_postMessage(channel=CHANNEL, text="mine")
    await slack.write("not mine")
    await until(lambda: heard.bodies)
    assert [body["event"]["text"] for body in heard.bodies] == ["not mine"]  # Bolt drops what the app said itself


async def test_a_trigger_works_once_and_not_for_long(slack: FakeSlack, client: AsyncWebClient) -> None:
    trigger = slack.views.trigger()
    await client.views_open(trigger_id=trigger, view=MODAL)
    assert await refused(client.views_open(trigger_id=trigger, view=MODAL)) == "exchanged_trigger_id"
    assert await refused(client.views_open(trigger_id="1.2.made-up", view=MODAL)) == "invalid_trigger_id"
    slack.views.trigger_seconds = 0.01
    late = slack.views.trigger()
    await asyncio.sleep(0.02)
    assert await refused(client.views_open(trigger_id=late, view=MODAL)) == "expired_trigger_id"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"title": {"type": "plain_text", "text": "x" * 25}}, "view.title"),
        ({"private_metadata": "x" * 3_001}, "private_metadata"),
        ({"blocks": MODAL["blocks"] * 2}, "there twice"),
        ({"submit": None}, "submit"),
        ({"blocks": [{"type": "table", "rows": []}]}, "unknown block"),
    ],
)
async def test_views_are_checked(
    slack: FakeSlack, client: AsyncWebClient, change: dict[str, Any], complaint: str
) -> None:
    view = {key: value for key, value in {**MODAL, **change}.items() if value is not None}
    with pytest.raises(SlackApiError) as error:
        await client.views_open(trigger_id=slack.views.trigger(), view=view)
    assert complaint in str(error.value.response["response_metadata"]["messages"])


async def test_a_reply_needs_the_ts_of_a_parent(slack: FakeSlack, client: AsyncWebClient) -> None:
    parent = await client.chat_postMessage(channel=CHANNEL, text="parent")
    reply = await client.chat_postMessage(channel=CHANNEL, text="reply", thread_ts=parent["ts"])
    await client.chat_postMessage(channel=CHANNEL, text="lost", thread_ts=reply["ts"])
    assert [message["text"] for message in slack.workspace.thread(parent["ts"])] == ["reply"]
    assert [message["text"] for message in slack.workspace.astray] == ["lost"]
    page = await client.conversations_replies(channel=CHANNEL, ts=parent["ts"])
    assert [message["text"] for message in page["messages"]] == ["parent", "reply"]


async def test_an_upload_shows_after_a_while(slack: FakeSlack, client: AsyncWebClient) -> None:
    parent = await client.chat_postMessage(channel=CHANNEL, text="parent")
    slack.files.delay = 0.2
    shared = await client.files_upload_v2(
        content="last words", filename="rank-3.log", channel=CHANNEL, thread_ts=parent["ts"]
    )
    file = shared["files"][0]["id"]
    assert (await client.files_info(file=file))["file"]["shares"] == {}
    await until(lambda: slack.files.shared(CHANNEL, parent["ts"]))
    assert (await client.files_info(file=file))["file"]["shares"]["public"][CHANNEL]
    assert slack.workspace.thread(parent["ts"])[0]["files"][0]["name"] == "rank-3.log"


async def test_a_scope_that_is_missing_is_named(slack: FakeSlack, client: AsyncWebClient) -> None:
    assert (await client.users_lookupByEmail(email="bob@example.test"))["user"]["id"] == "U0BOB"
    slack.workspace.missing_scopes.add("users:read.email")
    with pytest.raises(SlackApiError) as error:
        await client.users_lookupByEmail(email="bob@example.test")
    assert error.value.response["needed"] == "users:read.email"
    assert "users:read.email" not in str((await client.auth_test()).headers["X-OAuth-Scopes"]).split(",")


async def test_an_action_id_may_stand_once_in_a_message(client: AsyncWebClient) -> None:
    call = client.chat_postMessage(channel=CHANNEL, text="x", blocks=[*BLOCKS, *BLOCKS])
    assert await refused(call) == "invalid_blocks"


async def test_nobody_acknowledging_is_noticed(slack: FakeSlack, client: AsyncWebClient) -> None:
    app = AsyncApp(client=client)

    @app.action("go")
    async def sleepy(ack: AsyncAck) -> None:
        await asyncio.sleep(60)
        await ack()

    socket = SocketConnection(app, APP_TOKEN)
    await socket.start()
    await until(lambda: slack.sockets)
    posted = await client.chat_postMessage(channel=CHANNEL, text="x", blocks=BLOCKS)
    with pytest.raises(TimeoutError):
        await slack.click(posted["ts"], "go")
    await socket.stop()
