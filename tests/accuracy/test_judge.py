"""What counts as right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.accuracy.cases import Truth
from tests.accuracy.judge import judge

TRUTH = Truth(
    outcome="failed", causes=("gpu-lost", "gpu-fault"), ranks=[["3"]], hosts=[["gpu-n1"], []], needs_missing_fact=False
)


def answer(**changes: Any) -> dict[str, Any]:
    """An answer that is right in everything, with `changes`."""
    right = {
        "outcome": "failed",
        "cause": {"id": "gpu-fault"},
        "initiating": {"ranks": [3], "hosts": ["gpu-n1"]},
        "missing": [],
    }
    return right | changes


def test_an_acceptable_cause_with_the_right_rank_and_host_is_right() -> None:
    assert judge(TRUTH, answer()).right


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"outcome": "not-a-failure"}, ["outcome"]),
        ({"cause": {"id": "nccl-error"}}, ["cause"]),
        ({"cause": None}, ["cause"]),
        ({"initiating": {"ranks": [3, 4], "hosts": ["gpu-n1"]}}, ["ranks"]),
        ({"initiating": {"ranks": [], "hosts": ["gpu-n1"]}}, ["ranks"]),
        ({"initiating": {"ranks": [3], "hosts": ["gpu-n2"]}}, ["hosts"]),
        ({"initiating": {"ranks": [3], "hosts": ["gpu-n1", "pod-1", "pod-2"]}}, ["hosts"]),
    ],
)
def test_a_wrong_part_is_told(changes: dict[str, Any], wrong: list[str]) -> None:
    assert judge(TRUTH, answer(**changes)).wrong == wrong


@pytest.mark.parametrize("hosts", [[], ["gpu-n1"], ["gpu-n1", "pod-1"]])
def test_nobody_or_a_second_name_of_the_host_is_right_where_the_truth_allows_it(hosts: list[str]) -> None:
    assert judge(TRUTH, answer(initiating={"ranks": [3], "hosts": hosts})).right


def test_what_cannot_be_decided_must_be_said_to_be_missing() -> None:
    truth = Truth("failed", ("unknown",), "any", "any", needs_missing_fact=True)

    assert judge(truth, answer(cause={"id": "unknown"})).wrong == ["missing"]
    assert judge(truth, answer(cause={"id": "unknown"}, missing=["the kernel log"])).right


def test_of_a_job_that_did_not_fail_only_the_outcome_is_asked() -> None:
    truth = Truth("not-a-failure", ("none",), [[]], "any", needs_missing_fact=False)

    assert judge(truth, answer(outcome="not-a-failure")).right
    assert judge(truth, answer()).wrong == ["outcome", "cause"]
