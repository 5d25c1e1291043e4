"""The Bolt app: what people can ask of Firstfault in Slack, over Socket Mode or HTTP alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response, to_bolt_request
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncRespond
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.commands import COMMAND, Commands

EVENTS_PATH = "/slack/events"


def build_app(client: AsyncWebClient, commands: Commands, signing_secret: str = "") -> AsyncApp:
    """Return the app with its listeners. Only HTTP needs `signing_secret`; Socket Mode carries no signatures."""
    app = AsyncApp(client=client, signing_secret=signing_secret)

    async def diagnose(ack: AsyncAck, respond: AsyncRespond, command: dict[str, Any]) -> None:
        await ack()  # Slack waits 3 s; the answer may take longer
        answer = await commands.answer(
            command.get("text", ""),
            command.get("user_id", ""),
            command.get("channel_id", ""),
            user_name=command.get("user_name", ""),
            mark=command.get("trigger_id", ""),
        )
        if answer is not None:
            await answer.send(respond)

    app.command(COMMAND)(diagnose)
    return app


def events_handler(app: AsyncApp, signing_secret: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return the handler of POST EVENTS_PATH. Raises ValueError without a secret: anybody could speak for Slack."""
    if not signing_secret.strip():
        raise ValueError("HTTP mode needs the app's signing secret (Basic Information → Signing Secret)")

    async def handle(request: web.Request) -> web.StreamResponse:
        return await to_aiohttp_response(await app.async_dispatch(await to_bolt_request(request)))

    return handle
