"""The page about accuracy, docs/accuracy.md, and the picture on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from knowledge.causes import load_causes
from tests.accuracy.cases import Truth
from tests.accuracy.fitting import Curve, brier, calibration_error, reliability
from tests.accuracy.judge import Verdict
from tests.accuracy.score import SURE, share

_PARTS = {
    "injected": "real jobs, one fault injected",
    "reports": "re-created from public bug reports",
    "sequences": "short GPU and NCCL incidents",
    "composed": "incidents written by hand",
    "simulated": "larger GPU and NCCL incidents",
}
_HEAD = """# Accuracy

How often a diagnosis is right, and whether it is as often right as it says. All figures come from
`python -m tests.accuracy.calibrate --write`; nothing on this page is written by hand except the words.
"""
_HOW = """
## How it is measured

- **Cases.** {cases} failed or finished jobs with known truth, in `tests/cases` (its README says where they come from). A diagnosis
  gets a copy without the truth.
- **Right** means everything that the truth asks for is right: failed or not, the cause, the ranks that began it, their
  hosts, and that a missing fact is named where the evidence cannot decide. One wrong part makes an answer wrong.
- **Sure** means a confidence of at least {sure}.
- **Less evidence.** Each case is diagnosed again after something was taken away: {copies} copies. The truth stays, with one
  addition: naming nobody is right too. Naming somebody else, or another cause, is wrong.
- **Confidence.** One logistic curve of {numbers} numbers (`knowledge/attribution/calibration.json`) leads from the score of the leading
  explanation to the confidence; it is lowered where logs are torn, ranks unheard, a node's log unread, or a rival close. It is
  fitted on all answers; each way to lose evidence counts alike, all of them together a bit more than the whole cases. The
  figures below are cross-validated: every answer is judged with a curve that was fitted without any copy of its case.
"""
_LIMITS = """
## What is not claimed

- The catalogue and the reasoning were written with these cases in sight. Figures on jobs that nobody has seen are lower;
  the cross-validation covers the curve, not the catalogue.
