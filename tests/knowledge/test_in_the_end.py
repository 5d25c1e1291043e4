"""What looked like the end and was none: warnings that were got over, pods that came back, attempts that went on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge.diagnosis import Diagnosis, Outcome

Verdict = Callable[..., Diagnosis]

TORN = "PytorchStreamReader failed reading zip archive: failed finding central directory"
LIMIT = "slurmstepd: error: *** JOB 51 ON g7 CANCELLED AT 2026-11-12T00:00:04 DUE TO TIME LIMIT ***\n"
STEPS = "".join(f"2026-11-11 23:{minute}:00 step {minute} loss 2.1\n" for minute in range(50, 60))
PODS = "NAME            READY   STATUS      RESTARTS   AGE\nmoe-trainer-0   0/1     {status}   1          9h\n"
EVENTS = "LAST SEEN TYPE REASON OBJECT MESSAGE\n5h  Warning  Evicted  pod/moe-trainer-0  The node was low on resource: memory.\n"


def test_a_damaged_checkpoint_that_was_skipped_failed_nothing(verdict: Verdict) -> None:
    said = verdict({"rank0.log": f"step 1000 loss 2\nWARNING ckpt: torn ({TORN}), skipping it\ntraining finished\n"})
    assert said.outcome is Outcome.NOT_A_FAILURE


@pytest.mark.parametrize("words", [f"ERROR ckpt: {TORN}", f"Traceback (most recent call last):\nRuntimeError: {TORN}"])
def test_a_job_script_that_always_ends_on_done_proves_nothing(verdict: Verdict, words: str) -> None:
    said = verdict({"slurm.out": f"step 1000 loss 2\n{words}\ntraining finished\n"})
    assert (said.outcome, said.cause.id) == (Outcome.FAILED, "checkpoint-corrupt")


def test_an_evicted_pod_that_was_completed_later_failed_nothing(verdict: Verdict) -> None:
    logs = {"events.txt": EVENTS, "moe-trainer-0.log": "step 8 loss 2\ntraining finished\n"}
    assert verdict(logs | {"get-pods.txt": PODS.format(status="Completed")}).outcome is Outcome.NOT_A_FAILURE


def test_an_evicted_pod_that_did_not_come_back_is_the_failure(verdict: Verdict) -> None:
    said = verdict({"events.txt": EVENTS, "get-pods.txt": PODS.format(status="Evicted  ")})
    assert said.cause.id == "evicted"


def test_a_time_limit_that_the_job_outlived_ended_an_earlier_attempt(verdict: Verdict) -> None:
    again = f"2026-11-12 02:00:11 rank 0/2 resume\n[rank0]: Traceback (most recent call last):\n[rank0]: RuntimeError: {TORN}\n"
    said = verdict({"slurm-51.out": STEPS + LIMIT + again})
    assert said.cause.id == "checkpoint-corrupt"


def test_what_ranks_say_while_the_time_limit_stops_them_is_its_effect(verdict: Verdict) -> None:
    last = "2026-11-12 00:00:09 rank 0/2 stopping\nConnectionResetError: [Errno 104] Connection reset by peer\n"
    assert verdict({"slurm-51.out": STEPS + LIMIT + last}).cause.id == "time-limit"


def test_ranks_that_were_all_told_to_stop_do_not_count_as_well(verdict: Verdict) -> None:
    said = verdict({f"rank{rank}.log": f"step 9 loss 2\n[rank: {rank}] Received SIGTERM: 15\n" for rank in range(4)})
    assert (said.cause.id, said.initiating.ranks) == ("terminated", [])
    assert said.confidence < 0.6
    assert any("SIGTERM" in fact for fact in said.missing)


def test_ranks_that_only_offer_their_loopback_address_are_on_the_wrong_interface(verdict: Verdict) -> None:
    line = "[W1112 02:14:02.1 ProcessGroupGloo.cpp:727] Warning: Unable to resolve hostname to a (local) address.\n"
    failed = (
        'Traceback (most recent call last):\n  File "/app/t.py", line 5, in <module>\n'
        "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error\n"
    )
    assert verdict({f"deb{node}.out": line + failed for node in range(2)}).cause.id == "wrong-interface"


def test_the_host_that_one_of_mpirun_s_lines_names_is_named(verdict: Verdict) -> None:
    lost = (
        "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[3110,0],0] on node cmp01\n"
        "  Remote daemon: [[3110,0],2] on node cmp03\n"
    )
    said = verdict({"ompi.log": "[1,0]<stdout>:step 1\n[1,1]<stdout>:step 1\n" + lost})
    assert (said.cause.id, said.initiating.hosts) == ("node-failure", ["cmp03"])


def test_a_compiler_that_only_quotes_a_full_disk_is_not_the_cause(verdict: Verdict) -> None:
    raised = (
        'Traceback (most recent call last):\n  File "/app/train.py", line 5, in fit\n'
        "torch._inductor.exc.InductorError: OSError: [Errno 28] No space left on device: '/tmp/torchinductor/tmp.ptx'\n"
    )
    assert verdict({"rank0.log": raised}).cause.id == "disk-full"


def test_workers_that_an_agent_started_again_and_that_came_to_the_end_failed_nothing(verdict: Verdict) -> None:
    agent = "E1112 02:13:50.0 10 torch/distributed/elastic/multiprocessing/api.py:874] "
    failed = f"{agent}failed (exitcode: -9) local_rank: 2 (pid: 90) of binary: /usr/bin/python3\n"
    workers = "".join(
        f"[default{rank}]:rank={rank} local_rank={rank} world_size=4 host=z pid=20{rank}\n" for rank in range(4)
    )
    steps = "".join(f"[default0]:step {step} loss 2.1\n" for step in range(12))
    again = {"torchrun.log": failed + workers + steps + "[default0]:Training finished\n"}
    assert verdict(again).outcome is Outcome.NOT_A_FAILURE
    assert verdict({"torchrun.log": workers + steps + failed}).outcome is Outcome.FAILED
