"""Which attempt of a requeued job a hook was run for, whatever the timing: Slurm's record may speak of the next one."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

SECOND = 1796026600  # in which the first attempt ended


@pytest.fixture
def spool(hook: Any, settings: Any) -> Any:
    return hook.Spool(settings).prepare()


def clock(seconds: float) -> str:
    """As Slurm writes times: local, without fractions."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(SECOND + seconds))


def ended(hook: Any, seconds: float, node: str = "n1", count: int | None = 1, nodes: str = "n1", **more: str) -> Any:
    """The job as its Epilog sees it on that node, or EpilogSlurmctld where there is no node."""
    env = {"SLURM_JOB_ID": "7", "FIRSTFAULT_BEGAN": f"{SECOND + seconds:.6f}", **more}
    env |= {"SLURM_NODELIST": nodes, "SLURMD_NODENAME": node} if node else {"SLURM_JOB_NODELIST": nodes}
    env |= {} if count is None else {"SLURM_JOB_RESTART_COUNT": str(count)}
    return hook.Job(env, "node" if node else "controller")


def record(hook: Any, job: Any, spool: Any, state: str = "FAILED", **times: float | str) -> Any:
    """Slurm's record after one restart, as the worker for `job` reads it."""
    known = {"SubmitTime": 0.0, "StartTime": 0.0, "EndTime": 0.0, "NodeList": "n1", "Restarts": "1", **times}
    sluid = f"SLUID={known.pop('SLUID')} " if "SLUID" in known else ""
    words = " ".join(f"{key}={value if isinstance(value, str) else clock(value)}" for key, value in known.items())
    view = hook.View.parse(f"JobId=7 {sluid}JobState={state} Reason=NonZeroExitCode ExitCode=4:0 {words}")
    view.attempt = hook.Attempt(job, hook.others_of(job, spool))
    return view


def now(seconds: float = 1) -> float:
    return SECOND + seconds


@pytest.mark.parametrize("node", ["n1", ""])
def test_two_attempts_that_ended_within_one_second_are_told_apart_by_the_order_of_the_hooks(
    hook: Any, spool: Any, node: str
) -> None:
    first, second = ended(hook, 0.2, node), ended(hook, 0.9, node)
    of_first, of_second = record(hook, first, spool), record(hook, second, spool)
    assert of_first.requeued(now())
    assert not of_second.requeued(now())
    first.learn(of_first, True)
    second.learn(of_second, False)
    assert (first.restarts, second.restarts) == (0, 1)


def test_nodes_that_are_one_machine_do_not_count_each_others_hooks(hook: Any, spool: Any) -> None:
    one = ended(hook, 0.2, "n1", nodes="n[1-2]")
    hook.others_of(ended(hook, 0.4, "n2", nodes="n[1-2]"), spool)
    view = record(hook, one, spool, SubmitTime=-60, NodeList="n[1-2]")
    assert not view.requeued(now())


def test_an_attempt_on_other_nodes_is_another_one(hook: Any, spool: Any) -> None:
    assert record(hook, ended(hook, 0.2, "n1"), spool, NodeList="n2").requeued(now())
    assert record(hook, ended(hook, 0.2, ""), spool, NodeList="n2").requeued(now())
    assert not record(hook, ended(hook, 0.2, "n2", nodes="n2"), spool, NodeList="n2", SubmitTime=-1).requeued(now())


@pytest.mark.parametrize(
    ("times", "later"),
    [
        ({"SubmitTime": 1, "StartTime": 12, "EndTime": 12}, True),
        ({"SubmitTime": -13, "StartTime": 0, "EndTime": 0}, False),
        ({"SubmitTime": -3600, "StartTime": -1800, "EndTime": 0}, False),
    ],
)
def test_the_pause_that_slurm_makes_before_the_next_attempt_tells_where_no_other_hook_has_run(
    hook: Any, spool: Any, times: dict[str, Any], later: bool
) -> None:
    view = record(hook, ended(hook, 0.2), spool, **times)
    assert view.requeued(now(20)) is later
    assert not view.doubtful(now(13))


def test_it_waits_for_the_hook_of_the_next_attempt_where_nothing_tells_and_not_for_ever(hook: Any, spool: Any) -> None:
    first = ended(hook, 0.2)
    view = record(hook, first, spool)
    assert view.doubtful(now())
    assert not view.doubtful(now(hook.DOUBT + 1))
    hook.others_of(ended(hook, 0.9), spool)
    assert not view.doubtful(now())
    assert view.requeued(now())


@pytest.mark.parametrize("restarts", ["0", "1"])
def test_a_first_attempt_is_in_no_doubt(hook: Any, spool: Any, restarts: str) -> None:
    view = record(hook, ended(hook, 0.2, count=0), spool, Restarts=restarts)
    assert not view.doubtful(now())
    assert view.requeued(now()) is (restarts == "1")  # by hand, after it had ended


