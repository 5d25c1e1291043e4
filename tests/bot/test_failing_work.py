"""Whatever happens to the process that reads the evidence, the team hears of the job."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import bot.demo
from bot.metrics import Metrics
from bot.pipeline.loop import MAX_CLAIMS, Pipeline
from bot.pipeline.work import diagnose_folder
from bot.telling.drafts import drafts
from bot.telling.status import Surroundings
from bot.wake import Wake
from bot.workers import Workers
from storage.blobs import BlobStore
from storage.database import Database
from storage.folding import Placing
from storage.incidents import IncidentView, Key, Pace, ReceivedLog, ReporterRole, Room, Told
from storage.repository import Repository
from tests.bot import hostile
from tests.bot.conftest import FAILED_RANK_0

RECORDING = Path(bot.demo.__path__[0]) / "recording"
NOW = Pace(*[timedelta()] * 3)


@dataclass
class Bench:
    """A pipeline with an incident to work on."""

    pipeline: Pipeline
    repository: Repository
    database: Database
    incident_id: str

    async def handle(self) -> IncidentView:
        """Claim and handle the incident; return how it stands."""
        claimed = await self.repository.diagnoses.claim(self.pipeline.lease)
        assert claimed is not None
        await self.pipeline.handle(claimed)
        return await self.repository.incidents.view(self.incident_id)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Return a function that makes a bench around some work."""
    database = Database(f"sqlite+aiosqlite:///{tmp_path / 'test.db'}")
    await database.migrate()
    repository, blobs = Repository(database), BlobStore(tmp_path / "blobs")
    await repository.clusters.provision("alps", "0" * 64)
    incident_id = await repository.incidents.open(
        Key(1, "slurm", "1", 0), Told("n1", ReporterRole.NODE, {"state": "FAILED", "exit_code": 1}), NOW
    )
    blob = blobs.write(incident_id, FAILED_RANK_0)
    log = ReceivedLog("rank-0.log", "0" * 64, len(FAILED_RANK_0), blob)
    await repository.incidents.add_log(incident_id, log, Room(10, 1 << 20), NOW)
    workers = Workers(1)
    (tmp_path / "work").mkdir()

    def make(work: Callable[[Path], str], seconds: float = 60) -> Bench:
        pipeline = Pipeline(
            repository=repository,
            blobs=blobs,
            folder=tmp_path / "work",
            workers=workers,
            slots=1,
            timeout=seconds,
            pace=NOW,
            placing=lambda job, diagnosis: Placing(("C1",)),
            metrics=Metrics(),
            wake=Wake(),
            placed=lambda: None,
            work=work,
        )
        return Bench(pipeline, repository, database, incident_id)

    yield make
    await workers.close()
    await database.close()


async def test_a_worker_that_dies_is_given_a_second_try(bench: Callable[..., Bench]) -> None:
    view = await bench(hostile.die_the_first_time).handle()
    assert view.diagnosis is not None
    assert view.diagnosis.error is None
    assert "ValueError" in json.dumps(view.diagnosis.document)


@pytest.mark.parametrize(
    ("work", "seconds", "reason"),
    [
        (hostile.die, 60, "the worker process died"),
        (hostile.hang, 1, "no result within 1 s"),
        (hostile.fail, 60, "KeyError"),
    ],
)
async def test_when_diagnosing_fails_the_team_still_hears_of_the_job(
    bench: Callable[..., Bench], work: Callable[[Path], str], seconds: float, reason: str
) -> None:
    made = bench(work, seconds)
    view = await made.handle()
    assert view.diagnosis is not None
    assert view.diagnosis.error is not None
    assert reason in view.diagnosis.error
    assert view.diagnosis.cause == "unknown"
    told = await made.repository.episodes.claim(timedelta(seconds=60))
    assert told is not None
    (draft,) = drafts(told, Surroundings(lambda posted: None, None))
    assert "could not read the evidence" in json.dumps(draft.content)


async def test_evidence_that_kills_the_service_is_given_up_in_the_end(bench: Callable[..., Bench]) -> None:
    made = bench(diagnose_folder)
    for _ in range(MAX_CLAIMS):
        assert await made.repository.diagnoses.claim(timedelta(seconds=60)) is not None
        await made.repository.diagnoses.release_all()  # as after a crash
    view = await made.handle()
    assert view.diagnosis is not None
    assert view.diagnosis.error is not None
    assert "stopped" in view.diagnosis.error
    assert view.incident.due_at is None


async def test_a_log_that_is_replaced_meanwhile_is_read_anew(bench: Callable[..., Bench]) -> None:
    made = bench(diagnose_folder)
    claimed = await made.repository.diagnoses.claim(made.pipeline.lease)
    assert claimed is not None
    blobs = made.pipeline.blobs
    longer = ReceivedLog("rank-0.log", "1" * 64, 100, blobs.write(made.incident_id, b"step 1\n" + FAILED_RANK_0))
    replaced = await made.repository.incidents.add_log(made.incident_id, longer, Room(10, 1 << 20), NOW)
    assert replaced is not None
    await blobs.delete(replaced)
    await made.pipeline.handle(claimed)
    view = await made.repository.incidents.view(made.incident_id)
    assert view.diagnosis is not None
    assert view.diagnosis.error is None
    assert view.incident.due_at is not None, "the new log deserves another look"


async def test_no_evidence_is_left_lying_about(bench: Callable[..., Bench]) -> None:
    made = bench(diagnose_folder)
    await made.handle()
    assert list(made.pipeline.folder.iterdir()) == []
