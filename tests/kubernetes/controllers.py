"""What the controllers of training kinds write, in the shape in which they write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.kubernetes.lab import NAMESPACE, Lab, Object, now

INSTALLED = {
    ("jobset.x-k8s.io", "v1alpha2", "jobsets"): "JobSet",
    ("trainer.kubeflow.org", "v1alpha1", "trainjobs"): "TrainJob",
    ("kubeflow.org", "v1", "pytorchjobs"): "PyTorchJob",
    ("kubeflow.org", "v2beta1", "mpijobs"): "MPIJob",
    ("ray.io", "v1", "rayjobs"): "RayJob",
    ("ray.io", "v1", "rayclusters"): "RayCluster",
    ("batch.volcano.sh", "v1alpha1", "jobs"): "Job",
    ("kueue.x-k8s.io", "v1beta1", "workloads"): "Workload",
}
"""Kinds that these controllers bring."""

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Shape:
    """One kind's workload of a name: who makes whom, and what its status says. Pods stand in the order of their ranks."""

    place: str  # such as jobset.x-k8s.io/v1alpha2/jobsets
    spec: Object
    between: Callable[[str], Sequence[tuple[str, str, Labels]]]  # name → place, name and labels of what it makes
    pods: Callable[[str, Object], Sequence[tuple[str, int, Labels]]]  # → name, maker (0: itself), labels
    running: Object
    failed: Object
    well: Object
    stopped: Object
    world_size: int | None
    rank: int | None = 1  # of the pod that fails
    at: int = 1  # its place among the pods
    reason: str = "BackoffLimitExceeded"
    metadata: Object = field(default_factory=dict)


class Made:
    """A workload that was made, with all that belongs to it."""

    def __init__(self, lab: Lab, shape: Shape, name: str) -> None:
        self.lab, self.shape, self.name = lab, shape, name
        self.item: Object = {}
        self.pods: list[Object] = []
        self._held = False

    async def begin(self) -> Made:
        """Create everything, and let the pods run."""
        self.item = await make(self.lab, self.shape.place, self.name, self.shape.spec, **self.shape.metadata)
        makers = [self.item]
        for place, name, labels in self.shape.between(self.name):
            above = makers[-1] if parts(place)[2] == "jobs" and parts(self.shape.place)[2] == "trainjobs" else self.item
            makers.append(await make(self.lab, place, name, {}, labels=dict(labels), ownerReferences=[owner(above)]))
        await self.says(self.shape.running)
        for node, (name, maker, labels) in enumerate(self.shape.pods(self.name, makers[-1])):
            pod = await self.lab.pod(name, makers[maker] if maker >= 0 else None, labels, f"gpu-n{node}", gpus=1)
            await self.lab.runs(pod)
            self.pods.append(pod)
        return self

    async def says(self, status: Object) -> None:
        """The controller writes the workload's status."""
        path = f"{within(self.shape.place)}/{self.name}/status"
        filled = {key: told(value) for key, value in status.items()}
        await self.lab.call("PATCH", path, {"status": filled})

    async def is_being_deleted(self) -> None:
        """A person deletes it, and a finalizer holds it until its pods are gone."""
        path = f"{within(self.shape.place)}/{self.name}"
        await self.lab.call("PATCH", path, {"metadata": {"finalizers": ["firstfault/tests"]}})
        self._held = True
        await self.lab.call("DELETE", path, propagationPolicy="Background")

    async def vanishes(self) -> None:
        """It is gone, whatever held it."""
        path = f"{within(self.shape.place)}/{self.name}"
        if self._held:
            await self.lab.call("PATCH", path, {"metadata": {"finalizers": None}})
        else:
            await self.lab.call("DELETE", path, propagationPolicy="Background")


async def make(lab: Lab, place: str, name: str, spec: Object, **metadata: Any) -> Object:
    """Create an object of any kind in the namespace of the tests."""
    group, version, _ = parts(place)
    kind = INSTALLED.get(parts(place), "Job")
    if place == "batch/v1/jobs":
        container = {"name": "pytorch", "image": "train:1"}
        spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}, **spec}
    body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
    return await lab.call("POST", within(place), body)


def within(place: str) -> str:
    """The path of a collection in the namespace of the tests."""
    group, version, plural = parts(place)
    return f"/apis/{group}/{version}/namespaces/{NAMESPACE}/{plural}"


def parts(place: str) -> tuple[str, str, str]:
    """Group, version and plural."""
    group, version, plural = place.split("/")
    return group, version, plural


def owner(item: Object) -> Object:
    """The reference by which an object names its controller."""
    return {
        "apiVersion": item["apiVersion"], "kind": item["kind"], "name": item["metadata"]["name"],
        "uid": item["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


def told(value: Any) -> Any:
    """Put the time where NOW stands."""
    if isinstance(value, dict):
        return {key: told(each) for key, each in value.items()}
    if isinstance(value, list):
        return [told(each) for each in value]
    return now() if value == NOW else now(-60) if value == THEN else value


NOW, THEN = "«now»", "«a minute ago»"


def said(kind: str, reason: str, message: str = "", status: str = "True", **other: Any) -> Object:
    """A condition."""
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": NOW, **other}
