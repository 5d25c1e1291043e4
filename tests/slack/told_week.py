"""The database of a service that has told a week of failures."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from storage.database import Database
from tests.digest import week

__all__ = ["database", "told"]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the week, to copy."""
    path = tmp_path_factory.mktemp("told") / "week.db"

    async def fill() -> None:
        database = Database(f"sqlite+aiosqlite:///{path}")
        await database.migrate()
        await week.fill(database)
        await database.close()

    asyncio.run(fill())
    return path


@pytest.fixture
async def database(told: Path, tmp_path: Path) -> AsyncIterator[Database]:
    shutil.copy(told, tmp_path / "week.db")
    database = Database(f"sqlite+aiosqlite:///{tmp_path / 'week.db'}")
    yield database
    await database.close()
