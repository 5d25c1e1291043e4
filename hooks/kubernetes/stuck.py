"""Pods that cannot start: what no controller calls a failure, and people wait for in vain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from hooks.kubernetes.api import Object
from hooks.kubernetes.ending import Ending, time_of
from hooks.kubernetes.kinds import conditions_of, inside, number
from hooks.kubernetes.ranks import main_container

_WAITING = frozenset(
    "ImagePullBackOff ErrImagePull ErrImageNeverPull InvalidImageName CreateContainerConfigError CreateContainerError "
    "RunContainerError".split()
)
_LOOP = "CrashLoopBackOff"
_OFTEN = 3  # restarts that are no accident
_LONG = 3600.0  # seconds; what runs for longer before it crashes, or crashes less often, is in no loop
_FIRST_WAIT = "back-off 10s "  # after a run that was long enough for what came before to be forgotten


def stuck(
    pods: Sequence[Object], events: Sequence[Object], seconds: float, now: datetime | None = None
) -> Ending | None:
    """Say so when a pod has tried to start for longer than `seconds`, for a reason that waiting does not cure.

    A pod that finds no node counts only where others of the job run already: to wait for room is no failure, but to
    hold GPUs and wait for a rank that cannot come is.
    """
    moment = now or datetime.now(UTC)
    running = any(inside(pod, "status", "phase") == "Running" for pod in pods)
    for pod in pods:
        since = time_of(inside(pod, "metadata", "creationTimestamp"))
        if inside(pod, "status", "phase") != "Pending" or since is None or inside(pod, "metadata", "deletionTimestamp"):
            continue
        if (moment - since).total_seconds() < seconds:
            continue
        found = _cannot_start(pod) or _cannot_mount(pod, events) or (_has_no_node(pod) if running else None)
        if found:
            return Ending("ending", *found, moment)
    return None


def looping(pods: Sequence[Object], seconds: float, now: datetime | None = None) -> Ending | None:
    """Say so when a pod older than `seconds` ends and is started again, over and over: nobody may ever give it up."""
    moment = now or datetime.now(UTC)
    for pod in pods:
        since = time_of(inside(pod, "metadata", "creationTimestamp"))
        if since is None or (moment - since).total_seconds() < seconds or inside(pod, "metadata", "deletionTimestamp"):
            continue
        for container in _holding_up(pod):
            waiting = inside(container, "state", "waiting") or {}
            restarts = number(container.get("restartCount"), 0)
            if waiting.get("reason") != _LOOP or restarts < _OFTEN or _ran(container) > _LONG:
                continue
            seldom = (moment - since).total_seconds() / restarts > _LONG
            if not (seldom and str(waiting.get("message") or "").startswith(_FIRST_WAIT)):
                return Ending("failed", _LOOP, str(waiting.get("message") or ""), moment)
    return None


def may_be_stuck(pod: Object, seconds: float, now: datetime | None = None) -> bool:
    """Whether a pod older than `seconds` waits to start, or to start again."""
    since = time_of(inside(pod, "metadata", "creationTimestamp"))
    young = since is None or ((now or datetime.now(UTC)) - since).total_seconds() < seconds
    if young or inside(pod, "metadata", "deletionTimestamp"):
        return False
    waits = (inside(container, "state", "waiting", "reason") == _LOOP for container in _holding_up(pod))
    return inside(pod, "status", "phase") == "Pending" or any(waits)


def _ran(container: Object) -> float:
    """Seconds for which a container ran the last time; 0 where it is not told."""
    began, ended = (time_of(inside(container, "lastState", "terminated", each)) for each in ("startedAt", "finishedAt"))
    return (ended - began).total_seconds() if began and ended else 0.0


def _cannot_start(pod: Object) -> tuple[str, str] | None:
    for container in _statuses(pod):
        waiting = inside(container, "state", "waiting") or {}
        if waiting.get("reason") in _WAITING:
            return str(waiting["reason"]), str(waiting.get("message") or "")
    return None


def _statuses(pod: Object) -> Iterator[Object]:
    for field in ("initContainerStatuses", "containerStatuses"):
        yield from inside(pod, "status", field) or ()


def _holding_up(pod: Object) -> Iterator[Object]:
    """The containers without which nothing goes on: while the one that trains runs, what serves it may crash as it likes."""
    main = main_container(pod)
    statuses = list(_statuses(pod))
    trains = any(inside(each, "name") == main and inside(each, "state", "running") is not None for each in statuses)
    yield from (each for each in statuses if not trains or inside(each, "name") == main)


def _has_no_node(pod: Object) -> tuple[str, str] | None:
    for condition in conditions_of(pod):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("reason") or "Unschedulable"), str(condition.get("message") or "")
    return None


def _cannot_mount(pod: Object, events: Sequence[Object]) -> tuple[str, str] | None:
    for event in events:
        if event.get("reason") in ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox") and (
            inside(event, "involvedObject", "uid") == pod["metadata"]["uid"]
        ):
            return str(event["reason"]), str(event.get("message") or "")
    return None
