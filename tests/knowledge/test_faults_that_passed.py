"""Faults of a node that were over before anything failed, and containers that never stop failing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge.diagnosis import Diagnosis, Outcome

Verdict = Callable[..., Diagnosis]

START = "rank={rank} world_size=4 host=n{host} pid=1{rank}\n2026-11-12 02:20:00 step 10 loss 1.0\n"
LOST = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/app/train.py", line 9, in fit\n'
    "[rank{rank}]: {error}\n"
)
CLOSED = "RuntimeError: [/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.9]:1234."
FULL = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB."
STALL = "[Thu Nov 12 02:16:55 2026] nfs: server filer3 not responding, still trying\n"
OVER = "[Thu Nov 12 02:17:15 2026] nfs: server filer3 OK\n"


def logs(error: str, kernel: str) -> dict[str, str]:
    said = {rank: error if rank == 3 else CLOSED for rank in range(4)}
    files = {
        f"rank{rank}.log": START.format(rank=rank, host=rank // 2) + LOST.format(rank=rank, error=words)
        for rank, words in said.items()
    }
    return {**files, "dmesg-n0.txt": kernel}


def test_a_stall_that_was_over_is_not_what_ended_the_job(verdict: Verdict) -> None:
    said = verdict(logs(FULL, STALL + OVER))
    assert (said.cause.id, said.initiating.ranks) == ("gpu-oom", [3])


def test_a_stall_that_lasts_is(verdict: Verdict) -> None:
    assert verdict(logs(CLOSED, STALL)).cause.id == "storage-io-error"


def test_a_stall_that_explains_what_the_ranks_met_is_the_cause_though_it_is_over(verdict: Verdict) -> None:
    assert verdict(logs("OSError: [Errno 5] Input/output error", STALL + OVER)).cause.id == "storage-io-error"


def test_a_link_that_flapped_before_a_wrong_setting_is_not_the_cause(verdict: Verdict) -> None:
    flap = "[Thu Nov 12 01:10:{second} 2026] mlx5_core 0000:5e:00.0 ib0: link {state}\n"
    kernel = flap.format(second="00", state="down") + flap.format(second="09", state="up")
    said = verdict(logs("ValueError: tensor_model_parallel_size (8) must not exceed the world size (4)", kernel))
    assert said.cause.id != "link-down"


@pytest.mark.parametrize(
    ("status", "cause"),
    [("CrashLoopBackOff", "unknown"), ("Init:CrashLoopBackOff", "pod-config"), ("Init:Error", "pod-config")],
)
def test_a_pod_that_never_stops_crashing_is_a_failure(verdict: Verdict, status: str, cause: str) -> None:
    pods = f"NAME    READY   STATUS             RESTARTS      AGE\npod-b   0/1     {status}   7 (2m ago)    14m\n"
    said = verdict({"pods.txt": pods, "pod-b.log": "hello\n"})
    assert (said.outcome, said.cause.id) == (Outcome.FAILED, cause)


def test_of_two_that_ended_by_a_signal_the_order_is_asked_for(verdict: Verdict) -> None:
    block = "  time      : 2026-11-12_02:44:00\n  host      : z\n  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: 9{rank})\n"
    start = "".join(
        f"[default{rank}]:rank={rank} local_rank={rank} world_size=4 host=z pid=9{rank}\n" for rank in range(4)
    )
    said = verdict({"agent.log": start + block.format(rank=1, code=-11) + block.format(rank=2, code=-9)})
    assert said.confidence < 0.8
    assert any(fact.startswith("Which of these processes ended first") for fact in said.missing)


def test_a_worker_of_tensorflow_is_known_by_its_configuration(verdict: Verdict) -> None:
    config = "TF_CONFIG={{'cluster': {{'worker': ['w0:1', 'w1:1']}}, 'task': {{'type': 'worker', 'index': {rank}}}}}\n"
    raised = 'Traceback (most recent call last):\n  File "/app/t.py", line 3, in fit\n'
    said = verdict(
        {
            "a.txt": config.format(rank=0) + raised + "UnavailableError: Collective ops is aborted by: Socket closed\n",
            "b.txt": config.format(rank=1) + raised + "WidgetError: the widget is bent\n",
        }
    )
    assert said.initiating.ranks == [1]


def test_a_stall_after_which_training_went_on_is_not_the_cause_of_an_end_without_words(verdict: Verdict) -> None:
    later = {
        name: text.replace("step 10 loss 1.0\n", "step 10 loss 1.0\n2026-11-12 02:30:00 step 20 loss 0.9\n")
        for name, text in logs(CLOSED, STALL + OVER).items()
    }
    later["rank3.log"] = START.format(rank=3, host=1)
    said = verdict(later)
    assert said.cause.id != "storage-io-error"
    assert said.confidence < 0.8
