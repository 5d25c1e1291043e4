"""How sure: from what an answer rests on to how often such answers are right.

Scores order hypotheses; a confidence is a promise. One logistic curve leads from the leading score to it, lowered by what
the evidence lacks. Its few numbers are fitted on cases with known truth, whole ones and the same with evidence taken away
(`python -m tests.accuracy.calibrate --write`), and stand in `calibration.json`; docs/accuracy.md tells how well it keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import exp, log
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from knowledge.attribution.hypothesis import Hypothesis
from knowledge.attribution.view import CaseView
from knowledge.causes import load_causes

FILE = Path(__file__).with_name("calibration.json")
CLOSE = 0.3
"""Lead over the next hypothesis, in score, from which that one no longer matters."""

_PLAIN = 0.7  # score up to which an open question is told by the score itself
_LEAST, _MOST = 0.01, 0.99
_OF_GPUS = ("nccl", "cuda", "xid", "c10d")
"""Beginnings of entries that only jobs with GPUs, or those that might have some, write."""


@dataclass(slots=True, frozen=True)
class Grounds:
    """What an answer rests on. The doubts after the score are 0 where there are none, and 1 at most."""

    kind: str  # of reasoning
    score: float
    open: (
        float  # a high score for a cause that leaves open why, where the node's own log, which could tell, was not read
    )
    torn: float  # share of the ranks that were heard whose log ends too early
    unheard: float  # share of all ranks of which nothing was read
    rival: float  # how near the next hypothesis comes


def grounds_of(view: CaseView, hypotheses: Sequence[Hypothesis]) -> Grounds:
    """What the first of `hypotheses` rests on; there must be one."""
    best, *others = hypotheses
    gaps = view.gaps
    lead = best.score - (others[0].score if others else 0.0)
    return Grounds(
        kind=best.kind,
        score=best.score,
        open=max(0.0, (best.score - _PLAIN) / (1 - _PLAIN)) if _leaves_open(view, best) else 0.0,
        torn=len(gaps.torn) / max(1, len(view.stories)),
        unheard=len(gaps.unheard) / max(1, len(view.ranks)),
        rival=max(0.0, 1 - lead / CLOSE),
    )


def _leaves_open(view: CaseView, best: Hypothesis) -> bool:
    if not load_causes()[best.cause].fact_that_decides or view.gaps.node_read(best.hosts):
        return False
    return any(hit.signature.id.startswith(_OF_GPUS) for hit in view.case.hits)


def confidence_of(grounds: Grounds, curve: Mapping[str, float] | None = None) -> float:
    """How often an answer on such grounds is right, to two digits, by `curve` or the one that was fitted.

    Where no case has shown how right a kind of reasoning is, its score is the most that it is worth.
    """
    fitted = _fitted()
    odds = sum((curve or fitted.curve)[name] * x for name, x in terms(grounds))
    confidence = 1 / (1 + exp(-odds))
    most = _MOST if grounds.kind in fitted.kinds else grounds.score
    return round(min(_MOST, most, max(_LEAST, confidence)), 2)


def terms(grounds: Grounds) -> list[tuple[str, float]]:
    """The terms of the curve: a constant, the score's log odds, and the doubts."""
    doubts = asdict(grounds)
    del doubts["kind"]
    score = min(_MOST, max(_LEAST, doubts.pop("score")))
    return [("constant", 1.0), ("score", log(score / (1 - score))), *doubts.items()]


class Fitted(BaseModel):
    """`calibration.json`: the curve, and the kinds of reasoning that led in enough of the cases that it was fitted on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    curve: dict[str, float]
    kinds: frozenset[str]


@cache
def _fitted() -> Fitted:
    return Fitted.model_validate_json(FILE.read_bytes())
