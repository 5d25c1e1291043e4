"""Queries of the intake: what reporters say about an incident, and when it becomes due for diagnosis."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, func, or_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from storage.database import Database
from storage.tables import Cluster, Incident, LogFile, Message, Report, StoredDiagnosis
from storage.types import utc_now


class ReporterRole(StrEnum):
    """Who reports: a node of the job, or the scheduler's controller."""

    NODE = "node"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to wait for more evidence before a diagnosis.

    `first`: after the first report is complete. `quiet`: between later ones. `patience`: where none ever completes.
    """

    first: timedelta = timedelta(seconds=3)
    quiet: timedelta = timedelta(seconds=2)
    patience: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Key:
    """What makes an incident the same one."""

    cluster_id: int
    scheduler: str
    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Told:
    """What a reporter says with one request."""

    reporter: str
    role: ReporterRole
    facts: dict[str, Any] = field(default_factory=dict)
    expected_reporters: int | None = None


@dataclass(frozen=True, slots=True)
class ReceivedLog:
    """A log whose bytes are in the blob store already. `sha256` and `bytes` are of what was received."""

    name: str
    sha256: str
    bytes: int
    blob: str


@dataclass(frozen=True, slots=True)
class Room:
    """How much one incident may hold."""

    logs: int
    bytes: int


class NoRoomError(Exception):
    """An incident is full. `limit` names the setting, `value` is what it allows."""

    def __init__(self, limit: str, value: int) -> None:
        super().__init__(f"{limit} is {value}")
        self.limit = limit
        self.value = value


class NameConflictError(Exception):
    """A log's name is a folder of another's, or the other way round."""

    def __init__(self, other: str) -> None:
        super().__init__(f"conflicts with the log {other!r}")
        self.other = other


@dataclass(frozen=True, slots=True)
class IncidentView:
    """One incident with everything that belongs to it."""

    incident: Incident
    cluster: str
    reports: list[Report]
    logs: list[LogFile]
    diagnosis: StoredDiagnosis | None
    messages: list[Message]

    @property
    def job(self) -> dict[str, Any]:
        """The scheduler's facts: the controller's win over the nodes', and the key's over both."""
        known = self.incident
        return {
            **known.node_facts,
            **known.controller_facts,
            "scheduler": known.scheduler,
            "cluster": self.cluster,
            "job_id": known.job_id,
            "attempt": known.attempt,
        }

    @property
    def nodes_reported(self) -> int:
        """How many nodes have sent all they have."""
        return sum(1 for report in self.reports if report.role == ReporterRole.NODE and report.completed_at)


class Incidents:
    """Incidents as their reporters see them. Every method is idempotent; what it wrote is durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, key: Key, told: Told, pace: Pace) -> str:
        """Record that a reporter begins to tell of an incident, and return the incident's id."""
        async with self._database.writing() as session:
            incident = (await session.scalars(select(Incident).where(*_is(key)).with_for_update())).one_or_none()
            if incident is None:
                incident = Incident(
                    cluster_id=key.cluster_id, scheduler=key.scheduler, job_id=key.job_id, attempt=key.attempt
                )
                session.add(incident)
                await session.flush()
            _, news = await _report(session, incident, told)
            if news:
                await _touch(session, incident, pace, completed=None)
            return incident.id

    async def complete(self, incident_id: str, told: Told, pace: Pace) -> None:
        """Record that a reporter has sent all it has. Raises LookupError without such an incident."""
        async with self._database.writing() as session:
            incident = await _locked(session, incident_id)
            report, news = await _report(session, incident, told)
            if report.completed_at is None:
                report.completed_at = utc_now()
                news = True
            if news:
                await _touch(session, incident, pace, completed=report)

    async def add_log(self, incident_id: str, log: ReceivedLog, room: Room, pace: Pace) -> str | None:
        """Record a log, and return the name of the blob that nothing refers to any more, if there is one.

        That is the blob of an earlier log of this name or, where the same bytes came again, the new one.

        Raises:
            LookupError: there is no such incident.
            NoRoomError: the incident holds too many logs or bytes already.
            NameConflictError: the name cannot stand beside another log's.
        """
        async with self._database.writing() as session:
            incident = await _locked(session, incident_id)
            known = (await session.scalars(select(LogFile).where(_of(incident_id), _named(log.name)))).one_or_none()
            if known is not None and known.sha256 == log.sha256:
                return log.blob
            others = [_of(incident_id), col(LogFile.name) != log.name]
            held = await session.execute(select(func.count(), func.coalesce(func.sum(LogFile.bytes), 0)).where(*others))
            count, size = held.one()
            if count >= room.logs:
                raise NoRoomError("limits.logs", room.logs)
            if size + log.bytes > room.bytes:
                raise NoRoomError("limits.incident_bytes", room.bytes)
            conflict = await session.scalar(select(LogFile.name).where(*others, _in_the_way_of(log.name)).limit(1))
            if conflict is not None:
                raise NameConflictError(conflict)
            replaced = None
            if known is None:
                known = LogFile(incident_id=incident_id, name=log.name, sha256="", bytes=0, blob="")
                session.add(known)
            else:
                replaced = known.blob
            known.sha256, known.bytes, known.blob, known.received_at = log.sha256, log.bytes, log.blob, utc_now()
            await _touch(session, incident, pace, completed=None)
            return replaced

    async def exists(self, incident_id: str, cluster_id: int) -> bool:
        """Return whether the cluster has this incident."""
        async with self._database.reading() as session:
            incident = await session.get(Incident, incident_id)
            return incident is not None and incident.cluster_id == cluster_id

    async def reporters(self, cluster_id: int, scheduler: str, job_id: str) -> list[tuple[int, str]]:
        """Return (attempt, reporter) of all that was reported on a job."""
        async with self._database.reading() as session:
            job = (Incident.cluster_id == cluster_id, Incident.scheduler == scheduler, Incident.job_id == job_id)
            found = await session.execute(select(Incident.attempt, Report.reporter).join(Report).where(*job))
            return [(attempt, reporter) for attempt, reporter in found]

    async def named(self, name: str) -> str | None:
        """Return the incident of this id or, the newest where there are several, of this job."""
        async with self._database.reading() as session:
            return await session.scalar(
                select(Incident.id)
                .where(or_(col(Incident.id) == name, col(Incident.job_id) == name))
                .order_by(col(Incident.created_at).desc())
                .limit(1)
            )

    async def view(self, incident_id: str) -> IncidentView:
        """Return everything about an incident. Raises LookupError where there is none."""
        async with self._database.reading() as session:
            return await view(session, incident_id)


