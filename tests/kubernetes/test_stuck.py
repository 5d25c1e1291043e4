"""Pods that wait in vain, and pods that merely wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hooks.kubernetes.stuck import looping, may_be_stuck, stuck

NOW = datetime(2026, 11, 5, 3, 12, 7, tzinfo=UTC)


def pod(phase: str, minutes: float, *containers: dict[str, Any], **other: Any) -> dict[str, Any]:
    """A pod that was made so many minutes ago."""
    made = (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"phase": phase, "containerStatuses": list(containers), **other}
    return {"metadata": {"name": "llm-0", "uid": "u", "creationTimestamp": made}, "spec": {}, "status": status}


def waits(reason: str, restarts: int = 0) -> dict[str, Any]:
    return {"name": "main", "restartCount": restarts, "state": {"waiting": {"reason": reason, "message": "so"}}}


UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ([pod("Pending", 11, waits("ImagePullBackOff"))], "ImagePullBackOff"),
        ([pod("Pending", 9, waits("ImagePullBackOff"))], None),
        ([pod("Pending", 11, waits("ContainerCreating"))], None),
        ([pod("Pending", 11, **UNSCHEDULABLE)], None),
        ([pod("Pending", 11, **UNSCHEDULABLE), pod("Running", 11)], "Unschedulable"),
        ([pod("Running", 11)], None),
    ],
)
def test_only_what_waiting_does_not_cure_is_stuck(pods: list[dict[str, Any]], reason: str | None) -> None:
    found = stuck(pods, [], 600, NOW)
    assert (found.reason if found else None) == reason


@pytest.mark.parametrize(
    ("minutes", "restarts", "loops"), [(11, 3, True), (11, 2, False), (9, 3, False)], ids=["loops", "seldom", "young"]
)
def test_what_crashes_again_and_again_for_long_enough_loops(minutes: float, restarts: int, loops: bool) -> None:
    crashing = pod("Running", minutes, waits("CrashLoopBackOff", restarts))
    assert (looping([crashing], 600, NOW) is not None) is loops


@pytest.mark.parametrize(
    ("days", "ran_minutes", "wait", "loops"),
    [
        (2, 22 * 60, "10s", False),
        (2, 1, "10s", False),
        (2, 1, "40s", True),
        (2, 90, "10s", False),
        (0.1, 15, "10s", True),
    ],
    ids=[
        "after a day's run",
        "seldom",
        "often now",
        "after an hour and a half",
        "after a quarter of an hour each time",
    ],
)
def test_what_runs_for_long_between_its_crashes_is_in_no_loop(
    days: float, ran_minutes: float, wait: str, loops: bool
) -> None:
    crashed = waits("CrashLoopBackOff", 3)
    crashed["state"]["waiting"]["message"] = f"back-off {wait} restarting failed container"
    times = {"startedAt": NOW - timedelta(minutes=ran_minutes), "finishedAt": NOW}
    crashed["lastState"] = {"terminated": {"exitCode": 1, **{key: when.isoformat() for key, when in times.items()}}}
    assert (looping([pod("Running", days * 1440, crashed)], 600, NOW) is not None) is loops


def got_its_node(minutes: float) -> dict[str, Any]:
    """The condition of a pod that waited for a node until so many minutes ago."""
    when = (NOW - timedelta(minutes=minutes)).isoformat()
    return {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": when}]}


@pytest.mark.parametrize(("minutes", "found"), [(2, False), (11, True)])
def test_hours_of_waiting_for_a_node_are_no_try_to_start(minutes: float, found: bool) -> None:
    pulls = pod("Pending", 300, waits("ErrImagePull"), **got_its_node(minutes))
    crashes = pod("Running", 300, waits("CrashLoopBackOff", 3), **got_its_node(minutes))
    assert (stuck([pulls], [], 600, NOW) is not None) is found
    assert (looping([crashes], 600, NOW) is not None) is found


@pytest.mark.parametrize(("minutes", "found"), [(2, False), (11, True)])
def test_a_rank_without_a_node_counts_once_others_have_held_theirs_for_long(minutes: float, found: bool) -> None:
    """Nodes of a cluster that grows come one after the other."""
    pods = [pod("Pending", 300, **UNSCHEDULABLE), pod("Running", 300, **got_its_node(minutes))]
    assert (stuck(pods, [], 600, NOW) is not None) is found


@pytest.mark.parametrize(("minutes", "loops"), [(11, False), (29, False), (31, True)])
def test_an_init_container_may_wait_longer_for_what_is_not_there_yet(minutes: float, loops: bool) -> None:
    first = {"name": "wait-for-master", "state": waits("CrashLoopBackOff", 7)["state"], "restartCount": 7}
    main = {"name": "main", "restartCount": 0, "state": {"waiting": {"reason": "PodInitializing"}}}
    it = pod("Pending", minutes, main, initContainerStatuses=[first])
    assert (looping([it], 600, NOW) is not None) is loops


def event(reason: str, minutes: float, field: str = "lastTimestamp") -> dict[str, Any]:
    """An event of the pod, so many minutes ago."""
    when = (NOW - timedelta(minutes=minutes)).isoformat()
    told = {"series": {"lastObservedTime": when}} if field == "series" else {field: when}
    return {"involvedObject": {"kind": "Pod", "uid": "u"}, "reason": reason, "message": reason, **told}


@pytest.mark.parametrize("field", ["lastTimestamp", "eventTime", "series"])
@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([("FailedMount", 14)], "FailedMount"),
        ([("FailedMount", 14), ("Pulling", 13)], None),
        ([("Pulled", 14), ("Created", 14), ("FailedCreatePodSandBox", 1)], "FailedCreatePodSandBox"),
        ([("FailedAttachVolume", 14), ("FailedMount", 2)], "FailedMount"),
    ],
    ids=["mounts in vain", "pulls a large image since", "was restarted and finds no network", "the last counts"],
)
def test_what_went_wrong_before_a_pod_went_on_holds_up_nobody(
    events: list[tuple[str, float]], reason: str | None, field: str
) -> None:
    creating = pod("Pending", 15, waits("ContainerCreating"))
    found = stuck([creating], [event(*each, field) for each in events], 600, NOW)
    assert (found.reason if found else None) == reason


def test_what_is_young_or_being_deleted_need_not_be_looked_at() -> None:
    assert may_be_stuck(pod("Pending", 11), 600, NOW)
    assert may_be_stuck(pod("Running", 11, waits("CrashLoopBackOff")), 600, NOW)
    assert not may_be_stuck(pod("Running", 11), 600, NOW)
    assert not may_be_stuck(pod("Pending", 9), 600, NOW)
    leaving = pod("Pending", 11)
    leaving["metadata"]["deletionTimestamp"] = "2026-11-05T03:12:30Z"
    assert not may_be_stuck(leaving, 600, NOW)


@pytest.mark.parametrize(
    ("phase", "state", "loops"),
    [
        ("Running", {"running": {"startedAt": "2026-11-05T03:00:00Z"}}, False),
        ("Running", {"terminated": {"exitCode": 0}}, True),
        ("Pending", {"waiting": {"reason": "PodInitializing"}}, True),
    ],
    ids=["trains", "has ended", "waits to start"],
)
@pytest.mark.parametrize("field", ["containerStatuses", "initContainerStatuses"])
def test_a_sidecar_may_crash_as_it_likes_while_training_runs(
    phase: str, state: dict[str, Any], loops: bool, field: str
) -> None:
    main = {"name": "pytorch", "restartCount": 0, "state": state}
    sidecar = {**waits("CrashLoopBackOff", 9), "name": "agent"}
    it = pod(phase, 30, main, sidecar) if field == "containerStatuses" else pod(phase, 30, main, **{field: [sidecar]})
    it["spec"] = {"containers": [{"name": "pytorch"}, {"name": "agent"}][: 2 if field == "containerStatuses" else 1]}
    assert (looping([it], 600, NOW) is not None) is loops
    assert may_be_stuck(it, 600, NOW) is loops
