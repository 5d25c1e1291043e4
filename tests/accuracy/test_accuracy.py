"""How often the diagnosis is right on cases with known truth, and that it never claims more than its lines show.

`floor.json` holds the shares that must be kept; raise them when the diagnosis gets better, never lower them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knowledge.causes import load_causes
from knowledge.redaction import redact
from knowledge.signature import Nature
from tests.accuracy.cases import find_cases
from tests.accuracy.score import Result, run, share, table

FLOOR: dict[str, float] = json.loads(Path(__file__).with_name("floor.json").read_text(encoding="utf-8"))

HARDWARE = re.compile(
    r"\bS?Xid\b|ECC|NVLink|NVSwitch|fallen off|NVRM|GPU is lost|Row ?remap|remapp|\bRAS\b|amdgpu|\bAER\b|Hardware Error"
    r"|\bMCE\b|EDAC|mlx5|link (?:is )?down|port (?:error|down)|async event|fatal event|health|[Tt]hermal|[Pp]ower"
    r"|not responding|NODE_FAIL|Node failure|NodeNotReady|NotReady|DOWN|rebooted|I/O error|Input/output error|lustre"
    r"|nvidia-smi|unrecoverable|Unable to determine the device handle|throttl",
    re.IGNORECASE,
)
"""Words of machines. A verdict of broken hardware must rest on a line with one of them."""


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return run(find_cases())


@pytest.fixture(scope="module")
def answered(results: list[Result]) -> list[Result]:
    """Those that say anything; the others fail a test of their own."""
    answered = [result for result in results if not result.error]
    assert answered
    return answered


def told(results: list[Result], wrong: list[Result] | list[str]) -> str:
    lines = [result.line() if isinstance(result, Result) else result for result in wrong]
    return "\n".join(["", *lines, "", table(results)])


def test_every_case_gets_an_answer(results: list[Result]) -> None:
    failed = [result for result in results if result.error]

    assert len(results) >= 150
    assert not failed, told(results, failed)


def test_the_share_of_answers_that_are_wholly_right_is_kept(results: list[Result]) -> None:
    wrong = [result for result in results if not result.right]

    assert share(result.right for result in results) >= FLOOR["everything right"], told(results, wrong)


def test_a_sure_answer_is_right(results: list[Result]) -> None:
    sure = [result for result in results if result.sure]

    assert len(sure) >= len(results) / 3, "it must not hide behind low confidence"
    right = share(result.right for result in sure)
    assert right >= FLOOR["right when sure"], told(results, [result for result in sure if not result.right])


def test_a_job_that_did_not_fail_is_never_reported_as_failed(answered: list[Result]) -> None:
    asked = [result for result in answered if result.case.truth.outcome == "not-a-failure"]

    assert asked
    wrong = [result for result in asked if result.answer["outcome"] != "not-a-failure"]
    assert not wrong, told(answered, wrong)


def test_a_job_that_failed_is_never_reported_as_well(answered: list[Result]) -> None:
    asked = [result for result in answered if result.case.truth.outcome == "failed"]

    wrong = [result for result in asked if result.answer["outcome"] != "failed"]
    assert not wrong, told(answered, wrong)


def test_hardware_is_accused_only_on_lines_that_speak_of_hardware(answered: list[Result]) -> None:
    accused = [result for result in answered if load_causes()[result.answer["cause"]["id"]].nature is Nature.HARDWARE]

    assert accused
    wrong = [
        result for result in accused if not any(HARDWARE.search(line["text"]) for line in result.answer["evidence"])
    ]
    assert not wrong, told(answered, wrong)


def test_a_failure_is_never_told_without_a_line_that_proves_it(answered: list[Result]) -> None:
    bare = [result for result in answered if result.answer["outcome"] == "failed" and not result.answer["evidence"]]
    wrong = [result for result in bare if result.answer["cause"]["id"] != "unknown" and not result.answer["missing"]]

    assert not wrong, told(answered, wrong)


def test_every_line_of_evidence_stands_where_it_is_said_to_stand(answered: list[Result]) -> None:
    wrong = [
        f"{result.case.name}: {line['source']}:{line['line']} does not read {line['text'][:120]!r}"
        for result in answered
        for line in result.answer["evidence"]
        if line["text"] not in set(_readings(result.case.folder, line))
    ]

    assert not wrong, told(answered, wrong)


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07?|.)")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _readings(folder: Path, line: dict[str, Any]) -> Iterator[str]:
    """What a person sees at that line: without escapes and control characters, each state of a progress bar."""
    file = folder / "logs" / line["source"]
    physical = (file if file.is_file() else folder / line["source"]).read_bytes().split(b"\n")[line["line"] - 1]
    for piece in physical.split(b"\r"):
        seen = _UNSEEN.sub("", _ESCAPES.sub("", piece.decode("utf-8", "replace")))
        yield redact(seen[:4096])
