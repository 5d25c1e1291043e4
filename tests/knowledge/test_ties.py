"""Two ranks with troubles of their own, in logs without times: nothing tells which came first, unless a launcher saw it."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]


def raised(rank: int, error: str) -> str:
    return (
        f"rank={rank} world_size=4 host=n{rank} pid={100 + rank}\nstep 10 loss 1.0\n[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/app/train.py", line 31, in fit\n[rank{rank}]: {error}\n'
    )


LOST = "RuntimeError: [/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.9]:1234."
LOGS = {
    "rank-0.log": raised(0, LOST),
    "rank-1.log": raised(1, "OSError: [Errno 5] Input/output error: '/scratch/x.bin'"),
    "rank-2.log": raised(2, "MemoryError"),
    "rank-3.log": raised(3, LOST),
}


def test_two_errors_without_times_name_nobody(verdict: Verdict) -> None:
    said = verdict(LOGS)
    assert said.initiating.ranks == []
    assert said.confidence < 0.7
    assert any(fact.startswith("Which of ranks 1, 2 failed first") for fact in said.missing)


def test_the_one_that_the_launcher_saw_end_first_leads(verdict: Verdict) -> None:
    agent = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-12_02:20:31\n  host      : n2\n  rank      : 2 (local_rank: 0)\n"
        "  exitcode  : 1 (pid: 102)\n  error_file: <N/A>\n  traceback : To enable traceback see the documentation\n"
    )
    said = verdict({**LOGS, "launcher.log": agent})
    assert (said.cause.id, said.initiating.ranks) == ("host-oom", [2])


def test_ranks_that_waited_for_a_stalled_store_s_reader_are_not_named_with_it(verdict: Verdict) -> None:
    waited = (
        "[rank{rank}]:[E1112 02:45:10.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=901, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600011 milliseconds before timing out.\n"
    )
    start = "rank={rank} world_size=4 host=u{host} pid=1{rank}\n2026-11-12 02:18:00 step 10 loss 1.0\n"
    logs = {f"rank-{rank}.log": (start + waited).format(rank=rank, host=rank // 2) for rank in (0, 1, 3)}
    logs["rank-2.log"] = start.format(rank=2, host=1) + "2026-11-12 02:18:20 fetching a shard\n"
    logs["dmesg-u1.log"] = "[Thu Nov 12 02:18:55 2026] nfs: server filer3 not responding, still trying\n"
    said = verdict(logs)
    assert (said.cause.id, said.initiating.ranks, said.initiating.hosts) == ("storage-io-error", [2], ["u1"])
