"""A group that is a part of the job: which of its members the others waited for."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]

STEPS = "step 1\nstep 2\n"


def waited(rank: int, member: int, group: int) -> str:
    over = (
        f"[Rank {member}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=60, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, "
        "Timeout(ms)=600000) ran for 600041 milliseconds before timing out."
    )
    return (
        f"[rank{rank}]:[E0304 02:22:45.000000123 ProcessGroupNCCL.cpp:616] {over}\n"
        f"[rank{rank}]:[E0304 02:22:45.000000123 ProcessGroupNCCL.cpp:1896] [PG ID {group} PG GUID {group}(DP) Rank {member}] "
        f"Process group watchdog thread terminated with exception: {over}\n"
    )


def files(*members: tuple[int, int]) -> dict[str, str]:
    """Logs of 16 ranks, of which those given waited in a group, each by its number in it."""
    numbers = dict(members)
    return {
        f"rank-{rank}.log": STEPS + (waited(rank, numbers[rank], 5) if rank in numbers else "") for rank in range(16)
    }


def test_the_number_that_is_missing_in_a_group_tells_the_rank(verdict: Verdict) -> None:
    told = verdict(files((1, 0), (5, 1), (13, 3)))
    assert (told.cause.id, told.initiating.ranks) == ("rank-hang", [9])


def test_members_at_uneven_distances_tell_no_rank(verdict: Verdict) -> None:
    assert verdict(files((1, 0), (6, 1), (13, 3))).initiating.ranks == []


def test_several_missing_numbers_tell_no_rank(verdict: Verdict) -> None:
    assert verdict(files((1, 0), (7, 2), (13, 4))).initiating.ranks == []
