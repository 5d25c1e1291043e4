"""The Socket Mode connection: opened in the background, watched by its traffic, and open about its state."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from dataclasses import dataclass

from aiohttp import WSMessage
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp

from bot.slack.api import answered
from bot.slack.contract import PosterError

CONNECT_SECONDS = 20.0
CHECK_SECONDS = 2.0
SILENT_PINGS = 4  # unanswered pings after which a connection counts as lost
GRACE_SECONDS = 45.0  # the SDK reconnects by itself; after this long without traffic we do it
LONGEST_DELAY_SECONDS = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionState:
    """Whether Slack can reach us, and if not, why and what to do; and the seconds since it was last heard."""

    connected: bool
    detail: str
    silent_seconds: float | None = None  # None: never heard


class _Traffic:
    """When Slack was last heard, whatever it said: hello, an event, or the answer to a ping."""

    def __init__(self, handler: AsyncSocketModeHandler) -> None:
        self._client = handler.client
        self._client.on_message_listeners.append(self._hear)
        self._heard: float | None = None
        self._pong = self._client.last_ping_pong_time
        self._greeted: object = None

    async def _hear(self, message: WSMessage) -> None:
        self._heard = time.monotonic()
        with contextlib.suppress(ValueError, AttributeError):
            if json.loads(message.data).get("type") == "hello":
                self._greeted = self._client.current_session

    @property
    def greeted(self) -> bool:
        """Whether Slack has said hello on the connection that is open: only then it sends anything."""
        return self._greeted is not None and self._greeted is self._client.current_session

    def silent_seconds(self) -> float | None:
        """Return how long nothing was heard, to the accuracy of the checks, or None: never anything."""
        pong = self._client.last_ping_pong_time
        if pong != self._pong and self.greeted:
            self._pong, self._heard = pong, time.monotonic()
        return None if self._heard is None else time.monotonic() - self._heard


class SocketConnection:
    """Keeps one Socket Mode connection. Slack being away never stops the service from starting."""

    def __init__(self, app: AsyncApp, app_token: str, ping_interval_seconds: float = 10.0) -> None:
        self._app = app
        self._app_token = app_token
        self._ping_interval = ping_interval_seconds
        self._handler: AsyncSocketModeHandler | None = None
        self._traffic: _Traffic | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._problem = "not started"

    async def start(self) -> None:
        """Begin connecting and return at once; `state` tells when it is done."""
        self._handler = AsyncSocketModeHandler(self._app, self._app_token, ping_interval=self._ping_interval)
        self._traffic = _Traffic(self._handler)
        self._problem = "connecting to Slack"
        self._keeper = asyncio.create_task(self._keep(self._handler, self._traffic), name="slack-socket")

    async def stop(self) -> None:
        """Close the connection. Safe to call twice."""
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        if self._handler is not None:
            await self._handler.close_async()  # type: ignore[no-untyped-call]
        self._keeper = self._handler = self._traffic = None
        self._problem = "stopped"

    async def state(self) -> ConnectionState:
        """Return the state, judged by traffic: a socket that only stays open counts as lost."""
        if self._handler is None or self._traffic is None:
            return ConnectionState(connected=False, detail=self._problem)
        silent = self._traffic.silent_seconds()
        problem = await self._trouble(self._handler, self._traffic)
        return ConnectionState(connected=not problem, detail=problem or "connected", silent_seconds=silent)

    async def _trouble(self, handler: AsyncSocketModeHandler, traffic: _Traffic) -> str:
        """Return what is wrong with the connection, or nothing."""
        silent = traffic.silent_seconds()
        if not await handler.client.is_connected():
            return self._problem
        if not traffic.greeted:
            return "the connection is open, but Slack has not said hello on it"
        if silent is not None and silent > SILENT_PINGS * self._ping_interval + CHECK_SECONDS:
            return f"Slack has been silent for {silent:.0f} s"
        return ""

    async def _keep(self, handler: AsyncSocketModeHandler, traffic: _Traffic) -> None:
        delay, lost_at = 1.0, time.monotonic() - GRACE_SECONDS
        while True:
            if not await self._trouble(handler, traffic):
                delay, lost_at, self._problem = 1.0, time.monotonic(), "the connection to Slack was lost"
                await asyncio.sleep(CHECK_SECONDS)
            elif time.monotonic() - lost_at < GRACE_SECONDS:
                await asyncio.sleep(CHECK_SECONDS)
            elif await self._connect(handler):
                lost_at = time.monotonic()  # give Slack the time to say hello
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(delay)
                delay = min(LONGEST_DELAY_SECONDS, delay * 2)

    async def _connect(self, handler: AsyncSocketModeHandler) -> bool:
        client = handler.client
        try:
            async with asyncio.timeout(CONNECT_SECONDS), client.connect_operation_lock:
                opened = await answered(client.web_client.apps_connections_open(app_token=self._app_token))
                client.wss_uri = str(opened["url"])
                await handler.connect_async()  # type: ignore[no-untyped-call]
        except PosterError as error:
            self._problem = str(error)
        except TimeoutError:
            self._problem = f"no Socket Mode connection within {CONNECT_SECONDS:g} s"
        else:
            return True
        log.warning("Slack Socket Mode: %s", self._problem)
        return False
