"""Attempts: the last one leads; what ended an earlier one is told where it explains the last."""

from __future__ import annotations

from collections.abc import Callable

from knowledge import Diagnosis
from knowledge.diagnosis import Role
from knowledge.reading.evidence import CaseEvidence

Verdict = Callable[..., Diagnosis]
Read = Callable[..., CaseEvidence]

CLOSED = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/app/train.py", line 9, in fit\n'
    "[rank{rank}]: RuntimeError: [/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.9]:1234.\n"
)
RAISED = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/app/train.py", line 31, in {function}\n[rank{rank}]: {error}\n'
)
FULL = "OSError: [Errno 28] No space left on device: '/scratch/ckpt/step40.pt'"
IN_USE = (
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, "
    "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
)
BROKEN = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"


def start(rank: int, attempt: int) -> str:
    return f"rank={rank} local_rank={rank} world_size=4 host=n1 pid={100 + 10 * attempt + rank}\n"


def attempt(number: int, guilty: int | None, error: str = "", function: str = "fit") -> dict[str, str]:
    """The logs of one attempt: `guilty` raises `error`, the others lose their peer."""
    return {
        f"attempt_{number}.rank-{rank}.log": start(rank, number)
        + (RAISED.format(rank=rank, error=error, function=function) if rank == guilty else CLOSED.format(rank=rank))
        for rank in range(4)
    }


def test_a_full_disk_explains_the_checkpoint_that_the_next_attempt_cannot_read(verdict: Verdict) -> None:
    said = verdict(attempt(0, 2, FULL, "save") | attempt(1, 1, BROKEN, "load"))
    assert (said.cause.id, said.initiating.ranks) == ("checkpoint-corrupt", [1])
    assert "Attempt 1 of 2" in said.cause.summary
    assert said.alternatives[0].cause == "disk-full"
    assert "attempt 1" in said.fix[0]
    (told,) = [line for line in said.evidence if line.role is Role.CONTEXT]
    assert (told.source, told.rank) == ("attempt_0.rank-2.log", 2)
    assert "No space left" in told.text


def test_a_port_in_use_is_what_an_attempt_left_behind(verdict: Verdict) -> None:
    said = verdict(attempt(0, 3, "WidgetError: no widget left") | attempt(1, 0, IN_USE, "main"))
    assert (said.cause.id, said.initiating.ranks) == ("port-in-use", [0])
    assert "WidgetError: no widget left" in said.cause.summary


def test_attempts_that_failed_by_left_overs_too_are_passed_over(verdict: Verdict) -> None:
    said = verdict(attempt(0, 2, FULL, "save") | attempt(1, 0, IN_USE, "main") | attempt(2, 0, IN_USE, "main"))
    assert said.cause.id == "port-in-use"
    assert "Attempt 1 of 3" in said.cause.summary


def test_what_does_not_explain_the_last_attempt_is_not_told(verdict: Verdict) -> None:
    said = verdict(attempt(0, 2, FULL, "save") | attempt(1, 1, "GadgetError: second"))
    assert said.initiating.ranks == [1]
    assert "Attempt" not in said.cause.summary
    assert not any("attempt_0" in line.source for line in said.evidence)


def test_an_attempt_that_ended_the_same_way_is_told_in_a_sentence(verdict: Verdict) -> None:
    said = verdict(attempt(0, 1, "GadgetError: x") | attempt(1, 1, "GadgetError: x"))
    assert "Attempt 1 of 2 had ended the same way" in said.cause.summary
    assert said.initiating.ranks == [1]


def test_a_port_in_use_at_the_first_attempt_has_nothing_before_it(verdict: Verdict) -> None:
    said = verdict(attempt(0, 0, IN_USE, "main"))
    assert said.cause.id == "port-in-use"
    assert "Attempt" not in said.cause.summary


def test_one_file_holds_all_attempts_where_ranks_introduce_themselves_again(verdict: Verdict) -> None:
    first, second = attempt(0, 2, FULL, "save"), attempt(1, 1, BROKEN, "load")
    both = {
        f"rank-{rank}.log": first[f"attempt_0.rank-{rank}.log"] + second[f"attempt_1.rank-{rank}.log"]
        for rank in range(4)
    }
    said = verdict(both)
    assert (said.cause.id, said.initiating.ranks) == ("checkpoint-corrupt", [1])
    assert said.alternatives[0].cause == "disk-full"


AGENT = "E1130 08:{minute:02}:00.353000 15840 torch/distributed/elastic/multiprocessing/api.py:1002] "
FAILED = AGENT + "failed (exitcode: {code}) local_rank: {local} (pid: {pid}) of binary: /opt/venv/bin/python3.11\n"


def test_the_agents_words_belong_to_their_attempts(evidence: Read, verdict: Verdict) -> None:
    """The agent's log is one, and says once an attempt that it failed: the last time is the last attempt's."""
    launcher = FAILED.format(minute=1, code=-9, local=2, pid=102) + FAILED.format(minute=2, code=1, local=1, pid=111)
    logs = {
        name: text
        for name, text in (attempt(0, None) | attempt(1, 1, BROKEN, "load")).items()
        if "0.rank-2" not in name
    }
    logs["attempt_0.rank-2.log"] = start(2, 0)
    read = evidence(logs | {"launcher.log": launcher})
    assert [(found.code, found.place.attempt) for found in read.exits] == [(-9, 0), (1, 1)]
    said = verdict(logs | {"launcher.log": launcher})
    assert (said.cause.id, said.initiating.ranks) == ("checkpoint-corrupt", [1])
    assert said.alternatives[0].cause == "killed-unknown"
    assert any(line.source == "launcher.log" and line.line == 1 for line in said.evidence)
