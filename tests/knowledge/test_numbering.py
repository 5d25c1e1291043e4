"""Whose file is whose: by the many ways in which processes introduce themselves, else by what others' names show."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge.diagnosis import Diagnosis
from knowledge.reading.identity import introduce

Verdict = Callable[..., Diagnosis]

LOST = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/app/train.py", line 9, in fit\n'
    "[rank{rank}]: RuntimeError: [/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.9]:1234.\n"
)
BENT = 'Traceback (most recent call last):\n  File "/app/train.py", line 3, in fit\nWidgetError: the widget is bent\n'


@pytest.mark.parametrize(
    ("line", "rank", "size", "host"),
    [
        ("(e2) rank 5/8 boot", 5, 8, None),
        ("hvd rank 3 size 8 local_rank 3", 3, 8, None),
        ("INFO worker, RANK=2 WORLD_SIZE=4 node=ip-10-0-3-22", 2, 4, "ip-10-0-3-22"),
        ('{"level": "info", "rank": 8, "host": "nid00340", "event": "step"}', 8, None, "nid00340"),
        ("Process index: 3", 3, None, None),
        ("JAX distributed initialized with process_id: 5, num_processes: 8", 5, 8, None),
        ("cluster_spec = {}, task_type = 'worker', task_id = 2, num_workers = 4, local_devices = ()", 2, 4, None),
    ],
)
def test_processes_introduce_themselves_in_many_ways(line: str, rank: int, size: int | None, host: str | None) -> None:
    who = introduce(line)
    assert who is not None
    assert (who.rank, who.world_size, who.host) == (rank, size, host)


@pytest.mark.parametrize(
    "line",
    [
        "NODE_RANK=2 NPROC=4",
        "rank 9/8 is none",
        "process 3/100% done",
        "Local process index: 3",
        "tp rank 1/4",
        "data-parallel rank 0/2",
        "tokenizing, process 3/8",
        '{"event": "rank 3"}',
    ],
)
def test_what_only_looks_like_an_introduction_is_none(line: str) -> None:
    who = introduce(line)
    assert who is None or who.rank is None


def test_a_name_is_believed_as_others_of_its_kind_show_it_to_mean(verdict: Verdict) -> None:
    logs = {f"s{1 + rank // 2}-{rank}.log": f"step 1\n{LOST.format(rank=rank)}" for rank in (0, 1, 2)}
    said = verdict(logs | {"s2-3.log": BENT})
    assert said.initiating.ranks == [3]


def test_a_name_is_not_believed_where_others_contradict_it(verdict: Verdict) -> None:
    logs = {f"worker-{rank - 1}.log": f"step 1\n{LOST.format(rank=rank)}" for rank in (1, 2)}
    said = verdict(logs | {"worker-2.log": BENT})
    assert said.initiating.ranks == []


def test_local_ranks_are_a_node_s_by_its_number(verdict: Verdict) -> None:
    logs = {}
    for node in range(3):
        lines = [f"NODE_RANK={node} MASTER_ADDR=n0"]
        for local in range(2):
            words = BENT if node == 1 else LOST.format(rank=2 * node + local)
            lines += [f"[default{local}]:{line}" for line in words.splitlines()]
        logs[f"node{node}.txt"] = "\n".join(lines) + "\n"
    assert verdict(logs).initiating.ranks == [2, 3]


def test_a_host_is_not_stretched_over_ranks_that_nobody_placed(verdict: Verdict) -> None:
    said = [
        f"rank={rank} world_size=6 host={host} pid=1" for rank, host in ((0, "c1"), (1, "c1"), (4, "c3"), (5, "c3"))
    ]
    bent = [f"[rank{rank}]: {line}" for rank in (2, 3) for line in BENT.splitlines()]
    found = verdict({"all.log": "\n".join(said + bent) + "\n"})
    assert (found.initiating.ranks, found.initiating.hosts) == ([2, 3], [])