async def view(session: AsyncSession, incident_id: str) -> IncidentView:
    """Return everything about an incident as `session` sees it. Raises LookupError where there is none."""
    incident = await session.get(Incident, incident_id)
    if incident is None:
        raise LookupError(incident_id)
    cluster = await session.get_one(Cluster, incident.cluster_id)
    reports = await session.scalars(select(Report).where(Report.incident_id == incident_id).order_by(col(Report.id)))
    logs = await session.scalars(select(LogFile).where(_of(incident_id)).order_by(LogFile.name))
    diagnosis = await session.scalars(
        select(StoredDiagnosis)
        .where(StoredDiagnosis.incident_id == incident_id)
        .order_by(col(StoredDiagnosis.version).desc())
        .limit(1)
    )
    messages = await session.scalars(
        select(Message).where(Message.episode_id == incident.episode_id).order_by(col(Message.id))
    )
    return IncidentView(incident, cluster.name, list(reports), list(logs), diagnosis.one_or_none(), list(messages))


def _is(key: Key) -> tuple[ColumnElement[bool], ...]:
    return (
        col(Incident.cluster_id) == key.cluster_id,
        col(Incident.scheduler) == key.scheduler,
        col(Incident.job_id) == key.job_id,
        col(Incident.attempt) == key.attempt,
    )


def _of(incident_id: str) -> ColumnElement[bool]:
    return col(LogFile.incident_id) == incident_id


def _named(name: str) -> ColumnElement[bool]:
    return col(LogFile.name) == name


def _in_the_way_of(name: str) -> ColumnElement[bool]:
    """Whether a log is a folder of `name`, or stands in the folder `name`."""
    parts = name.split("/")
    folders = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
    inside = f"{name}/"
    return or_(col(LogFile.name).in_(folders), func.substr(LogFile.name, 1, len(inside)) == inside)


async def _locked(session: AsyncSession, incident_id: str) -> Incident:
    incident = await session.get(Incident, incident_id, with_for_update=True)
    if incident is None:
        raise LookupError(incident_id)
    return incident


async def _report(session: AsyncSession, incident: Incident, told: Told) -> tuple[Report, bool]:
    """Return the reporter's row and whether anything new was told."""
    found = await session.scalars(
        select(Report).where(
            Report.incident_id == incident.id, Report.reporter == told.reporter, Report.role == told.role
        )
    )
    report = found.one_or_none()
    news = report is None
    if report is None:
        report = Report(incident_id=incident.id, reporter=told.reporter, role=told.role)
        session.add(report)
        await session.flush()
    facts = {name: value for name, value in told.facts.items() if value is not None and value != []}
    column = "controller_facts" if told.role == ReporterRole.CONTROLLER else "node_facts"
    before: dict[str, Any] = getattr(incident, column)
    if before | facts != before:
        setattr(incident, column, before | facts)
        news = True
    if told.expected_reporters is not None and told.expected_reporters > (incident.expected_reporters or 0):
        incident.expected_reporters = told.expected_reporters
        news = True
    return report, news


async def _touch(session: AsyncSession, incident: Incident, pace: Pace, *, completed: Report | None) -> None:
    """Count a change of evidence and say when to diagnose it; an earlier appointment stands."""
    now = utc_now()
    incident.revision += 1
    incident.updated_at = now
    due = now + await _delay(session, incident, pace, completed)
    incident.due_at = due if incident.due_at is None else min(incident.due_at, due)


async def _delay(session: AsyncSession, incident: Incident, pace: Pace, completed: Report | None) -> timedelta:
    await session.flush()
    done = await session.scalar(
        select(func.count())
        .select_from(Report)
        .where(
            Report.incident_id == incident.id, Report.role == ReporterRole.NODE, col(Report.completed_at).is_not(None)
        )
    )
    nodes_done = done or 0
    first_time = incident.diagnosed_revision == 0
    if completed is not None:
        if incident.expected_reporters is not None and nodes_done >= incident.expected_reporters:
            return timedelta()
        # The controller alone knows little of why; with at least one node's logs there is something to say.
        if first_time and completed.role == ReporterRole.CONTROLLER and nodes_done:
            return timedelta()
        return pace.first if first_time else pace.quiet
    if first_time:
        return pace.patience
    return pace.quiet
