"""From a failed workload to what the service is told: facts of the job, and files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hooks.kubernetes.api import Object
from hooks.kubernetes.cluster import Workload
from hooks.kubernetes.ending import Ending, disruption, time_of
from hooks.kubernetes.kinds import inside, number
from hooks.kubernetes.ranks import Seat, Seating, main_container, newest
from hooks.kubernetes.telling import one_line

CHANNEL = "firstfault/slack-channel"
"""The annotation by which a workload says where it is to be told."""
_USERS = ("firstfault/user", "kubeflow.org/owner", "app.kubernetes.io/created-by")
_QUEUES = ("kueue.x-k8s.io/queue-name", "volcano.sh/queue-name", "scheduling.volcano.sh/queue-name")
_LONGEST_NAME = 190
_LONGEST_WORD = 300  # characters of anything that is told of a job
_LONGEST_RUN = 10 * 366 * 86400  # seconds
_MOST = (1 << 31) - 1  # that an exit code can be
_SAYS_MORE = ("DeadlineExceeded",)


@dataclass(frozen=True, slots=True)
class Crash:
    """A container that ended badly. One is `aside` when it only serves the one that trains, and `after` when that one had
    ended before: what it ends with then says nothing. One that was begun anew is `superseded` by how that went on."""

    reason: str
    exit_code: int
    signal: int | None
    finished: str
    aside: bool
    after: bool
    superseded: bool


def job_id(workload: Workload) -> str:
    """The id under which the service knows a workload: its name may come again, its uid does not."""
    return f"{workload.namespace}/{workload.name}"[:_LONGEST_NAME] + f":{workload.uid[:8]}"


def facts(workload: Workload, attempt: int, ending: Ending, seating: Seating) -> dict[str, Any]:
    """The job's facts, as in job.json."""
    item = workload.item
    notes = {**(inside(item, "metadata", "labels") or {}), **(inside(item, "metadata", "annotations") or {})}
    pods = [each.pod for each in seating.seats]
    present = [each.pod for each in newest(seating.seats)]
    crash = first_crash(present) or first_crash(pods)
    started = inside(item, "status", "startTime") or min(
        (start for pod in pods if isinstance(start := inside(pod, "status", "startTime"), str)), default=None
    )
    found: dict[str, Any] = {
        "scheduler": "kubernetes",
        "job_id": job_id(workload),
        "attempt": attempt,
        "name": workload.name,
        "partition": workload.namespace,
        "user": _first_of(notes, _USERS),
        "account": _first_of(notes, _QUEUES),
        "comment": f"slack-channel={''.join(channel.split())}" if (channel := _first_of(notes, (CHANNEL,))) else None,
        "state": "Pending" if ending.outcome == "ending" else "Failed",
        "reason": _reason(ending, crash, present),
        "exit_code": crash.exit_code if crash else None,
        "signal": crash.signal if crash else None,
        "nodes": seating.nodes,
        "world_size": seating.world_size,
        "ranks_per_node": seating.ranks_per_node,
        "started_at": _stamp(time_of(started)),
        "ended_at": _stamp(ending.at),
        "time_limit_seconds": _limit(item),
    }
    return {
        key: one_line(value, _LONGEST_WORD) if isinstance(value, str) else value
        for key, value in found.items()
        if value not in (None, "", [])
    }


def _first_of(notes: Object, keys: Sequence[str]) -> str | None:
    """What the first of some labels or annotations says: people write them, and they may be long."""
    return next((told for key in keys if (told := one_line(notes.get(key) or "", _LONGEST_WORD))), None)


def first_crash(pods: Sequence[Object]) -> Crash | None:
    """The container that ended first of those that ended badly; those that were only told to stop, or serve, come last."""
    crashes = [crash for pod in pods for crash in _crashes(pod)]
    return min(crashes, key=_by_telling, default=None)


def _by_telling(crash: Crash) -> tuple[bool, bool, bool, bool, str]:
    return crash.after, crash.exit_code == 143, crash.aside, crash.superseded, crash.finished or "~"


def in_order_of_failing(seats: Sequence[Seat]) -> list[Seat]:
    """Those that failed first come first, those that did not fail last."""
    never = (2, "")

    def when(seat: Seat) -> tuple[tuple[int, str], int]:
        crash = first_crash([seat.pod])
        failed = inside(seat.pod, "status", "phase") == "Failed"
        order = (
            (int(crash.exit_code == 143 or crash.superseded), crash.finished or "~")
            if crash
            else (1, "~")
            if failed
            else never
        )
        return order, seat.number if seat.number is not None else 1 << 21

    return sorted(seats, key=when)


def was_taken(pod: Object, gone: bool) -> bool:
    """Whether a pod went with its node: the platform says so, or it is `gone` and nobody saw its containers end."""
    taken = disruption(pod)
    if taken:
        return taken.get("reason") in ("DeletionByTaintManager", "DeletionByPodGC")
    ended = any(inside(each, "state", "terminated") for each in inside(pod, "status", "containerStatuses") or ())
    return gone and not ended and inside(pod, "status", "phase") == "Running"


def _crashes(pod: Object) -> Iterator[Crash]:
    main = main_container(pod)
    statuses = inside(pod, "status", "containerStatuses") or ()
    ends = [inside(each, "state", "terminated", "finishedAt") for each in statuses if inside(each, "name") == main]
    main_ended = str(next(filter(None, ends), "") or "")
    serving = {
        each.get("name")
        for each in inside(pod, "spec", "initContainers") or ()
        if each.get("restartPolicy") == "Always"
    }
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in inside(pod, "status", field) or ():
            now = inside(container, "state", "terminated")
            over = bool(now) and (field == "initContainerStatuses" or now.get("exitCode") == 0)
            anew = bool(now or inside(container, "state", "running"))
            for state in ("state", "lastState") if not over else ("state",):
                ended = inside(container, state, "terminated")
                code = ended.get("exitCode") if ended else None
                if isinstance(code, int) and code != 0:
                    code = max(-_MOST, min(code, _MOST))
                    told = number(ended.get("signal"), 0) or (code - 128 if 128 < code < 160 else None)
                    name, when = container.get("name"), str(ended.get("finishedAt") or "")
                    aside = name in serving or (field == "containerStatuses" and name != main)
                    after = aside and bool(main_ended) and when >= main_ended
                    superseded = state == "lastState" and anew
                    yield Crash(str(ended.get("reason") or ""), code, told, when, aside, after, superseded)


def _reason(ending: Ending, crash: Crash | None, pods: Sequence[Object]) -> str:
    """The word that says most: the platform's on a pod, a container's, else the workload's own."""
    for pod in pods:
        word = inside(pod, "status", "reason")
        if word in ("Evicted", "Preempted", "NodeLost", "UnexpectedAdmissionError", "NodeShutdown"):
            return str(word)
        taken = disruption(pod)
        if taken and taken.get("reason") == "PreemptionByScheduler":
            return "Preempted"
    if crash and crash.reason == "OOMKilled" and ending.reason not in _SAYS_MORE:
        return crash.reason
    return ending.reason


def _limit(item: Object) -> int | None:
    for path in (("spec",), ("spec", "runPolicy")):
        limit = inside(item, *path, "activeDeadlineSeconds")
        if isinstance(limit, int) and 0 <= limit <= _LONGEST_RUN:
            return limit
    return None


def _stamp(when: datetime | None) -> str | None:
    return when.isoformat() if when else None
