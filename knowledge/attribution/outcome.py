"""Did it fail at all? Then, and only then, why."""

from __future__ import annotations

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.platform import ended_well, state_of
from knowledge.attribution.view import CaseView
from knowledge.attribution.weigh import weigh
from knowledge.diagnosis import Role

_FAILED = ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "LAUNCH_FAILED", "ERROR")


def conclude(view: CaseView) -> list[Hypothesis]:
    """The hypotheses that stand, best first; empty when nothing failed."""
    if ended_well(view):
        return []
    found = weigh(view)
    if found and found[0].cause == "cancelled":
        return found
    failed = state_of(view) in _FAILED or bool(view.case.job.exit_code)
    if found and (failed or not _all_well(view)):
        return found
    if failed or _broke_off(view):
        return [*found, _unknown(view)]
    return []


def _all_well(view: CaseView) -> bool:
    """Every rank that spoke said that training was done, and no process ended badly."""
    if any(ended.code not in (0,) for ended in view.exits.values()):
        return False
    told = [story for story in view.stories.values() if story.lines]
    return bool(told) and all(story.finished for story in told)


def _broke_off(view: CaseView) -> bool:
    return any(ended.code not in (0,) for ended in view.exits.values())


def _unknown(view: CaseView) -> Hypothesis:
    exits = [ended for ended in view.exits.values() if ended.code][:2]
    return Hypothesis(
        cause="unknown", score=0.3, reason="it failed, and nothing that was read says why",
        proofs=[Proof(ended.place, Role.CONTEXT) for ended in exits],
    )  # fmt: skip
