"""Attempts of a workload: how often it was started again, and which of its pods are of the present one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from hooks.kubernetes.api import Object
from hooks.kubernetes.ending import time_of
from hooks.kubernetes.kinds import Kind, conditions_of, inside, number

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


def began_of(family: Family) -> datetime | None:
    """When the present attempt began, where a controller notes it: one that starts everything anew, or resumes it."""
    kind, item = family[0]
    times = [time_of(inside(item, "status", "startTime")), _since(item, "Suspended", "False")]
    if kind.kind != "Workload":  # pods of their own wait for their place, others are made when they have it
        times += [_since(each, "Admitted", "True") for of, each in family if of.kind == "Workload"]
    return max((each for each in times if each), default=None)


def is_of_attempt(kind: Kind, item: Object, pod: Object, restarts: int, began: datetime | None) -> bool:
    """Whether a pod is of the present attempt of its workload, which was started again `restarts` times."""
    told = _label(kind, pod)
    if told is not None and told < restarts:  # a part that was started again by itself may count further
        return False
    cluster = inside(item, "status", "rayClusterName")
    if cluster and inside(pod, "metadata", "labels", "ray.io/cluster") not in (None, cluster):
        return False
    made = time_of(inside(pod, "metadata", "creationTimestamp"))
    return began is None or made is None or made >= began - _SKEW


def _since(item: Object, kind: str, status: str) -> datetime | None:
    for condition in conditions_of(item):
        if (condition.get("type"), condition.get("status")) == (kind, status):
            return time_of(condition.get("lastTransitionTime"))
    return None


def _counted(kind: Kind, item: Object) -> int:
    counted = number(inside(item, "status", *kind.attempt), 0) if kind.attempt else 0
    if kind.kind == "RayJob":  # it counts failures: the one that ended it is not another start
        ended = inside(item, "status", "jobDeploymentStatus") in ("Failed", "Complete")
        return max(0, counted - 1) if ended else counted
    return counted


def _evictions(item: Object) -> int:
    stats = inside(item, "status", "schedulingStats", "evictions")
    if not isinstance(stats, list):
        return number(inside(item, "status", "requeueState", "count"), 0)
    counted = sum(number(inside(each, "count"), 0) for each in stats)
    ended = inside(item, "spec", "active") is False  # the last one ended it, and began nothing
    return max(0, counted - ended)


def _label(kind: Kind, pod: Object) -> int | None:
    for where in ("labels", "annotations"):
        told = inside(pod, "metadata", where, kind.attempt_label) if kind.attempt_label else None
        if isinstance(told, str) and told.isdecimal() and len(told) <= 7:
            return int(told)
    return None
