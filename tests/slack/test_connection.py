"""The Socket Mode connection is judged by what is heard on it, not by whether it is open."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bot.slack import connection
from bot.slack.api import web_client
from bot.slack.app import build_app
from bot.slack.commands import Commands
from bot.slack.connection import SocketConnection
from tests.slack.fake import FakeSlack
from tests.slack.patience import until
from tests.slack.workspace import APP_TOKEN, BOT_TOKEN

PING_SECONDS = 0.2


@pytest.fixture
async def socket(slack: FakeSlack, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SocketConnection]:
    """A connection that checks and pings often, so that tests need not wait."""
    monkeypatch.setattr(connection, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(connection, "GRACE_SECONDS", 0.5)
    app = build_app(web_client(BOT_TOKEN, slack.base_url), Commands())
    kept = SocketConnection(app, APP_TOKEN, ping_interval_seconds=PING_SECONDS)
    yield kept
    await kept.stop()


async def becomes(socket: SocketConnection, *, connected: bool) -> None:
    async def wanted() -> bool:
        return (await socket.state()).connected is connected

    await until(wanted)


async def test_before_anything_is_heard_there_is_no_silence_to_measure(socket: SocketConnection) -> None:
    state = await socket.state()
    assert (state.connected, state.silent_seconds) == (False, None)


async def test_answered_pings_are_traffic(slack: FakeSlack, socket: SocketConnection) -> None:
    await socket.start()
    await becomes(socket, connected=True)
    silences = []

    async def heard_again() -> bool:
        silences.append((await socket.state()).silent_seconds or 0.0)
        return len(silences) > 1 and silences[-1] < silences[-2]

    await until(heard_again)


async def test_an_open_socket_without_a_hello_is_not_ready_and_is_replaced(
    slack: FakeSlack, socket: SocketConnection
) -> None:
    slack.greets = False
    await socket.start()
    await until(lambda: slack.sockets)
    silent = slack.sockets[0]
    state = await socket.state()
    assert not state.connected
    assert "hello" in state.detail or "connecting" in state.detail
    slack.greets = True
    await becomes(socket, connected=True)
    assert slack.sockets[-1] is not silent


async def test_a_socket_that_answers_no_ping_is_lost_until_another_is_heard(
    slack: FakeSlack, socket: SocketConnection
) -> None:
    await socket.start()
    await becomes(socket, connected=True)
    slack.silent = True
    await becomes(socket, connected=False)
    slack.silent = False
    await becomes(socket, connected=True)
    assert ((await socket.state()).silent_seconds or 0.0) < connection.SILENT_PINGS * PING_SECONDS + 1


async def test_a_stopped_connection_says_so(slack: FakeSlack, socket: SocketConnection) -> None:
    await socket.start()
    await becomes(socket, connected=True)
    await socket.stop()
    assert (await socket.state()).detail == "stopped"
