"""How a bundle is damaged. Each mutation changes a dictionary of files in place, led by the dice."""

from __future__ import annotations

import gzip
import json
import pickle
import random
import re
from collections.abc import Callable
from typing import Any

import zstandard

from knowledge.reading.compressed import is_packed
from tests.fuzz.corpus import DATES, NAMES, NUMBERS, PIECES, lines

Files = dict[str, bytes]
Mutation = Callable[[random.Random, Files], None]

SECRET = "hf_qZ7xK9vB2mW4tY6uR8pL3nJ5hG1fD0sA"
HUGE = 150_000  # bytes of the longest line
_DATE = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d|[IWEF]\d{4} \d\d:\d\d:\d\d")


def _one(dice: random.Random, files: Files) -> str:
    if not files:
        files["rank-0.log"] = b"step 1 loss 2.0\n"
    return dice.choice(sorted(files))


def _at(dice: random.Random, data: bytes) -> int:
    return dice.randrange(len(data) + 1)


def flip(dice: random.Random, files: Files) -> None:
    name = _one(dice, files)
    data = bytearray(files[name])
    for _ in range(min(len(data), dice.choice([1, 4, 64]))):
        data[dice.randrange(len(data))] = dice.randrange(256)
    files[name] = bytes(data)


def tear(dice: random.Random, files: Files) -> None:
    name = _one(dice, files)
    start, end = sorted((_at(dice, files[name]), _at(dice, files[name])))
    files[name] = dice.choice([files[name][:start], files[name][start:], files[name][:start] + files[name][end:]])


def insert(dice: random.Random, files: Files) -> None:
    name = _one(dice, files)
    for _ in range(dice.choice([1, 3, 20])):
        piece = dice.choice(PIECES).encode("utf-8", "surrogateescape") * dice.choice([1, 1, 1, 3, 500])
        at = _at(dice, files[name])
        files[name] = files[name][:at] + piece + files[name][at:]


def _digits(dice: random.Random, files: Files, pattern: re.Pattern[bytes], values: list[str]) -> None:
    name = _one(dice, files)
    share = dice.choice([0.02, 0.3, 1.0])

    def replace(found: re.Match[bytes]) -> bytes:
        return dice.choice(values).encode() if dice.random() < share else found[0]

    files[name] = pattern.sub(replace, files[name][:HUGE])


def absurd_numbers(dice: random.Random, files: Files) -> None:
    _digits(dice, files, re.compile(rb"-?\d+"), NUMBERS)


def absurd_ranks(dice: random.Random, files: Files) -> None:
    _digits(
        dice,
        files,
        re.compile(rb"(?<=[Rr]ank)[ :=]?\d+|(?<=nranks )\d+|(?<=size )\d+|^\d+(?=: )", re.MULTILINE),
        NUMBERS,
    )


def absurd_dates(dice: random.Random, files: Files) -> None:
    _digits(dice, files, _DATE, DATES)


def carriage_returns(dice: random.Random, files: Files) -> None:
    name = _one(dice, files)
    files[name] = files[name].replace(b"\n", dice.choice([b"\r", b"\r\n", b"\r\r\n", b"", b"\n\r", b"\0\n"]))


