"""Attempts of a workload: how often it was started again, and which of its pods are of the present one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from hooks.kubernetes.api import Object
from hooks.kubernetes.ending import time_of
from hooks.kubernetes.kinds import Kind, inside, number

Family = Sequence[tuple[Kind, Object]]
_SKEW = timedelta(seconds=5)  # between the clocks of a controller and of the API server


def restarts_of(kind: Kind, family: Family, pods: Sequence[Object]) -> int:
    """How often its own controller started a workload again. Its family is itself and what it made, itself first."""
    if "status" in family[0][1]:
        return max((_counted(each, item) for each, item in family if each is kind or kind.attempt_label), default=0)
    return max((told for pod in pods if (told := _label(kind, pod)) is not None), default=0)  # it may not be read


def evictions_of(family: Family) -> int:
    """How often a queue took its place away and put it back."""
    return sum(_evictions(item) for each, item in family if each.kind == "Workload")


def is_of_attempt(kind: Kind, item: Object, pod: Object, restarts: int) -> bool:
    """Whether a pod is of the present attempt of its workload, which was started again `restarts` times."""
    told = _label(kind, pod)
    if told is not None and told < restarts:  # a part that was started again by itself may count further
        return False
    cluster = inside(item, "status", "rayClusterName")
    if cluster and inside(pod, "metadata", "labels", "ray.io/cluster") not in (None, cluster):
        return False
    # A controller that starts everything anew, after a suspension too, notes when.
    began, made = time_of(inside(item, "status", "startTime")), time_of(inside(pod, "metadata", "creationTimestamp"))
    return began is None or made is None or made >= began - _SKEW


def _counted(kind: Kind, item: Object) -> int:
    counted = number(inside(item, "status", *kind.attempt), 0) if kind.attempt else 0
    if kind.kind == "RayJob":  # it counts failures: the one that ended it is not another start
        ended = inside(item, "status", "jobDeploymentStatus") in ("Failed", "Complete")
        return max(0, counted - 1) if ended else counted
    return counted


def _evictions(item: Object) -> int:
    stats = inside(item, "status", "schedulingStats", "evictions")
    if isinstance(stats, list):
        return sum(number(inside(each, "count"), 0) for each in stats)
    return number(inside(item, "status", "requeueState", "count"), 0)


def _label(kind: Kind, pod: Object) -> int | None:
    for where in ("labels", "annotations"):
        told = inside(pod, "metadata", where, kind.attempt_label) if kind.attempt_label else None
        if isinstance(told, str) and told.isdecimal() and len(told) <= 7:
            return int(told)
    return None
