"""An incident that is due is worked on by one, and never forgotten."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta

from sqlmodel import select

from storage.database import Database
from storage.diagnoses import Verdict
from storage.folding import Placing
from storage.incidents import Key, Pace, ReporterRole, Told
from storage.repository import Repository
from storage.tables import Episode, IncidentNode, IncidentState, StoredDiagnosis
from storage.types import utc_now

NOW = Pace(*[timedelta()] * 3)
LEASE = timedelta(seconds=60)
HERE = Placing(("C1",))


def verdict(cause: str, fingerprint: str = "f1", seconds: float = 0.1) -> Verdict:
    return Verdict("failed", cause, fingerprint, {"cause": {"id": cause}, "stats": {"seconds": seconds}})


async def due(repository: Repository, key: Key, reporter: str = "gpu-n01") -> str:
    return await repository.incidents.open(key, Told(reporter, ReporterRole.NODE), NOW)


async def versions(database: Database) -> list[tuple[int, str]]:
    async with database.reading() as session:
        return [(row.version, row.cause) for row in await session.scalars(select(StoredDiagnosis))]


async def test_one_incident_is_claimed_by_one(repository: Repository, key: Key) -> None:
    keys = [dataclasses.replace(key, job_id=str(number)) for number in range(5)]
    opened = [await due(repository, each) for each in keys]
    claims = await asyncio.gather(*(repository.diagnoses.claim(LEASE) for _ in range(8)))
    assert sorted(claim.incident.id for claim in claims if claim) == sorted(opened)


async def test_a_lease_that_ran_out_frees_the_incident_and_the_try_counts(repository: Repository, key: Key) -> None:
    incident_id = await due(repository, key)
    assert await repository.diagnoses.claim(timedelta(seconds=-1)) is not None
    again = await repository.diagnoses.claim(LEASE)
    assert again is not None
    assert (again.incident.id, again.incident.tries) == (incident_id, 2)
    assert await repository.diagnoses.claim(LEASE) is None
    await repository.diagnoses.release_all()
    assert await repository.diagnoses.claim(LEASE) is not None


async def test_what_is_not_due_is_not_claimed(repository: Repository, key: Key) -> None:
    later = Pace(patience=timedelta(hours=1))
    await repository.incidents.open(key, Told("gpu-n01", ReporterRole.NODE), later)
    assert await repository.diagnoses.claim(LEASE) is None
    appointment = await repository.diagnoses.next_due()
    assert appointment is not None
    assert appointment > utc_now() + timedelta(minutes=50)


async def test_a_verdict_and_its_place_are_stored_together(repository: Repository, key: Key) -> None:
    incident_id = await due(repository, key)
    claimed = await repository.diagnoses.claim(LEASE)
    assert claimed is not None
    assert await repository.diagnoses.store(incident_id, claimed.incident.revision, verdict("oom"), HERE, NOW) == 1
    view = await repository.incidents.view(incident_id)
    assert view.diagnosis is not None
    assert view.diagnosis.cause == "oom"
    assert view.incident.state == IncidentState.DIAGNOSED
    assert await repository.diagnoses.claim(LEASE) is None
    told = await repository.episodes.claim(LEASE)
    assert told is not None
    assert (told.lead.incident.id, told.episode.channels, told.episode.cause) == (incident_id, ["C1"], "oom")


async def test_the_same_verdict_again_is_no_new_version(repository: Repository, database: Database, key: Key) -> None:
    incident_id = await due(repository, key)
    await repository.diagnoses.store(incident_id, 1, verdict("oom", seconds=0.1), HERE, NOW)
    await repository.diagnoses.store(incident_id, 1, verdict("oom", seconds=0.2), HERE, NOW)
    assert await versions(database) == [(1, "oom")]
    await repository.diagnoses.store(incident_id, 1, verdict("xid"), HERE, NOW)
    assert await versions(database) == [(1, "oom"), (2, "xid")]


async def test_evidence_that_came_meanwhile_makes_the_incident_due_again(repository: Repository, key: Key) -> None:
    incident_id = await due(repository, key)
    claimed = await repository.diagnoses.claim(LEASE)
    assert claimed is not None
    await due(repository, key, "gpu-n02")
    await repository.diagnoses.store(incident_id, claimed.incident.revision, verdict("oom"), HERE, NOW)
    again = await repository.diagnoses.claim(LEASE)
    assert again is not None
    assert len(again.reports) == 2


async def test_a_verdict_on_old_evidence_does_not_replace_a_newer_one(repository: Repository, key: Key) -> None:
    incident_id = await due(repository, key)
    await due(repository, key, "gpu-n02")
    assert await repository.diagnoses.store(incident_id, 2, verdict("newer"), HERE, NOW) == 1
    assert await repository.diagnoses.store(incident_id, 1, verdict("older"), HERE, NOW) is None


async def test_what_can_be_counted_stands_on_the_incident(repository: Repository, database: Database, key: Key) -> None:
    facts = {"name": "pretrain", "user": "alice", "world_size": 16, "ended_at": "2026-11-02T03:12:00"}
    incident_id = await repository.incidents.open(key, Told("gpu-n01", ReporterRole.NODE, facts), NOW)
    for hosts in (("gpu-n01", "gpu-n02"), ("gpu-n17",)):
        said = dataclasses.replace(verdict("gpu-lost"), layer="gpu-hardware", initiating=hosts, suspects=hosts)
        await repository.diagnoses.store(incident_id, 1, said, HERE, NOW)
    incident = (await repository.incidents.view(incident_id)).incident
    assert (incident.outcome, incident.cause, incident.layer) == ("failed", "gpu-lost", "gpu-hardware")
    assert (incident.job_name, incident.owner, incident.ranks) == ("pretrain", "alice", 16)
    assert incident.ended_at == datetime(2026, 11, 2, 3, 12, tzinfo=UTC)
    async with database.reading() as session:
        nodes = await session.scalars(select(IncidentNode))
        assert sorted((node.host, node.part) for node in nodes) == [("gpu-n17", "initiating"), ("gpu-n17", "suspect")]


async def test_no_episode_is_begun_only_to_say_that_nothing_failed(
    repository: Repository, database: Database, key: Key
) -> None:
    incident_id = await due(repository, key)
    nothing = dataclasses.replace(verdict("none"), outcome="not-a-failure")
    await repository.diagnoses.store(incident_id, 1, nothing, HERE, NOW)
    async with database.reading() as session:
        assert (await session.scalars(select(Episode))).all() == []
