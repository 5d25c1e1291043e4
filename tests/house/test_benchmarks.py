"""The benchmark runs, on next to no data, and says what it promises."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.jobs import write_job
from benchmarks.section import Section, figure_lines
from benchmarks.told import earliest_error, odd_one_out, tell, torchelastic
from benchmarks.whole import slope

ROOT = Path(__file__).parents[2]
FIGURES = [
    *(["scan_vs_ripgrep"] if shutil.which("rg") else []),
    "scan_share_of_read",
    "diagnose_1024_mb_per_s",
    "storm_mb_per_s",
    "storm_rss_mb",
    "growth_exponent",
]


def test_the_last_lines_are_the_figures_and_nothing_is_written() -> None:
    page = ROOT / "docs" / "performance.md"
    before = page.read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--scale", "0.002", "--rounds", "1"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.rstrip("\n").splitlines()[-len(FIGURES) :]
    assert [line.split(": ")[0] for line in last] == FIGURES
    assert [line for line in last if not re.fullmatch(r"[a-z0-9_]+: \d+(?:\.\d+)?", line)] == []
    assert page.read_bytes() == before


def test_figures_are_plain_numbers() -> None:
    section = Section("", "", ["a"], [["b"]], {"large": 123456.78, "small": 0.000123, "whole": 2.0})
    assert figure_lines([section]) == "large: 123456.78\nsmall: 0.00\nwhole: 2.00"


@pytest.mark.parametrize(("exponent"), [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_found(exponent: float) -> None:
    ranks = [8, 64, 512, 4096]
    assert slope(ranks, [3 * rank**exponent for rank in ranks]) == pytest.approx(exponent)


def test_a_written_job_has_one_guilty_rank_and_the_size_that_was_asked_for(tmp_path: Path) -> None:
    size = write_job(tmp_path / "job", ranks=4, size=20_000, guilty=2)
    files = sorted((tmp_path / "job").iterdir())
    assert [file.name for file in files if b"KeyError" in file.read_bytes()] == ["rank-2.log"]
    assert size == sum(file.stat().st_size for file in files) == pytest.approx(80_000, rel=0.05)


def test_simple_rules_answer_as_they_are_meant_to(tmp_path: Path) -> None:
    write_job(tmp_path / "job", ranks=4, size=6_000, guilty=2)
    launcher = "Root Cause (first observed failure):\n[0]:\n  time      : 2026-03-02_05:00:00\n  rank      : 2 (local_rank: 2)\n"
    (tmp_path / "job" / "launcher.log").write_text(launcher + "  exitcode  : 1 (pid: 20002)\n")
    told = tell(tmp_path / "job")
    assert odd_one_out(told).ranks == {2}
    assert torchelastic(told).ranks == {2}
    assert earliest_error(told).ranks == {2}
    assert len(told.merged().splitlines()) == len(told.lines)
