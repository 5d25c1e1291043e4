"""From a failed workload to what the service is told: facts of the job, and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hooks.kubernetes.api import Object
from hooks.kubernetes.cluster import Workload
from hooks.kubernetes.ending import Ending, disruption
from hooks.kubernetes.kinds import inside
from hooks.kubernetes.logs import PodLogs
from hooks.kubernetes.ranks import Seat, Seating

CHANNEL = "firstfault/slack-channel"
"""The annotation by which a workload says where it is to be told."""
_USERS = ("firstfault/user", "kubeflow.org/owner", "app.kubernetes.io/created-by")
_QUEUES = ("kueue.x-k8s.io/queue-name", "volcano.sh/queue-name", "scheduling.volcano.sh/queue-name")
_LONGEST_NAME = 190


@dataclass(frozen=True, slots=True)
class Crash:
    """A container that ended badly."""

    reason: str
    exit_code: int
    signal: int | None
    finished: str


def job_id(workload: Workload) -> str:
    """The id under which the service knows a workload: its name may come again, its uid does not."""
    return f"{workload.namespace}/{workload.name}"[:_LONGEST_NAME] + f":{workload.uid[:8]}"


def facts(workload: Workload, ending: Ending, seating: Seating) -> dict[str, Any]:
    """The job's facts, as in job.json."""
    item = workload.item
    notes = {**(inside(item, "metadata", "labels") or {}), **(inside(item, "metadata", "annotations") or {})}
    pods = [each.pod for each in seating.seats]
    crash = first_crash(pods)
    started = inside(item, "status", "startTime") or min(
        (start for pod in pods if (start := inside(pod, "status", "startTime"))), default=None
    )
    found: dict[str, Any] = {
        "scheduler": "kubernetes",
        "job_id": job_id(workload),
        "attempt": workload.attempt,
        "name": workload.name,
        "partition": workload.namespace,
        "user": next((str(notes[key]) for key in _USERS if notes.get(key)), None),
        "account": next((str(notes[key]) for key in _QUEUES if notes.get(key)), None),
        "comment": f"slack-channel={notes[CHANNEL]}" if notes.get(CHANNEL) else None,
        "state": "Pending" if ending.outcome == "ending" else "Failed",
        "reason": _reason(ending, crash, pods),
        "exit_code": crash.exit_code if crash else None,
        "signal": crash.signal if crash else None,
        "nodes": seating.nodes,
        "world_size": seating.world_size,
        "ranks_per_node": seating.ranks_per_node,
        "started_at": started,
        "ended_at": _stamp(ending.at),
        "time_limit_seconds": _limit(item),
    }
    return {key: value for key, value in found.items() if value not in (None, "", [])}


def first_crash(pods: Sequence[Object]) -> Crash | None:
    """The container that ended first of those that ended badly; those that were only told to stop come last."""
    crashes = [crash for pod in pods for crash in _crashes(pod)]
    return min(crashes, key=lambda crash: (crash.exit_code == 143, crash.finished or "~"), default=None)


def log_files(seating: Seating, fetched: Mapping[str, PodLogs]) -> Iterator[tuple[str, bytes]]:
    """The pods' logs by the names under which they are sent, packed; those of the lowest ranks first."""
    for seat in seating.seats:
        got = fetched.get(str(seat.pod["metadata"]["uid"]))
        for container, packed in got.logs.items() if got else ():
            yield _log_name(seat, container), packed


def _log_name(seat: Seat, container: str) -> str:
    """`gpu-n17/rank-3.llm-worker-2.pytorch.log`: a rank's number only where the pod holds one rank."""
    main = {each.get("name") for each in inside(seat.pod, "spec", "containers") or ()}
    alone = len(main) == 1 and container.removesuffix(".previous") in main
    if seat.group == "launcher":
        what = "launcher"
    elif seat.number is not None and seat.rank is not None and alone:
        what = f"rank-{seat.rank}"
    else:
        what = "pod"
    return f"{seat.node[:63] or 'no-node'}/{what}.{seat.name[:70]}.{container[:50]}.log"


def _crashes(pod: Object) -> Iterator[Crash]:
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in inside(pod, "status", field) or ():
            for state in ("state", "lastState"):
                ended = inside(container, state, "terminated")
                code = ended.get("exitCode") if ended else None
                if isinstance(code, int) and code != 0:
                    told = ended.get("signal") or (code - 128 if 128 < code < 160 else None)
                    yield Crash(str(ended.get("reason") or ""), code, told, str(ended.get("finishedAt") or ""))


def _reason(ending: Ending, crash: Crash | None, pods: Sequence[Object]) -> str:
    """The word that says most: the platform's on a pod, a container's, else the workload's own."""
    for pod in pods:
        word = inside(pod, "status", "reason")
        if word in ("Evicted", "Preempted", "NodeLost", "UnexpectedAdmissionError", "NodeShutdown"):
            return str(word)
        taken = disruption(pod)
        if taken and taken.get("reason") == "PreemptionByScheduler":
            return "Preempted"
    if crash and crash.reason == "OOMKilled":
        return crash.reason
    return ending.reason


def _limit(item: Object) -> int | None:
    for path in (("spec",), ("spec", "runPolicy")):
        limit = inside(item, *path, "activeDeadlineSeconds")
        if isinstance(limit, int) and limit >= 0:
            return limit
    return None


def _stamp(when: datetime | None) -> str | None:
    return when.isoformat() if when else None
