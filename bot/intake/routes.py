"""The handlers of the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import structlog
from aiohttp import web
from pydantic import BaseModel, ValidationError

from bot.intake import alertmanager, bodies, wire
from bot.intake.auth import authenticate
from bot.intake.compression import decompress
from bot.intake.errors import IntakeError, too_large
from bot.intake.openapi import Operation
from bot.intake.receiving import Kept, Upload, receive, redact_facts
from bot.metrics import Metrics
from bot.settings import Limits
from bot.workers import Workers
from knowledge.job import JobFacts
from knowledge.redaction import redact_name
from storage.blobs import BlobStore
from storage.incidents import (
    IncidentView,
    Key,
    NameConflictError,
    NoRoomError,
    Pace,
    ReceivedLog,
    ReporterRole,
    Room,
    Told,
)
from storage.repository import Repository
from storage.tables import Cluster

log = structlog.get_logger(__name__)

M = TypeVar("M", bound=BaseModel)
Handler = Callable[[web.Request, Cluster], Awaitable[web.StreamResponse]]

_FAILURES = {400: "The request is wrong", 401: "No token, or an unknown one", 413: "Too large; names the limit"}
_ABOUT_ONE = {**_FAILURES, 404: "This cluster has no such incident"}
_OCTETS = "application/octet-stream"
_RECEIVE_SECONDS = 120.0
_MOST_NAMED = 5  # alerts of one notification whose refusal is told in the log and in an error
_MOST_FAULTS = 3  # at alerts of one notification, after which the service itself is at fault


@dataclass(frozen=True)
class Intake:
    """Takes reports in. `changed` is called after each commit that may make an incident due."""

    repository: Repository
    blobs: BlobStore
    blob_folder: Path
    workers: Workers
    limits: Limits
    pace: Pace
    salt: bytes
    metrics: Metrics
    changed: Callable[[], None]
    uploads: asyncio.Semaphore

    def operations(self) -> list[Operation]:
        """Return the routes of the wire."""
        one = "/v1/incidents/{id:[0-9a-f]+}"
        return [
            Operation(
                "POST",
                "/v1/incidents",
                "Begin to report a failed job attempt",
                self._for_cluster(self._open),
                wire.Opened,
                202,
                wire.Opening,
                _FAILURES,
                token=True,
            ),
            Operation(
                "PUT",
                one + "/logs/{name:.+}",
                "Send one log; Content-Encoding may be gzip or zstd",
                self._for_cluster(self._log),
                wire.LogAccepted,
                202,
                _OCTETS,
                {**_ABOUT_ONE, 409: "The name is a folder of another log's name", 415: "Unknown Content-Encoding"},
                token=True,
            ),
            Operation(
                "POST",
                one + "/complete",
                "Say that this reporter has sent all it has",
                self._for_cluster(self._complete),
                wire.Accepted,
                202,
                wire.Completion,
                _ABOUT_ONE,
                token=True,
            ),
            Operation(
                "POST",
                "/v1/webhooks/alertmanager",
                "Report failed jobs as Alertmanager does: version 4 of its webhook",
                self._for_cluster(self._alerts),
                wire.AlertsAccepted,
                202,
                alertmanager.Notification,
                _FAILURES,
                token=True,
            ),
            Operation(
                "GET",
                one,
                "Everything known about an incident",
                self._for_cluster(self._show),
                wire.IncidentSeen,
                failures={401: _FAILURES[401], 404: _ABOUT_ONE[404]},
                token=True,
            ),
        ]

    def _for_cluster(self, handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await handler(request, await authenticate(request, self.repository))

        return handle

    async def _open(self, request: web.Request, cluster: Cluster) -> web.Response:
        opening = await self._document(request, wire.Opening)
        key = Key(_id(cluster), opening.scheduler, opening.job_id, opening.attempt)
        told = Told(opening.reporter, opening.role, _facts(opening.job), opening.expected_reporters)
        incident_id = await self.repository.incidents.open(key, told, self.pace)
        self.changed()
        return _answer(wire.Opened(id=incident_id, url=f"/v1/incidents/{incident_id}"), 202)

    async def _log(self, request: web.Request, cluster: Cluster) -> web.Response:
        incident_id = await self._incident(request, cluster)
        name = wire.checked_name(redact_name(wire.checked_name(request.match_info["name"]), self.salt))
        async with self.uploads:
            body = await self._read(request, self.limits.log_bytes, "limits.log_bytes")
            kept = await self._keep(incident_id, name, body, bodies.encoding(request))
        return _answer(wire.LogAccepted(sha256=kept.sha256, bytes=kept.bytes), 202)

    async def _keep(self, incident_id: str, name: str, body: bytes, encoding: str) -> Kept:
        """Redact and keep a log. Raises IntakeError where the incident has no room or no such place for it."""
        upload = Upload(body, encoding, self.limits.log_bytes, incident_id, self.blob_folder, self.salt)
        kept = await self.workers.run(_RECEIVE_SECONDS, receive, upload)
        log = ReceivedLog(name, kept.sha256, kept.bytes, kept.blob)
        room = Room(self.limits.logs, self.limits.incident_bytes)
        try:
            unused = await self.repository.incidents.add_log(incident_id, log, room, self.pace)
        except NoRoomError as error:
            await self.blobs.delete(kept.blob)
            raise too_large(error.limit, error.value, "the incident holds too much") from error
        except NameConflictError as error:
            await self.blobs.delete(kept.blob)
            raise IntakeError(
                409, "name-conflict", f"{name!r} and {error.other!r} cannot both be files", "give the log another name"
            ) from error
        if unused is not None:
            await self.blobs.delete(unused)
        self.metrics.received.inc(kept.bytes)
        self.changed()
        return kept

    async def _complete(self, request: web.Request, cluster: Cluster) -> web.Response:
        incident_id = await self._incident(request, cluster)
        completion = await self._document(request, wire.Completion)
        told = Told(completion.reporter, completion.role, _facts(completion.job))
        await self.repository.incidents.complete(incident_id, told, self.pace)
        self.changed()
        return _answer(wire.Accepted(id=incident_id), 202)

    async def _alerts(self, request: web.Request, cluster: Cluster) -> web.Response:
        """Take what can be taken. Alertmanager sends a notification again on 5xx alone: what is refused never comes again,
        and where the service failed at one, all do, of which those that were taken are known."""
        notification = await self._document(request, alertmanager.Notification)
        told, refused, failed = [], [], []
        for place, alert in enumerate(notification.alerts):
            try:
                incident_id = await self._alert(_id(cluster), place, alert)
            except (alertmanager.UnfitAlertError, IntakeError) as error:
                why = error.message if isinstance(error, IntakeError) else str(error)
                refused.append(wire.AlertRefused(alert=place, fingerprint=alert.named, why=why))
            except Exception as error:
                failed.append(error)
                log.exception("alert not taken", cluster=cluster.name, alert=place, fingerprint=alert.named)
                if len(failed) == _MOST_FAULTS:
                    break
            else:
                if incident_id is not None:
                    url = f"/v1/incidents/{incident_id}"
                    told.append(wire.AlertTold(fingerprint=alert.named, id=incident_id, url=url))
        for each in refused[:_MOST_NAMED]:
            log.warning("alert refused", cluster=cluster.name, **each.model_dump())
        if failed:
            raise failed[0]
        if refused and not told:
            reasons = "; ".join(dict.fromkeys(each.why for each in refused[:_MOST_NAMED]))
            raise IntakeError(400, "no-job", f"no alert can be used: {reasons}", "see docs/reporting.md for the labels")
        return _answer(wire.AlertsAccepted(incidents=told, refused=refused), 202)

    async def _alert(
        self, cluster_id: int, place: int, alert: alertmanager.Alert | alertmanager.Malformed
    ) -> str | None:
        """Take one alert; None where it is resolved. Raises UnfitAlertError where it makes no incident."""
        if alert.resolved:
            return None
        if isinstance(alert, alertmanager.Malformed):
            raise alertmanager.UnfitAlertError(alert.why)
        if place >= alertmanager.MOST_ALERTS:
            raise alertmanager.UnfitAlertError(
                f"it stands behind {alertmanager.MOST_ALERTS} others: set max_alerts, or group alerts by job"
            )
        failure = alertmanager.Failure.of(alert)
        incidents = self.repository.incidents
        known = await incidents.reporters(cluster_id, failure.scheduler, failure.job_id)
        key = Key(cluster_id, failure.scheduler, failure.job_id, failure.which(alert, known))
        told = Told(alert.reporter, ReporterRole.CONTROLLER, _facts(failure.facts))
        incident_id = await incidents.open(key, told, self.pace)
        try:
            if failure.log:
                await self._keep(incident_id, f"{alert.named}/{alertmanager.LOG}", failure.log, "identity")
        except IntakeError as error:  # the incident is there and is told without it
            log.warning("text of an alert left out", incident=incident_id, reason=error.message)
        await incidents.complete(incident_id, told, self.pace)
        self.changed()
        return incident_id

    async def _show(self, request: web.Request, cluster: Cluster) -> web.Response:
        incident_id = await self._incident(request, cluster)
        return _answer(seen(await self.repository.incidents.view(incident_id)), 200)

    async def _incident(self, request: web.Request, cluster: Cluster) -> str:
        incident_id = request.match_info["id"]
        if not await self.repository.incidents.exists(incident_id, _id(cluster)):
            raise IntakeError(
                404, "no-incident", "this cluster has no such incident", "open it first: POST /v1/incidents"
            )
        return incident_id

    async def _read(self, request: web.Request, limit: int, name: str) -> bytes:
        try:
            async with asyncio.timeout(self.limits.upload_seconds):
                return await bodies.read(request, limit, name)
        except TimeoutError:
            raise IntakeError(
                408, "too-slow", f"the body took longer than {self.limits.upload_seconds:g} s", "send it again"
            ) from None

    async def _document(self, request: web.Request, model: type[M]) -> M:
        limit, name = self.limits.json_bytes, "limits.json_bytes"
        body = await self._read(request, limit, name)
        try:
            plain = await asyncio.to_thread(decompress, body, bodies.encoding(request), limit, name)
            document = await asyncio.to_thread(lambda: redact_facts(json.loads(plain), self.salt))
        except (ValueError, RecursionError):
            raise IntakeError(
                400, "bad-json", "the body is no JSON document", "send one JSON object in UTF-8"
            ) from None
        try:
            return model.model_validate(document)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:5])
            hint = f"see {model.__name__} in /openapi.json"
            raise IntakeError(400, "bad-request", f"the body is wrong: {wrong}", hint) from None


def seen(view: IncidentView) -> wire.IncidentSeen:
    """Return an incident as the wire shows it."""
    incident, said = view.incident, view.diagnosis
    return wire.IncidentSeen.model_validate(
        {
            "id": incident.id,
            "state": incident.state,
            "current": incident.diagnosed_revision == incident.revision,
            "key": {
                "cluster": view.cluster,
                "scheduler": incident.scheduler,
                "job_id": incident.job_id,
                "attempt": incident.attempt,
            },
            "job": view.job,
            "reports": [report.model_dump() for report in view.reports],
            "logs": [log.model_dump() for log in view.logs],
            "diagnosis": said and said.model_dump(),
            "messages": [message.model_dump() for message in view.messages],
        }
    )


def _answer(document: BaseModel, status: int) -> web.Response:
    return web.json_response(text=document.model_dump_json(by_alias=True), status=status)


def _facts(job: JobFacts) -> dict[str, Any]:
    return job.model_dump(mode="json", exclude_unset=True, exclude={"scheduler", "cluster", "job_id", "attempt"})


def _id(cluster: Cluster) -> int:
    if cluster.id is None:
        raise LookupError("the cluster is not stored")
    return cluster.id
