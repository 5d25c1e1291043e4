"""Weighing hypotheses against each other: symptoms yield to what explains them, and the best one leads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from knowledge.attribution import endings, hardware, named, network, own_errors, platform, waiting
from knowledge.attribution.hypothesis import Hypothesis
from knowledge.attribution.view import CaseView

_RULES = (platform.propose, hardware.propose, own_errors.propose, named.propose, network.propose, endings.propose, waiting.propose)

_STATED = ("time-limit", "preempted", "node-failure", "cancelled", "evicted")
"""Decisions of the platform: whatever ranks say after them is collateral."""

_DEEPER = {
    "killed-unknown": {"host-oom", "node-failure", "evicted", "preempted"},
    "silent-exit": {"host-oom", "node-failure", "uneven-data"},
    "peer-lost": {"host-oom", "node-failure"},
    "rank-hang": {"gpu-throttled", "storage-io-error", "gsp-timeout", "straggler", "slow-checkpoint", "slow-preprocessing"},
    "missing-rank": {"unschedulable", "image-pull", "mount-failed", "node-failure", "pod-config"},
    "collective-timeout": set(),
}
"""Causes that say "nothing tells why", and the causes that do."""


def weigh(view: CaseView) -> list[Hypothesis]:
    """All hypotheses, the best first. Empty: nothing in the evidence speaks of a failure."""
    found = [hypothesis for rule in _RULES for hypothesis in rule(view)]
    found = [_against(hypothesis, found) for hypothesis in found]
    found.sort(key=lambda hypothesis: -hypothesis.score)
    return _merge(found)


def _against(one: Hypothesis, all_of_them: Sequence[Hypothesis]) -> Hypothesis:
    """`one`, with its score lowered by every other that explains it."""
    score = one.score
    for other in all_of_them:
        if other is one or not other.failed and one.failed and other.cause != "cancelled":
            continue
        if _explains(other, one):
            score = min(score, other.score - 0.05)
    return replace(one, score=max(score, 0.01))


def _explains(other: Hypothesis, one: Hypothesis) -> bool:
    if other.cause == one.cause:
        return False
    if other.cause in _STATED and other.score >= 0.9:
        return one.cause not in _STATED
    near = bool(set(other.hosts) & set(one.hosts)) or bool(set(other.ranks) & set(one.ranks)) or not one.hosts or not other.hosts
    if one.signature and other.cause in one.signature.explained_by:
        return near
    deeper = _DEEPER.get(one.cause)
    if deeper is None or other.score < 0.5:
        return False
    return other.cause in deeper and near or not deeper and other.cause not in _DEEPER


def _merge(ordered: list[Hypothesis]) -> list[Hypothesis]:
    """Fold weaker hypotheses that say the same of the same ranks into the stronger one."""
    kept: list[Hypothesis] = []
    for hypothesis in ordered:
        twin = next((one for one in kept if one.cause == hypothesis.cause and (set(one.ranks) == set(hypothesis.ranks) or not hypothesis.ranks)), None)
        if twin is None:
            kept.append(hypothesis)
            continue
        seen = {(proof.place.source.name, proof.place.line) for proof in twin.proofs}
        twin.proofs.extend(proof for proof in hypothesis.proofs if (proof.place.source.name, proof.place.line) not in seen)
    return kept
