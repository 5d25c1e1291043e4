"""Attribution: who failed first, and when nobody can be named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge import Diagnosis
from knowledge.diagnosis import Outcome, Role

Verdict = Callable[..., Diagnosis]

FOUR = "".join(f"rank={rank} local_rank={rank} world_size=4 host=n1 pid={100 + rank}\n" for rank in range(4))
CLOSED = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/app/train.py", line 9, in fit\n'
    "[rank{rank}]: RuntimeError: [/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.9]:1234.\n"
)
TIMED_OUT = (
    "[rank{rank}]:[E1203 04:21:09.41 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for 600011 milliseconds before timing out.\n"
    "[rank{rank}]:[E1203 04:21:09.42 ProcessGroupNCCL.cpp:2241] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog "
    "at work sequence id: {seq} PG status: last enqueued work: {enqueued}, last completed work: {completed}\n"
)


def start(rank: int, world: int = 4, host: str = "n1") -> str:
    return f"rank={rank} world_size={world} host={host} pid={100 + rank}\n2026-11-30 08:00:00 step 10 loss 2.1\n"


def closed(rank: int) -> str:
    return start(rank) + CLOSED.format(rank=rank)


def timed_out(
    rank: int, seq: int = 50, op: str = "ALLREDUCE", numel: int = 64, enqueued: int = 51, completed: int = 49
) -> str:
    return start(rank) + TIMED_OUT.format(
        rank=rank, seq=seq, op=op, numel=numel, enqueued=enqueued, completed=completed
    )


def raised(rank: int, exception: str, function: str = "fit") -> str:
    return start(rank) + (
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/app/train.py", line 31, in {function}\n[rank{rank}]: {exception}\n'
    )


def test_an_unknown_exception_is_reported_as_itself(verdict: Verdict) -> None:
    said = verdict(
        {
            "rank-0.log": closed(0),
            "rank-1.log": closed(1),
            "rank-2.log": raised(2, "WidgetError: no widget left"),
            "rank-3.log": closed(3),
        }
    )
    assert said.initiating.ranks == [2]
    assert said.cause.id == "app-exception"
    assert "WidgetError" in said.cause.summary
    assert "no widget left" in said.cause.summary
    assert "train.py:31" in said.cause.summary
    assert said.collateral.ranks == [0, 1, 3]
    assert said.evidence[0].role is Role.ROOT


def test_an_error_that_training_survived_began_nothing(verdict: Verdict) -> None:
    survived = raised(1, "WidgetError: retrying") + "2026-11-30 08:00:09 step 11 loss 2.0\n"
    said = verdict(
        {
            "rank-0.log": closed(0),
            "rank-1.log": survived + CLOSED.format(rank=1),
            "rank-2.log": closed(2),
            "rank-3.log": start(3),
        }
    )
    assert said.initiating.ranks == [3]


def test_the_same_error_on_every_rank_has_no_initiator(verdict: Verdict) -> None:
    said = verdict({f"rank-{rank}.log": raised(rank, "WidgetError: bad setting") for rank in range(4)})
    assert said.initiating.ranks == []
    assert said.initiating.hosts == []
    assert said.outcome is Outcome.FAILED


def test_the_same_error_on_all_ranks_of_one_host_is_that_host(verdict: Verdict) -> None:
    lines = {f"rank-{rank}.log": start(rank, host="n1") + CLOSED.format(rank=rank) for rank in (0, 1)}
    lines |= {
        f"rank-{rank}.log": raised(rank, "ModuleNotFoundError: No module named 'apex'").replace("host=n1", "host=n2")
        for rank in (2, 3)
    }
    said = verdict(lines)
    assert (said.initiating.ranks, said.initiating.hosts) == ([2, 3], ["n2"])
    assert said.cause.id == "import-error"


def test_the_rank_that_never_entered_the_collective_is_the_suspect(verdict: Verdict) -> None:
    logs = {f"rank-{rank}.log": timed_out(rank) for rank in (0, 1, 3)}
    said = verdict(logs | {"rank-2.log": timed_out(2, seq=49, enqueued=49, completed=49)})
    assert said.initiating.ranks == [2]
    assert said.missing, "what the rank was doing is not in the evidence"


def test_the_rank_that_issued_another_collective_is_out_of_step(verdict: Verdict) -> None:
    logs = {f"rank-{rank}.log": timed_out(rank) for rank in (0, 1, 3)}
    said = verdict(logs | {"rank-2.log": timed_out(2, op="BROADCAST", numel=1)})
    assert (said.cause.id, said.initiating.ranks) == ("collective-mismatch", [2])


def test_everybody_waiting_for_the_same_collective_names_nobody(verdict: Verdict) -> None:
    said = verdict({f"rank-{rank}.log": timed_out(rank) for rank in range(4)})
    assert said.initiating.ranks == []
    assert said.cause.id == "collective-timeout"
    assert said.confidence < 0.6
    assert said.missing


def test_the_only_silent_rank_hung_when_the_others_timed_out(verdict: Verdict) -> None:
    said = verdict({"rank-1.log": start(1)} | {f"rank-{rank}.log": timed_out(rank) for rank in (0, 2, 3)})
    assert (said.cause.id, said.initiating.ranks) == ("rank-hang", [1])


def test_a_rank_that_left_by_itself_is_told_from_one_that_hung(verdict: Verdict) -> None:
    said = verdict(
        {"rank-1.log": start(1) + "data exhausted, leaving the loop\n"}
        | {f"rank-{rank}.log": timed_out(rank) for rank in (0, 2, 3)}
    )
    assert (said.cause.id, said.initiating.ranks) == ("silent-exit", [1])


def test_torchrun_shows_the_hung_rank_as_stopped_and_a_waiter_as_root_cause(verdict: Verdict) -> None:
    block = "  host      : n1\n  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: {pid})\n"
    launcher = "".join(block.format(rank=rank, code=-15 if rank == 1 else 1, pid=100 + rank) for rank in (1, 2, 3))
    launcher += "Root Cause (first observed failure):\n" + block.format(rank=0, code=1, pid=100)
    said = verdict(
        {"launcher.log": launcher, "rank-1.log": start(1)} | {f"rank-{rank}.log": timed_out(rank) for rank in (0, 2, 3)}
    )
    assert said.initiating.ranks == [1]


def test_a_process_killed_from_outside_asks_for_the_kernel_log(verdict: Verdict) -> None:
    said = verdict(
        {
            "slurm-1.out": "srun: error: n1: task 2: Killed\nsrun: error: n1: tasks 0-1,3: Terminated\n",
            "rank-2.log": start(2),
        }
        | {f"rank-{rank}.log": closed(rank) for rank in (0, 1, 3)}
    )
    assert (said.cause.id, said.initiating.ranks) == ("killed-unknown", [2])
    assert "kernel log" in said.missing[0]
    assert said.suspect_nodes == []


def test_the_kernels_oom_line_explains_the_kill_and_names_the_rank_by_pid(verdict: Verdict) -> None:
    said = verdict(
        {
            "dmesg-n1.txt": "[Mon Nov 30 08:00:05 2026] Memory cgroup out of memory: Killed process 102 (python) total-vm:9kB, anon-rss:8kB\n",
            "slurm-1.out": "srun: error: n1: task 2: Killed\n",
            "rank-2.log": start(2),
        }
        | {f"rank-{rank}.log": closed(rank) for rank in (0, 1, 3)}
    )
    assert (said.cause.id, said.initiating.ranks, said.initiating.hosts) == ("host-oom", [2], ["n1"])


def test_a_lost_gpu_is_tied_to_its_rank_by_bus_and_suspects_the_node(verdict: Verdict) -> None:
    bus = "n1:10{rank}:1 [{rank}] NCCL INFO comm 0x1 rank {rank} nranks 4 cudaDev {rank} nvmlDev {rank} busId {rank}b000 commId 0x2 - Init START\n"
    logs = {
        f"rank-{rank}.log": start(rank)
        + bus.format(rank=rank)
        + TIMED_OUT.format(rank=rank, seq=5, op="ALLREDUCE", numel=1, enqueued=6, completed=4)
        for rank in (0, 1, 2)
    }
    logs["rank-3.log"] = start(3) + bus.format(rank=3)
    logs["dmesg-n1.txt"] = (
        "[Mon Nov 30 08:00:05 2026] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    )
    said = verdict(logs)
    assert (said.cause.id, said.initiating.ranks, said.suspect_nodes) == ("gpu-lost", [3], ["n1"])


def test_consequence_xids_alone_blame_no_hardware(verdict: Verdict) -> None:
    xid = "[Mon Nov 30 08:00:05 2026] NVRM: Xid (PCI:0000:3b:00): 43, pid=102, name=python, Ch 00000008\n"
    said = verdict(
        {"dmesg-n1.txt": xid, "rank-2.log": raised(2, "WidgetError: x")}
        | {f"rank-{rank}.log": closed(rank) for rank in (0, 1, 3)}
    )
    assert said.cause.layer != "gpu-hardware"
    assert said.initiating.ranks == [2]


def test_barriers_that_name_the_missing_rank_are_believed(verdict: Verdict) -> None:
    said = verdict(
        {
            "rank-0.log": raised(0, "RuntimeError: [Rank 0]: Ranks 2 failed to pass monitoredBarrier in 8000 ms"),
            "rank-2.log": start(2),
        }
        | {f"rank-{rank}.log": closed(rank) for rank in (1, 3)}
    )
    assert said.initiating.ranks == [2]


def test_the_majority_decides_who_differs(verdict: Verdict) -> None:
    text = "RuntimeError: DDP expects same model across all ranks, but Rank {a} has {n} params, while rank {b} has inconsistent {m} params."
    logs = {f"rank-{rank}.log": raised(rank, text.format(a=rank, n=18, b=3, m=24)) for rank in (0, 1, 2)}
    said = verdict(logs | {"rank-3.log": raised(3, text.format(a=3, n=24, b=0, m=18))})
    assert said.initiating.ranks == [3]


@pytest.mark.parametrize(
    ("state", "cause", "outcome"),
    [
        ("TIMEOUT", "time-limit", Outcome.FAILED),
        ("PREEMPTED", "preempted", Outcome.FAILED),
        ("NODE_FAIL", "node-failure", Outcome.FAILED),
        ("CANCELLED by 1001", "cancelled", Outcome.NOT_A_FAILURE),
        ("COMPLETED", "none", Outcome.NOT_A_FAILURE),
    ],
)
def test_the_schedulers_decision_comes_before_what_ranks_say(
    verdict: Verdict, state: str, cause: str, outcome: Outcome
) -> None:
    logs = {f"rank-{rank}.log": closed(rank) for rank in range(3)} | {"rank-3.log": raised(3, "WidgetError: x")}
    said = verdict(logs, scheduler="slurm", job_id="7", state=state)
    assert (said.cause.id, said.outcome) == (cause, outcome)
    assert said.initiating.ranks == []


def test_what_kept_a_job_from_starting_comes_before_that_it_did_not_start(verdict: Verdict) -> None:
    said = verdict(
        {"n3/slurmd.log": "[2026-11-30T08:30:45.512] error: [job 34] prolog failed status=1:0\n"},
        state="LAUNCH_FAILED",
        nodes=["n3"],
    )
    assert (said.cause.id, said.initiating.hosts) == ("prolog-failed", ["n3"])
    assert said.evidence
    assert said.alternatives == []


def test_a_run_silent_long_before_its_time_limit_hung(verdict: Verdict) -> None:
    steps = "".join(f"2026-11-30 08:{minute:02}:00 step {minute} loss 1.0\n" for minute in range(10))
    limit = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-30T08:59:00 DUE TO TIME LIMIT ***\n"
    said = verdict({"slurm-7.out": steps + limit}, state="TIMEOUT")
    assert said.cause.id == "rank-hang"
    busy = "".join(f"2026-11-30 08:{minute:02}:00 step {minute} loss 1.0\n" for minute in range(59))
    assert verdict({"slurm-7.out": busy + limit}, state="TIMEOUT").cause.id == "time-limit"


def test_healthy_logs_raise_no_alarm(verdict: Verdict) -> None:
    said = verdict({f"rank-{rank}.log": start(rank) + "training finished\n" for rank in range(4)})
    assert said.outcome is Outcome.NOT_A_FAILURE
    assert said.cause.id == "none"
    assert said.confidence >= 0.9


def test_logs_that_simply_stop_are_not_called_healthy_with_confidence(verdict: Verdict) -> None:
    said = verdict({f"rank-{rank}.log": start(rank) for rank in range(4)})
    assert said.outcome is Outcome.NOT_A_FAILURE
    assert said.confidence < 0.6
    assert said.missing


def test_a_failed_job_without_a_word_is_unknown_not_healthy(verdict: Verdict) -> None:
    said = verdict({"rank-0.log": start(0)}, scheduler="slurm", state="FAILED", exit_code=1)
    assert (said.outcome, said.cause.id) == (Outcome.FAILED, "unknown")
    assert said.confidence < 0.5
    assert said.missing


def test_the_last_attempt_leads(verdict: Verdict) -> None:
    said = verdict(
        {
            "attempt_0.rank-0.log": raised(0, "WidgetError: first"),
            "attempt_0.rank-1.log": closed(1),
            "attempt_1.rank-0.log": closed(0),
            "attempt_1.rank-1.log": raised(1, "GadgetError: second"),
        }
    )
    assert said.initiating.ranks == [1]
    assert "GadgetError" in said.cause.summary


def test_trouble_after_training_was_done_is_a_teardown(verdict: Verdict) -> None:
    log = (
        start(0)
        + "training finished\n"
        + TIMED_OUT.format(rank=0, seq=9, op="ALLREDUCE", numel=1, enqueued=9, completed=8)
    )
    assert verdict({"train.log": log}).cause.id == "teardown-hang"


def test_every_line_of_evidence_stands_where_it_is_said_to(verdict: Verdict, bundle: Callable[..., object]) -> None:
    files = {
        "rank-0.log": closed(0),
        "rank-1.log": closed(1),
        "rank-2.log": raised(2, "WidgetError: no widget left"),
        "rank-3.log": closed(3),
    }
    said = verdict(files)
    assert said.evidence
    for line in said.evidence:
        assert files[line.source].splitlines()[line.line - 1] == line.text


def test_the_same_failure_has_the_same_fingerprint_on_another_rank_host_and_day(verdict: Verdict) -> None:
    def logs(rank: int, host: str, number: int) -> dict[str, str]:
        text = raised(rank, f"WidgetError: widget {number} at 0x7f{number:06x} in /scratch/job{number}/w").replace(
            "n1", host
        )
        return {f"rank-{other}.log": closed(other) for other in range(4)} | {f"rank-{rank}.log": text}

    one, two = verdict(logs(2, "n1", 17)), verdict(logs(1, "n9", 4242))
    assert one.fingerprint == two.fingerprint
    assert verdict(logs(2, "n1", 17) | {"rank-2.log": raised(2, "GadgetError: x")}).fingerprint != one.fingerprint


def test_secrets_do_not_leave_in_the_verdict(verdict: Verdict) -> None:
    said = verdict(
        {
            "rank-0.log": raised(0, "WidgetError: GET https://bob:hunter2secret@example.test/w failed"),
            "rank-1.log": closed(1),
        }
    )
    assert "hunter2secret" not in said.model_dump_json()


def test_an_error_after_which_the_trainer_logged_on_killed_nobody(verdict: Verdict) -> None:
    caught = (
        "Traceback (most recent call last):\n"
        '  File "/app/train.py", line 9, in fit\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
        "{'loss': 6.41, 'grad_norm': 0.15, 'learning_rate': 0.0003, 'epoch': 0.5}\n"
    )
    broken = CLOSED.format(rank=3).split("RuntimeError")[0] + "ValueError: bad sample\n"
    answer = verdict({
        "rank-0.log": start(0) + caught + CLOSED.format(rank=0),
        "rank-3.log": start(3) + broken,
    })  # fmt: skip
    assert answer.initiating.ranks == [3]
    assert answer.cause.id != "gpu-oom"


def test_an_error_of_which_only_the_beginning_is_left_blames_nobody_for_sure(verdict: Verdict) -> None:
    torn = closed(0)[: closed(0).index("Connection closed")]
    answer = verdict({"rank-0.log": torn, **{f"rank-{rank}.log": closed(rank) for rank in (1, 3)}})
    assert answer.confidence < 0.7
    whole = verdict({"rank-0.log": torn + "\n", **{f"rank-{rank}.log": closed(rank) for rank in (1, 3)}})
    assert whole.confidence > answer.confidence


@pytest.mark.parametrize("tail", ["", "Training finished.\n"])
@pytest.mark.parametrize(
    "quoted",
    [
        "WARNING caught torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB; retrying with a smaller batch",
        'INFO usage: on "CUDA error: an illegal memory access was encountered" set CUDA_LAUNCH_BLOCKING=1',
        "INFO previous attempt: slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
        "generated: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.",
    ],
)
def test_a_healthy_job_that_quotes_an_error_is_healthy(verdict: Verdict, quoted: str, tail: str) -> None:
    def steps(first: int, last: int) -> str:
        return "".join(
            f"2026-11-30 08:00:{step % 60:02} INFO rank 0 step {step} loss 2.0\n" for step in range(first, last)
        )

    log = "rank=0 world_size=1 host=n1 pid=5\n" + steps(0, 40) + quoted + "\n" + steps(40, 90) + tail
    said = verdict({"train.log": log})
    assert (said.outcome, said.cause.id) == (Outcome.NOT_A_FAILURE, "none")
