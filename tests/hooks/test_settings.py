"""hook.conf: a wrong line names itself, and a secret that others may read is not used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.hooks import HOOK
from tests.hooks.intake import TOKEN, Intake


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("url = firstfault.example.com", "url must be https://HOST"),
        ("url = https://user:secret@example.com", "url must be https://HOST"),
        ("urll = x", "settings nobody knows: urll"),
        ("wait = soon", "hook.conf: wait: 'soon' is no size and no time"),
        ("gpus = maybe", "gpus is yes or no"),
        ("token =", "neither token nor token_file is set"),
        ("[other]\nx = 1\n[", "cannot read"),
    ],
)
def test_a_wrong_line_names_itself(hook: Any, config: Path, line: str, why: str) -> None:
    name = line.partition(" =")[0] + " ="
    lines = [old for old in config.read_text().splitlines() if not old.startswith(name)]
    config.write_text("\n".join([*lines, line]) + "\n")
    with pytest.raises(hook.BadSettings, match=why.replace("[", r"\[")):
        hook.Settings(str(config))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("token = {secret}\nurl = https://x\n", "line 1 is amiss"),
        ("[hook]\nurl = https://x\ntoken {secret}\n", "line 3 is amiss"),
        ("[hook]\ntoken={secret}\ntoken={secret}\n", "line 3 is amiss"),
        ("[hook]\nurl = https://x\ntoken {secret}==\n", "settings nobody knows"),
        ("[hook]\nurl = https://x\n  token = {secret}\n", "url must be one line"),
        ("[hook]\nurl = https://x\ntoken = {secret}\n  x\n", "token must be one line"),
        ("[hook]\nurl = https://x\ntoken = {secret} x\n", "must hold one token"),
        ("[hook]\nurl = https://x\ntoken = {secret}\N{LATIN SMALL LETTER E WITH ACUTE}\n", "must hold one token"),
        ("[hook]\nurl = https://user:{secret}@x\n", "url must be https://HOST"),
    ],
)
def test_what_is_wrong_is_said_without_the_token(hook: Any, config: Path, text: str, why: str) -> None:
    config.write_text(text.replace("{secret}", TOKEN), "utf-8")
    with pytest.raises(hook.BadSettings, match=why) as told:
        hook.Settings(str(config))
    assert TOKEN not in str(told.value)
    assert str(config) in str(told.value)


def test_a_token_that_others_may_read_is_not_used(hook: Any, config: Path, tmp_path: Path) -> None:
    config.chmod(0o640)
    with pytest.raises(hook.BadSettings, match="others may read it; run: chmod 600"):
        hook.Settings(str(config))
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    config.write_text(config.read_text().replace(f"token = {TOKEN}", f"token_file = {token}"))
    token.chmod(0o644)
    with pytest.raises(hook.BadSettings, match="others may read it"):
        hook.Settings(str(config))
    token.chmod(0o600)
    assert hook.Settings(str(config)).token == TOKEN


def test_a_configuration_that_others_may_change_is_not_used(hook: Any, config: Path) -> None:
    config.write_text(config.read_text().replace(f"token = {TOKEN}", "token_file = /etc/hostname"))
    config.chmod(0o666)
    with pytest.raises(hook.BadSettings, match="chmod go-w"):
        hook.Settings(str(config))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_settings_of_another_user_are_refused_with_both_ways_out(
    hook: Any, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(config, 64030, 64030)
    with pytest.raises(hook.BadSettings, match=r"belongs to uid 64030; make root its owner$"):
        hook.Settings(str(config))
    monkeypatch.setattr(hook, "CONFIG_FOLDER", str(config.parent))
    with pytest.raises(hook.BadSettings, match=r"make root its owner, or give root a hook-root\.conf$"):
        hook.Settings(str(config))


@pytest.mark.parametrize(
    ("text", "value"), [("16M", 16 << 20), ("10m", 600), ("1.5G", 3 << 29), ("7", 7), ("72h", 259_200)]
)
def test_sizes_and_times_have_units(hook: Any, text: str, value: int) -> None:
    assert hook.quantity(text) == value


def test_check_says_what_stands_in_the_way(config: Path, intake: Intake, tmp_path: Path) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\nexit 1\n")
    scontrol.chmod(0o755)
    config.write_text(config.read_text() + f"slurm_bin = {tmp_path}\n")
    command = [sys.executable, str(HOOK), "--config", str(config), "--check"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert "ok    spool" in told.stdout
    assert "WRONG scontrol ping" in told.stdout
    assert "answers and takes the token" in told.stdout
    config.write_text(config.read_text().replace(TOKEN, "another-not-a-token"))
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "WRONG service" in told.stdout
    assert "no such token" in told.stdout


def test_the_hooks_own_log_stays_small(hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "hook.log"
    monkeypatch.setattr(hook, "_log_file", str(log))
    monkeypatch.setattr(hook, "LOG_FILE_BYTES", 2000)
    for number in range(200):
        hook.note(f"line {number} with a user's \n\x1b[31m words")
    assert log.stat().st_size < 2300
    assert (tmp_path / "hook.log.1").stat().st_size < 2300
    assert "\x1b" not in log.read_text()
    assert "line 199" in log.read_text().splitlines()[-1]
