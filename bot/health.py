"""Whether the service lives, whether it is fit, its figures, and its description of itself."""

from __future__ import annotations

import math
from asyncio import Task
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy.exc import SQLAlchemyError

from bot.intake import wire
from bot.intake.openapi import JSON, Operation, document
from bot.metrics import Metrics
from bot.slack.connection import SocketConnection
from storage.database import Database
from storage.repository import Repository

_TEXT = "text/plain"


@dataclass
class Health:
    """Answers to probes. `tasks` are the loops that must run; `operations` all routes, these included."""

    database: Database
    repository: Repository
    metrics: Metrics
    connection: SocketConnection | None
    tasks: list[Task[None]] = field(default_factory=list)
    described: list[Operation] = field(default_factory=list)

    def operations(self) -> Sequence[Operation]:
        """Return the routes for probes, Prometheus and people."""
        unfit = {503: "A part is not fit; the answer says which"}
        return [
            Operation("GET", "/healthz", "The process is alive", self._alive, wire.Health),
            Operation("GET", "/readyz", "Every part is fit", self._ready, wire.Health, failures=unfit),
            Operation(
                "GET",
                "/readyz/intake",
                "Reports can be taken in, whether or not Slack can be reached",
                self._ready_for_intake,
                wire.Health,
                failures=unfit,
            ),
            Operation("GET", "/metrics", "Figures for Prometheus", self._metrics, _TEXT),
            Operation("GET", "/openapi.json", "This document", self._openapi, JSON),
        ]

    async def _alive(self, _request: web.Request) -> web.Response:
        return _answer({})

    async def _ready(self, _request: web.Request) -> web.Response:
        problems = {"database": await self._database_problem()}
        problems |= {task.get_name(): "stopped" if task.done() else "" for task in self.tasks}
        notes = {}
        if not problems["database"]:
            refused = (await self.repository.outbox.backlog()).refused
            if refused:
                first = refused[0]
                notes["outbox"] = f"{len(refused)} refused, first {first.channel}: {first.code}; {first.remedy}"
        if self.connection is not None:
            state = await self.connection.state()
            problems["slack"] = "" if state.connected else state.detail
        return _answer(problems, notes)

    async def in_a_line(self) -> str:
        """Return how the service is, for people."""
        if problem := await self._database_problem():
            return f"The database {problem}."
        ended = [task.get_name() for task in self.tasks if task.done()]
        if ended:
            return f"Not all is well: {', '.join(ended)} ended."
        backlog = await self.repository.outbox.backlog()
        if backlog.refused:
            first = backlog.refused[0]
            return f"Slack refuses {len(backlog.refused)} messages, first in {first.channel}: {first.remedy}."
        return f"All is well; {backlog.waiting} messages wait to be sent." if backlog.waiting else "All is well."

    async def _ready_for_intake(self, _request: web.Request) -> web.Response:
        return _answer({"database": await self._database_problem()})

    async def _metrics(self, _request: web.Request) -> web.Response:
        if self.connection is not None:
            state = await self.connection.state()
            self.metrics.slack_connected.set(state.connected)
            self.metrics.slack_silence.set(math.inf if state.silent_seconds is None else state.silent_seconds)
        figures = self.metrics.exposition(await self.repository.outbox.backlog())
        return web.Response(body=figures, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _openapi(self, _request: web.Request) -> web.Response:
        return web.json_response(document(self.described))

    async def _database_problem(self) -> str:
        try:
            return "" if await self.database.is_current() else "not migrated to this version"
        except SQLAlchemyError as error:
            return f"cannot be reached: {type(error).__name__}"


def _answer(problems: dict[str, str], notes: dict[str, str] | None = None) -> web.Response:
    fit = not any(problems.values())
    parts = {name: problem or "ok" for name, problem in problems.items()} | (notes or {})
    health = wire.Health(ok=fit, parts=parts)
    return web.json_response(text=health.model_dump_json(), status=200 if fit else 503)
