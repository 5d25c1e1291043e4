"""Wherever the fault stands in a job of 64 ranks, the hook of the node that sends their logs sends the decisive line.

`make placements` does the same with a hundred placements and 50 MB a rank.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.hooks import HOOK
from tests.hooks.conftest import stand_in, trimmed
from tests.hooks.intake import Intake
from tests.hooks.placements import AFTER, BEFORE, RANKS, decisive_lines, outcomes, text_of

RECORD = (
    "JobId=7 JobName=pretrain UserId=x(1) JobState=FAILED Reason=NonZeroExitCode Restarts=0 ExitCode=1:0 "
    "StartTime=2026-11-30T08:00:00 EndTime=2026-11-30T08:00:09 NumTasks=64"
)


def test_the_decisive_line_is_sent_within_the_budget_of_the_node(tmp_path: Path) -> None:
    lost = [placement for placement, sent, _ in outcomes(tmp_path, 5, 1_500_000) if not sent]
    assert [(placement.rank, placement.line) for placement in lost] == []


@pytest.mark.parametrize("kinds", [BEFORE, AFTER], ids=["healthy output and repeated warnings", "watchdogs and resets"])
def test_whatever_message_begins_a_failure_stands_out(hook: Any, tmp_path: Path, kinds: Any) -> None:
    log, lines, lost = tmp_path / "rank-0.log", decisive_lines(), []
    text = text_of(kinds, random.Random(1), 400_000)
    for some in (lines[at : at + 10] for at in range(0, len(lines), 10)):
        places = [text.index(b"\n", (number + 2) * len(text) // 14) + 1 for number in range(len(some))]
        parts = [text[low:high] for low, high in zip([0, *places], [*places, len(text)], strict=True)]
        faulty = parts[0] + b"".join(line.encode() + b"\n" + part for line, part in zip(some, parts[1:], strict=True))
        log.write_bytes(faulty)
        kept = trimmed(hook, log, 128 << 10)
        lost += [line for line in some if line.encode() not in kept]
    assert lost == []


def test_slurm_waits_less_than_a_second_however_much_there_is_to_read(
    config: Path, intake: Intake, tmp_path: Path
) -> None:
    tools, work = tmp_path / "bin", tmp_path / "work"
    for folder in (tools, work):
        folder.mkdir()
    stand_in(tools, f'#!/bin/sh\n[ "$1" = show ] && echo "{RECORD}"\n')
    first = work / "rank-0.log"
    first.write_bytes(text_of(BEFORE, random.Random(2), 1_000_000))
    for rank in range(1, RANKS):
        (work / f"rank-{rank}.log").hardlink_to(first)
    config.write_text(
        config.read_text() + f"slurm_bin = {tools}\nshared_paths = {tmp_path}\nglobs = rank-%t.log\nscan_time = 1s\n"
    )
    env = {"SLURM_SCRIPT_CONTEXT": "epilog_slurmd", "SLURM_JOB_ID": "7", "SLURM_JOB_UID": str(os.geteuid()),
           "SLURM_JOB_GID": str(os.getegid()), "SLURM_JOB_USER": "x", "SLURM_NODELIST": "n[1-8]",
           "SLURMD_NODENAME": "n1", "SLURM_JOB_WORK_DIR": str(work), "SLURM_JOB_EXIT_CODE2": "1:0",
           "FIRSTFAULT_HOOK_CONFIG": str(config)}  # fmt: skip
    began = time.monotonic()
    assert subprocess.run([HOOK], env=env, check=False).returncode == 0
    assert time.monotonic() - began < 1
    seen = intake.wait_for_reports("7", 1, seconds=40)
    assert len(seen.logs) == RANKS
    assert sum(map(len, seen.logs.values())) <= 10 << 20
