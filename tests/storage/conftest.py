"""A migrated database in a folder of its own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from storage.database import Database
from storage.diagnoses import Verdict
from storage.folding import FAILED, Placing, Reach
from storage.incidents import Key, Pace, ReporterRole, Told
from storage.repository import Repository

NOW = Pace(*[timedelta()] * 3)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file to copy: migrating takes longer than most tests."""
    path = tmp_path_factory.mktemp("database") / "migrated.db"

    async def migrate() -> None:
        database = Database(f"sqlite+aiosqlite:///{path}")
        await database.migrate()
        await database.close()

    asyncio.run(migrate())
    return path


@pytest.fixture
async def database(migrated: Path, tmp_path: Path) -> AsyncIterator[Database]:
    shutil.copy(migrated, tmp_path / "test.db")
    database = Database(f"sqlite+aiosqlite:///{tmp_path / 'test.db'}")
    yield database
    await database.close()


@pytest.fixture
def repository(database: Database) -> Repository:
    return Repository(database)


@pytest.fixture
async def key(repository: Repository) -> Key:
    """The key of job 48213 on a cluster that is known."""
    await repository.clusters.provision("alps", "0" * 64)
    cluster = await repository.clusters.by_name("alps")
    assert cluster is not None
    assert cluster.id is not None
    return Key(cluster.id, "slurm", "48213", 0)


class Failures:
    """Lets jobs fail, as the pipeline would store it, and says which episode each belongs to."""

    def __init__(self, repository: Repository, key: Key) -> None:
        self._repository = repository
        self._key = key

    async def fail(
        self,
        job_id: str = "48213",
        attempt: int = 0,
        *,
        fingerprint: str = "f1",
        cause: str = "data-error",
        hosts: tuple[str, ...] = (),
        outcome: str = FAILED,
        placing: Placing | None = None,
        reach: Reach = Reach.OWNER,
        **facts: Any,
    ) -> str:
        """Return the incident's id."""
        key = replace(self._key, job_id=job_id, attempt=attempt)
        told = Told("gpu-n01", ReporterRole.NODE, {"user": "alice", **facts})
        incident_id = await self._repository.incidents.open(key, told, NOW)
        revision = (await self._repository.incidents.view(incident_id)).incident.revision
        verdict = Verdict(outcome, cause, fingerprint, {"cause": {"id": cause}}, initiating=hosts)
        await self._repository.diagnoses.store(incident_id, revision, verdict, placing or Placing(("C1",), reach), NOW)
        return incident_id

    async def episode(self, incident_id: str) -> str:
        """Return the episode of an incident, "" where it has none."""
        return (await self._repository.incidents.view(incident_id)).incident.episode_id or ""


@pytest.fixture
def failures(repository: Repository, key: Key) -> Failures:
    return Failures(repository, key)
