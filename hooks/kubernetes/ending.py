"""Whether a workload failed, by its own word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from hooks.kubernetes.api import Object
from hooks.kubernetes.kinds import Kind, conditions_of, inside, number
from hooks.kubernetes.ranks import main_container

LABEL = "firstfault/watch"
"""On a bare pod, or a RayCluster of its own: watch it."""
_YEARS = range(1971, 9000)  # outside of them, a time was never set, or is a mistake
_SKEW = timedelta(seconds=5)  # between the clocks of a node and of the API server
_TOLD_TO_STOP = (130, 137, 143)  # exit codes of what a signal ended
_DEACTIVATED = "DeactivatedDueTo"
_IN_OTHER_WORDS = {"MaximumExecutionTimeExceeded": "DeadlineExceeded"}

_BY_PLATFORM = ("PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI", "DeletionByPodGC",
                "TerminationByKubelet")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ending:
    """How a workload ended, in its own words."""

    outcome: Literal["failed", "well", "stopped", "ending"]
    reason: str = ""
    message: str = ""
    at: datetime | None = None


def ending_of(kind: Kind, item: Object) -> Ending | None:
    """How it ended; None while it has not. What a person deleted before it failed was stopped, not failed."""
    if kind.only_labelled and not is_labelled(item):
        return None
    status = item.get("status") or {}
    said = list(_words(kind, status))
    if any(word in kind.rules.again for word, _ in said):
        said = []
    for outcome in ("failed", "well", "stopped", "ending"):
        for word, condition in said:
            if word in _words_of(kind, outcome, status):
                ending = Ending(outcome, *_why(kind, status, condition), _when(kind, item, condition))
                return _unless_deleted(kind, item, ending)
    if item.get("metadata", {}).get("deletionTimestamp"):
        return Ending("stopped", "Deleted")
    return None


def deactivation_of(item: Object) -> Ending | None:
    """How a queue ended for good what it had admitted; None where it did not, or a person asked for it."""
    for condition in conditions_of(item):
        reason = str(condition.get("reason") or "")
        if (
            (condition.get("type"), condition.get("status")) == ("Evicted", "True")
            and reason.startswith(_DEACTIVATED)
            and inside(item, "spec", "active") is False
        ):
            why = reason.removeprefix(_DEACTIVATED)
            when = time_of(condition.get("lastTransitionTime"))
            return Ending("failed", _IN_OTHER_WORDS.get(why, why), str(condition.get("message") or ""), when)
    return None


def is_labelled(item: Object) -> bool:
    """Whether somebody asked for this one to be watched."""
    return inside(item, "metadata", "labels", LABEL) in ("true", "yes", "1")


def time_of(text: Any) -> datetime | None:
    """A time as the API writes it; None where it is none, or one with which nobody can reckon."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    if found.year not in _YEARS:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def deleted_at(item: Object) -> datetime | None:
    """When somebody asked for the deletion: the API tells when it must be done at the latest."""
    metadata = item.get("metadata", {})
    due = time_of(metadata.get("deletionTimestamp"))
    grace = metadata.get("deletionGracePeriodSeconds")
    return due - timedelta(seconds=number(grace, 0)) if due else None


def disruption(pod: Object) -> Object | None:
    """The condition by which the platform says that it took the pod away."""
    for condition in conditions_of(pod):
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return dict(condition)
    return None


def _words(kind: Kind, status: Object) -> Iterator[tuple[str, Object]]:
    for field in kind.rules.at:
        if field == "conditions":
            for condition in conditions_of({"status": status}):
                if condition.get("status") == "True":
                    yield f"{condition.get('type')}={condition.get('reason')}", condition
                    yield str(condition.get("type")), condition
        elif word := inside(status, *field.split(".")):
            yield str(word), {}


def _words_of(kind: Kind, outcome: str, status: Object) -> tuple[str, ...]:
    words: tuple[str, ...] = getattr(kind.rules, outcome)
    if kind.rules.aborted and outcome == ("failed" if number(status.get("failed"), 0) else "stopped"):
        return words + kind.rules.aborted
    return words


def _why(kind: Kind, status: Object, condition: Object) -> tuple[str, str]:
    if condition:
        return str(condition.get("reason") or ""), str(condition.get("message") or "")
    return str(inside(status, *kind.rules.reason) or ""), str(inside(status, *kind.rules.message) or "")


def _when(kind: Kind, item: Object, condition: Object) -> datetime | None:
    status = item.get("status") or {}
    told = condition.get("lastTransitionTime") or inside(status, "state", "lastTransitionTime")
    if told is None and kind.kind == "Pod":
        ends = status.get("containerStatuses") or ()
        main = main_container(item)
        bad = [
            each for each in ends if inside(each, "name") == main and inside(each, "state", "terminated", "exitCode")
        ]
        times = (inside(each, "state", "terminated", "finishedAt") for each in bad or ends)
        told = max(filter(None, times), default=None)
    return time_of(told or status.get("completionTime") or status.get("endTime"))


def _unless_deleted(kind: Kind, item: Object, ending: Ending) -> Ending:
    deleted = deleted_at(item)
    if ending.outcome not in ("failed", "ending") or deleted is None:
        return ending
    if ending.at is not None and _came_first(kind, item, ending.at, deleted):
        return ending
    taken = disruption(item) if kind.kind == "Pod" else None
    if taken and taken.get("reason") in _BY_PLATFORM:
        return ending
    return Ending("stopped", "Deleted", ending.message, ending.at)


def _came_first(kind: Kind, item: Object, ended: datetime, deleted: datetime) -> bool:
    """Whether it failed before somebody deleted it. Both times are whole seconds; a pod's end is by its node's clock."""
    if kind.kind != "Pod":
        return ended <= deleted
    statuses = inside(item, "status", "containerStatuses") or ()
    codes = {inside(each, "state", "terminated", "exitCode") for each in statuses} - {0, None}
    told_to_stop = bool(codes) and codes <= {*_TOLD_TO_STOP}
    return ended < (deleted - _SKEW if told_to_stop else deleted)
