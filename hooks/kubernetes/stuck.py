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
_PATIENCE = 3  # times as long, an init container may fail: most wait for what is not there yet
_WENT_ON = ("Pulling", "Pulled", "Created", "Started")  # events of a pod whose volumes and network are there
_FIRST_WAIT = "back-off 10s "  # after a run that was long enough for what came before to be forgotten


def stuck(
    pods: Sequence[Object], events: Sequence[Object], seconds: float, now: datetime | None = None
) -> Ending | None:
    """Say so when a pod has tried to start for longer than `seconds`, for a reason that waiting does not cure.

    A pod that finds no node counts only where others of the job have run for as long: to wait for room is no failure,
    but to hold GPUs and wait for a rank that cannot come is.
    """
    moment = now or datetime.now(UTC)
    running = [pod for pod in pods if inside(pod, "status", "phase") == "Running"]
    held = any(_tried(pod, moment) >= seconds for pod in running)
    for pod in pods:
        if inside(pod, "status", "phase") != "Pending" or inside(pod, "metadata", "deletionTimestamp"):
            continue
        if _tried(pod, moment) < seconds:
            continue
        found = _cannot_start(pod) or _cannot_mount(pod, events) or (_has_no_node(pod) if held else None)
        if found:
            return Ending("ending", *found, moment)
    return None


def looping(pods: Sequence[Object], seconds: float, now: datetime | None = None) -> Ending | None:
    """Say so when a pod has tried for longer than `seconds`, and ends and is started again, over and over: nobody may
    ever give it up. An init container is given longer."""
    moment = now or datetime.now(UTC)
    for pod in pods:
        tried = _tried(pod, moment)
        if tried < seconds or inside(pod, "metadata", "deletionTimestamp"):
            continue
        first = inside(pod, "status", "initContainerStatuses") or ()
        for container in _holding_up(pod):
            if container in first and tried < _PATIENCE * seconds:
                continue
            waiting = inside(container, "state", "waiting") or {}
            restarts = number(container.get("restartCount"), 0)
            if waiting.get("reason") != _LOOP or restarts < _OFTEN or _ran(container) > _LONG:
                continue
            seldom = tried / restarts > _LONG
            if not (seldom and str(waiting.get("message") or "").startswith(_FIRST_WAIT)):
                return Ending("failed", _LOOP, str(waiting.get("message") or ""), moment)
    return None


def may_be_stuck(pod: Object, seconds: float, now: datetime | None = None) -> bool:
    """Whether a pod older than `seconds` waits to start, or to start again."""
    if _tried(pod, now or datetime.now(UTC)) < seconds or inside(pod, "metadata", "deletionTimestamp"):
        return False
    waits = (inside(container, "state", "waiting", "reason") == _LOOP for container in _holding_up(pod))
    return inside(pod, "status", "phase") == "Pending" or any(waits)


def _tried(pod: Object, moment: datetime) -> float:
    """Seconds for which a pod can have tried to start: since it has its node, or was made. It may have waited long for one."""
    scheduled = (
        each.get("lastTransitionTime")
        for each in conditions_of(pod)
        if (each.get("type"), each.get("status")) == ("PodScheduled", "True")
    )
    told = [inside(pod, "metadata", "creationTimestamp"), inside(pod, "status", "startTime"), *scheduled]
    since = max((when for each in told if (when := time_of(each))), default=moment)
    return (moment - since).total_seconds()


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
    """The last of what went wrong before the first container, unless the pod has come further since."""
    own = [each for each in events if inside(each, "involvedObject", "uid") == pod["metadata"]["uid"]]
    wrong = [
        each for each in own if each.get("reason") in ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox")
    ]
    if not wrong:
        return None
    last = max(wrong, key=_when)
    if any(each.get("reason") in _WENT_ON and _when(each) >= _when(last) for each in own):
        return None
    return str(last["reason"]), str(last.get("message") or "")


def _when(event: Object) -> datetime:
    told = (event.get("lastTimestamp"), inside(event, "series", "lastObservedTime"), event.get("eventTime"))
    return next((when for each in told if (when := time_of(each))), datetime.min.replace(tzinfo=UTC))
