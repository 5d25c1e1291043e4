"""What frameworks that train say in one pasted log: Lightning's parent, agents of torchrun, workers of Ray, progress bars."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]

TIMED_OUT = (
    "[E ProcessGroupNCCL.cpp:475] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800612 milliseconds before timing out.\n"
)
ABORTED = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -6) local_rank: 1 (pid: 42) of binary: /opt/bin/python\n"


def _block(rank: int, code: int) -> str:
    return f"  host      : box-a\n  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: {60 + rank})\n"


def test_lightning_tells_which_rank_ended_and_how(verdict: Verdict) -> None:
    log = (
        "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/4\nEpoch 0:  12%|#| 240/2000 [10:11<1:14:43,  0.39it/s]\n"
        "[rank: 2] Child process with PID 40 terminated with code -9. Forcefully terminating all other processes to avoid zombies\n"
        "Killed\n"
    )
    said = verdict({"out.log": log})
    assert (said.outcome, said.cause.id, said.initiating.ranks) == ("failed", "killed-unknown", [2])


def test_some_workers_of_many_that_crashed_are_named(verdict: Verdict) -> None:
    some = _block(6, -11) + "Root Cause (first observed failure):\n" + _block(3, -11)
    assert verdict({"out.log": some}).initiating.ranks == [3, 6]
    all_of_them = _block(1, -11) + "Root Cause (first observed failure):\n" + _block(0, -11)
    assert verdict({"out.log": all_of_them}).initiating.ranks == []


def test_an_abort_is_no_cause_where_processes_say_that_their_time_was_up(verdict: Verdict) -> None:
    log = "".join(map(TIMED_OUT.format, (3, 1, 2))) + ABORTED
    said = verdict({"out.log": log})
    assert (said.cause.id, said.initiating.ranks) == ("collective-timeout", [])
    assert verdict({"out.log": ABORTED}).cause.id == "native-abort"


def test_a_progress_bar_of_nobody_tells_what_the_others_waited_for(verdict: Verdict) -> None:
    bar = "Tokenizing Prompts (num_proc=8):  {0}%|#| {0}/100 [27:48<05:12, 77.4 examples/s]\n"
    waited = "".join(map(TIMED_OUT.format, (1, 2, 3)))
    assert verdict({"out.log": bar.format(84) + waited + ABORTED}).cause.id == "slow-preprocessing"
    assert verdict({"out.log": bar.format(100) + waited + ABORTED}).cause.id == "collective-timeout"
    trained = bar.format(84) + "step 5 loss 2.0\n" + waited + ABORTED
    assert verdict({"out.log": trained}).cause.id == "collective-timeout"


def test_a_worker_of_ray_that_crashed_is_named_by_its_place_in_the_pool(verdict: Verdict) -> None:
    log = (
        "(WorkerDict pid=77) *** SIGFPE received at time=1751900000 on cpu 3 ***\n"
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
        "\tclass_name: create_colocated_worker_cls.<locals>.WorkerDict\n\tpid: 77\n\tname: q7WorkerDict_0:5\n"
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: "
        "Worker unexpectedly exits with a connection error code 2. End of file.\n"
    )
    said = verdict({"out.log": log})
    assert (said.cause.id, said.initiating.ranks) == ("native-abort", [5])


VANISHED = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, "
    "check the logs for the dead worker. RayTask ID: ff Worker ID: 39 Node ID: 1f Worker IP address: 10.0.0.83 "
    "Worker port: 10005 Worker PID: 829 Worker exit type: SYSTEM_ERROR\n"
)


def test_a_process_that_vanished_after_time_was_up_only_gave_up(verdict: Verdict) -> None:
    assert verdict({"out.log": TIMED_OUT.format(1) + VANISHED}).cause.id == "collective-timeout"
    assert verdict({"out.log": TIMED_OUT.format(1) + "Aborted (core dumped)\n"}).cause.id == "collective-timeout"
    assert verdict({"out.log": VANISHED + TIMED_OUT.format(1)}).cause.id == "killed-unknown"


def test_a_checkpoint_that_fits_no_rank_is_not_the_fault_of_who_printed_it(verdict: Verdict) -> None:
    missing = (
        '{0}  File "/opt/torch/distributed/checkpoint/default_planner.py", line 371, in create_default_local_load_plan\n'
        "{0}RuntimeError: Missing key in checkpoint state_dict: optimizer.state.0.step.\n"
    ).format("[rank0]: ")
    log = "[rank0]: torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([0, 1])\n"
    for rank in (0, 1):
        log += f"[rank0]: Traceback (most recent call last): (RANK {rank})\n{missing}"
    said = verdict({"out.log": log})
    assert (said.cause.id, said.initiating.ranks) == ("config-mismatch", [])


def test_megatron_names_the_rank_of_a_value_that_is_no_number_also_outside_of_an_iteration(verdict: Verdict) -> None:
    nan = "RuntimeError: Rank 5, node pod-a, device 5, iteration -1: Unexpected result nan (message='found NaN in local grad norm')\n"
    said = verdict({"out.log": "Traceback (most recent call last):\n" + nan})
    assert (said.cause.id, said.initiating.ranks, said.initiating.hosts) == ("loss-not-finite", [5], ["pod-a"])


def test_an_actor_with_a_number_in_its_name_stands_in_front_of_its_lines(verdict: Verdict) -> None:
    lines = ["Traceback (most recent call last):", '  File "/z/a.py", line 9, in go', "    go()", "ValueError: odd"]
    for head in ("(ActorWorker(actor_train-1) pid=18, ip=10.0.0.82) ", "(VllmWorker TP1 pid=18) "):
        said = verdict({"out.log": "".join(f"{head}{line}\n" for line in lines)})
        assert "raised ValueError: odd" in said.cause.summary
