"""What the platform did to pods and nodes is told so that the diagnosis is right, without any log of the pod's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.conftest import StubServer, World
from tests.kubernetes.contract import TRACEBACK
from tests.kubernetes.controllers import INSTALLED, Made
from tests.kubernetes.intake import Incident
from tests.kubernetes.lab import Object, container, now
from tests.kubernetes.shapes import JOB

NODES, EVENTS = ("", "v1", "nodes"), ("", "v1", "events")
GPU = "nvidia.com/gpu"
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that it is installed.\n"
)


class Site:
    """The nodes of a cluster, and what is noted about them."""

    def __init__(self, server: StubServer) -> None:
        self._store = server.api.store
        for number in range(2):
            self.node(f"gpu-n{number}")

    def node(
        self, name: str, conditions: Mapping[str, tuple[str, str, str]] | None = None, usable: int = 8, taints: Any = ()
    ) -> None:
        """Write a node; `conditions` are status, reason and message by their type."""
        told = {
            "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
            **(conditions or {}),
        }
        item: Object = {
            "metadata": {"name": name, "uid": f"uid-of-{name}"},
            "spec": {"taints": [{"key": key, "effect": effect} for key, effect in taints]},
            "status": {
                "capacity": {GPU: "8"}, "allocatable": {GPU: str(usable)},
                "conditions": [
                    {"type": kind, "status": each[0], "reason": each[1], "message": each[2], "lastTransitionTime": now()}
                    for kind, each in told.items()
                ],
            },
        }  # fmt: skip
        self._store.write(NODES, "ADDED", item)

    def loses(self, name: str) -> None:
        """A node is removed from the cluster."""
        self._store.write(NODES, "DELETED", self._store.objects[NODES]["", name])

    def event(self, node: str, reason: str, message: str) -> None:
        """Something is noted about a node, in the namespace where such things are noted."""
        item = {
            "metadata": {"name": f"{node}.{reason.lower()}", "namespace": "default", "uid": reason},
            "type": "Warning" if "Not" in reason else "Normal", "reason": reason, "message": message, "count": 1,
            "involvedObject": {"kind": "Node", "name": node, "uid": node},
            "firstTimestamp": now(), "lastTimestamp": now(),
        }  # fmt: skip
        self._store.write(EVENTS, "ADDED", item)


@pytest.fixture
def site(server: StubServer) -> Site:
    server.api.store.kinds.update(INSTALLED)
    return Site(server)


async def begun(world: World) -> Made:
    """Two ranks that run."""
    await world.watch(stuck_seconds=1)
    made = await Made(world.lab, JOB, "llm").begin()
    await world.server.put_log(made.pods[0]["metadata"]["name"], "pytorch", "step 1\nstep 2\n")
    return made


async def failed(world: World, made: Made) -> Incident:
    await made.says(JOB.failed)
    return await world.intake.told("llm")


def disrupted(reason: str, message: str) -> list[Object]:
    said = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    return [{**said, "lastTransitionTime": now()}]


async def test_a_node_that_fell_silent(world: World, site: Site, tmp_path: Path) -> None:
    made = await begun(world)
    site.node(
        "gpu-n1", {"Ready": ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")},
        taints=[("node.kubernetes.io/unreachable", "NoExecute")],
    )  # fmt: skip
    site.event("gpu-n1", "NodeNotReady", "Node gpu-n1 status is now: NodeNotReady")
    taken = disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
    await world.lab.status(made.pods[1], conditions=taken)
    await world.lab.delete(made.pods[1], grace=30)

    told = await failed(world, made)
    assert "node.kubernetes.io/unreachable" in told.logs["nodes-describe.txt"]
    assert "NodeNotReady           node/gpu-n1" in told.logs["events.txt"]
    assert "llm-1-x1k2p" in told.logs["not-collected.txt"]
    verdict = told.diagnose(tmp_path)
    assert (verdict.cause.id, verdict.initiating.hosts, verdict.initiating.ranks) == ("node-failure", ["gpu-n1"], [1])


async def test_a_node_that_left_the_cluster_with_its_pod(world: World, site: Site, tmp_path: Path) -> None:
    made = await begun(world)
    site.loses("gpu-n1")
    taken = disrupted("DeletionByPodGC", "PodGC: node no longer exists")
    await world.lab.status(made.pods[1], phase="Failed", conditions=taken)
    await world.lab.delete(made.pods[1])

    verdict = (await failed(world, made)).diagnose(tmp_path)
    assert (verdict.cause.id, verdict.initiating.hosts, verdict.initiating.ranks) == ("node-failure", ["gpu-n1"], [1])


async def test_a_node_that_was_removed_after_a_failure_did_not_cause_it(
    world: World, site: Site, tmp_path: Path
) -> None:
    made = await begun(world)
    await world.server.put_log(made.pods[1]["metadata"]["name"], "pytorch", TRACEBACK)
    await world.lab.ends(made.pods[1], 1)
    site.loses("gpu-n1")
    assert (await failed(world, made)).diagnose(tmp_path).cause.id == "app-exception"


@pytest.mark.parametrize(
    ("pressure", "message"),
    [
        ("MemoryPressure", "The node was low on resource: memory. Threshold quantity: 100Mi, available: 51264Ki."),
        ("DiskPressure", "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi."),
    ],
)
async def test_a_node_under_pressure_evicts(
    world: World, site: Site, tmp_path: Path, pressure: str, message: str
) -> None:
    made = await begun(world)
    site.node("gpu-n1", {pressure: ("True", f"KubeletHas{pressure}", f"kubelet has {pressure}")})
    site.event("gpu-n1", f"NodeHas{pressure}", f"Node gpu-n1 status is now: NodeHas{pressure}")
    taken = disrupted("TerminationByKubelet", message)
    await world.lab.status(made.pods[1], phase="Failed", reason="Evicted", message=message, conditions=taken)
    await world.lab.event(made.pods[1], "Evicted", message)

    told = await failed(world, made)
    assert pressure in told.logs["nodes-describe.txt"]
    verdict = told.diagnose(tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks) == ("evicted", [1])


async def test_a_node_without_enough_healthy_gpus_refuses_the_pod(world: World, site: Site, tmp_path: Path) -> None:
    made = await begun(world)
    site.node("gpu-n1", usable=7)
    message = (
        f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {GPU}. "
        "Requested: 8, Available: 7, which is unexpected"
    )
    await world.lab.status(made.pods[1], phase="Failed", reason="UnexpectedAdmissionError", message=message)

    told = await failed(world, made)
    assert told.job["reason"] == "UnexpectedAdmissionError"
    assert f"{GPU} 7 of 8 usable" in told.logs["nodes-describe.txt"]
    verdict = told.diagnose(tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks) == ("gpu-not-visible", [1])


async def test_a_device_that_became_unhealthy_is_told_of_its_container(world: World, site: Site) -> None:
    made = await begun(world)
    sick = [{"name": GPU, "resources": [{"resourceID": "GPU-7f3a", "health": "Unhealthy"}]}]
    ended = {"exitCode": 1, "reason": "Error", "startedAt": now(-60), "finishedAt": now(), "containerID": "x://1"}
    status = {**container({"terminated": ended}), "allocatedResourcesStatus": sick}
    await world.lab.status(made.pods[1], phase="Failed", containerStatuses=[status])
    assert "GPU-7f3a is Unhealthy" in (await failed(world, made)).logs["pods-describe.txt"]


async def test_a_node_that_was_shut_down(world: World, site: Site, tmp_path: Path) -> None:
    made = await begun(world)
    message = "Pod was terminated in response to imminent node shutdown."
    taken = disrupted("TerminationByKubelet", message)
    await world.lab.status(made.pods[1], phase="Failed", reason="Terminated", message=message, conditions=taken)
    verdict = (await failed(world, made)).diagnose(tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks) == ("preempted", [1])


@pytest.mark.parametrize("field", ["containerStatuses", "initContainerStatuses"])
async def test_an_image_that_cannot_be_pulled(world: World, site: Site, tmp_path: Path, field: str) -> None:
    made = await begun(world)
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "train:1"'}}
    await world.lab.status(made.pods[1], phase="Pending", **{"containerStatuses": [], field: [container(waiting)]})
    await world.lab.event(made.pods[1], "Failed", 'Failed to pull image "train:1": not found')

    told = await world.intake.told("llm")
    assert (told.job["state"], told.job["reason"]) == ("Pending", "ImagePullBackOff")
    verdict = told.diagnose(tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks) == ("image-pull", [1])


@pytest.mark.parametrize(("log", "cause"), [("", None), (NO_DRIVER, "gpu-not-visible")], ids=["no log", "log"])
async def test_an_init_container_that_fails(
    world: World, site: Site, tmp_path: Path, log: str, cause: str | None
) -> None:
    made = await begun(world)
    name = made.pods[1]["metadata"]["name"]
    if log:
        await world.server.put_log(name, "check-gpu", log)
    ended = {"exitCode": 3, "reason": "Error", "startedAt": now(-60), "finishedAt": now(), "containerID": "x://1"}
    init = {**container({"terminated": ended}), "name": "check-gpu"}
    waiting = container({"waiting": {"reason": "PodInitializing"}})
    await world.lab.status(
        made.pods[1], phase="Failed", initContainerStatuses=[init], containerStatuses=[waiting],
    )  # fmt: skip

    told = await failed(world, made)
    assert told.job["exit_code"] == 3
    assert "check-gpu:" in told.logs["pods-describe.txt"]
    verdict = told.diagnose(tmp_path)
    if cause:
        assert log.strip() in told.logs[f"gpu-n1/pod.{name}.check-gpu.log"]
        assert (verdict.cause.id, verdict.initiating.hosts) == (cause, ["gpu-n1"])


async def test_a_container_that_is_started_again_and_again_is_told(world: World, site: Site, tmp_path: Path) -> None:
    made = await begun(world)
    name = made.pods[1]["metadata"]["name"]
    await world.server.put_log(name, "pytorch", "ModuleNotFoundError: No module named 'flash_attn'\n", previous=True)
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}}
    ended = {"exitCode": 1, "reason": "Error", "startedAt": now(-60), "finishedAt": now(-5), "containerID": "x://4"}
    status = {**container(waiting), "lastState": {"terminated": ended}, "restartCount": 3}
    await world.lab.status(made.pods[1], phase="Running", containerStatuses=[status])

    told = await world.intake.told("llm")
    assert (told.job["state"], told.job["reason"], told.job["exit_code"]) == ("Failed", "CrashLoopBackOff", 1)
    assert "flash_attn" in told.logs[f"gpu-n1/rank-1.attempt-3.{name}.pytorch.log"]
