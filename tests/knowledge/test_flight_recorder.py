"""Flight recorders: what their dumps prove, and that none of them can do harm."""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowledge import Diagnosis
from knowledge.diagnosis import Outcome, Role
from knowledge.reading.flight_recorder import MAX_MEMBERS, is_dump, read_dump
from knowledge.reading.plain_pickle import RefusedPickleError, load

Verdict = Callable[..., Diagnosis]

WORLD = {"0": ("default_pg", [0, 1, 2, 3])}
WAITS = (
    "[rank{rank}]:[E1203 04:21:09.41 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600011 milliseconds before timing out.\n"
)


def call(
    seq: int,
    op: str = "all_reduce",
    state: str = "completed",
    group: str = "0",
    size: int = 64,
    p2p: bool = False,
    where: str = "fit",
) -> dict[str, Any]:
    """One entry, as version 2.4 and later of the format has it."""
    return {
        "record_id": seq, "pg_id": int(group), "process_group": (group, WORLD.get(group, ("tp", []))[0]),
        "collective_seq_id": 0 if p2p else seq, "p2p_seq_id": seq if p2p else 0, "op_id": seq, "profiling_name": f"nccl:{op}",
        "time_created_ns": 1796037534749563593, "input_sizes": [[size]], "input_dtypes": ["Float"], "output_sizes": [[size]],
        "output_dtypes": ["Float"], "state": state, "time_discovered_started_ns": None, "time_discovered_completed_ns": None,
        "retired": state != "scheduled", "timeout_ms": 600000, "is_p2p": p2p,
        "frames": [
            {"name": "all_reduce", "filename": "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", "line": 3245},
            {"name": where, "filename": "/app/train.py", "line": 31},
        ],
    }  # fmt: skip


def dump(calls: list[dict[str, Any]], groups: dict[str, tuple[str, list[int]]] | None = None) -> dict[str, Any]:
    config = {
        name: {"name": name, "desc": title, "ranks": str(ranks)} for name, (title, ranks) in (groups or WORLD).items()
    }
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": calls}


def pickled(calls: list[dict[str, Any]], groups: dict[str, tuple[str, list[int]]] | None = None) -> bytes:
    return pickle.dumps(dump(calls, groups), protocol=2)


DONE = [call(1), call(2)]
WAITING = [*DONE, call(3, state="started"), call(4, state="scheduled")]


def test_the_rank_that_never_entered_is_the_one_that_the_others_wait_for(verdict: Verdict) -> None:
    said = verdict({f"nccl_trace_rank_{rank}": pickled(DONE if rank == 2 else WAITING) for rank in range(4)})
    assert (said.outcome, said.cause.id, said.initiating.ranks) == (Outcome.FAILED, "rank-hang", [2])
    assert said.collateral.ranks == [0, 1, 3]
    assert said.confidence > 0.9
    last = said.evidence[0]
    assert (last.role, last.source, last.line, last.rank) == (Role.ROOT, "nccl_trace_rank_2", 2, 2)
    assert "all_reduce, number 2 of default_pg; completed" in last.text
    assert "fit() (train.py:31)" in last.text


def test_json_says_the_same_as_a_pickle(verdict: Verdict) -> None:
    logs = {f"fr_{rank}.json": json.dumps(dump(DONE if rank == 1 else WAITING)) for rank in range(4)}
    assert verdict(logs).initiating.ranks == [1]


def test_a_dump_of_gloo_tells_no_states_and_no_members(verdict: Verdict) -> None:
    def gloo(rank: int) -> str:
        calls = [
            call(seq, state="scheduled") | {"profiling_name": "gloo:all_reduce", "retired": True}
            for seq in range(1, 4 if rank == 2 else 5)
        ]
        return json.dumps({"version": "2.10", "pg_config": {"": {"name": "", "ranks": "[]"}}, "entries": calls})

    said = verdict({f"dump_rank_{rank}": gloo(rank) for rank in range(4)})
    assert (said.cause.id, said.initiating.ranks) == ("rank-hang", [2])


