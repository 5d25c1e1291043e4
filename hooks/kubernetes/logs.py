"""Fetches the logs of a pod's containers before they go."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from hooks.kubernetes.api import Api, ApiError, Object
from hooks.kubernetes.ending import time_of
from hooks.kubernetes.excerpt import Excerpt
from hooks.kubernetes.kinds import inside, number

_LINES = 500_000  # asked for at most, from the end
_READ = 256 << 20  # bytes looked at for each run of a container, from the first of those lines
_END = 16 << 20  # about so many bytes are looked at again from the end, where that was not all
_SECONDS = 600.0  # for one log, however slowly it comes
_TIME = 40  # bytes in which a line's time stands, and the space after it
_FIRST_RUNS, _LAST_RUNS = 2, 3  # of one container that are kept

Run = tuple[str, int]
"""A container's name, and how often it had been started again."""


@dataclass(slots=True)
class PodLogs:
    """What was got of one pod: packed logs, and what could not be had."""

    logs: dict[Run, bytes] = field(default_factory=dict)  # gzip
    missing: dict[Run, str] = field(default_factory=dict)  # why
    ends: frozenset[str] = frozenset()  # the containers' ends that were seen when they were fetched
    closed: bool = False  # nothing in the pod ran any more: there will be no other
    open: frozenset[Run] = frozenset()  # they could have gone on, or been followed by another run meanwhile

    @property
    def size(self) -> int:
        """Bytes held in memory."""
        return sum(map(len, self.logs.values()))

    def and_before(self, before: PodLogs) -> PodLogs:
        """Add what was got earlier: what can no longer be had is kept as it was."""
        logs = {**before.logs, **self.logs}
        runs = sorted(logs)
        kept = [run for name in {run[0] for run in runs} for run in _ends([run for run in runs if run[0] == name])]
        missing = {run: why for run, why in {**before.missing, **self.missing}.items() if run not in logs}
        open_ = self.open | (before.open - self.logs.keys())
        return PodLogs({run: logs[run] for run in runs if run in kept}, missing, self.ends, self.closed, open_)


def ends_of(pod: Object) -> frozenset[str]:
    """Every end of a container that the pod's status still tells, as texts to compare."""
    found = set()
    for container in _statuses(pod):
        for state in ("state", "lastState"):
            ended = inside(container, state, "terminated")
            if ended:
                found.add(f"{container.get('name')}/{ended.get('containerID') or ended.get('finishedAt')}")
    return frozenset(found)


async def fetch(api: Api, pod: Object, budget: int, before: PodLogs | None = None) -> PodLogs:
    """Fetch the logs of all containers of a pod, about `budget` bytes in all, before packing. Never raises ApiError.

    Runs that had ended for good when they were fetched `before` are not fetched again.
    """
    wanted = list(wanted_of(pod))
    got = PodLogs(ends=ends_of(pod), closed=inside(pod, "status", "phase") in ("Failed", "Succeeded"))
    if not got.closed:
        got.open = frozenset((name, run) for name, run, previous in wanted if not previous)
    for name, run, previous in wanted:
        if previous and before and (name, run) in before.logs and (name, run) not in before.open:
            continue
        excerpt, why = await _read(api, pod, name, previous, max(64 << 10, budget // len(wanted)))
        if _began_after(excerpt, _end_of(pod, name, previous)):
            excerpt, why = b"", "another run has its place by now"
        if why:
            got.missing[name, run] = why
        if excerpt:
            got.logs[name, run] = await asyncio.to_thread(gzip.compress, excerpt, 5)
    return got


def wanted_of(pod: Object) -> Iterator[tuple[str, int, bool]]:
    """Containers that have run: name, which run, and whether that is the one before the last restart."""
    init = {container.get("name") for container in inside(pod, "status", "initContainerStatuses") or ()}
    for container in _statuses(pod):
        name, state = str(container.get("name")), container.get("state") or {}
        restarts = number(container.get("restartCount"), 0)
        ended = state.get("terminated")
        if name in init and ended and ended.get("exitCode") == 0:
            continue  # it did its part
        runs = "running" in state or bool(ended and ended.get("startedAt"))
        if runs:
            yield name, restarts, False
        if inside(container, "lastState", "terminated"):
            yield name, max(0, restarts - 1) if runs else restarts, True


def _end_of(pod: Object, name: str, previous: bool) -> str | None:
    """When a container ended, the last time or the time before, as the API writes it."""
    state = "lastState" if previous else "state"
    ends = (
        inside(each, state, "terminated", "finishedAt") for each in _statuses(pod) if str(inside(each, "name")) == name
    )
    return next(filter(None, ends), None)


def _began_after(excerpt: bytes, ended: str | None) -> bool:
    """Whether a log begins after the run had ended, both by its node's clock: then it is of a later run of the container,
    or of a pod that has the name by now."""
    end = time_of(ended) if ended else None
    if end is None:
        return False
    first = time_of(excerpt[:_TIME].partition(b" ")[0].decode("ascii", "replace"))
    return first is not None and first > end + timedelta(seconds=1)  # ends are told in whole seconds


async def _read(api: Api, pod: Object, name: str, previous: bool, budget: int) -> tuple[bytes, str]:
    """The decisive part of one log, and why it is not whole; empty where it is."""
    excerpt, why = Excerpt(budget), ""
    try:
        async with asyncio.timeout(_SECONDS):
            if await _feed(api, pod, name, previous, _LINES, excerpt):
                return excerpt.text(), ""
            lines = max(1, excerpt.lines * _END // excerpt.read)
            end = Excerpt(budget // 2)
            await _feed(api, pod, name, previous, lines, end)
            return excerpt.text() + b"[firstfault: lines left out]\n" + end.text(), ""
    except ApiError as error:
        why = str(error)
    except TimeoutError:
        why = f"it did not come within {_SECONDS:.0f} s"
    return excerpt.text(), why


async def _feed(api: Api, pod: Object, name: str, previous: bool, lines: int, excerpt: Excerpt) -> bool:
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
    query: dict[str, str | int] = {"container": name, "tailLines": lines, "timestamps": "true"}
    if previous:
        query["previous"] = "true"
    async for piece in api.stream(path, query):
        excerpt.feed(piece)
        if excerpt.read > _READ:
            return False
    return True


def _statuses(pod: Object) -> Iterator[Object]:
    for field_ in ("initContainerStatuses", "containerStatuses"):
        yield from inside(pod, "status", field_) or ()


def _ends(runs: list[Run]) -> list[Run]:
    return runs if len(runs) <= _FIRST_RUNS + _LAST_RUNS else runs[:_FIRST_RUNS] + runs[-_LAST_RUNS:]
