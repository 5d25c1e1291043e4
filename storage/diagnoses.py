"""Queries of the pipeline: claim an incident that is due, and store what was found together with what to send."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, or_, update
from sqlmodel import col, select

from storage.database import Database
from storage.incidents import IncidentView, Pace, view
from storage.outbox import Draft, queue
from storage.tables import Incident, IncidentState, StoredDiagnosis
from storage.types import utc_now


@dataclass(frozen=True, slots=True)
class Verdict:
    """A diagnosis on its way into the database. `error` says why the diagnosing itself failed, where it did."""

    outcome: str
    cause: str
    fingerprint: str
    document: dict[str, Any]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class History:
    """How often a fingerprint was seen in other incidents, and when first."""

    count: int
    first_seen: datetime | None


class Diagnoses:
    """The queue of incidents that wait for a diagnosis, and what came of it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, lease: timedelta) -> IncidentView | None:
        """Take the incident that has been due longest, for `lease`; None where none is due."""
        now = utc_now()
        free = or_(col(Incident.lease_until).is_(None), col(Incident.lease_until) < now)
        due = (
            select(Incident.id)
            .where(col(Incident.due_at) <= now, free)
            .order_by(col(Incident.due_at))
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        async with self._database.writing() as session:
            claimed = await session.scalar(
                update(Incident)
                .where(col(Incident.id).in_(due.scalar_subquery()))
                .values(lease_until=now + lease, tries=col(Incident.tries) + 1)
                .returning(col(Incident.id))
            )
            return None if claimed is None else await view(session, claimed)

    async def next_due(self) -> datetime | None:
        """Return when the next incident is due that nobody works on; None where none waits."""
        async with self._database.reading() as session:
            return await session.scalar(
                select(func.min(Incident.due_at)).where(
                    or_(col(Incident.lease_until).is_(None), col(Incident.lease_until) < utc_now())
                )
            )

    async def store(
        self, incident_id: str, revision: int, verdict: Verdict, drafts: list[Draft], pace: Pace
    ) -> int | None:
        """Store a verdict on evidence `revision` and queue `drafts`, all or nothing; return the diagnosis' version.

        A verdict that says what the last one said gets no version of its own. None: somebody diagnosed newer evidence
        meanwhile, and nothing was stored. Raises LookupError without such an incident.
        """
        async with self._database.writing() as session:
            seen = await view(session, incident_id)
            incident, last = seen.incident, seen.diagnosis
            if incident.diagnosed_revision > revision:
                return None
            version = last.version if last else 0
            if last is None or last.error != verdict.error or _said(last.document) != _said(verdict.document):
                version += 1
                session.add(
                    StoredDiagnosis(
                        incident_id=incident_id,
                        version=version,
                        revision=revision,
                        outcome=verdict.outcome,
                        cause=verdict.cause,
                        fingerprint=verdict.fingerprint,
                        document=verdict.document,
                        error=verdict.error,
                    )
                )
            if incident.state == IncidentState.OPEN:
                incident.state = IncidentState.DIAGNOSED
            incident.fingerprint = verdict.fingerprint
            incident.diagnosed_revision = revision
            incident.due_at = None if incident.revision == revision else utc_now() + pace.quiet
            incident.lease_until = None
            incident.tries = 0
            for draft in drafts:
                await queue(session, incident_id, draft)
            return version

    async def release_all(self) -> None:
        """End all leases. Only for a process that has the database for itself."""
        async with self._database.writing() as session:
            await session.execute(update(Incident).values(lease_until=None))

    async def history(self, fingerprint: str, besides: str) -> History:
        """Return how often `fingerprint` was seen in incidents other than `besides`."""
        if not fingerprint:
            return History(0, None)
        async with self._database.reading() as session:
            found = await session.execute(
                select(func.count(), func.min(Incident.created_at)).where(
                    Incident.fingerprint == fingerprint, Incident.id != besides
                )
            )
            count, first = found.one()
            return History(count, first)


def _said(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "stats"}
