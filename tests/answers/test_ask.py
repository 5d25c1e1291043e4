"""`firstfault ask`: the same answers about files, in a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.cli.ask import run
from tests.answers.conftest import CASES


def test_a_question_about_a_folder_is_answered(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(CASES / "injected/i001", ["which", "rank", "failed", "first?"]) == 0
    shown = capfdbinary.readouterr().out.decode()
    assert "rank 4" in shown
    assert "rank-4.stderr.log:25" in shown


def test_a_question_that_is_not_understood_gets_the_list_and_a_status(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert run(CASES / "injected/i001", ["sing", "me", "a", "song"]) == 1
    assert b"What can be asked" in capfdbinary.readouterr().out


def test_a_folder_knows_no_history_and_says_so(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(CASES / "injected/i001", ["seen before?"]) == 0
    assert b"files only" in capfdbinary.readouterr().out


def test_a_path_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "gone", ["why?"]) == 2
    assert "no such file" in capsys.readouterr().err
