"""What the last words of a process show: groups of exceptions, watchdogs of its own, signals that are no crash."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]

STEPS = "".join(f"step {step} loss 0.5\n" for step in range(3))
LOST = (
    'Traceback (most recent call last):\n  File "/app/train.py", line 5, in main\n    step()\n'
    "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:63176.\n"
)
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/app/loop.py", line 16, in <module>
  |     main()
  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/fetch.py", line 6, in fetch_page
    |     raise LookupError
    | LookupError: no object for key 52
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/app/fetch.py", line 9, in fetch_page
    |     cancel()
    | OverflowError: later
    +------------------------------------
"""
STUCK = """\
Timeout (0:00:06)!
Thread 0x00007f05273fcb80 (most recent call first):
  File "/app/vit.py", line 17 in fetch
  File "/app/vit.py", line 21 in <module>
"""


def test_the_first_exception_of_a_group_is_the_one(verdict: Verdict) -> None:
    told = verdict({"rank-0.log": STEPS + LOST, "rank-1.log": STEPS + GROUP, "rank-2.log": STEPS + LOST})
    assert told.initiating.ranks == [1]
    assert "no object for key 52" in told.evidence[0].text


@pytest.mark.parametrize(
    ("end", "cause"), [(STUCK, "rank-hang"), (STUCK.replace("in fetch", "in barrier"), "killed-unknown")]
)
def test_a_rank_whose_own_watchdog_ended_it_had_hung_unless_it_waited_itself(
    verdict: Verdict, end: str, cause: str
) -> None:
    told = verdict({f"rank-{rank}.log": STEPS + (end if rank == 2 else LOST) for rank in range(4)})
    assert (told.cause.id, told.initiating.ranks) == (cause, [2])


def test_a_rank_that_went_on_after_the_dump_of_its_stack_did_not_hang(verdict: Verdict) -> None:
    told = verdict({f"rank-{rank}.log": STEPS + (STUCK + STEPS if rank == 2 else LOST) for rank in range(4)})
    assert told.cause.id != "rank-hang"


def test_a_signal_that_is_no_crash_is_called_by_its_name(verdict: Verdict) -> None:
    agent = "E1201 00:33:11.190000 20797 torch/distributed/elastic/multiprocessing/api.py:1002] "
    agent += "failed (exitcode: -14) local_rank: 1 (pid: 20138) of binary: python\n"
    told = verdict({"agent.log": f"[rank0]: {LOST.splitlines()[-1]}\n{agent}"})
    assert told.cause.summary.startswith("Rank 1 was ended by signal 14 (SIGALRM).")


def test_the_node_that_tells_nothing_has_the_ranks_that_the_others_leave(verdict: Verdict) -> None:
    told = "".join(f"[default{local}]:[rank{local}]: {line}\n" for local in range(2) for line in LOST.splitlines())
    silent = "".join(f"[default{local}]:worker step {step}\n" for step in range(4) for local in range(2))
    end = verdict({"gx-01/run.log": told, "gx-02/run.log": silent})
    assert (end.initiating.ranks, end.initiating.hosts) == ([2, 3], ["gx-02"])


def test_a_fatal_exception_without_a_traceback_is_no_kill(verdict: Verdict) -> None:
    ends = dict.fromkeys((0, 1, 2), LOST) | {
        3: "FATAL TypeError: '>' not supported between instances of 'str' and 'float'\n"
    }
    lines = [f"{rank}> {line}\n" for rank, end in ends.items() for line in (STEPS + end).splitlines()]
    told = verdict({"ev.txt": "".join(lines)})
    assert (told.cause.id, told.initiating.ranks) == ("app-exception", [3])


def test_the_rank_that_came_when_the_others_time_was_up_is_told_by_what_it_was_busy_with(verdict: Verdict) -> None:
    waited = LOST.splitlines(keepends=True)[:-1]
    waited.append(
        "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete\n"
    )
    logs = {f"rank{rank}.log": STEPS + "".join(waited) for rank in (1, 2)}
    busy = verdict({"rank0.log": STEPS + "writing checkpoint to /mnt/slow/ck-20\n" + LOST, **logs})
    assert (busy.cause.id, busy.initiating.ranks) == ("slow-checkpoint", [0])
    idle = verdict({"rank0.log": STEPS + LOST, **logs})
    assert idle.initiating.ranks == []


def test_a_lock_that_is_taken_is_no_limit_on_processes(verdict: Verdict) -> None:
    frames = 'Traceback (most recent call last):\n  File "/app/{}.py", line 5, in start\n    go()\n'
    error = "BlockingIOError: [Errno 11] Resource temporarily unavailable\n"
    logs = {f"rank{rank}.log": STEPS + LOST for rank in (1, 2)}
    assert verdict({"rank0.log": STEPS + frames.format("lock") + error, **logs}).cause.id == "app-exception"
    assert verdict({"rank0.log": STEPS + frames.format("popen_fork") + error, **logs}).cause.id == "thread-limit"
