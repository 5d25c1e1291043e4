"""What stood in the database before a migration means the same after it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from storage.database import Database
from storage.repository import Repository
from storage.tables import EpisodeState

INCIDENT = "a" * 32
BEFORE = (
    "INSERT INTO cluster (id, name, token_hash, created_at) VALUES (1, 'alps', 'x', '2026-11-01 00:00:00')",
    f"""INSERT INTO incident (id, cluster_id, scheduler, job_id, attempt, state, node_facts, controller_facts, fingerprint,
        revision, diagnosed_revision, tries, created_at, updated_at)
        VALUES ('{INCIDENT}', 1, 'slurm', '48213', 0, 'resolved', '{{}}', '{{}}', 'f1', 3, 3, 0,
        '2026-11-01 03:12:00', '2026-11-01 03:13:00')""",
    f"""INSERT INTO outbox (id, key, incident_id, channel, content, revision, sent_revision, state, due_at,
        attempted_revision, attempts, queued_at)
        VALUES (1, '{INCIDENT}/C1', '{INCIDENT}', 'C1', '{{"text": "it failed"}}', 1, 1, 'sent', '2026-11-01 03:12:10', 1, 1,
        '2026-11-01 03:12:10')""",
    f"""INSERT INTO message (id, key, incident_id, channel, ts, posted_at)
        VALUES (1, '{INCIDENT}/C1', '{INCIDENT}', 'C1', '1.1', '2026-11-01 03:12:11')""",
)


@pytest.fixture
async def old(tmp_path: Path) -> AsyncIterator[Database]:
    """A database of the first version in which one incident was told and resolved."""
    database = Database(f"sqlite+aiosqlite:///{tmp_path / 'old.db'}")
    await database.migrate()
    await database.downgrade("0001")
    async with database.writing() as session:
        for statement in BEFORE:
            await session.execute(text(statement))
    yield database
    await database.close()


async def test_an_incident_that_was_told_becomes_an_episode_with_its_message(old: Database) -> None:
    await old.migrate()
    repository = Repository(old)
    view = await repository.episodes.view(INCIDENT)
    assert (view.episode.channels, view.episode.lead_id, view.episode.state) == (
        ["C1"],
        INCIDENT,
        EpisodeState.RESOLVED,
    )
    assert view.lead.incident.episode_id == INCIDENT
    assert [(message.key, message.ts) for message in view.lead.messages] == [(f"{INCIDENT}/C1", "1.1")]
    assert await repository.episodes.at("C1", "1.1") == INCIDENT
    assert await repository.episodes.next_due() is None


async def test_back_again_it_is_an_incident_with_its_message(old: Database) -> None:
    await old.migrate()
    await old.downgrade("0001")
    async with old.reading() as session:
        found = await session.execute(text("SELECT incident_id, channel, ts FROM message"))
        assert found.all() == [(INCIDENT, "C1", "1.1")]
