"""Folders tell whose files they hold: a host's, where they are hosts, or a rank's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from knowledge import diagnose
from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]

PANIC = "[184050.100000] mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400\n"
WAITED = (
    "[rank{0}]:[E0304 02:22:45.000000123 ProcessGroupNCCL.cpp:616] [PG ID 0 PG GUID 0(default_pg) Rank {0}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=60, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for "
    "600041 milliseconds before timing out.\n"
)


def test_the_folder_of_a_kernel_log_is_the_host_that_it_accuses(verdict: Verdict) -> None:
    files = {f"gpu-n03/rank-{rank}.log": f"step 1\nstep 2\n{WAITED.format(rank)}" for rank in (0, 1)}
    files |= {f"gpu-n04/rank-{rank}.log": "step 1\nstep 2\n" for rank in (2, 3)}
    told = verdict(files | {"gpu-n04/dmesg.log": PANIC})
    assert (told.cause.id, told.initiating.ranks, told.initiating.hosts) == ("host-hardware", [2, 3], ["gpu-n04"])
    assert told.suspect_nodes == ["gpu-n04"]


def test_what_processes_call_their_host_goes_before_the_name_of_the_folder(verdict: Verdict) -> None:
    def start(rank: int) -> str:
        return f"rank {rank} of 4 on hx-{rank // 2}, pid {40 + rank}, local rank {rank % 2}\nstep 1\nstep 2\n"

    files = {f"node{rank // 2}/rank-{rank}.log": start(rank) for rank in range(4)}
    files["node0/rank-0.log"] += WAITED.format(0)
    files["node0/rank-1.log"] += WAITED.format(1)
    told = verdict(files | {"node1/dmesg.log": PANIC})
    assert told.initiating.ranks == [2, 3]


def test_a_folder_for_a_rank_tells_whose_the_files_in_it_are(verdict: Verdict) -> None:
    hurt = "Indexing.cu:1369: indexSelectSmallIndex: block: [9,0,0], thread: [1,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n"
    files = {f"rank{rank}/stderr.log": f"step 1\nstep 2\n{WAITED.format(rank)}" for rank in range(3)}
    told = verdict(files | {"rank3/stderr.log": "step 1\nstep 2\n" + hurt})
    assert (told.cause.id, told.initiating.ranks) == ("index-out-of-range", [3])


TABLE = """Root Cause (first observed failure):
[0]:
  time      : 2026-03-04_02:22:45
  host      : {host}
  rank      : {rank} (local_rank: {local})
  exitcode  : {code} (pid: 40{local})
  error_file: <N/A>
"""
RAISED = '{{"message": {{"message": "{error}", "extraInfo": {{"py_callstack": "", "timestamp": "1790000123"}}}}}}\n'


def test_an_error_file_in_the_folder_of_a_local_rank_is_of_the_rank_that_the_agent_of_its_node_tells(
    verdict: Verdict,
) -> None:
    error = "OutOfMemoryError: CUDA out of memory. Tried to allocate 7.50 GiB."
    files = {
        f"gn{node}/agent.log": TABLE.format(host=f"gn{node}", rank=8 * node + 2, local=2, code=-6) for node in range(4)
    }
    files["gn2/agent.log"] = TABLE.format(host="gn2", rank=21, local=5, code=1)
    told = verdict(files | {"gn2/none_x1/attempt_0/5/error.json": RAISED.format(error=error)})
    assert (told.cause.id, told.initiating.ranks, told.initiating.hosts) == ("gpu-oom", [21], ["gn2"])


def test_folders_of_local_ranks_on_nodes_that_nothing_tells_apart_are_nobodys(verdict: Verdict) -> None:
    error = "OutOfMemoryError: CUDA out of memory. Tried to allocate 7.50 GiB."
    files = {f"none_{run}/attempt_0/{local}/stderr.log": "step 1\nstep 2\n" for run in "ab" for local in range(2)}
    files["none_b/attempt_0/1/stderr.log"] += f"torch.{error}\n"
    told = verdict(files)
    assert (told.cause.id, told.initiating.ranks) == ("gpu-oom", [])


def test_folders_of_local_ranks_on_the_only_node_are_ranks(verdict: Verdict) -> None:
    files = {f"none_a/attempt_0/{local}/stderr.log": "step 1\nstep 2\n" for local in range(4)}
    files["none_a/attempt_0/3/stderr.log"] += (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.50 GiB.\n"
    )
    told = verdict(files)
    assert (told.cause.id, told.initiating.ranks) == ("gpu-oom", [3])


def test_folders_of_attempts_runs_and_collections_are_no_hosts(evidence: Callable[..., object]) -> None:
    for above in ("attempt-1", "run7", "logs2", "kernels", "job-99"):
        read = evidence({f"{above}/rank-0.log": "step 1\n", f"{above}/dmesg.log": PANIC})
        assert {source.host for source in read.sources} == {None}  # type: ignore[attr-defined]


def test_a_link_that_leads_to_itself_is_passed_over(bundle: Callable[..., Path]) -> None:
    case = bundle({"rank-0.log": "[rank0]: Traceback (most recent call last):\n[rank0]: ValueError: x\n"})
    (case / "logs" / "latest.log").symlink_to("latest.log")
    assert diagnose([case]).initiating.ranks == [0]


def test_a_fact_of_the_schedulers_that_makes_no_sense_hides_neither_the_others_nor_the_logs(verdict: Verdict) -> None:
    error = "[rank1]: Traceback (most recent call last):\n[rank1]: ValueError: x\n"
    told = verdict(
        {"rank-1.log": error}, state="FAILED", nodes=["n0", None], started_at="soon", world_size=2, ranks_per_node=1
    )
    assert (told.outcome, told.initiating.ranks) == ("failed", [1])


def test_folders_of_one_stem_that_hold_kernels_logs_are_hosts(verdict: Verdict) -> None:
    files = {f"dgx-{letter}/dmesg": "[1.0] docker0: link becomes ready\n" for letter in "abc"}
    files["dgx-b/dmesg"] = PANIC
    assert verdict(files).initiating.hosts == ["dgx-b"]


def test_folders_of_no_common_stem_that_hold_kernels_logs_are_no_hosts(verdict: Verdict) -> None:
    files = {"before/dmesg": "[1.0] docker0: link becomes ready\n", "after/dmesg": PANIC}
    assert verdict(files).initiating.hosts == []
