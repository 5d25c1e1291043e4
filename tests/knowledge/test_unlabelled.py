"""One output of all ranks that does not say who wrote what, as Slurm's is: who failed, where the launcher tells it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]

RAISED = (
    "step 1 loss 2.31\nTraceback (most recent call last):\n"
    '  File "/home/alice/train.py", line 61, in main\n    loss = step(batch)\n'
)
BARE = RAISED + "WidgetError: the widget is bent\n"
ASSERTED = RAISED + "RuntimeError: CUDA error: device-side assert triggered\n"
STOPPED = "srun: error: n1: task 0: Terminated\n"
JOB = {"scheduler": "slurm", "job_id": "12", "state": "FAILED", "nodes": ["n1", "n2"], "world_size": 2}


@pytest.mark.parametrize(("output", "cause"), [(BARE, "app-exception"), (ASSERTED, "index-out-of-range")])
@pytest.mark.parametrize("code", [1, 3])
def test_the_one_task_that_ended_by_itself_raised_it(verdict: Verdict, output: str, cause: str, code: int) -> None:
    ended = f"srun: error: n2: task 1: Exited with exit code {code}\n"
    said = verdict({"n1/slurm-12.out": output + ended + STOPPED}, **JOB)
    assert (said.cause.id, said.initiating.ranks, said.initiating.hosts) == (cause, [1], ["n2"])
    assert ended.strip() in {line.text for line in said.evidence}


def test_of_two_that_ended_by_themselves_none_is_named(verdict: Verdict) -> None:
    ended = "srun: error: n2: task 1: Exited with exit code 1\nsrun: error: n1: task 0: Exited with exit code 1\n"
    said = verdict({"n1/slurm-12.out": BARE + ended}, **JOB)
    assert (said.initiating.ranks, said.initiating.hosts) == ([], [])


@pytest.mark.parametrize("output", [BARE, ASSERTED])
def test_nobody_is_named_for_lying_in_somebodys_folder(verdict: Verdict, output: str) -> None:
    said = verdict({"n1/slurm-12.out": output}, **JOB)
    assert (said.initiating.ranks, said.initiating.hosts) == ([], [])
    assert not said.cause.summary.startswith("Every rank")
    assert any(fact.startswith("Which rank") for fact in said.missing)


def test_every_node_with_an_output_of_its_own_is_told_by_its_folder(verdict: Verdict) -> None:
    said = verdict({"n1/train.out": "step 1 loss 2.31\n", "n2/train.out": ASSERTED}, **JOB)
    assert said.initiating.hosts in (["n2"], [])
    assert said.cause.id == "index-out-of-range"
