"""Pods that were taken away and replaced: how they ended is no longer how the job ended, whatever they were called."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.kubernetes.conftest import StubServer, World
from tests.kubernetes.contract import TRACEBACK
from tests.kubernetes.controllers import INSTALLED, Made, Shape
from tests.kubernetes.lab import Object, container, now
from tests.kubernetes.shapes import PYTORCH_JOB, VOLCANO_JOB

NEXT_SECOND = 1.1  # times of the API have whole seconds


@pytest.fixture(autouse=True)
def _installed(server: StubServer) -> None:
    server.api.store.kinds.update(INSTALLED)


def taken(reason: str, seconds: int = 0) -> list[Object]:
    return [
        {
            "type": "DisruptionTarget", "status": "True", "reason": reason, "message": "for a reason",
            "lastTransitionTime": now(seconds),
        }
    ]  # fmt: skip


@pytest.mark.parametrize("shape", [PYTORCH_JOB, VOLCANO_JOB], ids=["pytorch", "volcano"])
async def test_one_that_was_evicted_hours_ago_is_not_the_one_that_bears_its_name_now(
    world: World, tmp_path: Path, shape: Shape
) -> None:
    await world.watch()
    made = await Made(world.lab, shape, "llm").begin()
    first, worker = made.pods[0], made.pods[1]
    end = {"terminated": {"exitCode": 143, "reason": "Error", "finishedAt": now(-7200)}}
    await world.lab.status(
        worker, phase="Failed", conditions=taken("EvictionByEvictionAPI", -7200), containerStatuses=[container(end)]
    )
    await world.lab.delete(worker)
    await asyncio.sleep(NEXT_SECOND)
    again = await world.lab.pod(worker["metadata"]["name"], made.item, worker["metadata"]["labels"], "gpu-n7", gpus=1)
    await world.lab.runs(again)
    await world.server.put_log(first["metadata"]["name"], "pytorch", TRACEBACK)
    await world.lab.ends(first, 1)
    await made.says(shape.failed)
    verdict = (await world.intake.told("llm")).diagnose(tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks) == ("app-exception", [0])


@pytest.mark.parametrize("pods", [1, 2])
async def test_of_pods_without_numbers_the_one_that_was_taken_is_not_why_the_later_one_failed(
    world: World, tmp_path: Path, pods: int
) -> None:
    await world.watch()
    job = await world.lab.job("llm", pods)
    labels = {"controller-uid": job["metadata"]["uid"], "job-name": "llm"}
    await world.lab.status(job, active=pods, startTime=now(-60))
    made = [await world.lab.pod(f"llm-{name}", job, labels, f"gpu-{name}", gpus=1) for name in "ab"[:pods]]
    for pod in made:
        await world.lab.runs(pod)
    await world.lab.ends(made[0], 143, conditions=taken("PreemptionByScheduler"))
    await world.lab.delete(made[0])
    await asyncio.sleep(NEXT_SECOND)
    again = await world.lab.pod("llm-c", job, labels, "gpu-c", gpus=1)
    await world.lab.runs(again)
    await world.server.put_log("llm-c", "pytorch", TRACEBACK)
    await world.lab.ends(again, 1)
    await world.lab.condition(job, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    told = await world.intake.told("llm")
    assert (told.job["reason"], told.job["exit_code"]) == ("BackoffLimitExceeded", 1)
    assert told.diagnose(tmp_path).cause.id == "app-exception"
