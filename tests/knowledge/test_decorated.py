"""Errors inside what loggers and journals draw round them."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]

LOST = "RuntimeError: [/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.9]:1234."


def test_a_boxed_traceback_is_one(verdict: Verdict) -> None:
    boxed = (
        "[rank1]: ╭───────── Traceback (most recent call last) ─────────╮\n"
        "[rank1]: │ /app/train.py:45 in fit                             │\n"
        "[rank1]: │                                                     │\n"
        "[rank1]: │ ❱ 45 │   raise Unfit(label)                         │\n"
        "[rank1]: ╰─────────────────────────────────────────────────────╯\n"
        "[rank1]: Unfit: label 17 outside of [0, 4)\n"
    )
    said = verdict(
        {"log-1.txt": "rank=1 world_size=2\n" + boxed, "log-0.txt": f"rank=0 world_size=2\n[rank0]: {LOST}\n"}
    )
    assert (said.cause.id, said.initiating.ranks) == ("app-exception", [1])
    assert "fit() (train.py:45)" in said.cause.summary


def test_ranks_are_found_behind_the_words_of_a_journal(verdict: Verdict) -> None:
    late = "RuntimeError: [/src/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 10000ms for recv operation to complete"
    lines = [
        *(f"rank={rank} world_size=4 pid=30{rank}" for rank in range(4)),
        *(f"[rank{rank}]: step 3 loss 0.5" for rank in range(4)),
        *(f"[rank{rank}]: {late}" for rank in (0, 1, 3)),
    ]
    said = verdict(
        {"journal.txt": "".join(f"Nov 30 21:40:{at:02d} c7 torchrun[3312]: {line}\n" for at, line in enumerate(lines))}
    )
    assert (said.cause.id, said.initiating.ranks) == ("rank-hang", [2])
    assert said.initiating.hosts == ["c7"]
