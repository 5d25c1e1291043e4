"""A plain diagnosis starts without the framework for options; whatever else is asked goes through it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.cli.start import plain_diagnosis


@pytest.mark.parametrize("words", ["diagnose job", "diagnose --json a b", "diagnose a --json", "diagnose -"])
def test_paths_and_json_are_plain(words: str) -> None:
    assert plain_diagnosis(words.split())


@pytest.mark.parametrize(
    "words",
    ["", "diagnose", "diagnose --json", "diagnose --help", "diagnose -- a", "diagnose -x a", "explain a", "--version"],
)
def test_anything_else_is_for_the_framework(words: str) -> None:
    assert not plain_diagnosis(words.split())


def test_an_empty_path_is_for_the_framework_which_says_what_is_wrong() -> None:
    assert not plain_diagnosis(["diagnose", ""])


def test_a_plain_diagnosis_loads_neither_the_framework_nor_yaml(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    log.write_text("RuntimeError: CUDA error: out of memory\n")
    program = (
        "import sys, atexit; from bot.cli import app;"
        "atexit.register(lambda: print(*sorted({'typer', 'yaml', 'rich', 'slack_sdk'} & sys.modules.keys()), file=sys.stderr));"
        "app()"
    )
    kept = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    for _ in range(2):  # the first may have to parse the catalogue
        done = subprocess.run(
            [sys.executable, "-c", program, "diagnose", "--json", str(log)],
            capture_output=True,
            text=True,
            check=False,
            env=kept,
        )
    assert done.stderr.split() == []
    assert done.stdout.startswith("{")
