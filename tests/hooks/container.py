"""A node without Python: what a small image of slurmd has."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from tests.hooks.conftest import head_for
from tests.hooks.intake import TOKEN

SHELLS = [shell for shell in ("dash", "busybox") if shutil.which(shell)]
TOOLS = "cat chmod cut date echo grep gzip head hostname id kill logger ls mkdir mv printf rm sed setsid sh sleep tail tar tr uname".split()

SCONTROL = """#!/bin/sh
case "$*" in
"show job -o 61") cat {folder}/record ;;
"show hostnames n[1-2]") printf 'n1\\nn2\\n' ;;
*) exit 1 ;;
esac
"""
OUTPUT = "step 41\nwandb login hf_abcdefghijklmnopqrstuv\npassword=hunter22\nRuntimeError: shard 17 is truncated\n"


class Container:
    """What a small image has: one shell, a few tools, perhaps curl, and a Slurm whose one job is 61."""

    def __init__(self, folder: Path, shell: str, url: str) -> None:
        self.folder, self.shell = folder, shell
        self.tools = folder / "bin"
        self.tools.mkdir()
        busybox = shutil.which("busybox")
        for tool in [*TOOLS, "curl"]:
            own = busybox if shell == "busybox" and tool != "curl" else shutil.which(shell if tool == "sh" else tool)
            assert own, tool
            (self.tools / tool).symlink_to(own)
        scontrol = self.tools / "scontrol"
        scontrol.write_text(SCONTROL.format(folder=folder).replace("#!/bin/sh", f"#!{self.tools}/sh"))
        scontrol.chmod(0o755)
        self.output = folder / "train-61.out"
        self.output.write_text(OUTPUT)
        self.record("FAILED", "1:0")
        self.config = folder / "hook.conf"
        self.config.touch(mode=0o600)
        self.config.write_text(
            f"[hook]\nurl = {url}\ntoken = {TOKEN}\nlog_file = {self.log}\nslurm_bin = {self.tools}\nwait = 20s\n"
            f"spool = {folder}/spool\n"
        )
        self.hook = head_for("/no/such/python3", folder)
        self.hook.write_text(self.hook.read_text().replace("/bin/sh", f"{self.tools}/sh"))

    @property
    def log(self) -> Path:
        return self.folder / "hook.log"

    def record(self, state: str, code: str = "0:0", restarts: int = 0, reason: str = "NonZeroExitCode") -> None:
        (self.folder / "record").write_text(
            f"JobId=61 JobName=train UserId=me({os.getuid()}) Account=lab JobState={state} Reason={reason} Restarts={restarts} "
            f"ExitCode={code} Partition=gpu NodeList=n[1-2] StdErr={self.output} StdIn=/dev/null StdOut={self.output} Power=\n"
        )

    def run(self, *arguments: str, node: str = "n1", **env: str) -> subprocess.CompletedProcess[str]:
        """Call the hook as Slurm does, in a world where only the container's tools are."""
        told = {
            "PATH": str(self.tools),
            "FIRSTFAULT_HOOK_CONFIG": str(self.config),
            "SLURM_SCRIPT_CONTEXT": "epilog_slurmd",
            "SLURM_JOB_ID": "61",
            "SLURM_JOB_USER": "alice",
            "SLURM_JOB_UID": str(os.getuid()),
            "SLURM_NODELIST": "n[1-2]",
            "SLURMD_NODENAME": node,
            **env,
        }
        return subprocess.run(
            [self.hook, *arguments], env=told, capture_output=True, text=True, timeout=30, check=False
        )

    def said(self, word: str, seconds: float = 30) -> list[str]:
        """The lines of the hook's log once the word is in it."""
        until = time.monotonic() + seconds
        while not self.log.exists() or word not in self.log.read_text():
            assert time.monotonic() < until, self.log.read_text() if self.log.exists() else "it said nothing"
            time.sleep(0.05)
        return self.log.read_text().splitlines()
