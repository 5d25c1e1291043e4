"""Ranks that end without an error of their own: by a signal that nobody explains, or by leaving."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]

LOST = "RuntimeError: [/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.9]:1234."
AGENT = (
    "E1130 21:19:51.933000 286 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) local_rank: 1 "
    "(pid: 306) of binary: /usr/bin/python\nRoot Cause (first observed failure):\n[0]:\n  time      : 2026-11-30_21:19:51\n"
    "  host      : hpc-42\n  rank      : 3 (local_rank: 1)\n  exitcode  : {code} (pid: 306)\n"
)
SURVIVORS = {
    f"rank-{rank}.log": f"rank={rank} world_size=4 pid=30{rank}\nstep 4\n[rank{rank}]: {LOST}\n" for rank in (0, 1, 2)
}


def test_a_worker_that_sigterm_ended_before_its_agent_stopped_any_was_stopped_from_outside(verdict: Verdict) -> None:
    said = verdict({**SURVIVORS, "launcher.log": AGENT.format(code=-15)})
    assert (said.cause.id, said.initiating.ranks) == ("terminated", [3])


def test_an_agent_that_was_told_to_stop_names_no_rank(verdict: Verdict) -> None:
    told = "W1130 21:19:50.1 286 torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal, shutting down workers\n"
    said = verdict({"launcher.log": told + AGENT.format(code=-15)})
    assert (said.cause.id, said.initiating.ranks) == ("terminated", [])


def test_a_spawned_process_that_left_by_itself_was_not_killed(verdict: Verdict) -> None:
    said = verdict(
        {"train.log": "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with exit code 7\n"}
    )
    assert (said.cause.id, said.initiating.ranks) == ("silent-exit", [1])


def test_a_frozen_worker_that_its_agent_had_to_kill_is_the_one_that_was_waited_for(verdict: Verdict) -> None:
    late = "RuntimeError: [/src/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 10000ms for recv operation to complete"
    waiting = {
        f"rank-{rank}.log": f"rank={rank} world_size=4 pid=30{rank}\nstep 4\n[rank{rank}]: {late}\n"
        for rank in (0, 1, 3)
    }
    agent = (
        "W1130 21:33:48.004000 295 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 302 closing signal SIGTERM\n"
        "Failures:\n[1]:\n  host      : c7\n  rank      : 2 (local_rank: 2)\n  exitcode  : -9 (pid: 302)  (SIGKILL)\n"
        "Root Cause (first observed failure):\n[0]:\n  host      : c7\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 300)\n"
    )
    said = verdict({**waiting, "rank-2.log": "rank=2 world_size=4 pid=302\nstep 4\n", "launcher.log": agent})
    assert (said.cause.id, said.initiating.ranks) == ("rank-hang", [2])


def test_a_worker_that_ended_with_1_and_no_traceback_left_while_all_others_lost_it(verdict: Verdict) -> None:
    said = verdict(
        {**SURVIVORS, "rank-3.log": "rank=3 world_size=4 pid=306\nbad setting\n", "launcher.log": AGENT.format(code=1)}
    )
    assert (said.cause.id, said.initiating.ranks) == ("silent-exit", [3])
    assert said.confidence < 0.7


def test_a_notice_of_open_mpi_is_read_over_the_end_of_its_line(verdict: Verdict) -> None:
    notice = "prterun noticed that process rank 3 with PID 27770 on node mpp-n12 exited on\nsignal 8 (Floating point exception).\n"
    said = verdict({"solver.log": "step 20 residual 4.6\n" + notice})
    assert (said.cause.id, said.initiating.ranks) == ("native-abort", [3])


def test_an_exception_before_mpi_abort_is_why_it_was_called(verdict: Verdict) -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/halo.py", line 19, in main',
        "    raise Unstable(dt)",
        "halo.Unstable: dt=0.02 exceeds 0.0133",
        "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD",
    ]
    said = verdict({"out.txt": "".join(f"[0]<stderr>: {line}\n" for line in lines) + "[1]<stdout>: step 10\n"})
    assert (said.cause.id, said.initiating.ranks) == ("app-exception", [0])


def test_a_rank_that_a_message_of_the_wrong_size_ended_was_not_killed(verdict: Verdict) -> None:
    unfit = "[enforce fail at /src/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 180 vs 16. "
    words = f"rank=3 world_size=4 pid=306\nstep 4\n  what():  {unfit}\n"
    said = verdict({**SURVIVORS, "rank-3.log": words})
    assert (said.cause.id, said.initiating.ranks) == ("collective-mismatch", [])


def test_a_checkpoint_that_torch_cannot_take_apart_is_damaged(verdict: Verdict) -> None:
    raised = (
        '[rank3]: Traceback (most recent call last):\n[rank3]:   File "/app/train.py", line 9, in resume\n[rank3]:     torch.load(path)\n'
        '[rank3]:   File "/opt/python/site-packages/torch/serialization.py", line 1601, in _legacy_load\n'
        "[rank3]: KeyError: \"filename 'storages' not found\"\n"
    )
    said = verdict({**SURVIVORS, "rank-3.log": f"rank=3 world_size=4 pid=306\n{raised}"})
    assert (said.cause.id, said.initiating.ranks) == ("checkpoint-corrupt", [3])


def test_the_command_that_deepspeed_started_last_is_nobodys_name_where_no_rank_was_heard(verdict: Verdict) -> None:
    killed = (
        "[2026-05-02 10:11:12,345] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4411\n"
        "[2026-05-02 10:11:13,145] [ERROR] [launch.py:325:sigkill_handler] ['/opt/conda/bin/python', '-u', 'train.py', "
        "'--local_rank=7', '--deepspeed', 'ds.json'] exits with return code = -9\n"
    )
    told = verdict({"paste.txt": killed})
    assert (told.cause.id, told.initiating.ranks) == ("killed-unknown", [])
    assert any("started last" in fact for fact in told.missing)
