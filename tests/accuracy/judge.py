"""Compare an answer with the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.accuracy.cases import Names, Truth


@dataclass(frozen=True)
class Verdict:
    """True: right, False: wrong, None: not asked."""

    outcome: bool | None = None
    cause: bool | None = None
    ranks: bool | None = None
    hosts: bool | None = None
    missing: bool | None = None

    @property
    def wrong(self) -> list[str]:
        return [name for name, right in vars(self).items() if right is False]

    @property
    def right(self) -> bool:
        return not self.wrong


def judge(truth: Truth, answer: Mapping[str, Any]) -> Verdict:
    """Judge the JSON document of a diagnosis. Of a job that did not fail only the outcome is asked."""
    failed = answer.get("outcome") != "not-a-failure"
    missing = bool(answer.get("missing")) if truth.needs_missing_fact else None
    if truth.outcome == "not-a-failure":
        return Verdict(outcome=not failed, cause=not failed, missing=missing)
    named = answer.get("initiating") or {}
    return Verdict(
        outcome=None if truth.outcome == "any" else failed,
        cause=((answer.get("cause") or {}).get("id") or "unknown") in truth.causes,
        ranks=_ranks_right(truth.ranks, named.get("ranks") or []),
        hosts=_hosts_right(truth.hosts, named.get("hosts") or []),
        missing=missing,
    )


def _ranks_right(acceptable: Names, named: Sequence[int]) -> bool | None:
    if acceptable == "any":
        return None
    got = {str(rank) for rank in named}
    return any(got == set(ranks) for ranks in acceptable)


def _hosts_right(acceptable: Names, named: Sequence[str]) -> bool | None:
    """A host may carry a second name beside the expected one: a pod and its node, a short name and a full one."""
    if acceptable == "any":
        return None
    got = set(named)
    return any(
        got == set(hosts) or (bool(hosts) and set(hosts) <= got and len(got) <= 2 * len(hosts)) for hosts in acceptable
    )
