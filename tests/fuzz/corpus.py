"""What mutations start from: cases with known truth, lines that the catalogue knows, and pieces that parsers dislike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from knowledge.catalogue import load_catalogue
from tests.accuracy.cases import CASES

SMALL = 60_000  # bytes of a case that is diagnosed a hundred times a minute

NUMBERS = [
    *["0", "-1", "-5", "00", "007", "1e9", "0x1f", "65536", "131072", "999999", "99999999999", "9" * 40, "9" * 400],
    *["2147483648", "18446744073709551616", "³", "٣", "1.5", "nan", ""],
]
DATES = [
    *["0000-00-00 00:00:00", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999999-23:59", "2026-02-30 25:61:61"],
    *["1969-12-31T23:59:60Z", "Feb 31 99:99:99", "I1399 24:00:00.1", "00/00/00 00:00:00", "8999-12-31T23:59:59-99:99"],
    *["Mon Xyz 99 00:00:00 0000", "[99999999.999999]", "E0230 10:00:00.123456789", "1970-01-01T00:00:00+99:99"],
]
PIECES = [
    *[
        "\0",
        "\r",
        "\n",
        "\r\n",
        "\x1b[31m",
        "\x1b[",
        "\x1b]8;;",
        "\x1b",
        "\x9b",
        "\ufeff",
        "\u2028",
        "é",
        "😀",
        "\udcff",
    ],
    *[
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        '"',
        "'",
        "\\",
        ":",
        "=",
        ",",
        ".",
        "-",
        "_",
        "/",
        "@",
        "%",
        "#",
        "<",
        ">",
        "|",
        "*",
    ],
    *[
        " ",
        "\t",
        "  File ",
        'File "',
        "Traceback (most recent call last):\n",
        "rank",
        "rank ",
        "[rank0]: ",
        "0: ",
        "[0] ",
    ],
    *["host: ", "NCCL ", "Error", "error: ", "Xid ", "exit code ", "signal ", "(pid: ", "0-99999999", "1,2-", "step "],
    *[
        "password=",
        "token: ",
        "-----BEGIN PRIVATE KEY-----",
        "://",
        "[redacted:",
        "Bearer ",
        "eyJ",
        "cookie: ",
        "curl -u ",
    ],
    *["--token", "name: X_TOKEN\n  value: ", "password:\n  ", "secret: |\n  ", "AKIA", "hf_", "sk-", "8Q~", "a" * 64],
]
NAMES = [
    *["rank-0.log", "rank-999999.err", "slurm-1.out", "kernel-gpu-n1.log", "dmesg", "events.json", "describe.txt"],
    *[
        "nccl_trace_rank_3",
        "trace_1.pkl",
        "nvidia-smi-gpu-n1.txt",
        "slurmctld.log",
        "attempt_1/0/stderr.log",
        "a/b/c/d.log",
    ],
    *[
        "none_x/attempt_999/7/stdout.log",
        "rank-1.error.json",
        "job.json",
        "rank_0_rank_1.log",
        "agent-n1.log",
        ".hidden",
    ],
]


@dataclass(frozen=True)
class Case:
    """A bundle in memory: files by name, and the scheduler's facts."""

    files: Mapping[str, bytes]
    job: Mapping[str, Any]


@cache
def cases() -> tuple[Case, ...]:
    """Return the small cases, in the same order everywhere."""
    found = []
    for truth in sorted(CASES.glob("*/*/truth.json")):
        folder = truth.parent
        logs = sorted(path for path in (folder / "logs").rglob("*") if path.is_file())
        if sum(path.stat().st_size for path in logs) > SMALL:
            continue
        files = {path.relative_to(folder / "logs").as_posix(): path.read_bytes() for path in logs}
        facts = folder / "job.json"
        found.append(Case(files, json.loads(facts.read_bytes()) if facts.exists() else {}))
    return tuple(found)


@cache
def lines() -> tuple[str, ...]:
    """Return lines worth mutating: the catalogue's samples and one line in eight of the cases."""
    samples = [sample.text for entry in load_catalogue() for sample in entry.samples.match]
    texts = [line for case in cases() for data in case.files.values() for line in _lines(data)[::8]]
    return tuple(dict.fromkeys([*samples, *texts]))


def _lines(data: bytes) -> list[str]:
    return [line[:400] for line in data.decode("utf-8", "replace").split("\n") if line.strip()]


FOUND = Path(__file__).parent / "found"
