"""What the watcher may not read must not hide what it may: an owner that cannot be asked is done without."""

from __future__ import annotations

import asyncio
import logging

import pytest
import yaml

from hooks.kubernetes.figures import Figures
from hooks.kubernetes.watcher import Watcher
from tests.kubernetes.conftest import StubServer, World, kubeconfig_of
from tests.kubernetes.contract import TRACEBACK
from tests.kubernetes.controllers import INSTALLED, Made, make, parts, said, within
from tests.kubernetes.controllers import owner as owner_reference
from tests.kubernetes.lab import now
from tests.kubernetes.shapes import JOBSET, PYTORCH_JOB, RAY_JOB, TRAIN_JOB

JOBSETS = parts(JOBSET.place)
RAY_CLUSTERS = ("ray.io", "v1", "rayclusters")


@pytest.fixture(autouse=True)
def _as_the_watcher(server: StubServer, world: World) -> None:
    """The tests stay administrators; the watcher has a token of its own."""
    server.api.store.kinds.update(INSTALLED)
    world.kubeconfig.write_text(yaml.safe_dump(kubeconfig_of(server.url, "test-watcher-token")))


def unreadable(watcher: Watcher, kind: str) -> float | None:
    figures: Figures = watcher._figures
    return figures.registry.get_sample_value("firstfault_watcher_unreadable", {"kind": kind, "namespace": "train"})


async def failed(world: World, made: Made) -> None:
    pod = made.pods[made.shape.at]
    await world.server.put_log(pod["metadata"]["name"], "pytorch", TRACEBACK)
    await world.lab.ends(pod, 1)


