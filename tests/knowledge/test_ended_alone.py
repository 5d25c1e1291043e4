"""Ranks that end without an error of their own: by a signal that nobody explains, or by leaving."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]

LOST = "RuntimeError: [/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.9]:1234."
AGENT = (
    "E1130 21:19:51.933000 286 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) local_rank: 1 "
    "(pid: 306) of binary: /usr/bin/python\nRoot Cause (first observed failure):\n[0]:\n  time      : 2026-11-30_21:19:51\n"
    "  host      : hpc-42\n  rank      : 3 (local_rank: 1)\n  exitcode  : {code} (pid: 306)\n"
)
SURVIVORS = {
    f"rank-{rank}.log": f"rank={rank} world_size=4 pid=30{rank}\nstep 4\n[rank{rank}]: {LOST}\n" for rank in (0, 1, 2)
}


def test_a_worker_that_sigterm_ended_before_its_agent_stopped_any_was_stopped_from_outside(verdict: Verdict) -> None:
    said = verdict({**SURVIVORS, "launcher.log": AGENT.format(code=-15)})
    assert (said.cause.id, said.initiating.ranks) == ("terminated", [3])


def test_an_agent_that_was_told_to_stop_names_no_rank(verdict: Verdict) -> None:
    told = "W1130 21:19:50.1 286 torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal, shutting down workers\n"
    said = verdict({"launcher.log": told + AGENT.format(code=-15)})
    assert (said.cause.id, said.initiating.ranks) == ("terminated", [])


def test_a_spawned_process_that_left_by_itself_was_not_killed(verdict: Verdict) -> None:
    said = verdict(
        {"train.log": "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with exit code 7\n"}
    )
    assert (said.cause.id, said.initiating.ranks) == ("silent-exit", [1])
