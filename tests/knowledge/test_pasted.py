"""One cut log, as people paste it into a report: other bindings, older wordings, the launcher alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]


@pytest.mark.parametrize(
    ("last", "cause"),
    [
        (
            "RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)",
            "config-error",
        ),
        (
            "RuntimeError: Attempting to use the same CUDA device for multiple distinct roles/ranks within the same communicator.",
            "duplicate-gpu",
        ),
        (
            "AssertionError: hidden_size value from checkpoint (4096) is not equal to the input argument value (5120).",
            "config-mismatch",
        ),
        (
            "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect. Timed out task names:",
            "missing-rank",
        ),
    ],
)
def test_messages_in_the_words_of_other_libraries_are_known(verdict: Verdict, last: str, cause: str) -> None:
    traceback = 'Traceback (most recent call last):\n  File "/z/train.py", line 9, in main\n    go()\n'
    assert verdict({"out.log": traceback + last + "\n"}).cause.id == cause


def test_a_killed_command_explains_the_lost_daemon_of_its_pod(verdict: Verdict) -> None:
    lost = (
        "--------\nORTE has lost communication with a remote daemon.\n\n"
        "  HNP daemon   : [[5,0],0] on node bert-launcher\n  Remote daemon: [[5,0],1] on node bert-worker-2\n"
    )
    assert verdict({"launcher.log": lost}).cause.id == "node-failure"
    said = verdict({"launcher.log": "command terminated with exit code 137\n" + lost})
    assert (said.cause.id, said.initiating.hosts) == ("killed-unknown", ["bert-worker-2"])
    assert said.missing


PARENT = (
    "Traceback (most recent call last):\n"
    '  File "/opt/conda/bin/accelerate", line 8, in <module>\n    sys.exit(main())\n'
)


def test_a_killed_child_of_one_launcher_is_a_failure(verdict: Verdict) -> None:
    last = "subprocess.CalledProcessError: Command '['python', 'train.py']' died with <Signals.SIGKILL: 9>.\n"
    said = verdict({"out.log": "step 1 loss 2.0\n" + PARENT + last})
    assert said.cause.id == "killed-unknown"
    assert said.missing


def test_a_child_that_failed_without_a_word_is_no_good_end(verdict: Verdict) -> None:
    last = "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.\n"
    said = verdict({"out.log": "step 1 loss 2.0\n" + PARENT + last})
    assert (said.outcome.value, said.cause.id) == ("failed", "unknown")
    assert said.confidence < 0.5


def test_paddle_tells_which_trainer_was_aborted(verdict: Verdict) -> None:
    abort = (
        "ERROR 2021-05-24 17:17:14,611 launch_utils.py:545] ABORT!!! Out of all 4 trainers, "
        "the trainer process with rank=[3] was aborted. Please check its log.\n"
    )
    said = verdict({"out.log": abort})
    assert (said.cause.id, said.initiating.ranks) == ("silent-exit", [3])
    killed = (
        "SystemError: (Fatal) DataLoader process (pid 11) exited is killed by signal: Killed. (at data_loader.cc:181)\n"
    )
    said = verdict(
        {
            "out.log": 'Traceback (most recent call last):\n  File "/z/train.py", line 3, in main\n    x\n'
            + killed
            + abort
        }
    )
    assert (said.cause.id, said.initiating.ranks) == ("dataloader-worker-killed", [3])


def test_an_exception_about_the_other_side_of_a_connection_is_told_with_doubt(verdict: Verdict) -> None:
    raised = 'Traceback (most recent call last):\n  File "/z/train.py", line 9, in main\n    send()\n'
    sure = verdict({"out.log": raised + "RuntimeError: the reply has no field\n"})
    unsure = verdict({"out.log": raised + "RuntimeError: send failed: Connection reset by peer\n"})
    assert unsure.confidence < 0.6 < sure.confidence
    assert any("other side" in fact for fact in unsure.missing)


def test_ray_names_the_process_that_died(verdict: Verdict) -> None:
    began = "(Trainable pid=18) - (node_id=aa, ip=10.8.0.4, pid=2001) world_rank=0, local_rank=0, node_rank=0\n"
    began += "(Trainable pid=18) - (node_id=bb, ip=10.8.0.5, pid=1442) world_rank=1, local_rank=0, node_rank=1\n"
    died = (
        "2024-02-17 17:21:35,472\tWARNING worker.py:2052 -- A worker died or was killed while executing a task by an unexpected system error. "
        "RayTask ID: ff Worker ID: 0c Node ID: bb Worker IP address: 10.8.0.5 Worker port: 10016 Worker PID: 1442 Worker exit type: SYSTEM_ERROR\n"
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: "
        "Worker unexpectedly exits with a connection error code 2. End of file.\n"
    )
    said = verdict({"driver.log": began + died})
    assert (said.cause.id, said.initiating.ranks) == ("killed-unknown", [1])


def test_work_of_no_named_rank_went_on_while_all_others_waited(verdict: Verdict) -> None:
    waits = "".join(
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:563] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, "
        "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800322 milliseconds before timing out.\n"
        for rank in (3, 1, 2)
    )
    packing = "Generating train split: 633000 examples [30:12, 350.11 examples/s]\n"
    assert verdict({"out.log": waits}).cause.id in ("collective-timeout", "rank-hang")
    said = verdict({"out.log": waits + packing})
    assert (said.cause.id, said.initiating.ranks) == ("slow-preprocessing", [0])


def test_a_traceback_without_its_first_line_is_read(verdict: Verdict) -> None:
    cut = '  File "/z/train.py", line 58, in step\n    table[key]\nKeyError: 17\n'
    said = verdict({"out.log": "step 4 loss 1.0\n" + cut})
    assert (said.outcome.value, said.cause.id) == ("failed", "app-exception")
    frames = '  File "/z/train.py", line 58, in step\n    warnings.warn("x")\nstep 5 loss 1.0\nstep: 6 loss 0.9\ntraining finished\n'
    assert verdict({"out.log": frames}).outcome.value == "not-a-failure"


def test_one_rank_that_waited_tells_of_others(verdict: Verdict) -> None:
    waited = "[rank1]: EI0006: [PID: 12] Getting socket times out. Reason: Remote Rank did not send the data in time.\n"
    said = verdict({"out.log": waited})
    assert (said.outcome.value, said.cause.id, said.initiating.ranks) == ("failed", "collective-timeout", [])
    assert said.missing


def test_ranks_of_one_group_are_compared_though_one_does_not_name_it(verdict: Verdict) -> None:
    def waits(rank: int, numel: int) -> str:
        return (
            f"[rank{rank}]:[E ProcessGroupNCCL.cpp:563] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=37, "
            f"OpType=ALLREDUCE, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for 600057 milliseconds before timing out.\n"
        )

    counted = (
        "[rank1]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 1] Timeout at NCCL work: 37, "
        "last enqueued NCCL work: 37, last completed NCCL work: 36.\n"
    )
    assert verdict({"out.log": waits(0, 4311) + waits(1, 1) + counted}).cause.id == "collective-mismatch"


def test_the_store_that_does_not_answer_is_no_exception_of_the_program(verdict: Verdict) -> None:
    raised = (
        'Traceback (most recent call last):\n  File "/opt/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py", line 155, in make\n'
        "    store = TCPStore(\nRuntimeError: connect() timed out. Original timeout was 60000 ms.\n"
    )
    assert verdict({"out.log": raised}).cause.id == "master-unreachable"


def test_composer_tells_which_rank_ended_by_itself(verdict: Verdict) -> None:
    told = (
        "Global rank 0 (PID 10) exited with code -15\nGlobal rank 1 (PID 11) exited with code 1\n"
        'Traceback (most recent call last):\n  File "/z/main.py", line 20, in main\n    build()\nValueError: the folder is in use\n'
        "Global rank 2 (PID 12) exited with code -15\n"
    )
    said = verdict({"out.log": told})
    assert (said.cause.id, said.initiating.ranks) == ("app-exception", [1])


def test_an_abort_that_only_the_shell_tells_is_a_failure(verdict: Verdict) -> None:
    shell = "./run.sh: line 25: 30673 Aborted                 (core dumped) python3 train.py\n"
    said = verdict({"out.log": "loading\n" + shell})
    assert (said.outcome.value, said.cause.id) == ("failed", "native-abort")
    assert said.confidence < 0.8
    assert said.missing


def test_a_spawned_process_that_only_waited_is_not_blamed(verdict: Verdict) -> None:
    told = (
        "E       -- Process 5 terminated with the following error:\nE       Traceback (most recent call last):\n"
        'E         File "/z/t.py", line 20, in training\nE           item = next(iter(dl))\nE       RuntimeError: Socket Timeout\n'
    )
    assert verdict({"pytest.log": told}).initiating.ranks == []


def test_of_errors_in_one_stream_without_times_the_first_line_leads(verdict: Verdict) -> None:
    def raised(rank: int, message: str) -> str:
        return (
            f'[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "/z/train.py", line 7, in step\n'
            f"[rank{rank}]:     go()\n[rank{rank}]: {message}\n"
        )

    lost = "OSError: [Errno 116] Stale file handle: '/cache/tmp.pid'"
    log = raised(19, lost) + raised(22, "ValueError: the module is empty") + raised(27, lost)
    said = verdict({"out.log": log})
    assert (said.cause.id, said.initiating.ranks) == ("stale-file-handle", [19, 27])


def test_an_engine_that_did_not_start_is_explained_by_its_own_words(verdict: Verdict) -> None:
    engine = "(EngineCore_0 pid=55) ERROR 07-02 09:10:12 [core.py:632] ValueError: No available memory for the cache blocks. Try more.\n"
    waited = (
        '[rank0]: Traceback (most recent call last):\n[rank0]:   File "/z/grpo.py", line 44, in main\n[rank0]:     make()\n'
        "[rank0]: RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    assert verdict({"out.log": engine + waited}).cause.id == "gpu-oom"
    alone = verdict({"out.log": waited})
    assert (alone.outcome.value, alone.cause.id) == ("failed", "unknown")


def test_an_exception_of_the_group_alone_is_no_good_end(verdict: Verdict) -> None:
    raised = 'Traceback (most recent call last):\n  File "/z/t.py", line 4, in main\n    go()\ntorch.distributed.DistStoreError: odd\n'
    said = verdict({"out.log": "step 3 loss 1.0\n" + raised})
    assert (said.outcome.value, said.cause.id) == ("failed", "unknown")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("[1]    48121 killed     python train.py", "killed-unknown"),
        ("RuntimeError: HIP error: invalid device function", "library-conflict"),
        (
            "torch.distributed.DistStoreError: use_libuv was requested but PyTorch was built without libuv support",
            "config-error",
        ),
    ],
)
def test_more_words_of_shells_and_libraries_are_known(verdict: Verdict, line: str, cause: str) -> None:
    assert verdict({"out.log": line + "\n"}).cause.id == cause


def test_an_exit_code_is_explained_by_the_error_that_somebody_told(verdict: Verdict) -> None:
    error = "INTEL MKL ERROR: /opt/lib/libmkl_avx512.so.1: undefined symbol: mkl_sparse_optimize_bsr.\n"
    ended = "E0712 04:11:10.118000 2210 torch/distributed/elastic/api.py:826] failed (exitcode: 2) local_rank: 0 (pid: 2231) of binary: /opt/python\n"
    assert verdict({"out.log": ended}).cause.id == "silent-exit"
    assert verdict({"out.log": error + ended}).cause.id == "library-conflict"


def test_an_exception_in_the_last_line_is_a_failure_though_nothing_else_of_it_was_kept(verdict: Verdict) -> None:
    told = verdict(
        {"paste.txt": "step 1 loss 2.0\nstep 2 loss 2.1\n[rank3]: RuntimeError: synStatus=26 Device acquire failed.\n"}
    )
    assert (told.outcome, told.cause.id, told.initiating.ranks) == ("failed", "app-exception", [3])


def test_an_exception_that_training_went_on_after_is_no_failure(verdict: Verdict) -> None:
    told = verdict(
        {"paste.txt": "step 1 loss 2.0\nRuntimeError: synStatus=26 Device acquire failed.\nstep 2 loss 2.1\n"}
    )
    assert told.outcome == "not-a-failure"


def test_the_process_that_a_jax_barrier_lacked_is_named(verdict: Verdict) -> None:
    told = verdict(
        {
            "paste.txt": "Connecting to JAX distributed service on 10.0.0.4:8476\n"
            "DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]PjRT_Client_Connect::0. This usually happens because a task "
            "triggered the barrier too early or too slowly.\n# of tasks that reached the barrier: 7/8.\n"
            "The first task at the barrier: /job:jax_worker/replica:0/task:0. Some timed out task names:\n"
            "/job:jax_worker/replica:0/task:5\n"
        }
    )
    assert told.initiating.ranks == [5]


@pytest.mark.parametrize(("address", "cause"), [("172.17.0.1", "wrong-interface"), ("10.4.0.12", "connection-blocked")])
def test_an_address_that_every_host_has_is_why_open_mpi_reaches_nobody(
    address: str, cause: str, verdict: Verdict
) -> None:
    told = verdict(
        {
            "paste.txt": "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This\nshould not happen.\n\n"
            f"  Local host: cn-08\n  PID:        22117\n  Message:    connect() to {address}:1040 failed\n"
            "  Error:      Operation now in progress (115)\n"
        }
    )
    assert (told.cause.id, told.initiating.ranks) == (cause, [])