async def test_pods_of_an_unreadable_owner_are_told_as_one_at_the_first_failure(
    world: World, server: StubServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.api.store.forbidden.add(parts(PYTORCH_JOB.place))
    with caplog.at_level(logging.WARNING):
        watcher = await world.watch()
        made = await Made(world.lab, PYTORCH_JOB, "llm").begin()
        await failed(world, made)
        await world.lab.ends(made.pods[0], 1)
        told = await world.intake.told("llm")
        await asyncio.sleep(1)
    assert told.job["job_id"] == f"train/llm:{made.item['metadata']['uid'][:8]}"
    assert "ValueError" in told.logs["gpu-n2/rank-2.llm-worker-1.pytorch.log"]
    assert world.intake.names() == ["llm"]
    assert unreadable(watcher, "PyTorchJob") == 1
    said = [record.getMessage() for record in caplog.records if "PyTorchJob cannot be read" in record.getMessage()]
    assert len(said) == 1
    assert "pytorchjobs.kubeflow.org" in said[0]


async def test_the_job_below_an_unreadable_jobset_speaks_for_it(world: World, server: StubServer) -> None:
    server.api.store.forbidden.add(JOBSETS)
    await world.watch()
    made = await Made(world.lab, JOBSET, "llm").begin()
    await failed(world, made)
    told = await world.intake.told("llm")
    await asyncio.sleep(0.5)
    assert world.intake.names() == ["llm"]
    assert "ValueError" in told.logs["gpu-n1/rank-1.llm-workers-0-1-q7w1z.pytorch.log"]


@pytest.mark.parametrize(
    ("shape", "hidden"), [(TRAIN_JOB, JOBSETS), (RAY_JOB, RAY_CLUSTERS)], ids=["TrainJob", "RayJob"]
)
async def test_an_owner_further_up_speaks_for_one_that_cannot_be_read(
    world: World, server: StubServer, shape: object, hidden: tuple[str, str, str]
) -> None:
    server.api.store.forbidden.add(hidden)
    await world.watch()
    made = await Made(world.lab, shape, "llm").begin()  # type: ignore[arg-type]
    await failed(world, made)
    await asyncio.sleep(1)
    assert world.intake.names() == []  # it has not ended yet, and can say so itself
    await made.says(made.shape.failed)
    told = await world.intake.told("llm")
    assert told.job["reason"] == made.shape.reason
    assert any("ValueError" in text for name, text in told.logs.items() if name.startswith("gpu-n1/"))
    assert world.intake.names() == ["llm"]


async def test_what_failed_before_it_was_known_that_its_owner_cannot_be_read_is_told_too(
    world: World, server: StubServer
) -> None:
    made = await Made(world.lab, PYTORCH_JOB, "early").begin()
    await failed(world, made)
    server.api.store.forbidden.add(parts(PYTORCH_JOB.place))
    await world.watch()
    await world.intake.told("early")


async def test_once_it_may_be_read_its_own_word_counts(world: World, server: StubServer) -> None:
    server.api.store.forbidden.add(parts(PYTORCH_JOB.place))
    watcher = await world.watch()
    assert unreadable(watcher, "PyTorchJob") == 1
    server.api.store.forbidden.clear()
    async with asyncio.timeout(20):
        while unreadable(watcher, "PyTorchJob"):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    made = await Made(world.lab, PYTORCH_JOB, "late").begin()
    await failed(world, made)
    await asyncio.sleep(1)
    assert world.intake.names() == []
    await made.says(PYTORCH_JOB.failed)
    assert (await world.intake.told("late")).job["reason"] == "PyTorchJobFailed"


async def test_a_server_that_refuses_for_a_moment_is_not_believed_at_once(world: World, server: StubServer) -> None:
    watcher = await world.watch()
    made = await Made(world.lab, PYTORCH_JOB, "llm").begin()
    server.api.store.forbidden.add(parts(PYTORCH_JOB.place))
    await server.kill()
    await server.revive()
    await asyncio.sleep(2)
    await failed(world, made)
    await asyncio.sleep(2)
    assert world.intake.names() == []
    server.api.store.forbidden.clear()
    await made.says(PYTORCH_JOB.failed)
    assert (await world.intake.told("llm", seconds=40)).job["reason"] == "PyTorchJobFailed"
    assert not unreadable(watcher, "PyTorchJob")


async def test_labelled_pods_of_a_kind_that_nobody_knows_are_told_as_one(world: World, server: StubServer) -> None:
    watcher = await world.watch()
    owner = {"apiVersion": "example.com/v1", "kind": "Swarm", "name": "bees", "uid": "uid-of-bees", "controller": True}
    pods = []
    for index in range(3):
        labels = {"firstfault/watch": "true", "apps.kubernetes.io/pod-index": str(index)}
        name = f"bees-{index}"
        await world.lab.pod(name, None, labels, f"gpu-n{index}", gpus=1)
        path = f"/api/v1/namespaces/train/pods/{name}"
        pods.append(await world.lab.call("PATCH", path, {"metadata": {"ownerReferences": [owner]}}))
        await world.lab.runs(pods[-1])
        await world.server.put_log(name, "pytorch", TRACEBACK if index == 1 else "step 1\n")
    for pod in (pods[1], pods[0], pods[2]):
        await world.lab.ends(pod, 1)
    told = await world.intake.told("bees")
    await asyncio.sleep(0.5)
    assert "ValueError" in told.logs["gpu-n1/rank-1.bees-1.pytorch.log"]
    assert told.job["world_size"] == 3
    assert world.intake.names() == ["bees"]

    cluster = watcher._cluster
    for pod in pods:
        await world.lab.delete(pod)
    await asyncio.sleep(0.5)
    cluster._gone = dict.fromkeys(cluster._gone, -1e9)  # half an hour later
    cluster.expire()
    assert not cluster.workloads
    assert not cluster.pods


async def test_a_job_that_a_kind_nobody_knows_made_speaks_for_itself(world: World) -> None:
    await world.watch()
    owner = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": "nightly",
        "uid": "uid-of-nightly",
        "controller": True,
    }
    for night in ("monday", "tuesday"):
        labels = {"firstfault/watch": "true"}
        job = await world.lab.job(night, 1, ownerReferences=[owner], labels=labels)
        await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
        await world.intake.told(night)
    assert world.intake.names() == ["monday", "tuesday"]


async def test_a_single_pod_in_a_queue_is_told_by_the_word_of_its_queue(world: World) -> None:
    await world.watch()
    pod = await world.lab.pod("solo", None, {"kueue.x-k8s.io/managed": "true"}, "gpu-n0", gpus=1)
    await world.lab.runs(pod)
    await world.server.put_log("solo", "pytorch", TRACEBACK)
    place = "kueue.x-k8s.io/v1beta1/workloads"
    await make(world.lab, place, "pod-solo-1a2b3", {"active": True}, ownerReferences=[owner_reference(pod)])
    await world.lab.ends(pod, 1)
    finished = said("Finished", "Failed", "Container failed with exitCode: 1")
    path = f"{within(place)}/pod-solo-1a2b3/status"
    await world.lab.call("PATCH", path, {"status": {"conditions": [{**finished, "lastTransitionTime": now()}]}})
    told = await world.intake.told("pod-solo-1a2b3")
    assert any("ValueError" in text for name, text in told.logs.items() if name.endswith("solo.pytorch.log"))
