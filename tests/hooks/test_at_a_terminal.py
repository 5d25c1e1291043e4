"""What the hook says to a person who types its name."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.hooks import HOOK
from tests.hooks.conftest import stand_in


def test_a_watch_that_is_stopped_says_so_in_one_line(tmp_path: Path, config: Path) -> None:
    began = time.strftime("%Y-%m-%dT%H:%M:%S")
    record = (
        f"JobId=61 JobName=train UserId=me({os.getuid()}) JobState=RUNNING Restarts=0 StartTime={began} NodeList=n1"
    )
    stand_in(tmp_path, f"#!/bin/sh\necho '{record}'\n")
    config.write_text(config.read_text() + f"slurm_bin = {tmp_path}\n")
    watching = subprocess.Popen([sys.executable, str(HOOK), "--config", str(config), "watch", "61"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    until = time.monotonic() + 20
    while not (tmp_path / "spool").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(0.5)
    watching.send_signal(signal.SIGINT)
    _, said = watching.communicate(timeout=20)
    assert watching.returncode == 130
    assert said.splitlines()[-1] == "firstfault-hook: stopped; the job goes on"
    assert "Traceback" not in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as somebody else")
def test_a_user_without_settings_hears_where_to_put_them() -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")  # one that everybody may run
    if not python:
        pytest.skip("no python3 of the system's here")
    with HOOK.open() as source:
        done = subprocess.run([python, "-I", "-", "watch", "61"], stdin=source, user=65534, env={"HOME": "/nonexistent"},
                              capture_output=True, text=True, timeout=20, check=False)  # fmt: skip
    assert done.returncode == 1
    assert "~/.config/firstfault/hook.conf" in done.stderr


def test_a_recorded_job_that_is_no_json_is_named(tmp_path: Path, config: Path) -> None:
    for text, why in (("{", "is no JSON: "), ("[]", "must be one JSON object")):
        (tmp_path / "job.json").write_text(text)
        done = subprocess.run([sys.executable, str(HOOK), "--config", str(config), "--replay", str(tmp_path)],
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == 1
        assert done.stderr.startswith(f"firstfault-hook: {tmp_path}/job.json {why}")


def test_help_on_what_users_type_is_where_users_read() -> None:
    told = subprocess.run([sys.executable, str(HOOK), "--help"], capture_output=True, text=True, check=True).stdout
    users = told.partition("no hook:")[2].split()
    assert users[:2] == ["see", "docs/reporting.md"]
