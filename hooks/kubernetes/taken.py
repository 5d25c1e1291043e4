"""Pods that the platform took away, and the ones that came in their place where nothing numbers them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from hooks.kubernetes.api import Object
from hooks.kubernetes.kinds import conditions_of, inside

_TAKEN = ("Evicted", "Preempted", "NodeLost", "NodeShutdown", "Terminated", "UnexpectedAdmissionError")


class Placed(Protocol):
    """A pod in its group; `made` is when, as the API writes it."""

    @property
    def pod(self) -> Object: ...
    @property
    def group(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def made(self) -> str: ...


Seated = TypeVar("Seated", bound=Placed)


def taken_at(pod: Object) -> str:
    """When the platform took a pod away, as the API writes it; empty where it did not, or does not say when."""
    told = [
        each for each in conditions_of(pod) if each.get("type") == "DisruptionTarget" and each.get("status") == "True"
    ]
    if not told and inside(pod, "status", "reason") not in _TAKEN:
        return ""
    ends = (
        inside(each, "state", "terminated", "finishedAt") for each in inside(pod, "status", "containerStatuses") or ()
    )
    times = [*(each.get("lastTransitionTime") for each in told), *ends, inside(pod, "metadata", "deletionTimestamp")]
    return next((str(time) for time in times if time), "")


def without_predecessors(seats: Iterable[Seated]) -> list[Seated]:
    """Pods that nothing numbers, without those that were taken away and in whose place a later one of their group was made."""
    inorder: Sequence[Seated] = sorted(seats, key=lambda each: each.made)
    gone: set[str] = set()
    successors: set[str] = set()
    for each in inorder:
        if not (end := taken_at(each.pod)):
            continue
        for other in inorder:
            if other.made >= end and other.group == each.group and other.uid not in {each.uid, *successors}:
                successors.add(other.uid)
                gone.add(each.uid)
                break
    return [each for each in inorder if each.uid not in gone]
