"""Fit how sure an answer may be, and tell how accurate answers are.

    python -m tests.accuracy.calibrate [--write]

All cases are diagnosed whole and with evidence taken away (see `degrade`). Without --write the figures are printed; with it
the curve goes to knowledge/attribution/calibration.json, the page to docs/accuracy.md and its picture to docs/images.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowledge.attribution import calibration, outcome
from knowledge.attribution.calibration import Grounds, confidence_of, grounds_of
from knowledge.attribution.view import view_case
from knowledge.catalogue import load_catalogue
from knowledge.reading.bundle import open_bundle
from knowledge.reading.reader import read_evidence
from knowledge.report import report
from tests.accuracy import page
from tests.accuracy.cases import Case, find_cases
from tests.accuracy.degrade import degraded
from tests.accuracy.fitting import NO_CHANGE, Curve, Sample, fit, held_out
from tests.accuracy.judge import Verdict, judge

WHOLE = "whole"
_WEIGHT_OF_CHANGE = 20.0  # of all answers after one change together, against 1 for an answer on a whole case
_ENOUGH = 3  # whole cases that a kind of reasoning must have decided to be judged by the curve

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Observation:
    """One answer, judged. `grounds` is None where nothing speaks of a failure: that confidence is not fitted."""

    case: Case
    change: str
    verdict: Verdict
    answer: dict[str, Any]
    grounds: Grounds | None

    def confidence(self, curve: Curve) -> float:
        """How sure the answer would be by `curve`."""
        return float(self.answer["confidence"]) if self.grounds is None else confidence_of(self.grounds, curve)


def observe(case: Case, change: str, copy: Case) -> Observation:
    """Diagnose `copy`, which is `case` after `change`."""
    view = view_case(read_evidence(open_bundle([copy.folder]), load_catalogue()))
    hypotheses = outcome.conclude(view)
    answer = report(view, hypotheses).model_dump(mode="json", by_alias=True)
    grounds = grounds_of(view, hypotheses) if hypotheses else None
    return Observation(case, change, judge(copy.truth, answer), answer, grounds)


def observe_all(cases: Sequence[Case]) -> Iterator[Observation]:
    """Diagnose all cases, each whole and with every change that applies."""
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases:
            yield observe(case, WHOLE, Case(case.stage(Path(scratch)), case.truth))
            for change, copy in degraded(case, Path(scratch)):
                yield observe(case, change, copy)


def main() -> int:
    """Fit, print the figures, and with --write keep them."""
    parser = argparse.ArgumentParser(description="fit how sure an answer may be, and tell how accurate answers are")
    parser.add_argument("--write", action="store_true", help="write the curve, the page and its picture")
    options = parser.parse_args()

    seen = list(observe_all(list(find_cases())))
    copies = Counter(one.change for one in seen)
    weights = {change: 1.0 if change == WHOLE else _WEIGHT_OF_CHANGE / count for change, count in copies.items()}
    fitted_on = [one for one in seen if one.grounds]
    samples = [
        Sample(one.case.name, one.grounds, one.verdict.right, weights[one.change])
        for one in fitted_on
        if one.grounds is not None
    ]
    fitted = fit(samples)
    led = Counter(sample.grounds.kind for sample in samples if sample.weight == 1.0)
    kinds = sorted(kind for kind, count in led.items() if count >= _ENOUGH)
    fair = dict(zip(map(id, fitted_on), held_out(samples), strict=True))
    told = [
        page.Told(
            group=one.case.folder.parent.name, change=one.change, truth=one.case.truth, verdict=one.verdict,
            before=one.confidence(NO_CHANGE), after=one.confidence(fair.get(id(one), NO_CHANGE)),
            weight=weights[one.change],
        )
        for one in seen
    ]  # fmt: skip
    text = page.write(told, fitted)
    if options.write:
        kept = json.dumps({"curve": fitted, "kinds": kinds}, indent=2)
        calibration.FILE.write_text(kept + "\n", encoding="utf-8")
        (_ROOT / "docs" / "accuracy.md").write_text(text, encoding="utf-8")
        (_ROOT / "docs" / "images" / "reliability.svg").write_text(page.picture(told), encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
