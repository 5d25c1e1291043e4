"""A cluster whose controllers, scheduler and kubelets are the test itself, on any API server."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import aiohttp

Object = dict[str, Any]
NAMESPACE = "train"
TOKEN = "test-admin-token"


class Server(Protocol):
    """An API server: the stub or a real one."""

    @property
    def url(self) -> str:
        """Where it answers."""

    async def put_log(self, pod: str, container: str, text: str, previous: bool = False) -> None:
        """Have the pod's kubelet answer with this log."""

    async def compact(self) -> None:
        """Forget all history."""

    async def kill(self) -> None:
        """Die at once."""

    async def revive(self) -> None:
        """Come back with what was stored."""


class Lab:
    """What tests do to a cluster."""

    def __init__(self, server: Server, session: aiohttp.ClientSession) -> None:
        self.server = server
        self._session = session

    async def call(self, method: str, path: str, body: Any = None, **query: str) -> Object:
        """Ask the API server as its administrator. Fails the test when it says no."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        url = self.server.url + path
        async with self._session.request(method, url, json=body, headers=headers, params=query, ssl=False) as answer:
            found: Object = await answer.json(content_type=None)
            assert answer.status < 400, f"{method} {path}: {found}"
            return found

    async def create(self, path: str, name: str, spec: Object | None = None, **metadata: Any) -> Object:
        """Create an object in the namespace of the tests; `path` is such as batch/v1/jobs."""
        body: Object = {"metadata": {"name": name, **metadata}, "spec": spec or {}}
        group, version, _ = ("/" + path).rsplit("/", 2)
        body["apiVersion"] = f"{group.strip('/')}/{version}".strip("/")
        body["kind"] = _KINDS[path]
        return await self.call("POST", collection(path), body)

    async def job(self, name: str, pods: int = 1, spec: Object | None = None, **metadata: Any) -> Object:
        """Create a Job that its controller (the test) has not looked at."""
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "pytorch", "image": "train:1"}]}}
        whole = {"completions": pods, "parallelism": pods, "template": template, **(spec or {})}
        return await self.create("batch/v1/jobs", name, whole, **metadata)

    async def pod(
        self,
        name: str,
        owner: Object | None,
        labels: Mapping[str, str],
        node: str = "",
        gpus: int = 0,
        **container: Any,
    ) -> Object:
        """Create a pod, on a node unless it finds none."""
        spec: Object = {
            "restartPolicy": "Never",
            "containers": [{"name": "pytorch", "image": "train:1", **container}],
        }
        if gpus:
            spec["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
        if node:
            spec["nodeName"] = node
        metadata: Object = {"labels": dict(labels)}
        if owner:
            metadata["ownerReferences"] = [
                {
                    "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"], "controller": True,
                }
            ]  # fmt: skip
        return await self.create("v1/pods", name, spec, **metadata)

    async def workers(self, job: Object, number: int, gpus: int = 1) -> list[Object]:
        """Create the pods of an indexed Job, each running on a node of its own."""
        pods = []
        for index in range(number):
            labels = {
                "controller-uid": job["metadata"]["uid"], "job-name": job["metadata"]["name"],
                "batch.kubernetes.io/job-completion-index": str(index),
            }  # fmt: skip
            pod = await self.pod(f"{job['metadata']['name']}-{index}", job, labels, f"gpu-n{index}", gpus)
            await self.runs(pod)
            pods.append(pod)
        return pods

    async def status(self, item: Object, **status: Any) -> Object:
        """Set an object's status, as its controller does."""
        group = item["apiVersion"]
        path = f"{group}/{_PLURALS[item['kind']]}"
        return await self.call("PATCH", f"{collection(path)}/{item['metadata']['name']}/status", {"status": status})

    async def runs(self, pod: Object) -> None:
        """The pod's container started."""
        state = {"running": {"startedAt": now()}}
        await self.status(pod, phase="Running", startTime=now(), containerStatuses=[container(state)])

    async def ends(self, pod: Object, code: int, reason: str = "Error", **status: Any) -> None:
        """The pod's container ended with a code."""
        ended = {"exitCode": code, "reason": reason, "startedAt": now(-60), "finishedAt": now(), "containerID": "x://1"}
        phase = "Failed" if code else "Succeeded"
        await self.status(pod, phase=phase, containerStatuses=[container({"terminated": ended})], **status)

    async def condition(self, item: Object, kind: str, reason: str = "", message: str = "", **status: Any) -> Object:
        """The workload's controller says how it ended."""
        said = {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now()}
        return await self.status(item, conditions=[said], **status)

    async def event(self, about: Object, reason: str, message: str, kind: str = "Warning") -> None:
        """Something was noted about an object."""
        named = about["metadata"]
        body = {
            "apiVersion": "v1", "kind": "Event", "type": kind, "reason": reason, "message": message,
            "metadata": {"name": f"{named['name']}.{time.time_ns():x}"}, "count": 1,
            "involvedObject": {
                "kind": about["kind"], "name": named["name"], "namespace": NAMESPACE, "uid": named["uid"],
            },
            "firstTimestamp": now(), "lastTimestamp": now(),
        }  # fmt: skip
        await self.call("POST", collection("v1/events"), body)

    async def delete(self, item: Object, grace: int = 0) -> None:
        """Delete an object, as a person does."""
        path = f"{collection(item['apiVersion'] + '/' + _PLURALS[item['kind']])}/{item['metadata']['name']}"
        # There is no garbage collector here that would wait for dependants.
        await self.call("DELETE", path, gracePeriodSeconds=str(grace), propagationPolicy="Background")


_KINDS = {
    "v1/pods": "Pod",
    "v1/events": "Event",
    "batch/v1/jobs": "Job",
    "jobset.x-k8s.io/v1alpha2/jobsets": "JobSet",
    "kubeflow.org/v1/pytorchjobs": "PyTorchJob",
}
_PLURALS = {kind: path.rsplit("/", 1)[1] for path, kind in _KINDS.items()}


def collection(path: str) -> str:
    """The path of a collection in the namespace of the tests."""
    group, _, plural = path.rpartition("/")
    root = f"/api/{group}" if "/" not in group else f"/apis/{group}"
    return f"{root}/namespaces/{NAMESPACE}/{plural}"


def container(state: Object) -> Object:
    """A container's status."""
    return {"name": "pytorch", "image": "train:1", "imageID": "", "ready": False, "restartCount": 0, "state": state}


def now(seconds: int = 0) -> str:
    """The time, or one near it, as the API writes it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
