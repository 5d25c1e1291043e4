"""Logs as shells and small launchers leave them: times in front of lines, notices of crashes, hosts in front of exceptions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]

STEPS = "".join(f"step {step} loss 0.5\n" for step in range(3))
FRAMES = 'Traceback (most recent call last):\n  File "/app/train.py", line 5, in main\n    step()\n'
LOST = FRAMES + "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:63176.\n"


def _before(text: str, prefix: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize("clock", ["00:53:45.525 ", "[2026-12-01 00:53:45] ", "2026/12/01 00:53:45 | "])
def test_a_time_that_a_shell_put_in_front_of_every_line_hides_nothing(verdict: Verdict, clock: str) -> None:
    error = _before(FRAMES + "RuntimeWarning: lr below the floor\n", "[rank1]: ")
    told = verdict(
        {"a.log": _before(STEPS + error, clock), "b.log": _before(STEPS + _before(LOST, "[rank0]: "), clock)}
    )
    assert (told.cause.id, told.initiating.ranks) == ("app-exception", [1])


def test_the_crash_that_only_a_shell_tells_of_is_of_the_one_that_fell_silent(verdict: Verdict) -> None:
    notice = "go.sh: line 3: 25003 Segmentation fault      (core dumped) RANK=$r python s.py\n"
    logs = {f"s-{rank}.log": f"rank {rank} of 4\n{STEPS}{'' if rank == 3 else LOST}" for rank in range(4)}
    told = verdict({"nohup.out": notice, **logs})
    assert (told.cause.id, told.initiating.ranks) == ("segfault", [3])


def test_an_exception_behind_a_host_is_no_host(verdict: Verdict) -> None:
    waits = (
        FRAMES
        + "torch.distributed.DistStoreError: Timed out after 10 seconds waiting for clients. 2/4 clients joined.\n"
    )
    broken = FRAMES + "yaml.scanner.ScannerError: while scanning for the next token\n"
    told = verdict({"pdsh.log": _before(waits, "gn01: ") + _before(broken, "gn02: ")})
    assert (told.cause.id, told.initiating.hosts) == ("config-error", ["gn02"])


def test_an_error_in_a_pod_of_one_rank_is_that_ranks(verdict: Verdict) -> None:
    start = "".join(f"[pod/w-{rank}/pytorch] rank {rank} booting\n" for rank in range(3))
    error = FRAMES + "OSError: libfused_ops.so.3: cannot open shared object file: No such file or directory\n"
    assert verdict({"k.log": start + _before(error, "[pod/w-1/pytorch] ")}).initiating.ranks == [1]


def test_an_error_in_a_pod_that_may_hold_more_ranks_is_nobodys(verdict: Verdict) -> None:
    start = "".join(f"[pod/w-{pod}/pytorch] rank {8 * pod} booting\n" for pod in range(3))
    error = FRAMES + "OSError: libfused_ops.so.3: cannot open shared object file: No such file or directory\n"
    assert verdict({"k.log": start + _before(error, "[pod/w-1/pytorch] ")}).initiating.ranks == []


def test_a_command_that_a_rank_ran_itself_is_its_own_trouble(verdict: Verdict) -> None:
    error = "subprocess.CalledProcessError: Command '['tar', 'xf', 'a.tar']' returned non-zero exit status 2.\n"
    told = verdict({"un.log": _before(FRAMES + error, "[rank0]: ") + _before(LOST, "[rank1]: ")})
    assert (told.cause.id, told.initiating.ranks) == ("app-exception", [0])


def test_a_closed_pipe_is_an_error_where_the_program_itself_met_it_in_training(verdict: Verdict) -> None:
    error = _before(FRAMES + "BrokenPipeError: [Errno 32] Broken pipe\n", "[rank0]: ")
    told = verdict({"rank0.log": STEPS + error, "rank1.log": STEPS + LOST, "rank2.log": STEPS + LOST})
    assert (told.cause.id, told.initiating.ranks) == ("app-exception", [0])
    assert told.confidence < 0.6


def test_a_thread_that_died_right_before_its_rank_stood_still_says_why(verdict: Verdict) -> None:
    frames = '  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner\n    self.run()\n'
    died = "Exception in thread prefetch:\n" + FRAMES.replace("last):\n", "last):\n" + frames) + "KeyError: 'clicks'\n"
    waited = (
        FRAMES
        + "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete\n"
    )
    logs = {f"rank{rank}.log": STEPS + waited for rank in (1, 2)}
    assert "clicks" in verdict({"rank0.log": STEPS + died + "step 3\n", **logs}).cause.summary
    much_later = "".join(f"step {step} loss 0.5\n" for step in range(3, 30))
    assert verdict({"rank0.log": STEPS + died + much_later, **logs}).cause.id == "rank-hang"


def test_a_checkpoint_that_no_rank_can_read_is_no_single_ranks_fault(verdict: Verdict) -> None:
    own = "".join(
        f"Traceback (most recent call last): (RANK {rank})\n" + FRAMES.split("\n", 1)[1]
        + "FileNotFoundError: [Errno 2] No such file or directory: 'step-7/__1_0.distcp'\n"
        for rank in range(3)
    )  # fmt: skip
    error = (
        FRAMES
        + "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([0, 1, 2])\n"
        + own
    )
    told = verdict({"d.log": "".join(_before(error, f"[rank{rank}]: ") for rank in range(3))})
    assert told.initiating.ranks == []
