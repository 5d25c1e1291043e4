"""What docs/slurm.md says under "By hand", typed as it stands there, but for the folders of this machine."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.hooks import HOOK
from tests.hooks.intake import TOKEN

REPOSITORY = HOOK.parents[2]


def blocks() -> list[str]:
    text = (REPOSITORY / "docs/slurm.md").read_text("utf-8")
    return re.findall(r"(?ms)^```sh\n(.*?)^```", text.partition("### By hand")[2].partition("\n### ")[0])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
@pytest.mark.parametrize("place", ["node", "controller"])
def test_typed_literally_it_is_an_installation(hook: Any, tmp_path: Path, place: str) -> None:
    node, controller, _ = blocks()
    typed, user = (node, "root") if place == "node" else (controller, "nobody")
    typed = re.sub(r"-o slurm\b|firstfault/slurm\b", lambda found: found[0].replace("slurm", "nobody"), typed)
    for folder in ("/usr/local/sbin/", "/var/spool/", "/etc/firstfault"):
        typed = typed.replace(folder, f"{tmp_path}{folder}")
    for folder in ("usr/local/sbin", "var/spool", "etc"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "token").write_text(TOKEN + "\n")
    typed = typed.replace("cat token", f"cat {tmp_path}/token")
    done = subprocess.run(["sh", "-e", "-c", typed], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    config = tmp_path / "etc/firstfault/hook.conf"
    assert (config.owner(), config.stat().st_mode & 0o777) == (user, 0o600)
    assert config.read_text() == f"[hook]\nurl = https://firstfault.example.com\ntoken = {TOKEN}\n"
    spool = tmp_path / f"var/spool/firstfault/{user}"
    assert (spool.owner(), spool.stat().st_mode & 0o777, spool.parent.stat().st_mode & 0o777) == (user, 0o700, 0o711)
    placed = tmp_path / "usr/local/sbin/firstfault-hook"
    assert placed.read_bytes() == HOOK.read_bytes()
    assert placed.stat().st_mode & 0o777 == 0o755
    if user == "root":
        assert hook.Settings(str(config)).token == TOKEN