def other_encoding(dice: random.Random, files: Files) -> None:
    name = _one(dice, files)
    text = files[name].decode("utf-8", "replace")
    files[name] = text.encode(dice.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"]), "replace")


def one_long_line(dice: random.Random, files: Files) -> None:
    name = _one(dice, files)
    if is_packed(files[name]):
        return  # a bomb a hundred times over is as slow as what it holds is long
    data = files[name].replace(b"\n", b" ") or b"x"
    files[name] = (data * (HUGE // len(data) + 1))[:HUGE] + files[name]


def storm(dice: random.Random, files: Files) -> None:
    name = _one(dice, files)
    if is_packed(files[name]):
        return
    line = dice.choice(files[name].splitlines() or [b""])[:200] or b"x"
    at = files[name].find(b"\n", _at(dice, files[name])) + 1
    files[name] = files[name][:at] + (line + dice.choice([b"\n", b"\r"])) * dice.choice([3, 500]) + files[name][at:]


def known_lines(dice: random.Random, files: Files) -> None:
    name = _one(dice, files)
    for _ in range(dice.choice([1, 5, 30])):
        at = files[name].find(b"\n", _at(dice, files[name])) + 1
        line = dice.choice(lines()).encode("utf-8", "surrogateescape")
        files[name] = (
            files[name][:at] + dice.choice([b"", b"3: ", b"[rank7]: ", b"n1: "]) + line + b"\n" + files[name][at:]
        )


def interleave(dice: random.Random, files: Files) -> None:
    one, other = files[_one(dice, files)], files[_one(dice, files)]
    mixed, size = b"", dice.choice([1, 7, 60, 400])
    for at in range(0, min(len(one), 30_000), size):
        mixed += one[at : at + size] + other[at : at + size]
    files[dice.choice(NAMES)] = mixed


def rename(dice: random.Random, files: Files) -> None:
    files[dice.choice(NAMES)] = files.pop(_one(dice, files))


def empty(dice: random.Random, files: Files) -> None:
    files[_one(dice, files)] = dice.choice([b"", b"\n", b"\0", b"\xff\xfe", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"])


def pack(dice: random.Random, files: Files) -> None:
    name = _one(dice, files)
    data = dice.choice([files[name], files[name], bytes(3_000_000), b"\n" * 1_000_000, gzip.compress(files[name])])
    packed = gzip.compress(data) if dice.random() < 0.5 else zstandard.compress(data)
    packed = packed[: _at(dice, packed)] if dice.random() < 0.5 else packed
    files[name + dice.choice(["", ".gz", ".zst"])] = packed


def secret(dice: random.Random, files: Files) -> None:
    name = _one(dice, files)
    for _ in range(dice.choice([1, 10])):
        at = files[name].find(b" ", _at(dice, files[name]))
        files[name] = files[name][: at + 1] + SECRET.encode() + b" " + files[name][at + 1 :]


def strange(dice: random.Random, depth: int = 3) -> Any:
    """Return a value that nobody expects."""
    if depth and dice.random() < 0.4:
        return dice.choice(
            [
                [strange(dice, depth - 1) for _ in range(dice.randrange(4))],
                {dice.choice(["0", "ranks", "desc", "name", "x"]): strange(dice, depth - 1)},
            ]
        )
    return dice.choice(
        [None, True, 0, -5, 3, 2**70, 1e308, float("nan"), "", "0", "completed", "[0, 1]", "x" * 300, [], {}]
    )


def dump(dice: random.Random, files: Files) -> None:
    """Add a flight recorder's dump, plausible but for some values."""

    def odd(value: Any) -> Any:
        return strange(dice) if dice.random() < wrong else value

    wrong = dice.choice([0.0, 0.03, 0.3])
    groups = [["0", "default_pg"], ["1", "tp"], strange(dice)]
    entries = [
        odd(
            {
                "record_id": odd(number), "pg_id": odd(0), "process_group": odd(dice.choice(groups)),
                "collective_seq_id": odd(number), "p2p_seq_id": odd(0), "op_id": odd(number),
                "profiling_name": odd(dice.choice(["nccl:all_reduce", "nccl:send 1->2", "nccl:"])),
                "input_sizes": odd([[1, 2]]), "output_sizes": odd([[1]]), "input_dtypes": odd(["Float"]),
                "output_dtypes": odd(["Float"]), "state": odd(dice.choice(["scheduled", "started", "completed"])),
                "is_p2p": odd(False), "retired": odd(dice.random() < 0.5), "timeout_ms": odd(600000),
                "time_created_ns": odd(1_700_000_000_000_000_000), "duration_ms": odd(None),
                "frames": odd([odd({"name": "fit", "filename": "/home/alice/train.py", "line": 3})]),
            }
        )
        for number in range(dice.choice([0, 1, 40]))
    ]  # fmt: skip
    whole: Any = odd(
        {
            "version": odd("2.5"), "entries": odd(entries), "nccl_comm_state": odd({}),
            "pg_config": odd({"0": odd({"name": "0", "desc": odd("default_pg"), "ranks": odd("[0, 1, 2]")})}),
            "pg_status": odd({"0": odd({"last_enqueued_collective": odd(3), "last_completed_collective": odd(-1)})}),
        }
    )  # fmt: skip
    protocol = dice.randrange(6)
    data = json.dumps(whole).encode() if dice.random() < 0.5 else pickle.dumps(whole, protocol)
    if dice.random() < 0.2:
        data = dice.choice(
            [b"\x80\x04", b"\x80\x02c__builtin__\nlist\n", b"(" * 5000, b"[" * 50_000, b'{"entries":' * 900]
        )
    files[f"nccl_trace_rank_{dice.choice([0, 1, 2, 999999])}{dice.choice(['', '.json', '.pkl'])}"] = data
    if dice.random() < 0.5:
        flip(dice, files)


MUTATIONS: tuple[Mutation, ...] = (
    *(flip, tear, insert, absurd_numbers, absurd_ranks, absurd_dates, carriage_returns, other_encoding, one_long_line),
    *(storm, known_lines, interleave, rename, empty, pack, secret, dump),
)


def strange_job(dice: random.Random, job: dict[str, Any]) -> Any:
    """Return facts of a job of which some are absurd."""
    if dice.random() < 0.1:
        return strange(dice)
    absurd: list[Any] = [
        0,
        -5,
        10**12,
        2**63,
        "8",
        "x",
        None,
        [],
        {},
        1.5,
        True,
        float("inf"),
        "0000-00-00",
        "9999-12-31T23:59:59Z",
    ]
    names = ["world_size", "ranks_per_node", "attempt", "exit_code", "signal", "nodes", "state", "started_at", "ended_at",
             "time_limit_seconds", "job_id", "scheduler", "name", "comment", "reason"]  # fmt: skip
    for name in dice.sample(names, dice.choice([0, 1, 3])):
        job[name] = dice.choice(absurd)
    return job
