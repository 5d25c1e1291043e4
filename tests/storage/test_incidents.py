"""Reports in any order, twice or late, make one incident, which is due when there is something to say."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import datetime, timedelta

import pytest

from storage.clusters import Provisioned
from storage.diagnoses import Verdict
from storage.folding import Placing
from storage.incidents import Key, NameConflictError, NoRoomError, Pace, ReceivedLog, ReporterRole, Room, Told
from storage.repository import Repository
from storage.types import utc_now

PACE = Pace(first=timedelta(seconds=30), quiet=timedelta(seconds=10), patience=timedelta(seconds=600))
ROOM = Room(logs=3, bytes=1000)
FOUND = Verdict("failed", "unknown", "f1", {"cause": {"id": "unknown"}, "stats": {"seconds": 1.0}})


def node(name: str = "gpu-n01", expected: int | None = None, **facts: object) -> Told:
    return Told(name, ReporterRole.NODE, facts, expected)


def controller(**facts: object) -> Told:
    return Told("head", ReporterRole.CONTROLLER, facts)


def log(name: str, content: str = "a", size: int = 100) -> ReceivedLog:
    return ReceivedLog(name, content * 64, size, f"blob-of-{name}-{content}")


async def due_in(repository: Repository, incident_id: str) -> float | None:
    """Seconds until the incident is due, or None."""
    due: datetime | None = (await repository.incidents.view(incident_id)).incident.due_at
    return None if due is None else (due - utc_now()).total_seconds()


async def test_the_same_report_twice_is_one_incident_and_no_news(repository: Repository, key: Key) -> None:
    first = await repository.incidents.open(key, node(name="gpu-n01", partition="gpu"), PACE)
    before = await repository.incidents.view(first)
    assert await repository.incidents.open(key, node(name="gpu-n01", partition="gpu"), PACE) == first
    after = await repository.incidents.view(first)
    assert len(after.reports) == 1
    assert after.incident.revision == before.incident.revision


async def test_many_nodes_at_once_make_one_incident(repository: Repository, key: Key) -> None:
    ids = await asyncio.gather(*(repository.incidents.open(key, node(f"gpu-n{n:02}"), PACE) for n in range(16)))
    assert len(set(ids)) == 1
    assert len((await repository.incidents.view(ids[0])).reports) == 16


async def test_another_attempt_is_another_incident(repository: Repository, key: Key) -> None:
    first = await repository.incidents.open(key, node(), PACE)
    assert await repository.incidents.open(dataclasses.replace(key, attempt=1), node(), PACE) != first


async def test_one_host_may_report_as_node_and_as_controller(repository: Repository, key: Key) -> None:
    incident_id = await repository.incidents.open(key, node("head"), PACE)
    await repository.incidents.open(key, controller(), PACE)
    assert len((await repository.incidents.view(incident_id)).reports) == 2


@pytest.mark.parametrize("controller_first", [True, False])
async def test_the_controllers_facts_win_in_any_order(repository: Repository, key: Key, controller_first: bool) -> None:
    told = [controller(state="TIMEOUT", comment=None), node(state="COMPLETING", comment="from the node")]
    for each in told if controller_first else reversed(told):
        incident_id = await repository.incidents.open(key, each, PACE)
    job = (await repository.incidents.view(incident_id)).job
    assert job["state"] == "TIMEOUT"
    assert job["comment"] == "from the node"
    assert (job["cluster"], job["job_id"]) == ("alps", "48213")


async def test_a_report_that_never_completes_is_diagnosed_after_a_while(repository: Repository, key: Key) -> None:
    incident_id = await repository.incidents.open(key, node(), PACE)
    assert await due_in(repository, incident_id) == pytest.approx(600, abs=5)


async def test_the_first_complete_report_sets_the_first_diagnosis(repository: Repository, key: Key) -> None:
    incident_id = await repository.incidents.open(key, node(expected=2), PACE)
    await repository.incidents.complete(incident_id, node(), PACE)
    assert await due_in(repository, incident_id) == pytest.approx(30, abs=5)


async def test_when_all_have_reported_there_is_nothing_to_wait_for(repository: Repository, key: Key) -> None:
    incident_id = await repository.incidents.open(key, node("gpu-n01", expected=2), PACE)
    await repository.incidents.complete(incident_id, node("gpu-n01"), PACE)
    await repository.incidents.complete(incident_id, node("gpu-n02"), PACE)
    assert await due_in(repository, incident_id) == pytest.approx(0, abs=5)


async def test_the_controllers_word_after_a_nodes_logs_is_enough(repository: Repository, key: Key) -> None:
    incident_id = await repository.incidents.open(key, node(expected=64), PACE)
    await repository.incidents.complete(incident_id, controller(), PACE)
    assert await due_in(repository, incident_id) == pytest.approx(30, abs=5), "the controller alone knows no reason"
    await repository.incidents.complete(incident_id, node(), PACE)
    await repository.incidents.complete(incident_id, controller(state="FAILED"), PACE)
    assert await due_in(repository, incident_id) == pytest.approx(0, abs=5)


async def test_evidence_after_a_diagnosis_waits_for_quiet(repository: Repository, key: Key) -> None:
    incident_id = await repository.incidents.open(key, node(expected=3), PACE)
    revision = (await repository.incidents.view(incident_id)).incident.revision
    await repository.diagnoses.store(incident_id, revision, FOUND, Placing(("C1",)), PACE)
    assert await due_in(repository, incident_id) is None
    await repository.incidents.complete(incident_id, node("gpu-n02"), PACE)
    assert await due_in(repository, incident_id) == pytest.approx(10, abs=5)


async def test_the_same_log_twice_is_kept_once(repository: Repository, key: Key) -> None:
    incident_id = await repository.incidents.open(key, node(), PACE)
    assert await repository.incidents.add_log(incident_id, log("r0.log"), ROOM, PACE) is None
    again = dataclasses.replace(log("r0.log"), blob="second")
    assert await repository.incidents.add_log(incident_id, again, ROOM, PACE) == "second"
    view = await repository.incidents.view(incident_id)
    assert [each.blob for each in view.logs] == ["blob-of-r0.log-a"]


async def test_a_log_sent_anew_with_more_lines_replaces_the_old_one(repository: Repository, key: Key) -> None:
    incident_id = await repository.incidents.open(key, node(), PACE)
    await repository.incidents.add_log(incident_id, log("r0.log", "a"), ROOM, PACE)
    assert await repository.incidents.add_log(incident_id, log("r0.log", "b", 200), ROOM, PACE) == "blob-of-r0.log-a"
    view = await repository.incidents.view(incident_id)
    assert [(each.blob, each.bytes) for each in view.logs] == [("blob-of-r0.log-b", 200)]


async def test_an_incident_holds_so_many_logs_and_bytes(repository: Repository, key: Key) -> None:
    incident_id = await repository.incidents.open(key, node(), PACE)
    await repository.incidents.add_log(incident_id, log("a", size=600), ROOM, PACE)
    with pytest.raises(NoRoomError, match=r"limits\.incident_bytes is 1000"):
        await repository.incidents.add_log(incident_id, log("b", size=401), ROOM, PACE)
    await repository.incidents.add_log(incident_id, log("a", "b", size=1000), ROOM, PACE)
    await repository.incidents.add_log(incident_id, log("b", size=0), ROOM, PACE)
    await repository.incidents.add_log(incident_id, log("c", size=0), ROOM, PACE)
    with pytest.raises(NoRoomError, match=r"limits\.logs is 3"):
        await repository.incidents.add_log(incident_id, log("d", size=0), ROOM, PACE)


@pytest.mark.parametrize(("first", "second"), [("n1", "n1/r0.log"), ("n1/r0.log", "n1")])
async def test_a_name_is_a_file_or_a_folder(repository: Repository, key: Key, first: str, second: str) -> None:
    incident_id = await repository.incidents.open(key, node(), PACE)
    await repository.incidents.add_log(incident_id, log(first), ROOM, PACE)
    with pytest.raises(NameConflictError):
        await repository.incidents.add_log(incident_id, log(second), ROOM, PACE)


async def test_what_is_unknown_is_an_error(repository: Repository) -> None:
    with pytest.raises(LookupError):
        await repository.incidents.complete("0" * 32, node(), PACE)
    with pytest.raises(LookupError):
        await repository.incidents.view("0" * 32)


async def test_a_cluster_is_created_once_and_its_token_can_change(repository: Repository) -> None:
    provision = repository.clusters.provision
    assert await provision("alps", "1" * 64) is Provisioned.CREATED
    assert await provision("alps", "1" * 64) is Provisioned.UNCHANGED
    assert await provision("alps", "2" * 64) is Provisioned.CHANGED
    assert await repository.clusters.by_token_hash("1" * 64) is None
    found = await repository.clusters.by_token_hash("2" * 64)
    assert found is not None
    assert found.name == "alps"
