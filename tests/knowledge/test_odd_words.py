"""Errors that no entry knows: the rank with words of its own, and no alarm where ranks merely differ."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge import Diagnosis
from knowledge.diagnosis import Outcome, Role

Verdict = Callable[..., Diagnosis]

CLOSED = "RuntimeError: [/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.9]:1234."
WIDGET = "widget service at 10.4.1.7:9000 answered 77: lease of shard 12 is not valid, giving up"


def log(rank: int, *lines: str, early: str = "", steps: int = 30) -> str:
    """Trains for some steps, alike on every rank, and then says `lines`."""
    text = f"2026-11-30 08:00:00 rank={rank} world_size=4 host=n{rank // 2} pid={100 + rank}\n"
    text += "".join(f"{early}\n" for _ in range(bool(early)))
    for step in range(steps):
        text += f"2026-11-30 08:01:{step:02} step {step} loss 2.{step}\n"
        text += f"2026-11-30 08:01:{step:02} memory of rank {rank}: {7 * step} MiB\n"
    return text + "".join(f"2026-11-30 08:02:00 {line}\n" for line in lines)


def test_the_rank_whose_last_words_no_other_has_is_the_suspect(verdict: Verdict) -> None:
    logs = {f"rank-{rank}.log": log(rank, CLOSED) for rank in (0, 1, 3)}
    said = verdict(logs | {"rank-2.log": log(2, WIDGET, CLOSED)})
    assert said.initiating.ranks == [2]
    assert said.cause.id == "unknown"
    assert (said.evidence[0].role, said.evidence[0].rank) == (Role.ROOT, 2)
    assert "widget service" in said.evidence[0].text
    assert said.confidence < 0.6


def test_a_peer_that_the_others_name_comes_first(verdict: Verdict) -> None:
    """Rank 2 has odd words, but all lost the host of rank 4, and say so."""
    at = "n{host}:{pid}:{pid} [0] NCCL INFO Bootstrap : Using eth0:10.0.0.{host}<0>"
    gone = CLOSED.replace("10.0.0.9", "10.0.0.2")
    logs = {
        f"rank-{rank}.log": log(
            rank, *([WIDGET] if rank == 2 else []), gone, early=at.format(host=rank // 2, pid=100 + rank)
        )
        for rank in range(4)
    }
    logs |= {f"rank-{rank}.log": log(rank, early=at.format(host=2, pid=100 + rank)) for rank in (4, 5)}
    said = verdict(logs)
    assert 2 not in said.initiating.ranks
    assert said.initiating.hosts == ["n2"]


def test_numbers_addresses_and_paths_do_not_make_words_differ(verdict: Verdict) -> None:
    word = "cannot reach cache 10.4.1.{rank}:9000 for /scratch/job{rank}/part: handle 0x7f00{rank}"
    said = verdict({f"rank-{rank}.log": log(rank, word.format(rank=rank), CLOSED) for rank in range(4)})
    assert said.initiating.ranks == []


def test_a_known_error_of_another_rank_comes_first(verdict: Verdict) -> None:
    logs = {f"rank-{rank}.log": log(rank, CLOSED) for rank in (0, 3)}
    full = log(1, "OSError: [Errno 28] No space left on device: '/scratch/ckpt'")
    said = verdict(logs | {"rank-1.log": full, "rank-2.log": log(2, WIDGET, CLOSED)})
    assert (said.cause.id, said.initiating.ranks) == ("disk-full", [1])


@pytest.mark.parametrize("where", [1, 2])
def test_words_that_were_said_while_all_went_well_are_no_cause(verdict: Verdict, where: int) -> None:
    """The same line stood in the job's own earlier lines: of this rank, or of another."""
    logs = {
        f"rank-{rank}.log": log(
            rank, *([WIDGET] if rank == 2 else []), CLOSED, early=WIDGET.replace("77", "31") if rank == where else ""
        )
        for rank in range(4)
    }
    assert verdict(logs).initiating.ranks == []


def test_what_is_said_after_losing_a_peer_is_not_what_lost_it(verdict: Verdict) -> None:
    logs = {f"rank-{rank}.log": log(rank, CLOSED) for rank in (0, 1, 3)}
    assert verdict(logs | {"rank-2.log": log(2, CLOSED, WIDGET)}).initiating.ranks == []


def test_where_every_rank_says_something_else_nobody_is_odd(verdict: Verdict) -> None:
    words = ("apple could not be weighed", "pears are not found", "a plum is missing here", "figs exceed the basket")
    logs = {f"rank-{rank}.log": log(rank, words[rank], CLOSED) for rank in range(4)}
    assert verdict(logs).initiating.ranks == []


def test_odd_words_do_not_make_a_job_fail(verdict: Verdict) -> None:
    logs = {f"rank-{rank}.log": log(rank) for rank in (0, 1, 3)}
    said = verdict(logs | {"rank-2.log": log(2, WIDGET)})
    assert said.outcome is Outcome.NOT_A_FAILURE
    finished = {name: text + "training finished\n" for name, text in (logs | {"rank-2.log": log(2, WIDGET)}).items()}
    assert verdict(finished).outcome is Outcome.NOT_A_FAILURE


def test_what_rank_0_alone_reports_is_no_trouble(verdict: Verdict) -> None:
    logs = {f"rank-{rank}.log": log(rank, CLOSED) for rank in (1, 2, 3)}
    said = verdict(logs | {"rank-0.log": log(0, "evaluation done, perplexity 12.5, best so far", CLOSED)})
    assert said.initiating.ranks == []
