"""Queries of the pipeline: claim an incident that is due, and store what was found together with its place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, or_, update
from sqlmodel import col, select

from knowledge.job import JobFacts
from storage.database import Database
from storage.families import family
from storage.folding import Placing, place
from storage.incidents import IncidentView, Pace, view
from storage.leases import claim_due
from storage.tables import Incident, IncidentNode, IncidentState, Part, StoredDiagnosis
from storage.types import utc_now


@dataclass(frozen=True, slots=True)
class Verdict:
    """A diagnosis on its way into the database. `error` says why the diagnosing itself failed, where it did."""

    outcome: str
    cause: str
    fingerprint: str
    document: dict[str, Any]
    error: str | None = None
    layer: str = ""
    dossier: dict[str, Any] | None = None
    initiating: tuple[str, ...] = ()  # hosts
    suspects: tuple[str, ...] = ()


class Diagnoses:
    """The queue of incidents that wait for a diagnosis, and what came of it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, lease: timedelta) -> IncidentView | None:
        """Take the incident that has been due longest, for `lease`; None where none is due."""
        async with self._database.writing() as session:
            claimed = await claim_due(session, Incident, lease, tries=col(Incident.tries) + 1)
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
        self, incident_id: str, revision: int, verdict: Verdict, placing: Placing, pace: Pace
    ) -> int | None:
        """Store a verdict on evidence `revision` and place the incident, all or nothing; return the diagnosis' version.

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
                        dossier=verdict.dossier,
                        error=verdict.error,
                    )
                )
            elif last.dossier != verdict.dossier:
                last.dossier = verdict.dossier
            incident.state = IncidentState.DIAGNOSED
            incident.diagnosed_revision = revision
            incident.due_at = None if incident.revision == revision else utc_now() + pace.quiet
            incident.lease_until = None
            incident.tries = 0
            _count(seen, verdict)
            await session.execute(delete(IncidentNode).where(col(IncidentNode.incident_id) == incident_id))
            for part, hosts in ((Part.INITIATING, verdict.initiating), (Part.SUSPECT, verdict.suspects)):
                for host in dict.fromkeys(hosts):
                    session.add(IncidentNode(incident_id=incident_id, host=host[:255], part=part))
            await session.flush()
            await place(session, incident, placing)
            return version

    async def release_all(self) -> None:
        """End all leases. Only for a process that has the database for itself."""
        async with self._database.writing() as session:
            await session.execute(update(Incident).values(lease_until=None))


def _count(seen: IncidentView, verdict: Verdict) -> None:
    """Note on the incident what is counted and searched."""
    incident, job = seen.incident, JobFacts.model_validate(seen.job)
    incident.outcome, incident.cause, incident.layer = verdict.outcome, verdict.cause, verdict.layer
    incident.fingerprint = verdict.fingerprint
    incident.family = family(incident.cluster_id, incident.scheduler, incident.job_id, job.part_of)
    incident.job_name, incident.owner = (job.name or "")[:200], (job.user or "")[:100]
    incident.ranks = job.world_size
    incident.started_at, incident.ended_at = _aware(job.started_at), _aware(job.ended_at)


def _aware(moment: datetime | None) -> datetime | None:
    """A scheduler that tells no zone is taken to mean UTC."""
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


def _said(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "stats"}
