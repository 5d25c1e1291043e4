"""Attempts: the last one leads, and an earlier one is told where it explains the last, or ended the same way."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.attribution.hypothesis import Hypothesis
from knowledge.attribution.view import CaseView, view_case
from knowledge.attribution.weigh import weigh
from knowledge.reading.evidence import CaseEvidence
from knowledge.reading.roster import KINDS_OF_RANKS

LEFT_OVER = frozenset(
    {
        "port-in-use", "checkpoint-corrupt", "checkpoint-missing", "checkpoint-write-race", "master-unreachable", "missing-rank",
        "connection-blocked", "name-not-resolved", "coordinator-died", "peer-lost", "collective-timeout", "rank-hang", "terminated",
        "gpu-access-lost", "unknown",
    }
)  # fmt: skip
"""Causes that an attempt often has from what the one before it left behind: a port, half a checkpoint, a lost node."""

_LEAST = 0.55  # score from which an earlier attempt's cause is worth telling


@dataclass(slots=True)
class Earlier:
    """What ended an earlier attempt."""

    attempt: int
    last: int
    hypothesis: Hypothesis
    same: bool  # it ended as the last one did


def look_back(case: CaseEvidence, best: Hypothesis) -> Earlier | None:
    """The latest attempt before the last that explains `best`, or that ended the same way; None where there is none."""
    for attempt in range(case.last_attempt - 1, -1, -1):
        view = view_case(case, attempt)
        cause = next((one for one in weigh(view) if _of_attempt(view, one)), None)
        if cause is None or cause.score < _LEAST:
            continue
        if cause.cause == best.cause and best.cause not in LEFT_OVER and set(cause.ranks) == set(best.ranks):
            return Earlier(attempt, case.last_attempt, cause, same=True)
        if best.cause in LEFT_OVER and cause.cause not in LEFT_OVER:
            return Earlier(attempt, case.last_attempt, cause, same=False)
        if best.cause not in LEFT_OVER:
            return None
    return None


def _of_attempt(view: CaseView, one: Hypothesis) -> bool:
    """Whether a hypothesis rests on what the attempt itself wrote: node and scheduler logs do not know attempts."""
    if not one.failed or not one.proofs:
        return False
    place = one.proofs[0].place
    return place.attempt == view.attempt and place.source.kind in KINDS_OF_RANKS
