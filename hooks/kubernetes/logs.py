"""Fetches the logs of a pod's containers before they go."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field

from hooks.kubernetes.api import Api, ApiError, Object
from hooks.kubernetes.excerpt import Excerpt
from hooks.kubernetes.kinds import inside

_LINES = 500_000  # asked for at most, from the end
_READ = 256 << 20  # bytes looked at for each container


@dataclass(slots=True)
class PodLogs:
    """What was got of one pod: packed logs by the container's name, and what could not be had."""

    logs: dict[str, bytes] = field(default_factory=dict)  # gzip, by "container" or "container.previous"
    remarks: list[str] = field(default_factory=list)
    ends: frozenset[str] = frozenset()  # the containers' ends that were seen when they were fetched
    closed: bool = False  # nothing in the pod ran any more: there will be no other

    @property
    def size(self) -> int:
        """Bytes held in memory."""
        return sum(map(len, self.logs.values()))


def ends_of(pod: Object) -> frozenset[str]:
    """Every end of a container that the pod's status still tells, as texts to compare."""
    found = set()
    for container in _statuses(pod):
        for state in ("state", "lastState"):
            ended = inside(container, state, "terminated")
            if ended:
                found.add(f"{container.get('name')}/{ended.get('containerID') or ended.get('finishedAt')}")
    return frozenset(found)


async def fetch(api: Api, pod: Object, budget: int) -> PodLogs:
    """Fetch the logs of all containers of a pod, about `budget` bytes in all, before packing. Never raises ApiError."""
    wanted = list(_wanted(pod))
    got = PodLogs(ends=ends_of(pod), closed=inside(pod, "status", "phase") in ("Failed", "Succeeded"))
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
    for name, previous in wanted:
        query: dict[str, str | int] = {"container": name, "tailLines": _LINES, "timestamps": "true"}
        if previous:
            query["previous"] = "true"
        excerpt = Excerpt(max(64 << 10, budget // len(wanted)))
        try:
            async for piece in api.stream(path, query):
                excerpt.feed(piece)
                if excerpt.read > _READ:
                    got.remarks.append(
                        f"{metadata['name']}: log of {name} is longer than {_READ} bytes; its end is missing"
                    )
                    break
        except ApiError as error:
            got.remarks.append(f"{metadata['name']}: log of {name}{' before its restart' if previous else ''}: {error}")
        if excerpt.read:
            got.logs[f"{name}.previous" if previous else name] = gzip.compress(excerpt.text(), 5)
    return got


def _statuses(pod: Object) -> Iterator[Object]:
    for field_ in ("initContainerStatuses", "containerStatuses"):
        yield from inside(pod, "status", field_) or ()


def _wanted(pod: Object) -> Iterator[tuple[str, bool]]:
    """Containers that have run: their name, and whether the run before the last restart is meant."""
    init = {container.get("name") for container in inside(pod, "status", "initContainerStatuses") or ()}
    for container in _statuses(pod):
        name, state = str(container.get("name")), container.get("state") or {}
        ended = state.get("terminated")
        if name in init and ended and ended.get("exitCode") == 0:
            continue  # it did its part
        if "running" in state or (ended and ended.get("startedAt")):
            yield name, False
        if inside(container, "lastState", "terminated"):
            yield name, True