- Cases whose truth is known are clearer than the average incident. A third of them are simulated, and the real ones ran on CPUs.
- The copies with less evidence are made from the same cases: they show how answers degrade, not how often evidence is torn.
- A confidence is about the whole answer. A doubt about the host lowers it as much as one about the cause.
"""


@dataclass(frozen=True)
class Told:
    """One answer: what was asked, how it was judged, and how sure it was by its score alone and by the fitted curve."""

    group: str
    change: str
    truth: Truth
    verdict: Verdict
    before: float
    after: float
    weight: float

    @property
    def layer(self) -> str:
        if self.truth.outcome == "not-a-failure":
            return "(did not fail)"
        return load_causes()[self.truth.causes[0]].layer


def write(told: Sequence[Told], curve: Curve) -> str:
    """The whole page, in Markdown."""
    whole = [one for one in told if one.change == "whole"]
    less = [one for one in told if one.change != "whole"]
    parts = [_HEAD, _HOW.format(cases=len(whole), copies=len(less), sure=SURE, numbers=len(curve))]
    parts.append("\n## Whole cases\n\n" + _by(whole, lambda one: _PARTS.get(one.group, one.group), "kind of case"))
    parts.append("\n### By layer of the true cause\n\n" + _by(whole, lambda one: one.layer, "layer", few=True))
    parts.append(
        "\n## With less evidence\n\n" + _by(less, lambda one: one.change, "what is missing or changed", few=True)
    )
    parts.append(_calibration(told, whole, less))
    return "".join([*parts, _LIMITS])


def _row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return _row(head) + _row("---" for _ in head) + "".join(map(_row, rows))


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _of(values: Iterable[bool | None]) -> str:
    asked = [value for value in values if value is not None]
    return f"{sum(asked)}/{len(asked)}" if asked else "-"


def _by(told: Sequence[Told], key: Callable[[Told], str], name: str, *, few: bool = False) -> str:
    groups = {one: [other for other in told if key(other) == one] for one in dict.fromkeys(map(key, told))}
    groups = {"**all**": list(told), **{one: groups[one] for one in (sorted(groups) if not few else groups)}}
    head = [name, "answers", "everything right", "sure", "right when sure"]
    if not few:
        head += ["cause", "ranks", "hosts", "failed or not", "missing fact"]
    return _table(head, ([group, *_figures(ones, few=few)] for group, ones in groups.items()))


def _figures(told: Sequence[Told], *, few: bool) -> list[object]:
    sure = [one for one in told if one.after >= SURE]
    row: list[object] = [
        len(told), _percent(share(one.verdict.right for one in told)), _percent(len(sure) / len(told)),
        _of(one.verdict.right for one in sure),
    ]  # fmt: skip
    if not few:
        verdicts = [one.verdict for one in told]
        row += [
            _of(getattr(one, part) for one in verdicts) for part in ("cause", "ranks", "hosts", "outcome", "missing")
        ]
    return row


def _calibration(told: Sequence[Told], whole: Sequence[Told], less: Sequence[Told]) -> str:
    rows = []
    for name, ones in (("whole cases", whole), ("less evidence", less), ("both, weighted", told)):
        for way in ("before", "after"):
            values = [(getattr(one, way), one.verdict.right, one.weight) for one in ones]
            sure = [one for one in ones if getattr(one, way) >= SURE]
            rows.append([
                name, "score alone" if way == "before" else "fitted", f"{brier(values):.3f}", f"{calibration_error(values):.3f}",
                _percent(len(sure) / len(ones)), _percent(share(one.verdict.right for one in sure)),
            ])  # fmt: skip
    bins = reliability([(one.after, one.verdict.right, one.weight) for one in told])
    return (
        "\n## Is it right as often as it says?\n\n"
        "Brier score: mean squared distance between confidence and truth. Calibration error: how far the two lie apart, on\n"
        "average over the bins of the table below. Both are better when smaller.\n\n"
        + _table(["answers", "confidence", "Brier score", "calibration error", "sure", "right when sure"], rows)
        + "\n"
        + _table(
            ["confidence", "answers", "sure on average", "right"],
            ([f"{one.low:.2f}–{one.high:.2f}", one.count, _percent(one.sure), _percent(one.right)] for one in bins),
        )
        + "\n![Reliability diagram: how often answers are right, by how sure they are](images/reliability.svg)\n"
    )


_SIDE, _EDGE = 320, 44  # pixels


def picture(told: Sequence[Told]) -> str:
    """The reliability diagram as SVG: confidence to the right, truth upwards; on the dotted line both agree."""
    bins = reliability([(one.after, one.verdict.right, one.weight) for one in told])
    total = _SIDE + 2 * _EDGE

    def x(value: float) -> float:
        return round(_EDGE + _SIDE * value, 1)

    def y(value: float) -> float:
        return round(_EDGE + _SIDE * (1 - value), 1)

    marks = []
    for value in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        marks.append(f'<text x="{x(value)}" y="{y(0) + 18}" text-anchor="middle">{value:.1f}</text>')
        marks.append(f'<text x="{x(0) - 8}" y="{y(value) + 4}" text-anchor="end">{value:.1f}</text>')
        marks.append(f'<path d="M{x(0)} {y(value)}H{x(1)}" stroke="#ddd"/>')
    points = "".join(
        f'<circle cx="{x(one.sure)}" cy="{y(one.right)}" r="{4 + min(10.0, one.count**0.5 / 3):.1f}" fill="#2f6fb0"'
        f' fill-opacity="0.75"><title>{one.count} answers: sure {one.sure:.2f}, right {one.right:.2f}</title></circle>'
        for one in bins
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {total}" width="{total}" height="{total}"'
        ' font-family="sans-serif" font-size="12">\n'
        f'<rect width="{total}" height="{total}" fill="white"/>\n{"".join(marks)}\n'
        f'<path d="M{x(0)} {y(0)}L{x(1)} {y(1)}" stroke="#888" stroke-dasharray="4 4"/>\n{points}\n'
        f'<text x="{total / 2}" y="{total - 8}" text-anchor="middle">confidence</text>\n'
        f'<text x="12" y="{total / 2}" text-anchor="middle" transform="rotate(-90 12 {total / 2})">right</text>\n</svg>\n'
    )
