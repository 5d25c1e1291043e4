"""Several processes read a large job; nothing about the verdict depends on that."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge import diagnose
from knowledge.errors import UnreadableEvidence
from knowledge.reading import reader
from knowledge.reading.shares import in_shares
from tests.accuracy.cases import CASES


@pytest.mark.parametrize("case", ["simulated/s019", "simulated/s009", "simulated/s051", "injected/i001"])
def test_the_verdict_is_the_same_in_shares_and_in_turn(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = []
    for large in (0, 1 << 60):
        monkeypatch.setattr(reader, "LARGE", large)
        verdicts.append(diagnose([CASES / case]).model_dump(exclude={"stats"}))
    assert verdicts[0] == verdicts[1]


def test_results_come_in_order_whatever_their_weights() -> None:
    assert in_shares(lambda number: number * number, [1, 900, 3, 0, 77, 5]) == [0, 1, 4, 9, 16, 25]


def test_what_goes_wrong_in_a_share_is_told() -> None:
    def fail(number: int) -> None:
        raise UnreadableEvidence(f"cannot read {number}")

    with pytest.raises(UnreadableEvidence, match="cannot read"):
        in_shares(fail, [1, 1, 1])


def test_folders_are_walked_in_order_and_without_following_loops(tmp_path: Path) -> None:
    from knowledge.reading.bundle import open_bundle

    for name in ("b.log", "a/2.log", "a/1.log", "a.log", ".hidden", "model.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("line\n")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    assert [source.name for source in open_bundle([tmp_path]).sources] == ["a/1.log", "a/2.log", "a.log", "b.log"]
