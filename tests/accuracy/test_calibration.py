"""A confidence is a promise: it is kept, also where evidence is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from knowledge.attribution.calibration import Grounds, confidence_of
from tests.accuracy.calibrate import WHOLE, Observation, observe_all
from tests.accuracy.cases import find_cases
from tests.accuracy.fitting import NO_CHANGE, Sample, brier, calibration_error, fit, held_out, reliability
from tests.accuracy.score import SURE, share

PLAIN = Grounds("own_errors", score=0.9, open=0, torn=0, unheard=0, rival=0)
EVERY = 4  # of the cases is diagnosed with evidence taken away; the page tells the figures of all


@pytest.fixture(scope="module")
def observed() -> list[Observation]:
    return list(observe_all(list(find_cases())[::EVERY]))


@pytest.fixture(scope="module")
def less(observed: list[Observation]) -> list[Observation]:
    return [one for one in observed if one.change != WHOLE]


def test_sure_answers_are_right_where_evidence_was_taken_away(less: list[Observation]) -> None:
    sure = [one for one in less if one.answer["confidence"] >= SURE]

    assert len(less) >= 200
    assert len(sure) >= 0.6 * len(less), "it must not hide behind low confidence"
    wrong = [f"{one.case.name} {one.change}: {one.verdict.wrong}" for one in sure if not one.verdict.right]
    assert share(one.verdict.right for one in sure) >= 0.95, "\n".join(wrong)


def test_other_names_line_ends_and_missing_times_change_next_to_nothing(observed: list[Observation]) -> None:
    right = {one.case.name for one in observed if one.change == WHOLE and one.verdict.right}
    changes = ("other host names", "Windows line ends", "without times")
    harmless = [one for one in observed if one.change in changes and one.case.name in right]

    assert share(one.verdict.right for one in harmless) >= 0.98


def test_a_higher_score_never_means_less() -> None:
    told = [confidence_of(replace(PLAIN, score=score / 20)) for score in range(1, 20)]

    assert told == sorted(told)
    assert told[0] < 0.2 < 0.8 < told[-1] < 1


@pytest.mark.parametrize("doubt", ["open", "torn", "unheard", "rival"])
def test_a_gap_never_makes_an_answer_surer(doubt: str) -> None:
    assert confidence_of(replace(PLAIN, **{doubt: 1.0})) <= confidence_of(PLAIN)  # type: ignore[arg-type]


def test_a_kind_of_reasoning_that_no_case_has_tried_is_worth_its_score_at_most() -> None:
    assert confidence_of(replace(PLAIN, kind="new")) <= PLAIN.score <= confidence_of(PLAIN)


def samples(right_of_ten: int, score: float = 0.8, count: int = 400) -> list[Sample]:
    grounds = replace(PLAIN, score=score)
    return [Sample(f"case-{number % 40}", grounds, number * 7 % 10 < right_of_ten) for number in range(count)]


def test_the_curve_learns_that_scores_promise_too_much() -> None:
    curve = fit([*samples(5, 0.8), *samples(9, 0.95)])

    assert confidence_of(replace(PLAIN, score=0.8), curve) == pytest.approx(0.5, abs=0.06)
    assert confidence_of(replace(PLAIN, score=0.95), curve) == pytest.approx(0.9, abs=0.06)


def test_each_case_is_judged_by_a_curve_that_has_not_seen_it() -> None:
    told = [*samples(8, count=40), *[replace(one, case="odd", right=False) for one in samples(8, count=40)]]
    curves = held_out(told, folds=5)

    assert len({tuple(curve.items()) for curve in curves}) > 1
    assert confidence_of(PLAIN, curves[-1]) > confidence_of(PLAIN, fit(told))


def test_perfect_promises_have_no_error_and_empty_ones_a_large_one() -> None:
    kept = [(0.99, True, 1.0)] * 99 + [(0.99, False, 1.0)]
    broken = [(0.95, False, 1.0)] * 10

    assert calibration_error(kept) == pytest.approx(0, abs=1e-9)
    assert calibration_error(broken) == pytest.approx(0.95)
    assert brier(broken) > 0.9 > 0.02 > brier(kept)
    assert [(one.count, one.right) for one in reliability(broken)] == [(10, 0.0)]


def test_without_a_fit_the_score_is_the_confidence() -> None:
    assert confidence_of(PLAIN, NO_CHANGE) == PLAIN.score
