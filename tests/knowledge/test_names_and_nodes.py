"""What the names of files and the kernels of nodes tell of ranks that say little themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]

STEPS = "".join(f"2025-05-06 16:00:{step:02d} step {step} loss 0.5\n" for step in range(0, 60, 3))
LOST = (
    "[rank{0}]:[E506 16:01:09.000000000 ProcessGroupNCCL.cpp:1537] [PG 0 (default_pg) Rank {0}] Process group watchdog thread "
    "terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.22.3\n"
)
FAULT = (
    "{0} nova1 kernel: NVRM: Xid (PCI:0000:c4:00): 31, pid={1}, name=python, Ch 00000013, intr 00000000. MMU Fault: ENGINE GRAPHICS "
    "GPC4 GPCCLIENT_T1_9 faulted @ 0x7ef2_c3400000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE\n"
)


def _ranks(silent: int, first_pid: int = 6000) -> dict[str, str]:
    return {
        f"rank_{rank}.out": f"rank {rank} of 8 on nova{rank // 4} pid {first_pid + rank}\n"
        + STEPS
        + ("" if rank == silent else LOST.format(rank))
        for rank in range(8)
    }


def test_a_fault_of_the_process_that_fell_silent_is_why_it_did(verdict: Verdict) -> None:
    told = verdict({**_ranks(silent=6), "nova1.kern.log": FAULT.format("May  6 16:00:58", 6006)})
    assert (told.cause.id, told.initiating.ranks) == ("illegal-memory-access", [6])


@pytest.mark.parametrize(("when", "pid"), [("May  6 16:00:58", 41), ("May  5 11:20:00", 41)])
def test_a_fault_of_a_process_that_is_none_of_the_jobs_ended_no_rank(verdict: Verdict, when: str, pid: int) -> None:
    told = verdict({**_ranks(silent=6), "nova1.kern.log": FAULT.format(when, pid)})
    assert told.cause.id == "killed-unknown"


def test_a_host_before_the_rank_in_a_files_name_is_its_host(verdict: Verdict) -> None:
    logs = {f"ewe{rank // 2}-rank{rank}.log": STEPS + ("" if rank == 3 else LOST.format(rank)) for rank in range(4)}
    assert verdict(logs).initiating.hosts == ["ewe1"]


def test_what_is_the_same_before_all_ranks_is_no_host(verdict: Verdict) -> None:
    logs = {f"gpt2-rank{rank}.log": STEPS + ("" if rank == 3 else LOST.format(rank)) for rank in range(4)}
    assert verdict(logs).initiating.hosts == []


def test_a_local_rank_is_no_rank_where_logs_are_of_several_hosts(verdict: Verdict) -> None:
    failed = (
        "E0823 10:00:01.000000 140211 torch/distributed/elastic/multiprocessing/api.py:833] "
        "failed (exitcode: -11) local_rank: 0 (pid: 31) of binary: /usr/bin/python\n"
    )
    logs = {f"swan{node}/node.log": f"node {node} starts\n" + (failed if node == 2 else "") for node in range(4)}
    assert verdict(logs).initiating.ranks == []
