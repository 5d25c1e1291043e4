"""Jobs that were stopped and started again, and GPUs that run slowed down."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.diagnosis import Diagnosis, Outcome

Verdict = Callable[..., Diagnosis]

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 1 has a total capacity of 79.10 GiB"
FRAMES = 'Traceback (most recent call last):\n  File "/app/train.py", line 5, in main\n    loss.backward()\n'
FAILED = (
    "E0321 15:03:01.000000 140211 torch/distributed/elastic/multiprocessing/api.py:833] "
    "failed (exitcode: 1) local_rank: 1 (pid: 26) of binary: /usr/bin/python\n"
)


def _steps(first: int, count: int) -> str:
    return "".join(
        f"[rank{step % 2}] 2025-03-21 15:{step // 60:02d}:{step % 60:02d} step {step} loss 0.5\n"
        for step in range(first, first + count)
    )


def test_a_worker_that_its_agent_started_again_ended_nothing(verdict: Verdict) -> None:
    error = "".join(f"[rank1]: {line}\n" for line in (FRAMES + OOM).splitlines())
    done = "[rank0] 2025-03-21 15:04:00 training finished after 70 steps; model written\n"
    told = verdict({"torchrun.log": _steps(0, 20) + error + FAILED + _steps(20, 40) + done})
    assert told.outcome is Outcome.NOT_A_FAILURE


def test_a_worker_that_nobody_started_again_ended_the_job(verdict: Verdict) -> None:
    error = "".join(f"[rank1]: {line}\n" for line in (FRAMES + OOM).splitlines())
    told = verdict({"torchrun.log": _steps(0, 20) + error + FAILED})
    assert (told.cause.id, told.initiating.ranks) == ("gpu-oom", [1])


def test_a_node_that_failed_is_not_why_the_requeued_job_failed(verdict: Verdict) -> None:
    label = "".join(f"{rank}: rank {rank} of 4 on n{rank // 2}\n" for rank in range(4))
    stop = "slurmstepd: error: *** JOB 66 ON n0 CANCELLED AT 2025-03-21T15:00:30 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"
    again = "".join(f"{rank}: 2025-03-21 15:06:00 resumed from step 40\n" for rank in range(4))
    error = "".join(f"3: {line}\n" for line in (FRAMES + OOM).splitlines())
    told = verdict({"66.out": label + "0: 2025-03-21 15:00:00 step 41\n" + stop + label + again + error})
    assert (told.cause.id, told.initiating.ranks) == ("gpu-oom", [3])


def test_ranks_that_say_that_they_met_sigterm_did_not_end_well(verdict: Verdict) -> None:
    steps = "".join(f"2025-03-21 15:00:0{step} step {step} loss 0.5\n" for step in range(9))
    told = verdict({f"rank{rank}.log": steps + "got signal 15, shutting down\n" for rank in range(2)})
    assert (told.cause.id, told.initiating.ranks) == ("terminated", [])
    assert told.missing


def test_a_table_of_clocks_tells_which_gpu_was_slowed_down(verdict: Verdict) -> None:
    header = "timestamp, index, pci.bus_id, temperature.gpu, clocks.sm [MHz], clocks_event_reasons.active\n"
    rows = "".join(
        f"2025/07/08 15:49:22.104, {gpu}, 00000000:{0x1B + gpu:02X}:00.0, {93 if gpu == 3 else 61}, "
        f"{345 if gpu == 3 else 1980} MHz, {'0x0000000000000048' if gpu == 3 else '0x0000000000000004'}\n"
        for gpu in range(8)
    )
    waiting = (
        "[rank{0}]:[E ProcessGroupNCCL.cpp:563] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=31, "
        "OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=120000) ran for 120001 milliseconds before timing out.\n"
    )
    logs = {
        f"rank{rank}.log": f"rank {rank} of 8 on hot1 local rank {rank}\n" + ("" if rank == 3 else waiting.format(rank))
        for rank in range(8)
    }
    told = verdict({"hot1-nvidia-smi.csv": header + rows, **logs})
    assert (told.cause.id, told.initiating.ranks, told.initiating.hosts) == ("gpu-throttled", [3], ["hot1"])


WAITED = (
    "[rank{0}]:[E ProcessGroupNCCL.cpp:563] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={1}, "
    "OpType={2}, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n"
)


def _all_waited(groups: list[tuple[int, str]]) -> dict[str, str]:
    return {
        f"rank{rank}.log": f"rank {rank} of 8 on h{rank // 4}\n" + WAITED.format(rank, *group)
        for rank, group in enumerate(groups)
    }


def test_ranks_that_waited_in_groups_without_a_name_need_not_have_issued_the_same(verdict: Verdict) -> None:
    told = verdict(_all_waited([(511, "ALLREDUCE"), *[(511, "ALLGATHER")] * 5, *[(9120, "ALLREDUCE")] * 2]))
    assert told.cause.id != "collective-mismatch"


def test_the_rank_that_issued_another_collective_is_out_of_step(verdict: Verdict) -> None:
    told = verdict(_all_waited([(511, "ALLREDUCE"), *[(511, "ALLGATHER")] * 7]))
    assert (told.cause.id, told.initiating.ranks) == ("collective-mismatch", [0])


def test_a_rank_that_failed_explains_why_others_waited_in_what_they_were_in(verdict: Verdict) -> None:
    logs = _all_waited([(511, "ALLREDUCE"), *[(511, "ALLGATHER")] * 7])
    logs["rank5.log"] = (
        "rank 5 of 8 on h1\n" + FRAMES + "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    )
    told = verdict(logs)
    assert (told.cause.id, told.initiating.ranks) == ("illegal-memory-access", [5])


def test_the_host_in_front_of_a_managed_services_rank_is_its_host(verdict: Verdict) -> None:
    error = "".join(f"[1,mpirank:3,algo-2]<stderr>:{line}\n" for line in (FRAMES + "KeyError: 'labels'\n").splitlines())
    start = "".join(f"[1,mpirank:{rank},algo-{rank // 2 + 1}]<stdout>:rank {rank} starts\n" for rank in range(4))
    told = verdict({"algo-1-1739": start + error})
    assert (told.initiating.ranks, told.initiating.hosts) == ([3], ["algo-2"])


def test_the_number_of_a_node_in_front_of_its_ranks_is_none_of_theirs(verdict: Verdict) -> None:
    worker = "(worker1, rank=1, pid=2031, ip=10.0.0.5) "
    error = "".join(f"{worker}[rank6]: {line}\n" for line in (FRAMES + OOM).splitlines())
    start = "".join(f"(head, rank=0, pid=3411) [rank{rank}]: ready\n" for rank in range(4))
    told = verdict({"run.log": start + error})
    assert (told.initiating.ranks, told.initiating.hosts) == ([6], ["10.0.0.5"])


LOST_STORAGE = (
    "Mar 13 13:06:30 h0 kernel: Lustre: proj-OST0012-osc-ffff9c1b: Connection to proj-OST0012 (at 10.33.0.18@o2ib) was lost; "
    "in progress operations using this service will wait for recovery to complete\n"
)


def test_storage_that_came_back_after_all_had_given_up_was_still_why(verdict: Verdict) -> None:
    gave_up = (
        "[rank{0}]:[E0313 13:36:00.000000 ProcessGroupNCCL.cpp:607]" + WAITED.split("ProcessGroupNCCL.cpp:563]")[1]
    )
    logs = {
        f"rank{rank}.log": f"rank {rank} of 4 on h{rank // 2}\n"
        + ("saving checkpoint to /lustre/ck/it40\n" if rank == 0 else gave_up.format(rank, 77, "ALLREDUCE"))
        for rank in range(4)
    }
    back = "Mar 13 13:48:10 h0 kernel: Lustre: proj-OST0012-osc-ffff9c1b: Connection restored to 10.33.0.18@o2ib (at 10.33.0.18@o2ib)\n"
    told = verdict({"h0.messages": LOST_STORAGE + back, **logs})
    assert (told.cause.id, told.initiating.ranks) == ("storage-io-error", [0])
    soon = back.replace("13:48:10", "13:06:41")
    assert verdict({"h0.messages": LOST_STORAGE + soon, **logs}).cause.id == "slow-checkpoint"
