"""How much a failure matters."""

from __future__ import annotations

import pytest

from bot.routing.severity import Bounds, Severity, severity, world_size
from knowledge.causes import load_causes
from knowledge.diagnosis import Diagnosis, Initiating, Outcome
from knowledge.job import JobFacts

from .rules import collateral, failed, job


def judged(facts: JobFacts, diagnosis: Diagnosis, incidents: int = 1) -> Severity:
    return severity(facts, diagnosis, Bounds(), incidents)[0]


@pytest.mark.parametrize(
    ("cause", "ranks", "expected"),
    [
        ("gpu-lost", 1, Severity.HIGH),  # hardware, however small the job
        ("node-failure", 8, Severity.HIGH),
        ("app-exception", 64, Severity.HIGH),  # many ranks
        ("app-exception", 63, Severity.MEDIUM),
        ("app-exception", 9, Severity.MEDIUM),
        ("app-exception", 8, Severity.LOW),  # somebody's program on one node
        ("config-error", 1, Severity.LOW),
        ("collective-timeout", 8, Severity.MEDIUM),  # may be hardware
        ("app-exception", None, Severity.MEDIUM),  # of unknown size
        ("unknown", 4, Severity.MEDIUM),
        ("cancelled", 4096, Severity.LOW),
        ("preempted", 4096, Severity.LOW),
    ],
)
def test_severity_follows_cause_and_size(cause: str, ranks: int | None, expected: Severity) -> None:
    assert judged(job(world_size=ranks), failed(cause)) is expected


def test_a_job_that_did_not_fail_is_nothing_severe_whatever_was_found() -> None:
    found = failed("gpu-lost").model_copy(update={"outcome": Outcome.NOT_A_FAILURE})
    assert judged(job(world_size=4096), found) is Severity.LOW


def test_a_suspect_node_is_severe_whatever_the_cause() -> None:
    assert judged(job(world_size=2), failed("segfault", suspect_nodes=["gpu-n17"])) is Severity.HIGH


def test_a_storm_is_severe_from_its_fifth_job_on() -> None:
    small = job(world_size=2)
    assert judged(small, failed("app-exception"), incidents=4) is Severity.LOW
    assert judged(small, failed("app-exception"), incidents=5) is Severity.HIGH


def test_a_storm_of_preemptions_is_the_scheduler_at_work() -> None:
    assert judged(job(), failed("preempted"), incidents=500) is Severity.LOW


def test_the_world_size_is_the_schedulers_else_counted() -> None:
    assert world_size(job(world_size=16), failed()) == 16
    assert world_size(job(world_size=None, nodes=["a", "b"], ranks_per_node=8), failed()) == 16
    counted = failed(initiating=Initiating(ranks=[3]), collateral=collateral(15))
    assert world_size(job(world_size=None), counted) == 16
    assert world_size(job(world_size=None), failed()) is None


def test_every_cause_has_a_severity_and_words_for_it() -> None:
    for cause in load_causes():
        rank, why = severity(job(), failed(cause), Bounds())
        assert isinstance(rank, Severity)
        assert why
