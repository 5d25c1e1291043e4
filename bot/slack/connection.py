"""The Socket Mode connection: opened in the background, watched, and open about its state."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass

from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp

from bot.slack.contract import PosterError
from bot.slack.poster import answered

CONNECT_SECONDS = 20.0
CHECK_SECONDS = 2.0
GRACE_SECONDS = 45.0  # the SDK reconnects by itself; after this long without traffic we do it
LONGEST_DELAY_SECONDS = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionState:
    """Whether Slack can reach us, and if not, why and what to do."""

    connected: bool
    detail: str


class SocketConnection:
    """Keeps one Socket Mode connection. Slack being away never stops the service from starting."""

    def __init__(self, app: AsyncApp, app_token: str, ping_interval_seconds: float = 10.0) -> None:
        self._app = app
        self._app_token = app_token
        self._ping_interval = ping_interval_seconds
        self._handler: AsyncSocketModeHandler | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._problem = "not started"

    async def start(self) -> None:
        """Begin connecting and return at once; `state` tells when it is done."""
        self._handler = AsyncSocketModeHandler(self._app, self._app_token, ping_interval=self._ping_interval)
        self._problem = "connecting to Slack"
        self._keeper = asyncio.create_task(self._keep(self._handler), name="slack-socket")

    async def stop(self) -> None:
        """Close the connection. Safe to call twice."""
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        if self._handler is not None:
            await self._handler.close_async()  # type: ignore[no-untyped-call]
        self._keeper = self._handler = None
        self._problem = "stopped"

    async def state(self) -> ConnectionState:
        """Return the state, judged by traffic: a socket that answers no ping counts as lost."""
        if self._handler is not None and await self._handler.client.is_connected():
            return ConnectionState(connected=True, detail="connected")
        return ConnectionState(connected=False, detail=self._problem)

    async def _keep(self, handler: AsyncSocketModeHandler) -> None:
        delay, lost_at = 1.0, time.monotonic() - GRACE_SECONDS
        while True:
            if await handler.client.is_connected():
                delay, lost_at, self._problem = 1.0, time.monotonic(), "the connection to Slack was lost"
                await asyncio.sleep(CHECK_SECONDS)
            elif time.monotonic() - lost_at < GRACE_SECONDS:
                await asyncio.sleep(CHECK_SECONDS)
            elif not await self._connect(handler):
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
