"""Pods that cannot start: what no controller calls a failure, and people wait for in vain."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hooks.kubernetes.api import Object
from hooks.kubernetes.ending import Ending, time_of
from hooks.kubernetes.kinds import inside

_WAITING = frozenset(
    "ImagePullBackOff ErrImagePull ErrImageNeverPull InvalidImageName CreateContainerConfigError CreateContainerError "
    "RunContainerError".split()
)


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


def may_be_stuck(pod: Object) -> bool:
    """Whether a pod waits to start."""
    return inside(pod, "status", "phase") == "Pending" and not inside(pod, "metadata", "deletionTimestamp")


def _cannot_start(pod: Object) -> tuple[str, str] | None:
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in inside(pod, "status", field) or ():
            waiting = inside(container, "state", "waiting") or {}
            if waiting.get("reason") in _WAITING:
                return str(waiting["reason"]), str(waiting.get("message") or "")
    return None


def _has_no_node(pod: Object) -> tuple[str, str] | None:
    for condition in inside(pod, "status", "conditions") or ():
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