def test_another_collective_at_the_same_number_is_out_of_step(verdict: Verdict) -> None:
    odd = [*DONE, call(3, "broadcast", "started"), call(4, state="scheduled")]
    said = verdict({f"nccl_trace_rank_{rank}": pickled(odd if rank == 3 else WAITING) for rank in range(4)})
    assert (said.cause.id, said.initiating.ranks) == ("collective-mismatch", [3])
    assert "broadcast, number 3" in said.evidence[0].text


def test_another_size_at_the_same_number_is_out_of_step(verdict: Verdict) -> None:
    odd = [*DONE, call(3, state="started", size=63)]
    said = verdict({f"nccl_trace_rank_{rank}": pickled(odd if rank == 0 else WAITING) for rank in range(4)})
    assert (said.cause.id, said.initiating.ranks) == ("collective-mismatch", [0])


def test_shapes_may_differ_where_the_operation_allows_it(verdict: Verdict) -> None:
    def calls(rank: int) -> list[dict[str, Any]]:
        return [call(1, "all_to_all", "started", size=rank), *([] if rank == 2 else [call(2, state="scheduled")])]

    said = verdict({f"nccl_trace_rank_{rank}": pickled(calls(rank)) for rank in range(4)})
    assert said.cause.id != "collective-mismatch"


def test_two_ranks_that_differ_accuse_nobody(verdict: Verdict) -> None:
    groups = {"0": ("default_pg", [0, 1])}
    odd = [*DONE, call(3, "broadcast", "started")]
    said = verdict(
        {"nccl_trace_rank_0": pickled(WAITING, groups), "nccl_trace_rank_1": pickled(odd, groups)}, world_size=2
    )
    assert (said.cause.id, said.initiating.ranks) == ("collective-mismatch", [])


def test_who_is_missing_in_one_group_may_only_wait_in_another(verdict: Verdict) -> None:
    """Rank 4 hangs; its tensor-parallel partner 5 waits for it, and the data-parallel partners of both wait for them."""
    groups = {"0": ("default_pg", list(range(8))), "1": ("tp", [4, 5]), "2": ("dp", [1, 5])}
    logs = {
        rank: [call(1), call(1, group="1")] if rank in (4, 5) else [call(1), call(2, state="started")]
        for rank in range(8)
    }
    logs[5].append(call(2, state="started", group="1"))
    said = verdict({f"nccl_trace_rank_{rank}": pickled(calls, groups) for rank, calls in logs.items()})
    assert said.initiating.ranks == [4]


def test_ranks_of_a_group_are_told_as_global_ranks(verdict: Verdict) -> None:
    """`recv 0<-1` in a group of ranks 2 and 6 is rank 2 waiting for rank 6."""
    groups = {"0": ("default_pg", list(range(8))), "1": ("pp", [2, 6])}
    idle = [call(1)]
    logs = dict.fromkeys(range(8), idle) | {
        2: [call(1), call(1, "recv 0<-1", "started", group="1", p2p=True)],
    }
    said = verdict({f"nccl_trace_rank_{rank}": pickled(calls, groups) for rank, calls in logs.items()})
    assert (said.cause.id, said.initiating.ranks) == ("rank-hang", [6])


def test_a_gpu_that_lags_is_told_from_a_process_that_does(verdict: Verdict) -> None:
    late = [*DONE, call(3, state="scheduled"), call(4, state="scheduled")]
    said = verdict({f"nccl_trace_rank_{rank}": pickled(late if rank == 1 else WAITING) for rank in range(4)})
    assert said.initiating.ranks == [1]
    assert said.confidence < 0.8


def test_groups_that_wait_for_each_other_name_nobody(verdict: Verdict) -> None:
    groups = {"0": ("default_pg", [0, 1]), "1": ("tp", [0, 1])}
    said = verdict(
        {
            "nccl_trace_rank_0": pickled([call(1), call(1, group="1"), call(2, state="started")], groups),
            "nccl_trace_rank_1": pickled([call(1), call(1, group="1"), call(2, group="1", state="started")], groups),
        }
    )
    assert (said.cause.id, said.initiating.ranks) == ("collective-mismatch", [])


