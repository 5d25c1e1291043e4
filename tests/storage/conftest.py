"""A migrated database in a folder of its own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from storage.database import Database
from storage.incidents import Key
from storage.repository import Repository


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
