"""The hook as a module, as a file, and under every interpreter of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.hooks import HOOK
from tests.hooks.intake import TOKEN, Intake, running_intake
from tests.hooks.placements import loaded_hook


def _interpreters() -> list[str]:
    """Each Python 3.6 to 3.13 that is installed here, and the one that runs the tests."""
    found: dict[str, str] = {}
    candidates = [sys.executable, *(path for minor in range(6, 14) if (path := shutil.which(f"python3.{minor}")))]
    candidates += map(str, sorted(Path.home().glob(".pyenv/versions/3.*/bin/python")))
    for candidate in candidates:
        done = subprocess.run([candidate, "-V"], capture_output=True, text=True, check=False)
        version = re.match(r"Python (3\.\d+)", done.stdout)
        if version and 6 <= int(version[1][2:]) <= 13:
            found.setdefault(version[1], candidate)
    return [found[version] for version in sorted(found, key=lambda v: int(v[2:]))]


INTERPRETERS = _interpreters()


@pytest.fixture(scope="session")
def hook() -> Any:
    """The hook's functions, to be called one by one."""
    return loaded_hook()


@pytest.fixture
def intake() -> Iterator[Intake]:
    with running_intake() as running:
        yield running


@pytest.fixture
def config(tmp_path: Path, intake: Intake) -> Path:
    """hook.conf for this intake; append lines to change it."""
    path = tmp_path / "hook.conf"
    path.touch(mode=0o600)
    path.write_text(f"""[hook]
url = {intake.url}
token = {TOKEN}
spool = {tmp_path}/spool
log_file = {tmp_path}/hook.log
wait = 20
kernel_log = no
gpus = no
slurmd_log =
""")
    return path


@pytest.fixture
def settings(hook: Any, config: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    read = hook.Settings(str(config))
    monkeypatch.setattr(hook, "_log_file", read.log_file)
    return read


def trimmed(hook: Any, path: Path, budget: int, scan: int = 64 << 20) -> bytes:
    """What the hook keeps of the file, in at most about `budget` bytes, of which `scan` are searched."""
    log = os.open(path, os.O_RDONLY)
    try:
        return bytes(hook.trim(log, path.stat().st_size, budget, scan))
    finally:
        os.close(log)


def stand_in(folder: Path, scontrol: str) -> None:
    """Put a `scontrol` with this script into the folder, and beside it the commands of a Slurm without accounting."""
    for name, script in (("scontrol", scontrol), ("sacct", "#!/bin/sh\nexit 1\n"), ("sinfo", "#!/bin/sh\nexit 1\n")):
        path = folder / name
        path.write_text(script)
        path.chmod(0o755)


def head_for(interpreter: str | Path, folder: Path) -> Path:
    """A copy of the hook that knows this one interpreter only."""
    text = HOOK.read_text("utf-8")
    line = next(line for line in text.splitlines() if line.startswith("for python in "))
    path = folder / "firstfault-hook"
    path.write_text(text.replace(line, f"for python in {interpreter}; do", 1), "utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def job(hook: Any, tmp_path: Path) -> Callable[..., Any]:
    """A job 61 named `pat` on n1 and n2, as the Epilog of a node sees it."""

    def make(node: str = "n1", uid: int = os.geteuid(), gid: int = os.getegid(), **more: str) -> Any:
        env = {"SLURM_JOB_ID": "61", "SLURM_JOB_USER": "alice", "SLURM_JOB_UID": str(uid), "SLURM_JOB_GID": str(gid),
               "SLURM_NODELIST": "n[1-2]", "SLURMD_NODENAME": node, "SLURM_JOB_WORK_DIR": str(tmp_path),
               "SLURM_JOB_NAME": "pat", **more}  # fmt: skip
        return hook.Job(env, "node")

    return make


def collected(hook: Any, settings: Any, job: Any) -> dict[str, bytes]:
    """The logs of a job that would be sent, by name."""
    evidence = hook.Evidence(settings, job)
    evidence.collect(evidence.patterns())
    return {name: hook.gzip.decompress(packed) for name, (_, packed) in evidence.packed.items()}
