"""One torchrun agent a node, each with an output of its own in which nobody says who writes."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]


def block(rank: int, local: int, host: str, code: int, first: bool = True) -> str:
    """What torchrun tells of a worker when it gives up."""
    title = "Root Cause (first observed failure):\n[0]:\n" if first else "[1]:\n"
    return (
        f"{title}  time      : 2026-02-14_09:17:58\n  host      : {host}\n  rank      : {rank} (local_rank: {local})\n"
        f"  exitcode  : {code} (pid: {3000 + local})\n  error_file: <N/A>\n"
    )


ASSERTED = "RuntimeError: CUDA error: device-side assert triggered\n"


def test_of_several_agents_the_one_beside_the_error_tells_whose_it_is(verdict: Verdict) -> None:
    waited = "[E ProcessGroupNCCL.cpp:474] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)\n"
    said = verdict({"a/train.log": waited + block(0, 0, "rk-a", -6), "b/train.log": ASSERTED + block(9, 1, "rk-b", -6)})
    assert (said.cause.id, said.initiating.ranks, said.initiating.hosts) == ("index-out-of-range", [9], ["rk-b"])
