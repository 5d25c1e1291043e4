"""Who is to blame where ranks do not find together."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]

START = "rank={rank} world_size=3 master=head:29500\n"
NO_NAME = "[c10d] The IPv6 network addresses of (head-0.train.svc, 29500) cannot be retrieved (gai error: -2 - Name or service not known).\n"
NO_MASTER = (
    "[c10d] The client socket has timed out after 12000ms while trying to connect to (head-0.train.svc, 29500).\n"
)
TIME_UP = "torch.distributed.DistStoreError: Timed out after 13 seconds waiting for clients. 2/3 clients joined.\n"
NOT_SET = "torch.distributed.DistStoreError: wait timeout after 12000ms, keys: /default_pg/0//cpu//0/0\n"


def test_the_one_rank_that_cannot_resolve_the_masters_name_is_it(verdict: Verdict) -> None:
    said = {0: TIME_UP, 1: "poll returned 0, likely a timeout\n" + NOT_SET, 2: NO_NAME + NO_MASTER}
    told = verdict({f"w-{rank}.log": START.format(rank=rank) + words for rank, words in said.items()})
    assert (told.cause.id, told.initiating.ranks) == ("name-not-resolved", [2])


def test_a_name_that_most_ranks_cannot_resolve_is_no_single_ranks_fault(verdict: Verdict) -> None:
    said = {0: TIME_UP, 1: NO_NAME + NO_MASTER, 2: NO_NAME + NO_MASTER}
    told = verdict({f"w-{rank}.log": START.format(rank=rank) + words for rank, words in said.items()})
    assert (told.cause.id, told.initiating.ranks) == ("name-not-resolved", [])
