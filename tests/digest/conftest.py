"""A database for each test, and the hand-made week in it."""

from __future__ import annotations

import pytest

from storage.database import Database
from tests.digest import week
from tests.storage.conftest import database, migrated

__all__ = ["database", "migrated"]


@pytest.fixture
async def filled(database: Database) -> Database:
    """The database with the week of `week.py`."""
    await week.fill(database)
    return database
