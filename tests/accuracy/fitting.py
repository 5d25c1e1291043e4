"""Fit the curve from grounds to confidence, and say how well a curve keeps its promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp

from knowledge.attribution.calibration import Grounds, terms

Curve = Mapping[str, float]

NO_CHANGE: Curve = {"constant": 0.0, "score": 1.0, "open": 0.0, "torn": 0.0, "unheard": 0.0, "rival": 0.0}
"""The curve that gives the score back."""

_FLOORS = {"score": 0.5}  # a higher score never means less
_CEILINGS = {"open": 0.0, "torn": 0.0, "unheard": 0.0, "rival": 0.0}  # a gap never makes an answer surer
_PULL = 0.5  # answers' worth by which each number is drawn to NO_CHANGE
_ROUNDS, _PACE = 2000, 0.002  # for some hundred answers


@dataclass(frozen=True)
class Sample:
    """One answer that was judged; `case` is the whole case that it was made from."""

    case: str
    grounds: Grounds
    right: bool
    weight: float = 1.0


def fit(samples: Sequence[Sample]) -> dict[str, float]:
    """The logistic curve that is likeliest for `samples`, drawn towards NO_CHANGE, by gradient descent."""
    rows = [(dict(terms(sample.grounds)), float(sample.right), sample.weight) for sample in samples]
    curve = dict(NO_CHANGE)
    for _ in range(_ROUNDS):
        slope = {name: _PULL * (curve[name] - NO_CHANGE[name]) for name in curve}
        for values, right, weight in rows:
            miss = weight * (1 / (1 + exp(-sum(curve[name] * x for name, x in values.items()))) - right)
            for name, x in values.items():
                if x:
                    slope[name] += miss * x
        for name, value in curve.items():
            moved = value - _PACE * slope[name]
            curve[name] = min(_CEILINGS.get(name, moved), max(_FLOORS.get(name, moved), moved))
    return {name: round(value, 3) for name, value in curve.items()}


def held_out(samples: Sequence[Sample], folds: int = 5) -> list[Curve]:
    """For each sample the curve that was fitted without any copy of its case."""
    cases = sorted({sample.case for sample in samples})
    fold_of = {case: number % folds for number, case in enumerate(cases)}
    curves = [fit([one for one in samples if fold_of[one.case] != fold]) for fold in range(folds)]
    return [curves[fold_of[sample.case]] for sample in samples]


Told = tuple[float, bool, float]
"""A confidence, whether the answer was right, and its weight."""


def brier(told: Sequence[Told]) -> float:
    """Mean squared distance of the confidences from what came true; 0 is best."""
    return sum(weight * (confidence - right) ** 2 for confidence, right, weight in told) / _sum(told)


@dataclass(frozen=True)
class Bin:
    """Answers of about one confidence: how sure they were and how often right, on average."""

    low: float
    high: float
    count: int
    sure: float
    right: float
    weight: float


EDGES = (0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)


def reliability(told: Sequence[Told]) -> list[Bin]:
    """The answers by confidence, in the bins between EDGES; empty bins are left out."""
    bins = []
    for low, high in pairwise(EDGES):
        inside = [one for one in told if low <= one[0] < high or one[0] == high == 1.0]
        if inside:
            total = _sum(inside)
            sure = sum(confidence * weight for confidence, _, weight in inside) / total
            right = sum(right * weight for _, right, weight in inside) / total
            bins.append(Bin(low, high, len(inside), sure, right, total))
    return bins


def calibration_error(told: Sequence[Told]) -> float:
    """Expected calibration error: by how much confidence and truth differ, on average over the bins."""
    total = _sum(told)
    return sum(abs(one.sure - one.right) * one.weight for one in reliability(told)) / total


def _sum(told: Sequence[Told]) -> float:
    return sum(weight for _, _, weight in told) or 1.0
