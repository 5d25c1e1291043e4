"""A strict Slack on a free port of 127.0.0.1: Web API, Socket Mode, response addresses, and faults on demand.

In a test: `async with FakeSlack() as slack: …`. From another process: `python -m tests.slack.fake --port 4004`, then
`GET /_fake/messages`, `GET /_fake/calls`, `POST /_fake/fault {"method": …, "kind": …, "seconds": …}` and
`POST /_fake/slash {"text": …}`.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import json
import time
import urllib.parse
import uuid
from collections import deque
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Literal

from aiohttp import WSMsgType, web

from tests.slack.workspace import APP_TOKEN, BOT_TOKEN, CHANNEL, SIGNING_SECRET, SlackError, TooFast, Workspace

FaultKind = Literal["delay-before", "delay-after", "drop-before", "drop-after", "error-before", "error-after", "429"]


@dataclass(frozen=True)
class Fault:
    """What goes wrong once with the next call of `method`; `before` and `after` mean the storing of its effect."""

    method: str
    kind: FaultKind
    seconds: float = 1.0  # of the delay, or Retry-After


@dataclass(frozen=True)
class Call:
    """One call that arrived, whatever became of it."""

    method: str
    arguments: dict[str, Any]


class FakeSlack:
    """The server. `calls`, `acks` and `responses` record everything; `workspace` holds the messages."""

    def __init__(self, *, port: int = 0, pace: float = 0.0) -> None:
        self.workspace = Workspace(pace)
        self.calls: list[Call] = []
        self.acks: list[dict[str, Any]] = []
        self.responses: list[dict[str, Any]] = []  # posts to response addresses
        self.faults: deque[Fault] = deque()
        self.sockets: list[web.WebSocketResponse] = []
        self.silent = False  # keep sockets open but answer no ping
        self._awaited: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._port = port
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def base_url(self) -> str:
        """The address for slack_sdk clients."""
        return f"{self.url}/api/"

    def fail(self, method: str, kind: FaultKind, seconds: float = 1.0) -> None:
        """Let the next call of `method` go wrong."""
        self.faults.append(Fault(method, kind, seconds))

    def called(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    async def slash(self, text: str, command: str = "/diagnose") -> dict[str, Any]:
        """Type a slash command; returns the acknowledgement. Raises TimeoutError after Slack's 3 s."""
        if not self.sockets:
            raise AssertionError("no Socket Mode connection is open")
        envelope = str(uuid.uuid4())
        self._awaited[envelope] = asyncio.get_running_loop().create_future()
        payload = slash_payload(text, command, f"{self.url}/response/{envelope}")
        message = {"envelope_id": envelope, "type": "slash_commands", "accepts_response_payload": True}
        await self.sockets[-1].send_str(json.dumps({**message, "payload": payload}))
        async with asyncio.timeout(3):
            return await self._awaited[envelope]

    async def __aenter__(self) -> FakeSlack:
        app = web.Application()
        app.router.add_route("*", "/api/{method}", self._call)
        app.router.add_get("/link", self._socket)
        app.router.add_post("/response/{envelope}", self._response)
        app.router.add_get("/_fake/messages", self._show_messages)
        app.router.add_get("/_fake/calls", self._show_calls)
        app.router.add_post("/_fake/fault", self._take_fault)
        app.router.add_post("/_fake/slash", self._take_slash)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for socket in self.sockets:
            await socket.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        arguments = await _arguments(request)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ") or arguments.pop("token", "")
        self.calls.append(Call(method, arguments))
        fault = self._fault(method)
        if fault is not None:
            await _before(fault, request)
        try:
            answer = {"ok": True, **self._answer(method, token, arguments)}
        except SlackError as error:
            answer = error.answer
        except TooFast as error:
            return _too_many(error.retry_after)
        if fault is not None:
            await _after(fault, request)
        return web.json_response(answer)

    def _answer(self, method: str, token: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if not token:
            raise SlackError("not_authed")
        if method == "apps.connections.open":
            if token != APP_TOKEN:
                raise SlackError("not_allowed_token_type" if token == BOT_TOKEN else "invalid_auth")
            return {"url": f"ws://127.0.0.1:{self._port}/link?ticket={uuid.uuid4()}"}
        if token != BOT_TOKEN:
            raise SlackError("not_allowed_token_type" if token == APP_TOKEN else "invalid_auth")
        methods = {
            "auth.test": self.workspace.auth_test,
            "chat.postMessage": self.workspace.post,
            "chat.update": self.workspace.update,
            "conversations.history": self.workspace.history,
        }
        if method not in methods:
            raise SlackError("unknown_method", req_method=method)
        return methods[method](arguments)

    def _fault(self, method: str) -> Fault | None:
        fault = next((fault for fault in self.faults if fault.method == method), None)
        if fault is not None:
            self.faults.remove(fault)
        return fault

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        self.sockets.append(socket)
        await socket.send_str(json.dumps({"type": "hello", "num_connections": len(self.sockets)}))
        async for frame in socket:
            if frame.type is WSMsgType.PING and not self.silent:
                await socket.pong(frame.data)
            elif frame.type is WSMsgType.TEXT:
                answer = json.loads(frame.data)
                self.acks.append(answer)
                if waiting := self._awaited.pop(answer["envelope_id"], None):
                    waiting.set_result(answer)
        self.sockets.remove(socket)
        return socket

    async def _response(self, request: web.Request) -> web.Response:
        self.responses.append(await request.json())
        return web.json_response({"ok": True})

    async def _show_messages(self, request: web.Request) -> web.Response:
        return web.json_response(self.workspace.messages(request.query.get("channel", CHANNEL)))

    async def _show_calls(self, request: web.Request) -> web.Response:
        return web.json_response([asdict(call) for call in self.calls])

    async def _take_fault(self, request: web.Request) -> web.Response:
        self.faults.append(Fault(**await request.json()))
        return web.json_response({"ok": True})

    async def _take_slash(self, request: web.Request) -> web.Response:
        return web.json_response(await self.slash((await request.json())["text"]))


def slash_payload(text: str, command: str, response_url: str) -> dict[str, str]:
    """Return what Slack sends for a slash command."""
    return {
        "command": command,
        "text": text,
        "user_id": "U0ALICE",
        "channel_id": CHANNEL,
        "team_id": "T0TEST",
        "response_url": response_url,
        "trigger_id": "1.2.3",
    }


def signed(body: str, *, secret: str = SIGNING_SECRET, age_seconds: int = 0) -> dict[str, str]:
    """Return the headers with which Slack signs an HTTP request."""
    stamp = str(int(time.time()) - age_seconds)
    digest = hmac.new(secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
    kind = "application/json" if body.startswith("{") else "application/x-www-form-urlencoded"
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}", "Content-Type": kind}


async def _arguments(request: web.Request) -> dict[str, Any]:
    body = await request.text()
    if request.content_type == "application/json":
        return {**request.query, **(json.loads(body) if body else {})}
    form = dict(urllib.parse.parse_qsl(body, keep_blank_values=True)) | dict(request.query)
    decoded = {key: json.loads(form[key]) for key in ("blocks", "attachments", "metadata") if key in form}
    return form | decoded


async def _before(fault: Fault, request: web.Request) -> None:
    if fault.kind == "delay-before":
        await asyncio.sleep(fault.seconds)
    elif fault.kind == "drop-before":
        _drop(request)
    elif fault.kind == "error-before":
        raise web.HTTPInternalServerError
    elif fault.kind == "429":
        raise web.HTTPTooManyRequests(**_limited(fault.seconds))


async def _after(fault: Fault, request: web.Request) -> None:
    if fault.kind == "delay-after":
        await asyncio.sleep(fault.seconds)
    elif fault.kind == "drop-after":
        _drop(request)
    elif fault.kind == "error-after":
        raise web.HTTPInternalServerError


def _drop(request: web.Request) -> None:
    """Hang up without a word, as a proxy or a network does."""
    if request.transport is not None:
        request.transport.abort()
    raise ConnectionResetError


def _limited(retry_after: float) -> dict[str, Any]:
    body = json.dumps({"ok": False, "error": "ratelimited"})
    return {"headers": {"Retry-After": f"{retry_after:g}"}, "text": body, "content_type": "application/json"}


def _too_many(retry_after: float) -> web.Response:
    return web.Response(status=429, **_limited(retry_after))


async def _serve(port: int, pace: float) -> None:
    async with FakeSlack(port=port, pace=pace) as slack:
        print(json.dumps({"base_url": slack.base_url, "url": slack.url}), flush=True)  # noqa: T201
        await asyncio.Event().wait()


def main() -> None:
    """Serve until killed; the first line printed is JSON with the address."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--pace", type=float, default=1.0, help="least seconds between two posts in a channel")
    options = parser.parse_args()
    asyncio.run(_serve(options.port, options.pace))


if __name__ == "__main__":
    main()
