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


STOPPED = "W1215 08:00:25.000000 9 torch/distributed/elastic/agent/server/api.py:719] Received Signals.SIGTERM death signal, shutting down workers\n"


def test_an_agent_that_is_stopped_elsewhere_follows_from_the_error_that_a_rank_met(verdict: Verdict) -> None:
    said = verdict({"q-a.log": STOPPED, "q-b.log": ASSERTED + block(4, 0, "q-b", 1)})
    assert (said.cause.id, said.initiating.hosts) == ("index-out-of-range", ["q-b"])


def test_an_error_that_follows_the_stop_does_not_explain_it(verdict: Verdict) -> None:
    said = verdict({"q-a.log": STOPPED + ASSERTED})
    assert said.cause.id == "terminated"


FIRST = "[default0]:step 10 loss 2.1\n[default2]:[rank2]: RuntimeError: CUDA error: unspecified launch failure\n"
FAILED = "E1003 01:07:15.001000 900 elastic/multiprocessing/api.py:882] failed (exitcode: 1) local_rank: 2 (pid: 912) of binary: python3\n"
AGAIN = "[default] Rendezvous complete for workers. Result:\n  restart_count=1\n  master_addr=127.0.0.1\n"
LATER = "[default0]:step 20 loss 2.0\n[default0]:step 30 loss 1.9\n"
WELL = "I1003 01:31:02.100000 900 elastic/agent/server/api.py:879] [default] worker group successfully finished. Waiting 300 seconds\n"


def test_a_job_whose_restarted_workers_finished_did_not_fail(verdict: Verdict) -> None:
    said = verdict({"torchrun.log": FIRST + FAILED + AGAIN + LATER + WELL})
    assert said.outcome == "not-a-failure"


def test_of_two_attempts_that_an_agent_counts_the_last_one_leads(verdict: Verdict) -> None:
    said = verdict({"torchrun.log": FIRST + FAILED + AGAIN + LATER + "[default1]:[rank1]: " + ASSERTED + FAILED})
    assert (said.cause.id, said.initiating.ranks) == ("index-out-of-range", [1])


def test_as_many_errors_as_workers_that_an_agent_lists_are_each_ones_own(verdict: Verdict) -> None:
    missing = "ImportError: flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationE\n"
    listed = block(5, 1, "q-b", 1, first=False) + block(4, 0, "q-b", 1)
    said = verdict({"q-a.log": STOPPED, "q-b.log": 2 * missing + listed})
    assert (said.cause.id, said.initiating.ranks, said.initiating.hosts) == ("library-conflict", [4, 5], ["q-b"])


BLIND = "[default{0}]:[rank{1}]: RuntimeError: No CUDA GPUs are available\n"
WELL_SO_FAR = "[default{0}]:[rank{0}]: step 1 loss 2.0\n"


def test_nodes_are_called_by_their_files_where_nothing_else_names_them(verdict: Verdict) -> None:
    blind = "".join(BLIND.format(local, 4 + local) for local in range(4))
    well = "".join(WELL_SO_FAR.format(local) for local in range(4))
    assert verdict({"ws-9.log": blind, "ws-8.log": well}).initiating.hosts == ["ws-9"]


def test_files_that_are_called_by_something_else_are_no_hosts(verdict: Verdict) -> None:
    blind = "".join(BLIND.format(local, 4 + local) for local in range(4))
    well = "".join(WELL_SO_FAR.format(local) for local in range(4))
    assert verdict({"train-9.log": blind, "train-8.log": well}).initiating.hosts == []
