"""When a workload has failed, in its own words."""

from __future__ import annotations

from typing import Any

import pytest

from hooks.kubernetes.ending import ending_of, time_of
from hooks.kubernetes.kinds import KINDS

BY_NAME = {kind.kind: kind for kind in KINDS}


def said(word: str, reason: str = "", at: str = "2026-11-05T03:12:07Z") -> dict[str, Any]:
    return {"conditions": [{"type": word, "status": "True", "reason": reason, "lastTransitionTime": at}]}


def outcome(kind: str, status: dict[str, Any], **metadata: Any) -> str | None:
    item = {
        "metadata": {"name": "llm", "uid": "u", "labels": {"firstfault/watch": "true"}, **metadata},
        "status": status,
    }
    found = ending_of(BY_NAME[kind], item)
    return found.outcome if found else None


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [
        ("Job", said("Failed", "BackoffLimitExceeded"), "failed"),
        ("Job", said("Complete"), "well"),
        ("Job", said("Suspended"), "stopped"),
        ("Job", said("FailureTarget"), "ending"),
        ("Job", {"failed": 1}, None),
        ("JobSet", said("Failed"), "failed"),
        ("JobSet", said("Completed"), "well"),
        ("TrainJob", said("Failed"), "failed"),
        ("TrainJob", said("Complete"), "well"),
        ("PyTorchJob", said("Failed"), "failed"),
        ("PyTorchJob", said("Restarting"), None),
        ("MPIJob", said("Succeeded"), "well"),
        ("RayJob", {"jobStatus": "FAILED", "jobDeploymentStatus": "Complete"}, "failed"),
        ("RayJob", {"jobStatus": "STOPPED", "jobDeploymentStatus": "Complete"}, "well"),
        ("RayJob", {"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"}, None),
        ("VolcanoJob", {"state": {"phase": "Failed"}}, "failed"),
        ("VolcanoJob", {"state": {"phase": "Aborted"}}, "stopped"),
        ("VolcanoJob", {"state": {"phase": "Restarting"}}, None),
        ("Workload", said("Finished", "Failed"), "failed"),
        ("Workload", said("Finished", "Succeeded"), "well"),
        ("Workload", said("Evicted", "Preempted"), "stopped"),
        ("Pod", {"phase": "Failed"}, "failed"),
        ("Pod", {"phase": "Running"}, None),
    ],
)
def test_each_kind_is_taken_at_its_word(kind: str, status: dict[str, Any], expected: str | None) -> None:
    assert outcome(kind, status) == expected


def test_a_condition_that_is_not_true_says_nothing() -> None:
    assert outcome("Job", {"conditions": [{"type": "Failed", "status": "False"}]}) is None


def test_what_a_person_deleted_before_it_failed_was_stopped() -> None:
    assert outcome("PyTorchJob", said("Failed"), deletionTimestamp="2026-11-05T03:12:00Z") == "stopped"


def test_what_had_failed_before_it_was_deleted_failed() -> None:
    assert outcome("Job", said("Failed"), deletionTimestamp="2026-11-05T03:20:00Z") == "failed"


def test_what_failed_in_the_second_of_its_deletion_failed() -> None:
    assert outcome("Job", said("Failed"), deletionTimestamp="2026-11-05T03:12:07Z") == "failed"


@pytest.mark.parametrize(
    ("code", "finished", "expected"),
    [(143, "07", "stopped"), (137, "07", "stopped"), (1, "07", "failed"), (143, "01", "failed")],
)
def test_the_clock_of_a_pod_s_node_may_be_behind(code: int, finished: str, expected: str) -> None:
    ended = {"terminated": {"exitCode": code, "finishedAt": f"2026-11-05T03:12:{finished}Z"}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": ended}]}
    assert outcome("Pod", status, deletionTimestamp="2026-11-05T03:12:10Z") == expected


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", 7])
def test_a_time_that_cannot_be_is_none(at: Any) -> None:
    assert time_of(at) is None
    assert outcome("Job", said("Failed", at=at), deletionTimestamp=at) == "failed"


def test_the_time_for_goodbyes_does_not_count() -> None:
    ended = {"terminated": {"exitCode": 143, "finishedAt": "2026-11-05T03:12:10Z"}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": ended}]}
    deletion = {"deletionTimestamp": "2026-11-05T03:12:30Z", "deletionGracePeriodSeconds": 30}
    assert outcome("Pod", status, **deletion) == "stopped"


def test_a_pod_that_the_platform_took_away_failed() -> None:
    status = {
        "phase": "Failed",
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}],
    }
    assert outcome("Pod", status, deletionTimestamp="2026-11-05T03:12:30Z") == "failed"


@pytest.mark.parametrize(("code", "expected"), [(1, "failed"), (0, "stopped")])
def test_a_sidecar_that_outlives_what_failed_does_not_move_its_end(code: int, expected: str) -> None:
    main = {"name": "main", "state": {"terminated": {"exitCode": code, "finishedAt": "2026-11-05T03:11:00Z"}}}
    beside = {"name": "agent", "state": {"terminated": {"exitCode": 137, "finishedAt": "2026-11-05T03:13:00Z"}}}
    status = {"phase": "Failed", "containerStatuses": [beside, main]}
    spec = {"containers": [{"name": "main"}, {"name": "agent"}]}
    item = {
        "metadata": {
            "name": "llm", "uid": "u", "labels": {"firstfault/watch": "true"},
            "deletionTimestamp": "2026-11-05T03:12:00Z",
        },
        "spec": spec, "status": status,
    }  # fmt: skip
    found = ending_of(BY_NAME["Pod"], item)
    assert found is not None
    assert found.outcome == expected


def test_a_pod_without_the_label_is_not_watched() -> None:
    assert outcome("Pod", {"phase": "Failed"}, labels={}) is None
