"""Custom kinds may hold anything. One that makes no sense must not keep others from being told."""

from __future__ import annotations

import pytest

from tests.kubernetes.conftest import World

JOBSETS = "jobset.x-k8s.io/v1alpha2/jobsets"


@pytest.mark.parametrize("conditions", ["oops", [1], [{"type": ["Failed"]}], {"type": "Failed"}], ids=str)
async def test_conditions_of_the_wrong_shape(world: World, conditions: object) -> None:
    await world.watch()
    odd = await world.lab.create(JOBSETS, "odd", {})
    await world.lab.status(odd, conditions=conditions)
    job = await world.lab.job("next")
    await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
    await world.intake.told("next")


async def test_a_failed_workload_whose_groups_make_no_sense_is_told_without_ranks(world: World) -> None:
    await world.watch()
    odd = await world.lab.create(JOBSETS, "odd", {"replicatedJobs": [7, {"name": 3, "replicas": "many"}]})
    await world.lab.condition(odd, "Failed", "FailedJobs")
    assert "world_size" not in (await world.intake.told("odd")).job


async def test_names_as_long_as_kubernetes_allows_make_names_that_the_service_takes(world: World) -> None:
    await world.watch()
    name = "a" * 63
    job = await world.lab.job(name, 1)
    labels = {"controller-uid": job["metadata"]["uid"]}
    pod = await world.lab.pod("b" * 253, job, labels, "c" * 253)
    await world.lab.runs(pod)
    await world.server.put_log("b" * 253, "pytorch", "step 1\n")
    await world.lab.ends(pod, 1)
    await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
    told = await world.intake.told(name)
    assert all(len(each) <= 200 for each in [*told.logs, told.job["job_id"]])
    assert len(told.logs) == 4
