"""The hook as a module, as a file, and under every interpreter of this machine."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
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


@pytest.fixture(scope="session", autouse=True)
def _signals_arrive() -> None:
    """Where the tests run in the background, these are ignored, and so they would be by the programs under test."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


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


# Stands in for Slurm's command: answers with the record that lies beside it.
SCONTROL = """#!/bin/sh
case "$*" in
"show job -o -d 61") cat {folder}/record ;;
"write batch_script 61 -") printf '#!/bin/sh\\nsrun python3 train.py\\n' ;;
*) exit 1 ;;
esac
"""


@pytest.fixture
def slurm(tmp_path: Path, config: Path) -> Path:
    """The folder of a Slurm whose one job, 61, works in `work`; its record says what `record` holds."""
    (tmp_path / "work").mkdir()
    stand_in(tmp_path, SCONTROL.format(folder=tmp_path))
    config.write_text(config.read_text() + f"slurm_bin = {tmp_path}\nshared_paths = {tmp_path}\n")
    (tmp_path / "work/train-61.out").write_text("0: step 41\n1: RuntimeError: shard 17 is truncated\n")
    record(tmp_path, "RUNNING")
    return tmp_path


def record(folder: Path, state: str, code: str = "0:0", reason: str = "None", restarts: int = 0) -> None:
    began = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 60))
    text = (
        f"JobId=61 JobName=train UserId=me({os.getuid()}) GroupId=me({os.getgid()}) JobState={state} Reason={reason} "
        f"Restarts={restarts} ExitCode={code} StartTime={began} EndTime={began} NodeList=n[1-2] NumNodes=2 NumTasks=4 "
        f"WorkDir={folder}/work StdErr={folder}/work/train-61.out StdOut={folder}/work/train-61.out\n"
    )
    (folder / "record.part").write_text(text)
    (folder / "record.part").rename(folder / "record")
