"""The Slurm hook as a site installs it, in a cluster of this machine, with a stopwatch around each run."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import hooks
from tests.cluster.slurm import Cluster

HOOK = Path(hooks.__file__).parent / "slurm" / "firstfault-hook"

# Prints nothing, since Slurm holds a job for as long as anything keeps the hook's output open.
STOPWATCH = """#!/bin/sh
began=$(date +%s%N)
FIRSTFAULT_HOOK_CONFIG={config} {hook}
status=$?
echo "{name} ${{SLURM_JOB_ID-$JOBID}} $status $(( ($(date +%s%N) - began) / 1000000 ))" >>{times}
exit $status
"""


@dataclass(frozen=True)
class HookRun:
    """One run of a hook as Slurm saw it."""

    hook: str
    job: str
    status: int
    milliseconds: int


class InstalledHooks:
    """Epilog, EpilogSlurmctld and JobComp of one cluster, reporting to `url`.

    Made before the cluster, which starts with our `slurm_settings`; `configure` comes once it runs. The folder is our
    own and goes with the `with` block: Slurm's users have to pass through it, which pytest's folders do not let them.
    """

    def __init__(self, names: tuple[str, ...] = ("epilog", "epilog_slurmctld", "jobcomp")) -> None:
        self.folder = folder = Path(tempfile.mkdtemp(prefix="ff-hooks-", dir="/tmp"))
        folder.chmod(0o755)
        self._times = folder / "times"
        self._times.touch()
        self._times.chmod(0o666)
        hook = folder / "firstfault-hook"
        shutil.copy(HOOK, hook)
        hook.chmod(0o755)
        for name in names:
            config = self._config("node" if name == "epilog" else "controller")
            script = folder / name
            script.write_text(STOPWATCH.format(config=config, hook=hook, name=name, times=self._times), "utf-8")
            script.chmod(0o755)
        lines = {
            "epilog": {"Epilog": str(folder / "epilog")},
            "epilog_slurmctld": {"EpilogSlurmctld": str(folder / "epilog_slurmctld")},
            "jobcomp": {"JobCompType": "jobcomp/script", "JobCompLoc": str(folder / "jobcomp")},
        }
        self.slurm_settings = {key: value for name in names for key, value in lines[name].items()}

    def __enter__(self) -> InstalledHooks:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _config(self, place: str) -> Path:
        return self.folder / f"{place}.conf"

    def configure(self, cluster: Cluster, url: str, token: str, extra: Mapping[str, str] | None = None) -> None:
        """Write each place's settings, readable by the user who runs the hook there and by nobody else."""
        spool = self.folder / "spool"
        spool.mkdir(mode=0o711, exist_ok=True)
        for place, user in (("node", cluster.node_user), ("controller", cluster.controller_user)):
            (spool / user).mkdir(mode=0o700, exist_ok=True)
            shutil.chown(spool / user, user)
            settings = {
                "url": url,
                "token": token,
                "slurm_conf": str(cluster.conf),
                "slurmd_log": f"{cluster.folder}/log/slurmd-%n.log",
                "spool": str(spool),
                "shared_paths": str(cluster.jobs),  # all nodes are this machine
                "log_file": str(spool / user / "hook.log"),
                **(extra or {}),
            }
            config = self._config(place)
            config.touch(mode=0o600)
            shutil.chown(config, user)
            config.write_text("[hook]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items()), "utf-8")

    def runs(self, job: str) -> list[HookRun]:
        """Every run for the job so far."""
        rows = [line.split() for line in self._times.read_text("utf-8").splitlines()]
        return [HookRun(row[0], row[1], int(row[2]), int(row[3])) for row in rows if row[1] == job]

    def wait_for_runs(self, job: str, *names: str, seconds: float = 30) -> list[HookRun]:
        """The runs once each of the named hooks has run for the job, as often as it is named."""
        until = time.monotonic() + seconds
        while True:
            runs = self.runs(job)
            if sorted(run.hook for run in runs) == sorted(names):
                return runs
            assert time.monotonic() < until, f"hooks that ran for job {job}: {runs}"
            time.sleep(0.1)

    def log(self) -> str:
        """What the hooks said to themselves."""
        logs = sorted((self.folder / "spool").glob("*/hook.log"))
        return "\n".join(f"{path}:\n{path.read_text('utf-8')}" for path in logs)

    def wait_for_verdict(self, job: str, reporters: int, seconds: float = 60) -> list[str]:
        """The lines `job N … ended: …` of the hooks' logs, once so many workers have decided."""
        until = time.monotonic() + seconds
        while len(lines := [line for line in self.log().splitlines() if f"job {job} attempt" in line]) < reporters:
            assert time.monotonic() < until, f"verdicts of job {job}: {lines}\n{self.log()}"
            time.sleep(0.1)
        return lines
