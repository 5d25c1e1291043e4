"""A strict Slack on a free port of 127.0.0.1: Web API, Socket Mode or HTTP events, files, and faults on demand.

In a test: `async with FakeSlack() as slack: …`. From another process: `python -m tests.slack.fake --port 4004`, then
`GET /_fake/messages`, `GET /_fake/calls`, `POST /_fake/fault {"method": …, "kind": …, "seconds": …}` and
`POST /_fake/do/DEED {…}` for what people do (`slash`, `click`, `write`, `mention` …; see `people.py`).

Deliveries go to the newest socket, or with `http_address` set as signed requests to that address.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import urllib.parse
import uuid
from collections import Counter, deque
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Literal

import aiohttp
from aiohttp import WSMsgType, web

from tests.slack import payloads
from tests.slack.payloads import signed, slash_payload
from tests.slack.people import People
from tests.slack.workspace import APP_TOKEN, BOT_TOKEN, CHANNEL, Channel, SlackError, TooFast

__all__ = ["Call", "FakeSlack", "Fault", "FaultKind", "signed", "slash_payload"]

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


SCOPES = {
    "chat.postMessage": "chat:write",
    "chat.update": "chat:write",
    "chat.delete": "chat:write",
    "chat.postEphemeral": "chat:write",
    "conversations.history": "channels:history",
    "conversations.replies": "channels:history",
    "conversations.info": "channels:read",
    "conversations.members": "channels:read",
    "users.conversations": "channels:read",
    "conversations.open": "im:write",
    "files.getUploadURLExternal": "files:write",
    "files.completeUploadExternal": "files:write",
    "files.info": "files:read",
    "users.info": "users:read",
    "users.lookupByEmail": "users:read.email",
    "reactions.add": "reactions:write",
}
OTHER_SCOPES = {
    "commands",
    "app_mentions:read",
    "assistant:write",
    "groups:history",
    "groups:read",
    "im:history",
    "reactions:read",
}
RESPONSES = 5  # uses of one response address
ACK_SECONDS = 3


class FakeSlack(People):
    """The server. `calls`, `acks` and `responses` record everything; `workspace` holds the messages.

    With `echo`, the app hears of its own messages, as it does in Slack where it listens to a channel.
    """

    def __init__(self, *, port: int = 0, pace: float = 0.0) -> None:
        super().__init__(pace)
        self.calls: list[Call] = []
        self.acks: list[dict[str, Any]] = []
        self.responses: list[dict[str, Any]] = []  # posts to response addresses
        self.faults: deque[Fault] = deque()
        self.sockets: list[web.WebSocketResponse] = []
        self.silent = False  # keep sockets open but answer no ping
        self.greets = True  # says hello on a new socket
        self.http_address = ""
        self.echo = False
        self.slowest = 0.0  # seconds to the slowest acknowledgement
        self.workspace.posted = self._heard
        self._echoes: set[asyncio.Task[Any]] = set()
        self._uses: Counter[str] = Counter()
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

    def response_url(self) -> str:
        return f"{self.url}/response/{uuid.uuid4()}"

    async def deliver(self, kind: str, payload: dict[str, Any], retry: int = 0) -> dict[str, Any]:
        """Send to the app; returns the payload of its first acknowledgement. Raises TimeoutError after Slack's 3 s."""
        answers = []
        for number in range(retry + 1):
            started = asyncio.get_running_loop().time()
            send = self._deliver_http if self.http_address else self._deliver_socket
            async with asyncio.timeout(ACK_SECONDS):
                answers.append(await send(kind, payload, number))
            self.slowest = max(self.slowest, asyncio.get_running_loop().time() - started)
        return answers[0]

    async def _deliver_socket(self, kind: str, payload: dict[str, Any], number: int) -> dict[str, Any]:
        if not self.sockets:
            raise AssertionError("no Socket Mode connection is open")
        envelope = str(uuid.uuid4())
        self._awaited[envelope] = asyncio.get_running_loop().create_future()
        message = {"envelope_id": envelope, "type": kind, "accepts_response_payload": kind != "events_api"}
        if kind == "events_api":
            message |= {"retry_attempt": number, "retry_reason": "timeout" if number else ""}
        await self.sockets[-1].send_str(json.dumps({**message, "payload": payload}))
        answer = await self._awaited[envelope]
        return {"envelope_id": envelope, **(answer.get("payload") or {})}

    async def _deliver_http(self, kind: str, payload: dict[str, Any], number: int) -> dict[str, Any]:
        if kind == "events_api":
            body = json.dumps(payload)
        elif kind == "slash_commands":
            body = urllib.parse.urlencode(payload)
        else:
            body = urllib.parse.urlencode({"payload": json.dumps(payload)})
        headers = signed(body, retry=(number, "http_timeout") if number else None)
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.http_address, data=body, headers=headers) as reply,
        ):
            text = await reply.text()
            assert reply.status == 200, f"HTTP {reply.status}: {text}"
            return json.loads(text) if text.startswith("{") else {}

    def _heard(self, channel: Channel, message: dict[str, Any]) -> None:
        if self.echo:
            inner = {**message, "channel": channel.id, "channel_type": channel.kind, "event_ts": message["ts"]}
            task = asyncio.ensure_future(self.deliver("events_api", payloads.event(inner)))
            self._echoes.add(task)
            task.add_done_callback(self._echoes.discard)

    async def __aenter__(self) -> FakeSlack:
        app = web.Application(client_max_size=64 * 1024**2)
        app.router.add_route("*", "/api/{method}", self._call)
        app.router.add_get("/link", self._socket)
        app.router.add_post("/response/{envelope}", self._response)
        app.router.add_get("/_fake/messages", self._show_messages)
        app.router.add_get("/_fake/calls", self._show_calls)
        app.router.add_post("/_fake/fault", self._take_fault)
        app.router.add_post("/_fake/do/{deed}", self._take_deed)
        app.router.add_post("/upload/{file}", self._upload)
        app.router.add_get("/files/{file}/{name}", self._download)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.files.url = self.url
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
        return web.json_response(answer, headers={"X-OAuth-Scopes": self._scopes()})

    def _answer(self, method: str, token: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if not token:
            raise SlackError("not_authed")
        if method == "apps.connections.open":
            if token != APP_TOKEN:
                raise SlackError("not_allowed_token_type" if token == BOT_TOKEN else "invalid_auth")
            return {"url": f"ws://127.0.0.1:{self._port}/link?ticket={uuid.uuid4()}"}
        if token != BOT_TOKEN:
            raise SlackError("not_allowed_token_type" if token == APP_TOKEN else "invalid_auth")
        scope = SCOPES.get(method)
        if scope in self.workspace.missing_scopes:
            raise SlackError("missing_scope", needed=scope, provided=self._scopes())
        self.files.settle()
        methods = {
            "auth.test": self.workspace.auth_test,
            "chat.postMessage": self.workspace.post,
            "chat.postEphemeral": self.workspace.ephemeral,
            "chat.update": self.workspace.update,
            "chat.delete": self.workspace.take_back,
            "chat.getPermalink": self.workspace.permalink,
            "conversations.history": self.workspace.history,
            "conversations.replies": self.workspace.replies,
            "conversations.info": self.workspace.info,
            "conversations.members": self.workspace.members,
            "conversations.open": self.workspace.open_direct,
            "users.conversations": self.workspace.conversations_of,
            "users.info": self.workspace.user_info,
            "users.lookupByEmail": self.workspace.user_by_email,
            "reactions.add": self.workspace.react,
            "files.getUploadURLExternal": self.files.upload_address,
            "files.completeUploadExternal": self.files.complete,
            "files.info": self.files.info,
            "views.open": self.views.open,
            "views.update": self.views.update,
            "views.publish": self.views.publish,
        }
        if method not in methods:
            raise SlackError("unknown_method", req_method=method)
        return methods[method](arguments)

    def _scopes(self) -> str:
        return ",".join(sorted({*SCOPES.values(), *OTHER_SCOPES} - self.workspace.missing_scopes))

    def _fault(self, method: str) -> Fault | None:
        fault = next((fault for fault in self.faults if fault.method == method), None)
        if fault is not None:
            self.faults.remove(fault)
        return fault

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        self.sockets.append(socket)
        if self.greets:
            await socket.send_str(json.dumps({"type": "hello", "num_connections": len(self.sockets)}))
        async for frame in socket:
            if frame.type is WSMsgType.PING and not self.silent:
                await socket.pong(frame.data)
            elif frame.type is WSMsgType.TEXT:
                answer = json.loads(frame.data)
                self.acks.append(answer)
                waiting = self._awaited.pop(answer["envelope_id"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        self.sockets.remove(socket)
        return socket

    async def _response(self, request: web.Request) -> web.Response:
        address = request.match_info["envelope"]
        self._uses[address] += 1
        if self._uses[address] > RESPONSES:
            return web.json_response({"ok": False, "error": "used_url"}, status=404)
        self.responses.append(await request.json())
        return web.json_response({"ok": True})

    async def _upload(self, request: web.Request) -> web.Response:
        if not self.files.receive(request.match_info["file"], await request.read()):
            return web.Response(status=400, text="the file is not what was announced")
        return web.Response(text=f"OK - {request.content_length}")

    async def _download(self, request: web.Request) -> web.Response:
        """Without the token, or without the scope, Slack shows a page to log in."""
        allowed = "files:read" not in self.workspace.missing_scopes
        if not allowed or request.headers.get("Authorization") != f"Bearer {BOT_TOKEN}":
            return web.Response(text="<!DOCTYPE html><html><title>Sign in</title></html>", content_type="text/html")
        file = self.files.files.get(request.match_info["file"])
        if file is None:
            raise web.HTTPNotFound
        return web.Response(body=file.content, content_type="text/plain")

    async def _show_messages(self, request: web.Request) -> web.Response:
        return web.json_response(self.workspace.messages(request.query.get("channel", CHANNEL)))

    async def _show_calls(self, request: web.Request) -> web.Response:
        return web.json_response([asdict(call) for call in self.calls])

    async def _take_fault(self, request: web.Request) -> web.Response:
        self.faults.append(Fault(**await request.json()))
        return web.json_response({"ok": True})

    async def _take_deed(self, request: web.Request) -> web.Response:
        deed = request.match_info["deed"]
        if deed.startswith("_") or deed not in vars(People):
            raise web.HTTPNotFound
        return web.json_response(await getattr(self, deed)(**await request.json()))


async def _arguments(request: web.Request) -> dict[str, Any]:
    body = await request.text()
    if request.content_type == "application/json":
        return {**request.query, **(json.loads(body) if body else {})}
    form = dict(urllib.parse.parse_qsl(body, keep_blank_values=True)) | dict(request.query)
    decoded = {key: json.loads(form[key]) for key in ("blocks", "attachments", "metadata", "view") if key in form}
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
