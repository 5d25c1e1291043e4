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


WAITED = (
    "[rank{0}]:[E801 12:15:00.000000000 ProcessGroupNCCL.cpp:685] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=99, OpType=ALLREDUCE, NumelIn=55, NumelOut=55, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n"
)
GONE = "2025-08-01T{0}+00:00 teal1 kernel: NVRM: Xid (PCI:0000:27:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"


@pytest.mark.parametrize(("when", "cause"), [("06:51:00", "collective-timeout"), ("12:04:58", "gpu-lost")])
def test_a_fault_long_before_the_job_is_not_the_jobs_where_the_zone_is_told(
    verdict: Verdict, when: str, cause: str
) -> None:
    logs = {
        f"rank{rank}.log": f"rank {rank} of 8 on teal{rank // 4}\n" + STEPS + WAITED.format(rank) for rank in range(8)
    }
    told = verdict(
        {"journal-teal1.log": GONE.format(when), **logs},
        state="FAILED", nodes=["teal0", "teal1"], world_size=8, ranks_per_node=4, started_at="2025-08-01T11:59:40Z",
        ended_at="2025-08-01T12:15:10Z",
    )  # fmt: skip
    assert told.cause.id == cause


def test_what_made_steps_was_started(verdict: Verdict) -> None:
    steps = "".join(f"kiwi{step % 4}: step {step} loss 0.5\n" for step in range(40))
    ssh = "kiwi2: Connection to kiwi2 closed by remote host.\npdsh@head: kiwi2: ssh exited with exit code 255\n"
    told = verdict({"pdsh.log": steps + ssh})
    assert (told.cause.id, told.initiating.hosts) == ("peer-lost", ["kiwi2"])
    assert verdict({"pdsh.log": "pdsh@head: kiwi2: ssh exited with exit code 255\n"}).cause.id == "launch-failed"
