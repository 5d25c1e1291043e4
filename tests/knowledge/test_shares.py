"""Several processes read a large job; nothing about the verdict depends on that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from knowledge import diagnose
from knowledge.errors import UnreadableEvidence
from knowledge.reading import reader
from knowledge.reading.shares import in_shares, runs
from tests.accuracy.cases import CASES


@pytest.mark.parametrize("case", ["simulated/s019", "simulated/s009", "simulated/s051", "injected/i001"])
def test_the_verdict_is_the_same_in_shares_and_in_turn(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = []
    for large in (0, 1 << 60):
        monkeypatch.setattr(reader, "LARGE", large)
        verdicts.append(diagnose([CASES / case]).model_dump(exclude={"stats"}))
    assert verdicts[0] == verdicts[1]


def test_results_come_in_order_whatever_their_weights() -> None:
    made = in_shares(lambda part: [number * number for number in part], [1, 900, 3, 0, 77, 5])
    assert [square for part in made for square in part] == [0, 1, 4, 9, 16, 25]


@pytest.mark.parametrize("weights", [[], [5], [0] * 10, [1] * 100, [1, 1, 500, 1, 1, 1], [900, *[1] * 50]])
def test_runs_hold_every_number_once_and_none_is_heavier_than_it_must_be(weights: list[int]) -> None:
    parts = runs(weights, 8)
    assert [number for part in parts for number in part] == list(range(len(weights)))
    share = (sum(weights) + len(weights)) / 8
    assert [part for part in parts if len(part) > 1 and sum(weights[n] + 1 for n in part) > 2 * share] == []


def test_this_process_does_its_own_part_meanwhile() -> None:
    done: list[int] = []
    assert in_shares(len, [1, 1], meanwhile=lambda: done.append(os.getpid())) == [1, 1]
    assert done == [os.getpid()]


def test_what_goes_wrong_in_a_share_is_told() -> None:
    def fail(part: range) -> None:
        raise UnreadableEvidence(f"cannot read {part.start}")

    with pytest.raises(UnreadableEvidence, match="cannot read"):
        in_shares(fail, [1, 1, 1])


def test_folders_are_walked_in_order_and_without_following_loops(tmp_path: Path) -> None:
    from knowledge.reading.bundle import open_bundle

    for name in ("b.log", "a/2.log", "a/1.log", "a.log", ".hidden", "model.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("line\n")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    assert [source.name for source in open_bundle([tmp_path]).sources] == ["a/1.log", "a/2.log", "a.log", "b.log"]
