"""Weighing hypotheses against each other: symptoms yield to what explains them, and the best one leads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from knowledge.attribution import endings, hardware, interfaces, loose, named, network, odd_one, own_errors, platform, waiting
from knowledge.attribution.hypothesis import Hypothesis
from knowledge.attribution.view import CaseView
from knowledge.causes import load_causes
from knowledge.signature import Scope

_RULES = (
    platform.propose,
    hardware.propose,
    own_errors.propose,
    named.propose,
    odd_one.propose,
    interfaces.propose,
    network.propose,
    endings.propose,
    waiting.propose,
    loose.propose,
)

_STATED = ("time-limit", "preempted", "node-failure", "cancelled", "evicted")
"""Decisions of the platform: whatever ranks say after them is collateral."""

_VAGUE = (
    "killed-unknown", "silent-exit", "peer-lost", "rank-hang", "missing-rank", "collective-timeout", "native-abort", "nccl-error",
    "terminated", "coordinator-died", "actor-died", "dataloader-worker-killed", "unknown", "segfault", "bus-error",
)  # fmt: skip
"""Causes that say how it ended rather than why: another cause near them, that says why, explains them."""

_OF_NODES = ("gpu-hardware", "driver", "host-memory", "storage", "kubernetes", "scheduler", "network", "gpu-memory", "gpu", "launcher")
"""Layers whose causes can make a process end or hang without a word."""


def weigh(view: CaseView) -> list[Hypothesis]:
    """All hypotheses, the best first. Empty: nothing in the evidence speaks of a failure."""
    found = [hypothesis for rule in _RULES for hypothesis in rule(view)]
    for hypothesis in found:
        _localise(hypothesis, found)
    found = [_against(hypothesis, found) for hypothesis in found]
    found.sort(key=lambda hypothesis: -hypothesis.score)
    return _merge(found)


def _localise(one: Hypothesis, all_of_them: Sequence[Hypothesis]) -> None:
    """A node's fact that names no single rank takes the rank whose own words it explains, and gives it its host."""
    for other in all_of_them:
        if other is one or not other.ranks or not (one.cause == other.cause or _explains(one, other)):
            continue
        if not one.hosts and one.whole_job:
            continue
        narrower = not one.ranks or (set(other.ranks) < set(one.ranks) and not _of_node(one))
        if narrower and (not other.hosts or set(other.hosts) <= set(one.hosts)):
            one.ranks = other.ranks
            one.hosts = one.hosts or other.hosts
            one.proofs.extend(other.proofs[:2])


def _of_node(one: Hypothesis) -> bool:
    return one.signature is not None and one.signature.scope is Scope.NODE


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
        return one.cause not in _STATED and not (one.whole_job and one.cause == "rank-hang")
    near = bool(set(other.hosts) & set(one.hosts)) or bool(set(other.ranks) & set(one.ranks)) or not one.hosts or not other.hosts
    if one.signature and other.cause in one.signature.explained_by:
        return near
    if one.cause in _VAGUE and other.cause not in _VAGUE and other.score >= 0.5:
        return near and (load_causes()[other.cause].layer in _OF_NODES or bool(set(one.ranks) & set(other.ranks)))
    return False


def _merge(ordered: list[Hypothesis]) -> list[Hypothesis]:
    """Fold weaker hypotheses that say the same of the same ranks into the stronger one."""
    kept: list[Hypothesis] = []
    for hypothesis in ordered:
        twin = next((one for one in kept if _same(one, hypothesis)), None)
        if twin is None:
            kept.append(hypothesis)
            continue
        seen = {(proof.place.source.name, proof.place.line) for proof in twin.proofs}
        twin.hosts = twin.hosts or hypothesis.hosts
        twin.proofs.extend(proof for proof in hypothesis.proofs if (proof.place.source.name, proof.place.line) not in seen)
    return kept


def _same(one: Hypothesis, other: Hypothesis) -> bool:
    if one.cause != other.cause:
        return False
    return set(one.ranks) == set(other.ranks) or not other.ranks or (not one.hosts and bool(set(one.ranks) & set(other.ranks)))