def test_a_record_that_is_completing_is_the_ended_attempts_until_something_says_otherwise(
    hook: Any, spool: Any
) -> None:
    job = ended(hook, 0.2)
    assert not record(hook, job, spool, "COMPLETING").requeued(now())
    assert record(hook, job, spool, "COMPLETING", EndTime="Unknown").requeued(now())
    hook.others_of(ended(hook, 0.9), spool)
    assert record(hook, job, spool, "COMPLETING").requeued(now())


def test_newer_versions_tell_the_hook_which_attempt_it_is(hook: Any, spool: Any) -> None:
    named = ended(hook, 0.2, SLURM_JOB_SLUID="s1AAAA")
    assert record(hook, named, spool, SLUID="s1AAAB").requeued(now())
    assert not record(hook, named, spool, SLUID="s1AAAA").requeued(now())
    timed = ended(hook, 0.2, SLURM_JOB_START_TIME=str(SECOND - 2))
    assert record(hook, timed, None).requeued(now())


def word(hook: Any, spool: Any, arrived: float, state: str, submitted: float) -> None:
    env = {
        "JOBID": "7",
        "JOBSTATE": state,
        "FIRSTFAULT_BEGAN": f"{SECOND + arrived:.6f}",
        "SUBMIT": str(int(now(submitted))),
    }
    job = hook.Job({**env, "START": str(SECOND), "END": str(SECOND)}, "jobcomp")
    spool.put_ending(job, {"state": state, "submitted": job.submitted, "started": job.started, "ended": job.ended})


def test_the_words_of_jobcomp_are_given_to_the_attempts_in_their_order(hook: Any, spool: Any) -> None:
    first, second = ended(hook, 0.2, ""), ended(hook, 0.7, "")
    hook.others_of(first, spool)
    hook.others_of(second, spool)
    assert spool.ending(first) is None
    word(hook, spool, 0.3, "PENDING", -9)
    assert spool.ending(first)["state"] == "PENDING"
    assert spool.ending(second) is None
    word(hook, spool, 0.8, "FAILED", 0)
    assert [spool.ending(job)["state"] for job in (first, second)] == ["PENDING", "FAILED"]


def test_the_time_of_submission_that_jobcomp_is_told_leaves_no_doubt(hook: Any, spool: Any) -> None:
    job = ended(hook, 0.2, "")
    view = record(hook, job, None, SubmitTime=1)
    view.attempt.submitted = float(SECOND)
    assert view.requeued(now())
    view.attempt.submitted = float(SECOND + 1)
    assert not view.requeued(now())


def test_the_reason_of_the_next_attempt_is_not_the_reason_why_this_one_was_put_back(hook: Any, spool: Any) -> None:
    first, second = ended(hook, 0.2), ended(hook, 0.9)
    hook.others_of(second, spool)
    view = record(hook, first, spool)
    verdict, state, reason = hook.judge(hook.Signs(view, view, exit_code="0:0", output="requeue"), now())
    assert (verdict, state, reason) == ("none", "REQUEUED", "")


def test_nor_is_it_where_the_next_attempt_was_seen_on_its_way_out(hook: Any, spool: Any) -> None:
    job = ended(hook, 0.2)
    completing = record(hook, job, spool, "COMPLETING", SubmitTime=1, StartTime=1)
    over = record(hook, job, spool, "FAILED", SubmitTime=1, StartTime=1)
    assert not completing.requeued(now())
    signs = hook.Signs(completing, over, exit_code="0:0", output="")
    assert hook.judge(signs, now()) == ("none", "REQUEUED", "")


def test_an_attempt_with_a_node_of_its_own_is_another_one_even_while_it_completes(hook: Any, spool: Any) -> None:
    job = ended(hook, 0.2, nodes="n[1-2]")
    assert not record(hook, job, spool, "COMPLETING", NodeList="n2").requeued(now())
    assert record(hook, job, spool, "COMPLETING", NodeList="n3").requeued(now())


def test_what_was_taken_from_the_next_attempts_record_is_taken_back(hook: Any, spool: Any) -> None:
    job = ended(hook, 0.2, SLURM_JOB_EXIT_CODE2="0:0")
    job.learn(record(hook, job, spool, "COMPLETING"), False)
    assert (job.restarts, job.exit_code, job.ended) == (1, "4:0", now(0))
    hook.others_of(ended(hook, 0.9), spool)
    job.learn(record(hook, job, spool), True)
    assert (job.restarts, job.exit_code, job.ended) == (0, "0:0", None)


def test_old_marks_are_cleared_away_and_tell_meanwhile_who_is_in_charge(hook: Any, spool: Any) -> None:
    hook.others_of(ended(hook, 0.2, ""), spool)
    assert spool.in_charge("7", now(0))
    assert not spool.in_charge("7", now(1))
    assert not spool.in_charge("70", now(0))
    for path in (Path(spool.folder) / "endings").iterdir():
        os.utime(path, (SECOND, SECOND))
    hook.others_of(ended(hook, 9, ""), spool)
    assert spool.runs(ended(hook, 9, "")) == []