def test_everybody_in_the_same_operation_is_no_ranks_fault(verdict: Verdict) -> None:
    logs = {f"rank-{rank}.log": WAITS.format(rank=rank) for rank in range(4)}
    said = verdict(logs | {f"nccl_trace_rank_{rank}": pickled(WAITING) for rank in range(4)})
    assert said.initiating.ranks == []


def test_a_dump_that_was_asked_for_does_not_make_a_healthy_job_fail(verdict: Verdict) -> None:
    logs = {
        f"rank-{rank}.log": f"rank={rank} world_size=4 host=n1 pid={100 + rank}\nstep 10 loss 2.1\n"
        for rank in range(4)
    }
    entering = {rank: [*DONE, call(3, state="started") | {"retired": False}] if rank else [*DONE] for rank in range(4)}
    dumps = {f"nccl_trace_rank_{rank}": pickled(calls) for rank, calls in entering.items()}
    assert verdict(logs | dumps).outcome is Outcome.NOT_A_FAILURE


class Hostile:
    """Runs a command where Python's own unpickler opens it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_hostile_pickle_is_refused_and_the_rest_is_still_judged(
    verdict: Verdict, tmp_path: Path, protocol: int
) -> None:
    trap = tmp_path / "trap"
    hostile = pickle.dumps(dump([*DONE, {"frames": Hostile(trap)}]), protocol=protocol)
    logs: dict[str, bytes] = {f"nccl_trace_rank_{rank}.pkl": pickled(WAITING) for rank in (1, 2)}
    said = verdict(logs | {"nccl_trace_rank_0.pkl": hostile, "nccl_trace_rank_3.pkl": pickled(DONE)})
    assert not trap.exists()
    assert said.initiating.ranks == [3]
    (note,) = [fact for fact in said.missing if "nccl_trace_rank_0.pkl" in fact]
    assert "not read" in note
    assert protocol == 0 or "runs code" in note


DOUBLED_TUPLES = b"\x80\x02}Nq\x00" + b"".join(b"h%c\x86q%c" % (n, n + 1) for n in range(50)) + b"Ns."
"""A key whose hash takes 2^50 steps."""


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"\x80\x02cos\nsystem\n.", "GLOBAL"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL"),
        (b"\x80\x02)R.", "REDUCE"),
        (b"\x80\x02}}b.", "BUILD"),
        (b"\x80\x02(ios\nsystem\n.", "INST"),
        (b"\x80\x02))\x81.", "NEWOBJ"),
        (b"\x80\x02X\x01\x00\x00\x00aQ.", "BINPERSID"),
        (b"\x80\x02\x82\x01.", "EXT1"),
        (b"\x80\x02K\x01" + b"\x85" * 100_000 + b".", "deep"),
        (b"\x80\x02\x8a\xff" + b"\x7f" * 255 + b".", "number of 255 bytes"),
        (b"\x80\x02" + b"]" * 1_000_001 + b".", "containers"),
        (DOUBLED_TUPLES, "key"),
        (b"\x80\x02}]Ns.", "key"),
        (b"\x80\x02}]q\x00K\x01s.", "key"),
        (b"\x80\x02}\x8a\x10" + bytes(15) + b"\x01Ns.", "key"),
    ],
)
def test_what_is_not_plain_is_refused_by_name(data: bytes, word: str) -> None:
    with pytest.raises(RefusedPickleError, match=word):
        load(data)


@pytest.mark.parametrize(
    "data",
    [b"", b".", b"\x80", b"\x80\x02", b"\x80\x02N", b"\x80\x02NN.", b"\x80\x02(.", b"\x80\x02((t.", b"\x80\x02(NNNu.",
     b"\x80\x02h\x07.", b"\x80\x02X\xff\xff\xff\xffa.", b"\x80\x02K\x01K\x02a.", b"\x80\x02]q\x00h\x00a.",
     b"\x80\x02\x86.", b"\x80\x02\x8d" + struct.pack("<Q", 1 << 60) + b"x.", b"\x80\x02e.", b"\x80\x02a."],
)  # fmt: skip
def test_damage_is_refused_too(data: bytes) -> None:
    with pytest.raises(RefusedPickleError, match="damaged"):
        load(data)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_come_back_as_they_were(protocol: int) -> None:
    value: dict[Any, Any] = {
        "a": [1, 255, 65536, -5, 2**40, -(2**63), 2.5, None, True, False, "ü", (1, 2, 3), (1,), (), {"k": []}],
        1: (1, 2, 3, 4),
        "long": "x" * 300,
        "many": list(range(3000)),
    }
    if protocol >= 4:
        value["set"] = {1, 2}
        value["bytes"] = b"\x00\xff"
    assert load(pickle.dumps(value, protocol=protocol)) == value


def test_every_way_to_cut_or_bend_a_dump_is_survived() -> None:
    whole = pickled(DONE)
    for position in range(len(whole)):
        for bent in (whole[:position], whole[:position] + b"\xfe" + whole[position + 1 :]):
            try:
                load(bent)
            except RefusedPickleError:
                continue


@pytest.mark.parametrize(
    "entries",
    ["[]", "{}", "[1, null]", '[{"collective_seq_id": "x"}]', '[{"collective_seq_id": 1, "process_group": 7, "frames": [[]], "input_sizes": 3}]',
     '[{"collective_seq_id": 1, "is_p2p": true, "p2p_seq_id": 1, "profiling_name": "nccl:recv 99999<-99999"}]', "[" * 5000],
)  # fmt: skip
def test_a_strange_dump_harms_nothing(verdict: Verdict, entries: str) -> None:
    strange = f'{{"version": "2.10", "record_id": 0, "pg_config": {{"0": {{"ranks": "[0, 1, 2, 3]"}}}}, "entries": {entries}}}'
    logs = {f"nccl_trace_rank_{rank}.json": json.dumps(dump(DONE if rank == 1 else WAITING)) for rank in range(4)}
    said = verdict(logs | {"nccl_trace_rank_9.json": strange})
    assert said.initiating.ranks == [1]


def test_what_a_dump_says_is_bounded_and_clean(verdict: Verdict) -> None:
    odd = [*DONE, call(3, "bcast\x1b[31m\n" + "x" * 5000, "started", where="f\u202e" + "y" * 5000)]
    said = verdict({f"nccl_trace_rank_{rank}": pickled(odd if rank == 3 else WAITING) for rank in range(4)})
    text = said.evidence[0].text
    assert said.evidence[0].rank == 3
    assert len(text) < 500
    assert text.isprintable()


def test_the_members_of_all_groups_together_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "nccl_trace_rank_3"
    ranks = str(list(range(700_000)))
    path.write_text(json.dumps({"entries": [], "pg_config": {"0": {"ranks": ranks}, "1": {"ranks": ranks}}}))
    groups = read_dump(path, path.name, None).groups.values()
    assert sum(len(group.ranks) for group in groups) == MAX_MEMBERS


def test_a_dump_without_a_rank_in_its_name_is_refused_with_advice(verdict: Verdict) -> None:
    logs = {f"nccl_trace_rank_{rank}": pickled(DONE if rank == 2 else WAITING) for rank in range(4)}
    said = verdict(logs | {"trace.pkl": pickled(WAITING)})
    assert any("nccl_trace_rank_3" in fact for fact in said.missing)
    assert said.initiating.ranks == [2]


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("rank_3", pickled(DONE), True),
        ("anything", pickled(DONE), True),
        ("x.json", json.dumps(dump(DONE)).encode(), True),
        ("nccl_trace_rank_0", pickle.dumps([1]), True),
        ("settings.pkl", pickle.dumps({"lr": 1}), False),
        ("rank-0.log", b"step 1 loss 2\n", False),
        ("rank-0.log", b'{"step": 1, "loss": 2}\n{"step": 2}\n', False),
        ("rank-0.log", b"", False),
    ],
)
def test_a_dump_shows_in_its_content_first_and_its_name_second(
    tmp_path: Path, name: str, data: bytes, expected: bool
) -> None:
    (tmp_path / name).write_bytes(data)
    assert is_dump(tmp_path / name, name) is expected
