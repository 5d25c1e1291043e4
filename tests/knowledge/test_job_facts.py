"""Scheduler facts that cannot be are not believed, and not shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge import Diagnosis
from knowledge.attribution.notation import MOST_NAMED, numbers
from knowledge.job import JobFacts
from tests.knowledge.test_attribution import closed, raised

Verdict = Callable[..., Diagnosis]


@pytest.mark.parametrize("count", [-5, 0, 10**9])
def test_a_job_of_no_or_countless_ranks_is_of_unknown_size(count: int) -> None:
    facts = JobFacts(world_size=count, ranks_per_node=count)

    assert facts.world_size is None
    assert facts.ranks_per_node is None


@pytest.mark.parametrize("count", [-5, 0, 10**9])
def test_the_verdict_rests_on_the_logs_where_the_size_is_absurd(verdict: Verdict, count: int) -> None:
    said = verdict({"rank-0.log": closed(0), "rank-1.log": raised(1, "WidgetError: none")}, world_size=count)

    assert said.initiating.ranks == [1]
    assert said.collateral.ranks == [0, 2, 3]


def test_a_node_is_listed_once() -> None:
    assert JobFacts(nodes=["n1", "n2", "n1"]).nodes == ["n1", "n2"]


def test_a_job_that_ended_before_it_began_has_no_times() -> None:
    wrong = JobFacts.model_validate({"started_at": "2026-11-30T09:00:00Z", "ended_at": "2026-11-30T08:00:00"})
    right = JobFacts.model_validate({"started_at": "2026-11-30T08:00:00Z", "ended_at": "2026-11-30T09:00:00Z"})

    assert wrong.started_at is wrong.ended_at is None
    assert right.started_at is not None


def test_negative_attempts_and_limits_are_no_facts() -> None:
    facts = JobFacts(attempt=-1, time_limit_seconds=-60)

    assert facts.attempt == 0
    assert facts.time_limit_seconds is None


def test_what_could_not_be_read_is_named_as_missing(verdict: Verdict) -> None:
    unread = ["n1: /scratch/7.out: Permission denied", "n2: /var/log/slurm/slurmd.log: Permission denied"]
    said = verdict({"rank-0.log": closed(0), "rank-1.log": raised(1, "WidgetError: none")}, unread=unread)

    assert said.missing[-2:] == [f"What could not be read on {each}." for each in unread]


def test_a_list_of_what_could_not_be_read_is_bounded_and_of_one_line_each() -> None:
    facts = JobFacts(unread=["n1: /a\nb: " + "x" * 1000] * 500)

    assert len(facts.unread) == 20
    assert {len(each) for each in facts.unread} == {300}
    assert facts.unread[0].startswith("n1: /a b: x")


@pytest.mark.parametrize(
    ("text", "ranks"), [("3, 5-7", (3, 5, 6, 7)), ("[3 5]", (3, 5)), ("0 and rank 1", (0, 1)), ("", ())]
)
def test_ranks_are_read_as_lines_write_them(text: str, ranks: tuple[int, ...]) -> None:
    assert numbers(text) == ranks


@pytest.mark.parametrize("text", ["0-131071", "0-999999, 5", ",".join(map(str, range(MOST_NAMED + 1)))])
def test_a_line_that_names_thousands_of_ranks_accuses_nobody(text: str) -> None:
    assert numbers(text) == ()


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", -62135596800, 0])
def test_a_time_that_cannot_be_is_not_known(when: object) -> None:
    assert JobFacts.model_validate({"started_at": when, "ended_at": when}).model_dump()["started_at"] is None
