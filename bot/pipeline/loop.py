"""The loop that takes incidents that are due, one piece of work a worker."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog
from sqlalchemy.exc import SQLAlchemyError

from bot.metrics import Metrics
from bot.pipeline.case import lay_out
from bot.pipeline.work import Examined, blank, diagnose_folder
from bot.wake import Wake
from bot.workers import WorkerCrashedError, Workers, WorkerTimeoutError
from knowledge.diagnosis import Diagnosis
from knowledge.job import JobFacts
from storage.blobs import BlobStore
from storage.diagnoses import Verdict
from storage.folding import Placing
from storage.incidents import IncidentView, Pace
from storage.repository import Repository

MAX_CLAIMS = 4
"""How often an incident is taken up without an end before it is given up: evidence may kill the whole service."""

MAX_REASON = 200
"""Characters of an error that are shown."""

_PAUSE = 5.0  # seconds after the database failed

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Pipeline:
    """Diagnoses incidents. `placing` says where an incident is told; `placed` is called when there may be something to tell."""

    repository: Repository
    blobs: BlobStore
    folder: Path  # for evidence while it is read
    workers: Workers
    slots: int  # how many incidents at once
    timeout: float  # seconds for one diagnosis
    pace: Pace
    placing: Callable[[JobFacts, Diagnosis], Placing]
    metrics: Metrics
    wake: Wake
    placed: Callable[[], None]
    work: Callable[[Path], str] = diagnose_folder  # in a worker: a case's folder to a diagnosis as JSON

    @property
    def lease(self) -> timedelta:
        """Longer than the two tries of one claim can take."""
        return timedelta(seconds=2 * self.timeout + 60)

    async def run(self) -> None:
        """Work until cancelled; a failing database is logged and tried again."""
        free = asyncio.Semaphore(self.slots)
        async with asyncio.TaskGroup() as tasks:
            while True:
                await free.acquire()
                view = await self._next()
                if view is None:
                    free.release()
                else:
                    tasks.create_task(self._handle(view, free))

    async def _next(self) -> IncidentView | None:
        """Return a claimed incident, or None after waiting for one."""
        try:
            view = await self.repository.diagnoses.claim(self.lease)
            if view is None:
                await self.wake.wait_until(await self.repository.diagnoses.next_due())
        except SQLAlchemyError as error:
            log.error("pipeline stumbled", error=str(error))
            await asyncio.sleep(_PAUSE)
            return None
        return view

    async def _handle(self, view: IncidentView, free: asyncio.Semaphore) -> None:
        try:
            await self.handle(view)
        except Exception:
            # The incident stays claimed and is taken up again when its lease ends; the others go on.
            log.exception("incident not handled", incident=view.incident.id)
        finally:
            free.release()

    async def handle(self, view: IncidentView) -> None:
        """Diagnose a claimed incident and store what came of it, together with the message."""
        incident = view.incident
        began = time.perf_counter()
        examined, error = await self._diagnose(view)
        diagnosis, dossier = examined.diagnosis, examined.dossier
        seconds = time.perf_counter() - began
        self.metrics.diagnosis_seconds.observe(seconds)
        self.metrics.diagnoses.labels(diagnosis.outcome).inc()
        verdict = Verdict(
            outcome=diagnosis.outcome,
            cause=diagnosis.cause.id,
            fingerprint=diagnosis.fingerprint,
            document=diagnosis.model_dump(mode="json", by_alias=True),
            error=error,
            dossier=dossier.model_dump(mode="json", by_alias=True) if dossier else None,
            layer=diagnosis.cause.layer,
            initiating=tuple(diagnosis.initiating.hosts),
            suspects=tuple(diagnosis.suspect_nodes),
        )
        placing = self.placing(JobFacts.model_validate(view.job), diagnosis)
        version = await self.repository.diagnoses.store(incident.id, incident.revision, verdict, placing, self.pace)
        log.info(
            "incident diagnosed",
            incident=incident.id,
            job_id=incident.job_id,
            version=version,
            outcome=diagnosis.outcome.value,
            cause=diagnosis.cause.id,
            error=error,
            seconds=round(seconds, 3),
        )
        self.placed()

    async def _diagnose(self, view: IncidentView) -> tuple[Examined, str | None]:
        """Return what was found, and the reason where the diagnosing itself failed."""
        if view.incident.tries > MAX_CLAIMS:
            return self._failed(view, f"the service stopped {MAX_CLAIMS} times while it read this evidence", "poison")
        reason = kind = ""
        for _ in range(2):
            try:
                return await self._in_worker(view), None
            except WorkerCrashedError as error:
                reason, kind = str(error), "crash"
            except WorkerTimeoutError as error:
                reason, kind = str(error), "timeout"
            except Exception as error:
                log.exception("diagnosing raised", incident=view.incident.id)
                reason, kind = f"{type(error).__name__}: {error}"[:MAX_REASON], "error"
            log.warning("diagnosing failed", incident=view.incident.id, reason=reason)
        return self._failed(view, f"{reason} (twice)", kind)

    async def _in_worker(self, view: IncidentView) -> Examined:
        with tempfile.TemporaryDirectory(prefix="case-", dir=self.folder) as folder:
            case = Path(folder) / "case"
            try:
                await lay_out(view, self.blobs, case)
            except FileNotFoundError:  # a log was replaced by a longer one meanwhile
                case = Path(folder) / "again"
                await lay_out(await self.repository.incidents.view(view.incident.id), self.blobs, case)
            return Examined.model_validate_json(await self.workers.run(self.timeout, self.work, case))

    def _failed(self, view: IncidentView, reason: str, kind: str) -> tuple[Examined, str]:
        self.metrics.diagnosis_failures.labels(kind).inc()
        log.error("diagnosing given up", incident=view.incident.id, reason=reason)
        missing = ["Run `firstfault diagnose` on the job's own logs; please report what it says."]
        return Examined(diagnosis=blank(f"Firstfault could not read the evidence: {reason}.", missing)), reason
