"""What is started again: attempts are numbered, kept apart, and told together where the workload ends but once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.conftest import StubServer, World
from tests.kubernetes.contract import TRACEBACK
from tests.kubernetes.controllers import INSTALLED, NOW, Made, make, owner, said, within
from tests.kubernetes.lab import Object, container, now
from tests.kubernetes.shapes import JOB, JOBSET, MPI_JOB, PYTORCH_JOB, RAY_JOB, VOLCANO_JOB

LATER = "RuntimeError: Socket Timeout waiting for the other ranks\n"


@pytest.fixture(autouse=True)
def _installed(server: StubServer) -> None:
    server.api.store.kinds.update(INSTALLED)


async def again(made: Made, pod: Object, name: str, node: str, **labels: str) -> Object:
    """The controller makes a pod anew, of the same rank."""
    old = pod["metadata"]["labels"]
    fresh = await made.lab.pod(name, None, {**old, **labels}, node, gpus=1)
    reference = {"metadata": {"ownerReferences": pod["metadata"]["ownerReferences"]}}
    path = f"/api/v1/namespaces/train/pods/{name}"
    fresh = await made.lab.call("PATCH", path, reference)
    await made.lab.runs(fresh)
    return fresh


def ended(code: int, seconds: int, reason: str = "Error") -> Object:
    return {
        "exitCode": code, "reason": reason, "startedAt": now(seconds - 60), "finishedAt": now(seconds),
        "containerID": f"containerd://{code}{seconds}",
    }  # fmt: skip


async def test_a_jobset_that_was_restarted_is_told_with_what_ended_it_each_time(world: World, tmp_path: Path) -> None:
    await world.watch()
    made = await Made(world.lab, JOBSET, "llm").begin()
    await world.server.put_log(made.pods[1]["metadata"]["name"], "pytorch", TRACEBACK)
    await world.lab.ends(made.pods[1], 1)
    await asyncio.sleep(0.7)
    label = "jobset.sigs.k8s.io/restart-attempt"
    await made.says({"restarts": 1, "restartsCountTowardsMax": 1})
    for pod in made.pods:
        await world.lab.delete(pod)
    second = [
        await again(made, pod, f"llm-workers-0-{index}-second", f"gpu-n{index}", **{label: "1"})
        for index, pod in enumerate(made.pods)
    ]
    await world.server.put_log("llm-workers-0-1-second", "pytorch", TRACEBACK)
    await world.server.put_log("llm-workers-0-0-second", "pytorch", "step 1\n")
    await world.lab.ends(second[1], 1)
    await made.says({**JOBSET.failed, "restarts": 1, "restartsCountTowardsMax": 1})

    told = await world.intake.told("llm", attempt=1)
    assert world.intake.names() == ["llm"]
    assert {name.rsplit("/")[-1] for name in told.logs if "/" in name} == {
        "rank-0.attempt-1.llm-workers-0-0-second.pytorch.log",
        "rank-1.attempt-1.llm-workers-0-1-second.pytorch.log",
        "rank-1.attempt-0.llm-workers-0-1-q7w1z.pytorch.log",
    }
    assert "q7w1z" not in told.logs["pods-describe.txt"]
    verdict = told.diagnose(tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks) == ("app-exception", [1])


async def test_an_index_of_a_job_that_was_tried_again_keeps_the_log_of_its_first_try(
    world: World, tmp_path: Path
) -> None:
    await world.watch()
    made = await Made(world.lab, JOB, "llm").begin()
    first = made.pods[1]
    await world.server.put_log(first["metadata"]["name"], "pytorch", TRACEBACK)
    await world.server.put_log(made.pods[0]["metadata"]["name"], "pytorch", "step 1\n")
    await world.lab.ends(first, 1)
    await asyncio.sleep(1.1)  # times of the API are whole seconds
    second = await again(made, first, "llm-1-again", "gpu-n4")
    await world.server.put_log("llm-1-again", "pytorch", LATER)
    await world.lab.ends(second, 1)
    await made.says(JOB.failed)

    told = await world.intake.told("llm")
    assert "ValueError" in told.logs["gpu-n1/rank-1.attempt-0.llm-1-x1k2p.pytorch.log"]
    assert "Socket Timeout" in told.logs["gpu-n4/rank-1.attempt-1.llm-1-again.pytorch.log"]
    assert "gpu-n0/rank-0.attempt-1.llm-0-x0k2p.pytorch.log" in told.logs
    assert told.job["nodes"] == ["gpu-n0", "gpu-n4"]
    assert told.job["world_size"] == 2


async def test_how_a_try_before_ended_is_not_how_the_last_one_did(world: World, tmp_path: Path) -> None:
    await world.watch()
    made = await Made(world.lab, JOB, "llm").begin()
    await world.lab.ends(made.pods[1], 139)
    await asyncio.sleep(1.1)  # times of the API are whole seconds
    second = await again(made, made.pods[1], "llm-1-again", "gpu-n4")
    await world.lab.ends(second, 3)
    await made.says(JOB.failed)

    verdict = (await world.intake.told("llm")).diagnose(tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks, verdict.initiating.hosts) == ("silent-exit", [1], ["gpu-n4"])
    assert "segfault" not in [each.cause for each in verdict.alternatives]


async def test_memory_that_ended_a_try_before_did_not_end_the_last_one(world: World, tmp_path: Path) -> None:
    await world.watch()
    made = await Made(world.lab, JOB, "llm").begin()
    await world.lab.ends(made.pods[1], 137, "OOMKilled")
    await asyncio.sleep(1.1)  # times of the API are whole seconds
    second = await again(made, made.pods[1], "llm-1-again", "gpu-n4")
    await world.server.put_log("llm-1-again", "pytorch", TRACEBACK)
    await world.lab.ends(second, 1)
    await made.says(JOB.failed)
    verdict = (await world.intake.told("llm")).diagnose(tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks, verdict.initiating.hosts) == ("app-exception", [1], ["gpu-n4"])


async def test_a_job_that_completes_after_pods_of_it_failed_has_not_failed(world: World) -> None:
    await world.watch()
    made = await Made(world.lab, JOB, "llm").begin()
    for code in (1, 137):
        await world.lab.ends(made.pods[1], code)
        await made.says({**JOB.running, "failed": 1})
        await again(made, made.pods[1], f"llm-1-after-{code}", "gpu-n4")
        await asyncio.sleep(0.3)
    await made.says({**JOB.well, "failed": 2})
    last = await world.lab.job("last")
    await world.lab.condition(last, "Failed", "DeadlineExceeded")
    await world.intake.told("last")
    assert world.intake.names() == ["last"]


async def test_a_container_that_was_started_again_in_place_has_its_runs_apart(world: World) -> None:
    await world.watch()
    made = await Made(world.lab, PYTORCH_JOB, "llm").begin()
    pod, name = made.pods[0], made.pods[0]["metadata"]["name"]
    await world.server.put_log(name, "pytorch", TRACEBACK)
    first, second = ended(1, -30), ended(1, -10)
    await world.lab.status(pod, containerStatuses=[{**container({"terminated": first})}])
    await asyncio.sleep(0.7)
    await world.server.put_log(name, "pytorch", "second run\n")
    await world.server.put_log(name, "pytorch", "second run\n", previous=True)
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting failed container"}}
    status = {**container(waiting), "lastState": {"terminated": second}, "restartCount": 1}
    await world.lab.status(pod, containerStatuses=[status])
    await made.says(PYTORCH_JOB.failed)

    told = await world.intake.told("llm")
    assert "ValueError" in told.logs["gpu-n0/rank-0.attempt-0.llm-master-0.pytorch.log"]
    assert "second run" in told.logs["gpu-n0/rank-0.attempt-1.llm-master-0.pytorch.log"]
    assert world.intake.names() == ["llm"]


async def test_a_ray_job_that_will_be_tried_again_has_not_failed(world: World) -> None:
    await world.watch()
    made = await Made(world.lab, RAY_JOB, "llm").begin()
    await made.says({**RAY_JOB.failed, "jobDeploymentStatus": "Retrying"})
    await made.says({**RAY_JOB.running, "rayClusterName": "llm-ray-2", "failed": 1})
    await asyncio.sleep(0.7)
    assert world.intake.names() == []
    await made.says({**RAY_JOB.failed, "rayClusterName": "llm-ray-2", "failed": 2})
    await world.intake.told("llm", attempt=1)
    assert world.intake.names() == ["llm"]


async def test_a_volcano_job_is_told_with_the_pods_of_its_last_try(world: World) -> None:
    await world.watch()
    made = await Made(world.lab, VOLCANO_JOB, "llm").begin()
    count = "volcano.sh/job-retry-count"
    for pod in made.pods:
        path = f"/api/v1/namespaces/train/pods/{pod['metadata']['name']}"
        await world.lab.call("PATCH", path, {"metadata": {"annotations": {count: "0"}}})
    await world.lab.ends(made.pods[0], 1)
    await asyncio.sleep(0.5)
    for pod in made.pods:
        await world.lab.delete(pod)
    await made.says({**VOLCANO_JOB.running, "retryCount": 3, "version": 4})
    for index, pod in enumerate(made.pods):
        fresh = await again(made, pod, pod["metadata"]["name"], f"gpu-n{index + 4}", **{count: "3"})
        await world.server.put_log(pod["metadata"]["name"], "pytorch", TRACEBACK)
    await world.lab.ends(fresh, 1)
    await made.says({**VOLCANO_JOB.failed, "retryCount": 3, "version": 4})

    told = await world.intake.told("llm", attempt=3)
    assert told.job["nodes"] == ["gpu-n4", "gpu-n5"]
    assert "gpu-n5/rank-1.attempt-1.llm-worker-1.pytorch.log" in told.logs


@pytest.mark.parametrize(("failed", "told"), [(0, []), (1, ["llm", "last"])])
async def test_a_volcano_job_that_was_aborted_failed_only_if_a_pod_of_it_did(
    world: World, failed: int, told: list[str]
) -> None:
    await world.watch()
    made = await Made(world.lab, VOLCANO_JOB, "llm").begin()
    await made.says({**VOLCANO_JOB.stopped, "failed": failed})
    if told:
        await world.intake.told("llm")
    last = await world.lab.job("last")
    await world.lab.condition(last, "Failed", "BackoffLimitExceeded")
    await world.intake.told("last")
    assert world.intake.names() == (told or ["last"])


class TestQueue:
    """Kueue suspends what it evicts, and resumes it when there is room again."""

    async def admitted(self, world: World) -> tuple[Made, Object]:
        made = await Made(world.lab, JOB, "llm").begin()
        place = "kueue.x-k8s.io/v1beta1/workloads"
        spec = {"active": True, "queueName": "team", "podSets": [{"name": "main", "count": 2}]}
        return made, await make(world.lab, place, "job-llm-4f1c2", spec, ownerReferences=[owner(made.item)])

    async def writes(self, world: World, workload: Object, *conditions: Object, **other: Any) -> None:
        path = f"{within('kueue.x-k8s.io/v1beta1/workloads')}/{workload['metadata']['name']}"
        said_now = [{**each, "lastTransitionTime": now()} for each in conditions]
        spec = {"spec": {"active": other.pop("active", True)}}
        await world.lab.call("PATCH", path, {**spec, "status": {"conditions": said_now, **other}})

    async def test_what_was_evicted_and_put_back_fails_as_another_attempt_with_its_own_pods(self, world: World) -> None:
        await world.watch()
        made, workload = await self.admitted(world)
        for pod in made.pods:  # it ran for an hour
            path = f"/api/v1/namespaces/train/pods/{pod['metadata']['name']}"
            await world.lab.call("PATCH", path, {"metadata": {"creationTimestamp": now(-3600)}})
        evicted = said("Evicted", "Preempted", "Preempted to accommodate a workload (UID: 7a5) in the ClusterQueue")
        await self.writes(
            world, workload, evicted, said("Preempted", "InClusterQueue"),
            schedulingStats={"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]},
        )  # fmt: skip
        for pod in made.pods:
            await world.lab.delete(pod, grace=30)
            await world.lab.ends(pod, 143)
        await made.says(JOB.stopped)
        for pod in made.pods:
            await world.lab.delete(pod)
        await asyncio.sleep(0.5)
        assert world.intake.names() == []

        await self.writes(
            world, workload, {**evicted, "status": "False"}, schedulingStats={"evictions": [{"count": 1}]}
        )
        await made.says(
            {**JOB.running, "startTime": NOW, "conditions": [said("Suspended", "JobResumed", status="False")]}
        )
        fresh = [
            await again(made, pod, f"llm-{index}-resumed", f"gpu-n{index + 4}") for index, pod in enumerate(made.pods)
        ]
        for pod in fresh:
            await world.server.put_log(pod["metadata"]["name"], "pytorch", TRACEBACK)
        await world.lab.ends(fresh[1], 1)
        await made.says({**JOB.failed, "startTime": NOW})

        told = await world.intake.told("llm", attempt=1)
        assert told.job["nodes"] == ["gpu-n4", "gpu-n5"]
        assert told.job["exit_code"] == 1
        assert world.intake.names() == ["llm"]

    async def test_a_jobset_that_was_put_back_does_not_answer_for_the_pods_that_were_taken_from_it(
        self, world: World
    ) -> None:
        await world.watch()
        made = await Made(world.lab, JOBSET, "llm").begin()
        place = "kueue.x-k8s.io/v1beta1/workloads"
        workload = await make(world.lab, place, "jobset-llm-4f1c2", {}, ownerReferences=[owner(made.item)])
        for pod in made.pods:  # it ran for an hour, and did not go when it was told to
            path = f"/api/v1/namespaces/train/pods/{pod['metadata']['name']}"
            await world.lab.call("PATCH", path, {"metadata": {"creationTimestamp": now(-3600)}})
            await world.lab.ends(pod, 137)
            await world.lab.delete(pod)
        admitted = said("Admitted", "Admitted", "The workload is admitted")
        await self.writes(world, workload, admitted, schedulingStats={"evictions": [{"count": 2}]})
        fresh = [
            await again(made, pod, f"llm-{index}-resumed", f"gpu-n{index + 4}") for index, pod in enumerate(made.pods)
        ]
        await world.server.put_log(fresh[1]["metadata"]["name"], "pytorch", TRACEBACK)
        await world.lab.ends(fresh[1], 1)
        await made.says(JOBSET.failed)

        told = await world.intake.told("llm", attempt=2)
        assert told.job["exit_code"] == 1
        assert told.job["nodes"] == ["gpu-n4", "gpu-n5"]

    async def test_what_ran_longer_than_its_queue_allows_is_told_for_its_job(
        self, world: World, tmp_path: Path
    ) -> None:
        await world.watch()
        made, workload = await self.admitted(world)
        why = "DeactivatedDueToMaximumExecutionTimeExceeded"
        message = "The workload is deactivated due to exceeding the maximum execution time"
        stats = {
            "evictions": [{"reason": "Deactivated", "underlyingCause": "MaximumExecutionTimeExceeded", "count": 1}]
        }
        await self.writes(world, workload, said("Evicted", why, message), active=False, schedulingStats=stats)
        await made.says(JOB.stopped)

        told = await world.intake.told("llm")
        assert told.job["reason"] == "DeadlineExceeded"
        assert "MaximumExecutionTimeExceeded" in told.logs["workload-describe.txt"]
        assert told.diagnose(tmp_path).cause.id == "time-limit"
        assert world.intake.names() == ["llm"]

    async def test_what_a_person_took_out_of_its_queue_is_no_failure(self, world: World) -> None:
        await world.watch()
        made, workload = await self.admitted(world)
        await self.writes(world, workload, said("Evicted", "Deactivated", "The workload is deactivated"), active=False)
        await made.says(JOB.stopped)
        last = await world.lab.job("last")
        await world.lab.condition(last, "Failed", "BackoffLimitExceeded")
        await world.intake.told("last")
        assert world.intake.names() == ["last"]


async def test_a_workload_of_the_same_name_does_not_inherit_the_pods_of_the_one_before(world: World) -> None:
    await world.watch()
    for turn in range(2):
        made = await Made(world.lab, PYTORCH_JOB, "llm").begin()
        await world.server.put_log("llm-worker-1", "pytorch", f"turn {turn}\n{TRACEBACK}")
        await world.lab.ends(made.pods[2], 1)
        await made.says(PYTORCH_JOB.failed)
        told = await world.intake.told("llm", uid=made.item["metadata"]["uid"])
        assert f"turn {turn}" in told.logs["gpu-n2/rank-2.llm-worker-1.pytorch.log"]
        assert len([name for name in told.logs if "/" in name]) == 1
        await made.vanishes()
        for pod in made.pods:
            await world.lab.delete(pod)
        await asyncio.sleep(0.3)
    assert len(world.intake.incidents) == 2


async def test_a_launcher_that_works_too_is_rank_0(world: World) -> None:
    await world.watch()
    made = Made(world.lab, MPI_JOB, "llm")
    await made.begin()
    path = f"{within(MPI_JOB.place)}/llm"
    await world.lab.call("PATCH", path, {"spec": {"runLauncherAsWorker": True}})
    for pod in made.pods:
        await world.server.put_log(pod["metadata"]["name"], "pytorch", "step 1\n")
    await world.lab.ends(made.pods[1], 1)
    await made.says(MPI_JOB.failed)
    told = await world.intake.told("llm")
    assert told.job["world_size"] == 3
    assert {
        "gpu-n2/rank-0.llm-launcher-zx8q4.pytorch.log",
        "gpu-n1/rank-2.llm-worker-1.pytorch.log",
    } <= told.logs.keys()


async def test_the_first_failed_container_of_a_gang_is_told_also_when_it_is_started_again_in_place(
    world: World,
) -> None:
    await world.watch(first_pod=True)
    made = await Made(world.lab, PYTORCH_JOB, "llm").begin()
    pod = made.pods[1]
    await world.server.put_log("llm-worker-0", "pytorch", "again\n")
    await world.server.put_log("llm-worker-0", "pytorch", TRACEBACK, previous=True)
    status = {
        **container({"running": {"startedAt": now()}}), "lastState": {"terminated": ended(1, -1)}, "restartCount": 1,
    }  # fmt: skip
    await world.lab.status(pod, containerStatuses=[status])
    told = await world.intake.told("llm")
    assert told.job["exit_code"] == 1
    assert "ValueError" in told.logs["gpu-n1/rank-1.attempt-0.llm-worker-0.pytorch.log"]
    await made.says(PYTORCH_JOB.failed)
    await asyncio.sleep(1)
    assert world.intake.names() == ["llm"]
    assert told.completions == 1


@pytest.mark.parametrize(("labels", "names"), [({}, ["last"]), ({"firstfault/watch": "true"}, ["ray", "last"])])
async def test_a_ray_cluster_of_its_own_is_told_at_its_first_failed_pod_where_it_is_labelled(
    world: World, labels: dict[str, str], names: list[str]
) -> None:
    await world.watch()
    cluster = await make(world.lab, "ray.io/v1/rayclusters", "ray", {}, labels=labels)
    pod = await world.lab.pod(
        "ray-head-x2k4p", cluster, {"ray.io/cluster": "ray", "ray.io/node-type": "head"}, "gpu-n0"
    )
    await world.lab.runs(pod)
    await world.server.put_log("ray-head-x2k4p", "pytorch", "ray start --head\n")
    await world.lab.ends(pod, 137, "OOMKilled")
    if "ray" in names:
        told = await world.intake.told("ray")
        assert told.job["reason"] == "OOMKilled"
    last = await world.lab.job("last")
    await world.lab.condition(last, "Failed", "BackoffLimitExceeded")
    await world.intake.told("last")
    assert world.intake.names() == names
