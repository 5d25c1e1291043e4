"""Each kind through the whole watcher: one incident when it fails, and none when it succeeds, waits or is deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.kubernetes.conftest import StubServer, World
from tests.kubernetes.contract import TRACEBACK
from tests.kubernetes.controllers import INSTALLED, Made
from tests.kubernetes.lab import container, now
from tests.kubernetes.shapes import SHAPES

EACH = pytest.mark.parametrize("kind", SHAPES)


@pytest.fixture(autouse=True)
def _installed(server: StubServer) -> None:
    server.api.store.kinds.update(INSTALLED)


@EACH
async def test_it_is_told_once_when_it_fails_with_its_reason_and_the_rank(
    world: World, tmp_path: Path, kind: str
) -> None:
    shape = SHAPES[kind]
    await world.watch()
    made = await Made(world.lab, shape, "llm").begin()
    for place, pod in enumerate(made.pods):
        text = TRACEBACK if place == shape.at else "step 1\n"
        await world.server.put_log(pod["metadata"]["name"], "pytorch", text)
    await world.lab.ends(made.pods[shape.at], 1)
    await made.says(shape.failed)

    told = await world.intake.told("llm")
    await asyncio.sleep(0.5)
    assert world.intake.names() == ["llm"]
    assert told.completions == 1
    assert (told.job.get("reason", ""), told.job["exit_code"]) == (shape.reason, 1)
    assert (told.job.get("world_size"), told.job["attempt"]) == (shape.world_size, 0)
    assert len([name for name in told.logs if "/" in name]) == len(made.pods)
    verdict = told.diagnose(tmp_path)
    assert verdict.cause.id == "app-exception"
    assert verdict.initiating.ranks == ([] if shape.rank is None else [shape.rank])
    assert verdict.initiating.hosts == [f"gpu-n{shape.at}"]


@EACH
async def test_success_suspension_and_deletion_are_no_failures(world: World, kind: str) -> None:
    shape = SHAPES[kind]
    await world.watch()
    good, waits, deleted = [await Made(world.lab, shape, name).begin() for name in ("good", "waits", "deleted")]
    for pod in good.pods:
        await world.lab.ends(pod, 0, "Completed")
    await good.says(shape.well)

    for pod in waits.pods:
        await world.lab.delete(pod, grace=30)
        await world.lab.ends(pod, 143)
    await waits.says(shape.stopped)
    for pod in waits.pods:
        await world.lab.delete(pod)

    await deleted.is_being_deleted()
    for pod in deleted.pods:
        await world.lab.delete(pod, grace=30)
        await world.lab.ends(pod, 143)
    await deleted.says(shape.failed)  # as some controllers say of what they saw end
    for pod in deleted.pods:
        await world.lab.delete(pod)
    await deleted.vanishes()

    last = await world.lab.job("last")
    await world.lab.condition(last, "Failed", "DeadlineExceeded")
    await world.intake.told("last")
    await asyncio.sleep(0.5)
    assert world.intake.names() == ["last"]


async def test_a_labelled_pod_that_succeeds_or_is_deleted_has_not_failed(world: World) -> None:
    await world.watch()
    label = {"firstfault/watch": "true"}
    good, deleted = [await world.lab.pod(name, None, label, "gpu-n0") for name in ("good", "deleted")]
    for pod in (good, deleted):
        await world.lab.runs(pod)
    await world.lab.ends(good, 0, "Completed")
    await world.lab.delete(deleted, grace=30)
    await world.lab.ends(deleted, 143)
    await world.lab.delete(deleted)
    last = await world.lab.pod("last", None, label, "gpu-n0", env=[{"name": "RANK", "value": "5"}])
    await world.lab.runs(last)
    await world.server.put_log("last", "pytorch", TRACEBACK)
    await world.lab.ends(last, 1)
    told = await world.intake.told("last")
    assert "gpu-n0/rank-5.last.pytorch.log" in told.logs
    assert world.intake.names() == ["last"]


async def test_a_labelled_pod_that_a_person_deletes_has_not_failed_whatever_it_ends_with(world: World) -> None:
    await world.watch()
    pod = await world.lab.pod("bare", None, {"firstfault/watch": "true"}, "n0")
    await world.lab.runs(pod)
    await world.lab.delete(pod, grace=30)
    await asyncio.sleep(0.3)
    behind = {"exitCode": 1, "reason": "Error", "startedAt": now(-60), "finishedAt": now(-3), "containerID": "x://1"}
    await world.lab.status(pod, phase="Failed", containerStatuses=[container({"terminated": behind})])
    await asyncio.sleep(1)
    assert world.intake.names() == []
