"""One file for every Python from 3.6 to 3.13."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import hooks
from tests.cluster.hooks import HOOK
from tests.hooks.conftest import INTERPRETERS, head_for, stand_in
from tests.hooks.intake import Intake

ROOT = Path(hooks.__file__).parents[1]


def test_a_linter_that_knows_says_3_6_is_enough() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "from vermin import main; main()", "--no-tips", "-t=3.6-", "--violations", HOOK],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout


def test_it_has_the_version_of_the_project(hook: Any) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == hook.VERSION


def test_the_example_of_a_configuration_says_the_defaults(hook: Any) -> None:
    parser = hook.configparser.ConfigParser(interpolation=None, default_section=None)
    parser.read(ROOT / "hooks" / "slurm" / "hook.conf")
    given = dict(parser.items("hook"))
    assert given == {**hook.DEFAULTS, "url": given["url"], "token_file": given["token_file"]}


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_a_recorded_job_is_sent_the_same_by_every_version(
    interpreter: str, config: Path, intake: Intake, tmp_path: Path
) -> None:
    logs = tmp_path / "case" / "logs"
    logs.mkdir(parents=True)
    (tmp_path / "case" / "job.json").write_text(
        '{"job_id": 48213, "nodes": ["n1", "n2"], "comment": "mail a@example.com"}'
    )
    (logs / "rank-2.err").write_text("RuntimeError: boom\npassword=hunter22\n")
    command = [interpreter, "-I", "-W", "error", str(HOOK), f"--config={config}", "--replay", str(tmp_path / "case")]
    sent = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (sent.returncode, sent.stderr) == (0, "")
    assert sent.stdout == f"incident inc-48213-0 {intake.url}/v1/incidents/inc-48213-0\n"
    seen = intake.job("48213")
    assert seen
    assert seen.reporters == {"n1"}
    assert "a@example.com" not in seen.closings[0]["job"]["comment"]
    assert seen.logs["rank-2.err"].startswith(b"RuntimeError: boom\npassword=[redacted:password:")


RECORD = """JobId=7 JobName=pretrain UserId=x(1) JobState=FAILED Reason=NonZeroExitCode Restarts=0 ExitCode=1:0 \
StartTime=2026-11-30T08:00:00 EndTime=2026-11-30T08:00:09 TimeLimit=00:10:00 NumTasks=4"""
SCONTROL = f"""#!/bin/sh
case $1 in show) echo "{RECORD}";; write) echo "srun -o rank-%t.err python3 train.py";; esac
"""


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_a_node_reports_its_part_of_a_failed_job_with_every_version(
    interpreter: str, config: Path, intake: Intake, tmp_path: Path
) -> None:
    tools, work = tmp_path / "bin", tmp_path / "work"
    for folder in (tools, work):
        folder.mkdir()
    stand_in(tools, SCONTROL)
    (work / "slurm-7.out").write_text("srun: error: n2: task 2: Exited with exit code 1\n")
    (work / "rank-2.err").write_text("RuntimeError: boom\n" + "x" * 3_000_000)
    config.write_text(config.read_text() + f"slurm_bin = {tools}\nshared_paths = {tmp_path}\n")
    env = {"SLURM_SCRIPT_CONTEXT": "epilog_slurmd", "SLURM_JOB_ID": "7", "SLURM_JOB_UID": str(os.geteuid()),
           "SLURM_JOB_GID": str(os.getegid()), "SLURM_JOB_USER": "x", "SLURM_NODELIST": "n[1-2]",
           "SLURMD_NODENAME": "n1", "SLURM_JOB_WORK_DIR": str(work), "SLURM_JOB_EXIT_CODE2": "1:0",
           "FIRSTFAULT_HOOK_CONFIG": str(config)}  # fmt: skip
    assert subprocess.run([head_for(interpreter, tmp_path)], env=env, check=False).returncode == 0
    seen = intake.wait_for_reports("7", 1)
    facts = seen.closings[0]["job"]
    assert (facts["name"], facts["state"], facts["world_size"], facts["exit_code"]) == ("pretrain", "FAILED", 4, 1)
    assert sorted(seen.logs) == ["rank-2.err", "slurm-7.out"]
    assert seen.logs["rank-2.err"].startswith(b"RuntimeError: boom\n")


class EachVersion:
    """A Slurm whose jobs 10, 11, … have failed, one for each interpreter; they run side by side."""

    def __init__(self, config: Path, folder: Path) -> None:
        self.folder, self.jobs = folder, {str(10 + number): each for number, each in enumerate(INTERPRETERS)}
        (folder / "bin").mkdir()
        (folder / "work").mkdir()
        self.output = folder / "work/train.out"
        self.output.write_text("RuntimeError: boom\n")
        self.state("FAILED")
        given = config.read_text() + f"slurm_bin = {folder}/bin\nshared_paths = {folder}\n"
        for job in self.jobs:
            own = folder / f"{job}.conf"
            own.touch(mode=0o600)
            own.write_text(given.replace(f"{folder}/spool", f"{folder}/spool-{job}"))
        self._env = {"PATH": os.environ["PATH"], "TMPDIR": str(folder), "SLURM_STEP_ID": "0",
                     "SLURM_PROCID": "1", "SLURMD_NODENAME": "n2"}  # fmt: skip

    def state(self, word: str) -> None:
        """What Slurm says of every job."""
        record = RECORD.replace("JobId=7", "JobId=$5").replace("x(1)", f"me({os.getuid()})").replace("FAILED", word)
        record += f" NodeList=n[1-2] WorkDir={self.folder}/work StdOut={self.output}"
        stand_in(self.folder / "bin", f'#!/bin/sh\n[ "$1" = show ] && echo "{record}"\n')

    def run(self, *words: str, **env: str) -> dict[str, tuple[int, str, str]]:
        """(exit status, output, errors) of the hook by job; in `words`, JOB stands for its id."""
        running = {}
        for job, interpreter in self.jobs.items():
            command = [interpreter, "-I", "-W", "error", str(HOOK), *(job if word == "JOB" else word for word in words)]
            running[job] = subprocess.Popen(
                command, env={**self._env, "SLURM_JOB_ID": job, "FIRSTFAULT_HOOK_CONFIG": f"{self.folder}/{job}.conf", **env},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )  # fmt: skip
        ended = {job: (process.communicate(timeout=120), process.returncode) for job, process in running.items()}
        return {job: (status, out, err) for job, ((out, err), status) in ended.items()}


@pytest.fixture
def each(config: Path, tmp_path: Path) -> EachVersion:
    return EachVersion(config, tmp_path)


def test_every_version_reports_for_the_controller(each: EachVersion, intake: Intake) -> None:
    told = each.run(SLURM_SCRIPT_CONTEXT="epilog_slurmctld", SLURM_JOB_NODELIST="n[1-2]", SLURM_JOB_USER="x")
    assert set(told.values()) == {(0, "", "")}
    for job in each.jobs:
        (closing,) = intake.wait_for_reports(job, 1).closings
        facts = closing["job"]
        assert (closing["role"], facts["state"], facts["nodes"]) == ("controller", "FAILED", ["n1", "n2"])


def test_every_version_wraps_a_command(each: EachVersion, intake: Intake) -> None:
    each.state("RUNNING")
    told = each.run("wrap", "--", "sh", "-c", "echo out; kill -SEGV $$")
    assert set(told.values()) == {(-11, "out\n", "")}
    for job in each.jobs:
        seen = intake.wait_for_reports(job, 1)
        assert seen.closings[0]["job"]["signal"] == 11
        assert seen.logs["n2/slurmd.log"].endswith(b"exited. Killed by signal 11.\n")


def test_every_version_watches_a_job(each: EachVersion, intake: Intake) -> None:
    for job, (status, out, err) in each.run("watch", "JOB").items():
        assert (status, err) == (1, "")
        assert f"job {job} attempt 0 failed (FAILED, NonZeroExitCode)" in out
        assert b"RuntimeError: boom" in intake.wait_for_reports(job, 1).logs["train.out"]


def test_every_version_keeps_what_cannot_be_delivered_and_delivers_it_later(each: EachVersion, intake: Intake) -> None:
    intake.away = True
    each.run("watch", "JOB")
    assert intake.incidents == {}
    intake.away = False
    told = each.run("--flush")
    assert set(told.values()) == {(0, "delivered 1, waiting 0\n", "")}
    for job in each.jobs:
        assert intake.wait_for_reports(job, 1).logs["train.out"] == b"RuntimeError: boom\n"


def test_all_versions_from_3_6_to_3_13_are_tried_where_they_are() -> None:
    assert INTERPRETERS
    if len(INTERPRETERS) < 8:
        pytest.skip(f"only {len(INTERPRETERS)} of 8 versions are here; the linter answers for the others")
