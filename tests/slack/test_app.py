"""`/diagnose` over both transports, and a connection that is open about its state."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from slack_bolt.async_app import AsyncApp

from bot.slack import connection
from bot.slack.app import EVENTS_PATH, build_app, events_handler
from bot.slack.commands import Commands, Invocation
from bot.slack.connection import SocketConnection
from bot.slack.poster import web_client
from tests.slack.fake import FakeSlack, signed, slash_payload
from tests.slack.patience import until
from tests.slack.workspace import APP_TOKEN, BOT_TOKEN, CHANNEL, SIGNING_SECRET


@pytest.fixture
def commands() -> Commands:
    """`help`, and a `status` as the service would register it."""

    async def status(asked: Invocation) -> str:
        return f"2 incidents are open. {asked.arguments}".strip()

    async def broken(asked: Invocation) -> str:
        raise RuntimeError("no database")

    registry = Commands()
    registry.register("status", "what is going on", status)
    registry.register("broken", "never works", broken)
    return registry


@pytest.fixture
def app(slack: FakeSlack, commands: Commands) -> AsyncApp:
    """The Bolt app as the service builds it."""
    return build_app(web_client(BOT_TOKEN, slack.base_url), commands, SIGNING_SECRET)


@pytest.fixture
async def socket(app: AsyncApp) -> AsyncIterator[SocketConnection]:
    """A Socket Mode connection that pings often, so that tests need not wait."""
    kept = SocketConnection(app, APP_TOKEN, ping_interval_seconds=0.2)
    await kept.start()
    yield kept
    await kept.stop()


async def becomes(socket: SocketConnection, *, connected: bool) -> None:
    """Wait until the state is as wanted."""

    async def wanted() -> bool:
        return (await socket.state()).connected is connected

    await until(wanted)


async def explains(socket: SocketConnection, words: str) -> None:
    """Wait until the state says `words`."""

    async def said() -> bool:
        state = await socket.state()
        return not state.connected and words in state.detail

    await until(said)


async def answer(slack: FakeSlack) -> str:
    """The first answer that reached a response address."""
    first = (await until(lambda: slack.responses))[0]
    assert first["response_type"] == "ephemeral"
    return str(first["text"])


async def test_a_command_over_the_socket_is_acknowledged_and_answered(
    slack: FakeSlack, socket: SocketConnection
) -> None:
    await becomes(socket, connected=True)
    acknowledged = await slack.slash("status now")
    assert acknowledged["envelope_id"]
    assert await answer(slack) == "2 incidents are open. now"


async def said(commands: Commands, line: str, user: str, channel: str) -> str:
    """Return what the commands answer to a line."""
    answer = await commands.answer(line, user, channel)
    assert answer is not None
    return answer.text


@pytest.mark.parametrize("line", ["", "help", "HELP  "])
async def test_help_lists_every_word(commands: Commands, line: str) -> None:
    text = await said(commands, line, "U1", CHANNEL)
    assert "`/diagnose help`  this list" in text
    assert "`/diagnose status`  what is going on" in text


async def test_an_unknown_word_is_repeated_inert_beside_the_help(commands: Commands) -> None:
    text = await said(commands, "<!channel>` 48213", "U1", CHANNEL)
    assert text.startswith("I do not know `&lt;!channel&gt;\u02cb`.")
    assert "/diagnose help" in text


async def test_a_failing_answer_is_owned_up_to(commands: Commands) -> None:
    assert "failed on my side" in await said(commands, "broken", "U1", CHANNEL)


def test_a_word_cannot_be_taken_twice(commands: Commands) -> None:
    async def other(asked: Invocation) -> str:
        return ""

    with pytest.raises(ValueError, match="twice"):
        commands.register("status", "again", other)


@pytest.fixture
async def endpoint(app: AsyncApp) -> AsyncIterator[str]:
    """HTTP mode on a free port."""
    service = web.Application()
    service.router.add_post(EVENTS_PATH, events_handler(app, SIGNING_SECRET))
    runner = web.AppRunner(service)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}{EVENTS_PATH}"
    await runner.cleanup()


async def test_a_signed_command_over_http_is_answered(slack: FakeSlack, endpoint: str) -> None:
    body = urllib.parse.urlencode(slash_payload("help", "/diagnose", f"{slack.url}/response/1"))
    async with aiohttp.ClientSession() as session, session.post(endpoint, data=body, headers=signed(body)) as reply:
        assert reply.status == 200
    assert "What I understand" in await answer(slack)


@pytest.mark.parametrize(
    "headers",
    [
        lambda body: signed(body, secret="not the secret"),
        lambda body: signed(body, age_seconds=400),
        lambda body: signed(body + "x"),
        lambda body: {"Content-Type": "application/x-www-form-urlencoded"},
    ],
    ids=["wrong secret", "replayed", "altered", "unsigned"],
)
async def test_what_slack_did_not_sign_is_refused(slack: FakeSlack, endpoint: str, headers: object) -> None:
    body = urllib.parse.urlencode(slash_payload("help", "/diagnose", f"{slack.url}/response/1"))
    assert callable(headers)
    async with aiohttp.ClientSession() as session, session.post(endpoint, data=body, headers=headers(body)) as reply:
        assert reply.status == 401
    assert slack.responses == []


async def test_slack_can_verify_the_address(endpoint: str) -> None:
    body = '{"type": "url_verification", "challenge": "abc"}'
    async with aiohttp.ClientSession() as session, session.post(endpoint, data=body, headers=signed(body)) as reply:
        assert "abc" in await reply.text()


@pytest.mark.parametrize("secret", ["", "  "])
def test_http_without_a_secret_does_not_start(app: AsyncApp, secret: str) -> None:
    with pytest.raises(ValueError, match="signing secret"):
        events_handler(app, secret)


async def test_a_wrong_app_token_is_told_while_the_service_runs(app: AsyncApp, slack: FakeSlack) -> None:
    kept = SocketConnection(app, "xapp-wrong")
    await kept.start()
    await explains(kept, "invalid_auth")
    await kept.stop()
    assert (await kept.state()).detail == "stopped"


async def test_slack_being_away_does_not_stop_the_start(commands: Commands) -> None:
    kept = SocketConnection(build_app(web_client(BOT_TOKEN, "http://127.0.0.1:9/api/"), commands), APP_TOKEN)
    await kept.start()
    await explains(kept, "cannot be reached")
    await kept.stop()


async def test_a_dropped_socket_is_opened_again(slack: FakeSlack, socket: SocketConnection) -> None:
    await becomes(socket, connected=True)
    before = slack.sockets[0]
    await before.close()
    await until(lambda: slack.sockets and slack.sockets[-1] is not before)
    await becomes(socket, connected=True)
    await slack.slash("help")
    assert "What I understand" in await answer(slack)


async def test_a_socket_that_answers_no_ping_is_replaced(
    slack: FakeSlack, socket: SocketConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "GRACE_SECONDS", 0.5)
    await becomes(socket, connected=True)
    slack.silent = True
    await becomes(socket, connected=False)
    slack.silent = False
    await becomes(socket, connected=True)
