"""What sites' own launchers and loggers write round the words of ranks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]

TRACE = 'Traceback (most recent call last):\n  File "/app/train.py", line 5, in main\n    step()\n'
LOST = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:63176.\n"
STEPS = "".join(f"step {step} loss 0.5\n" for step in range(3))


def _tagged(rank: int, text: str, tag: str) -> str:
    return "".join(f"{tag.format(rank)}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "tag", ["21:47:38 [worker {}] ", "2026-03-01 21:47:38,512 [rank {}] ", "<task {}>: ", "(rank={}) "]
)
def test_a_sites_own_tag_in_front_of_every_line_tells_the_rank(verdict: Verdict, tag: str) -> None:
    odd = _tagged(1, f"{STEPS}{TRACE}OverflowError: too far\n", tag)
    rest = "".join(_tagged(rank, STEPS + TRACE + LOST, tag) for rank in (0, 2))
    told = verdict({"all.log": rest + odd})
    assert (told.cause.id, told.initiating.ranks) == ("app-exception", [1])


def test_a_traceback_below_the_record_of_an_error_is_of_the_records_rank(verdict: Verdict) -> None:
    def record(rank: int, level: str, text: str) -> str:
        return f"2026-11-30 21:47:42.0{rank} | {level:8} | rank={rank} | train:main:3 - {text}\n"

    def section(rank: int, error: str) -> str:
        steps = "".join(record(rank, "INFO", f"step {step}") for step in range(3))
        return steps + record(rank, "ERROR", "An error has been caught") + TRACE + error

    log = section(0, LOST) + section(1, LOST) + section(2, "OverflowError: too far\n")
    assert verdict({"merged.err": log}).initiating.ranks == [2]


def test_a_traceback_below_a_record_that_tells_of_no_error_is_nobodys(verdict: Verdict) -> None:
    log = f"2026-11-30 21:47:42 | INFO | rank=2 | step 3\n{TRACE}OverflowError: too far\n"
    assert verdict({"merged.err": f"rank 0 of 4\nrank 1 of 4\n{log}"}).initiating.ranks == []


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("rank 1 exited with status 3, stopping the others", "silent-exit"),
        ("worker 1 (pid 4411) died with signal 9", "killed-unknown"),
        ("[launch] task #1 on gn07 exit: proc rank 1 terminated, returncode=-11", "segfault"),
    ],
)
def test_a_sites_own_launcher_tells_how_a_rank_ended(verdict: Verdict, line: str, cause: str) -> None:
    told = verdict(
        {"launch.log": f"starting 3 ranks\n{line}\nrank 0 exited with status 1\n", "rank-0.log": TRACE + LOST}
    )
    assert (told.cause.id, told.initiating.ranks) == (cause, [1])


@pytest.mark.parametrize(
    "teller", ["sync.rank{} - INFO -", "| r{} | INFO |", "[rk{}] I", "RANK 0{} | INFO |", "P{} info"]
)
def test_ranks_are_known_by_how_a_sites_logger_calls_them(verdict: Verdict, teller: str) -> None:
    def said(rank: int, words: str) -> str:
        return f"2026-12-01 00:45:4{rank},011 {teller.format(rank)} {words}\n"

    steps = "".join(said(rank, f"step {step} loss 0.5") for step in range(3) for rank in range(3))
    ends = "".join(said(rank, "ERROR check failed") + TRACE + LOST for rank in (0, 1))
    log = steps + said(2, "ERROR check failed") + TRACE + "OverflowError: too far\n" + ends
    told = verdict({"all.log": log})
    assert (told.cause.id, told.initiating.ranks) == ("app-exception", [2])


def test_numbers_with_gaps_are_no_ranks_of_a_logger(verdict: Verdict) -> None:
    steps = "".join(f"12:45:4{step} | P{step * 3} | x\n" for step in range(6))
    assert (
        verdict({"all.log": f"{steps}12:46:00 | P3 | ERROR failed\n{TRACE}OverflowError: too far\n"}).initiating.ranks
        == []
    )


def test_torchruns_workers_may_have_any_role(verdict: Verdict) -> None:
    ends = {0: LOST, 1: "RuntimeError: dictionary changed size during iteration\n", 2: LOST}
    lines = [f"[gpu{rank}]:step {step}\n" for step in range(4) for rank in ends]
    lines += [
        f"[gpu{rank}]:[rank{rank}]: {line}\n" for rank, end in ends.items() for line in (TRACE + end).splitlines()
    ]
    told = verdict({"m1.log": "".join(lines)})
    assert (told.cause.id, told.initiating.ranks) == ("app-exception", [1])
