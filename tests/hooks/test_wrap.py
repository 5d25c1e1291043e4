"""A command that is wrapped, where the site has no hook: it runs as it would alone, and its failure is reported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.hooks import HOOK
from tests.hooks.conftest import record
from tests.hooks.intake import Intake


def wrap(config: Path, *command: str, **env: str) -> subprocess.Popen[str]:
    told = {"PATH": os.environ["PATH"], "TMPDIR": str(config.parent), **env}
    return subprocess.Popen(
        [sys.executable, str(HOOK), "--config", str(config), "wrap", "--", *command],
        env=told, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def task(rank: int = 1) -> dict[str, str]:
    return {"SLURM_JOB_ID": "61", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURMD_NODENAME": "n2"}


def test_a_wrapped_command_keeps_its_words_and_its_exit_status(config: Path) -> None:
    run = wrap(config, "sh", "-c", "echo out --flag; echo err >&2")
    assert run.communicate() == ("out --flag\n", "err\n")
    assert run.returncode == 0


def test_what_fails_is_reported_and_fails_all_the_same(slurm: Path, config: Path, intake: Intake) -> None:
    run = wrap(config, "sh", "-c", "exit 7", **task(rank=1))
    _, said = run.communicate(timeout=60)
    assert run.returncode == 7, said
    seen = intake.job("61")
    assert seen, said
    assert seen.openings[0]["expected_reporters"] == 1
    facts = seen.closings[0]["job"]
    assert (facts["state"], facts["exit_code"], facts["nodes"], facts["name"]) == ("FAILED", 7, ["n1", "n2"], "train")
    assert b"RuntimeError: shard 17" in seen.logs["train-61.out"]
    assert b"task 1 (" in seen.logs["n2/slurmd.log"]
    assert seen.logs["n2/slurmd.log"].endswith(b"exited with exit code 7.\n")


def test_a_command_that_dies_by_a_signal_takes_its_wrapper_along(slurm: Path, config: Path, intake: Intake) -> None:
    run = wrap(config, "sh", "-c", "kill -SEGV $$", **task())
    run.communicate(timeout=60)
    assert run.returncode == -signal.SIGSEGV
    seen = intake.job("61")
    assert seen
    assert seen.closings[0]["job"]["signal"] == signal.SIGSEGV
    assert b"exited. Killed by signal 11." in seen.logs["n2/slurmd.log"]


def test_of_the_ranks_of_a_node_one_reports_and_tells_how_all_ended(slurm: Path, config: Path, intake: Intake) -> None:
    runs = [wrap(config, "sh", "-c", f"sleep 0.{rank}; exit {rank + 1}", **task(rank)) for rank in range(2)]
    assert [run.wait(60) for run in runs] == [1, 2]
    for run in runs:
        run.communicate()
    seen = intake.job("61")
    assert seen
    assert len(seen.closings) == 1
    lines = seen.logs["n2/slurmd.log"].decode().splitlines()
    assert sorted(line[-1 - len("1") :] for line in lines) == ["1.", "2."]


def test_each_command_of_a_task_that_fails_is_reported_with_all_that_was_told_before(
    slurm: Path, config: Path, intake: Intake
) -> None:
    """`srun sh -c 'wrap -- flaky; wrap -- train'`: the ranks of a node share what they tell, and no failure is lost."""
    for code in (3, 4):
        runs = [wrap(config, "sh", "-c", f"exit {code}", **task(rank)) for rank in range(2)]
        assert [run.wait(60) for run in runs] == [code, code]
        for run in runs:
            run.communicate()
    seen = intake.job("61")
    assert seen
    assert [body["job"]["exit_code"] for body in seen.closings] == [3, 4]
    lines = seen.logs["n2/slurmd.log"].decode().splitlines()
    assert sorted(line[-2:] for line in lines) == ["3.", "3.", "4.", "4."]


def test_a_rank_that_fails_once_the_others_have_reported_is_told_of(slurm: Path, config: Path, intake: Intake) -> None:
    for rank, code in ((0, 3), (1, 4)):
        run = wrap(config, "sh", "-c", f"exit {code}", **task(rank))
        run.communicate(timeout=60)
    seen = intake.job("61")
    assert seen
    assert [body["job"]["exit_code"] for body in seen.closings] == [3, 4]
    first, second = seen.logs["n2/slurmd.log"].decode().splitlines()
    assert "task 0 (" in first
    assert "task 1 (" in second


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_is_told_to_stop_reports_nothing(slurm: Path, config: Path, intake: Intake, number: int) -> None:
    run = subprocess.Popen(
        [sys.executable, str(HOOK), "--config", str(config), "wrap", "--", "sh", "-c", "echo up; exec sleep 60"],
        env={"PATH": os.environ["PATH"], "TMPDIR": str(slurm), **task()}, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert run.stdout
    run.stdout.readline()
    os.killpg(run.pid, number)  # as Slurm does
    assert run.wait(30) == -number
    run.stdout.close()
    assert intake.requests == []


# What a training script does with signals: says so, and goes on until it is told to end.
HANDLES = """
import os, signal, sys, time
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), lambda number, _: os.write(1, signal.Signals(number).name.encode() + b"\\n"))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
os.write(1, b"up\\n")
while True:
    time.sleep(0.05)
"""


def started(config: Path, *command: str) -> subprocess.Popen[str]:
    """A wrapped command in a process group of its own, once it has said that it is up."""
    run = subprocess.Popen(
        [sys.executable, str(HOOK), "--config", str(config), "wrap", "--", *command], text=True,
        env={"PATH": os.environ["PATH"], "TMPDIR": str(config.parent), **task()}, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert run.stdout
    assert run.stdout.readline() == "up\n"
    return run


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2", "SIGALRM", "SIGXCPU", "SIGQUIT", "SIGVTALRM", "SIGHUP"])
def test_a_signal_that_the_command_survives_ends_nobody_and_comes_once(config: Path, name: str) -> None:
    run = started(config, sys.executable, "-c", HANDLES, name)
    assert run.stdout
    for _ in range(2):
        os.killpg(run.pid, getattr(signal, name))
        assert run.stdout.readline() == name + "\n"
        time.sleep(0.3)  # it would have come again by now
    os.killpg(run.pid, signal.SIGTERM)
    assert run.communicate(timeout=30)[0] == ""
    assert run.returncode == 0


def test_a_signal_for_the_wrapper_alone_is_handed_on(config: Path) -> None:
    run = started(config, sys.executable, "-c", HANDLES, "SIGUSR1", "SIGHUP", "SIGINT")
    assert run.stdout
    for name in ("SIGUSR1", "SIGHUP", "SIGINT"):
        run.send_signal(getattr(signal, name))
        assert run.stdout.readline() == name + "\n"
    run.terminate()
    assert run.communicate(timeout=30)[0] == ""
    assert run.returncode == 0


def test_what_is_ignored_stays_ignored(config: Path) -> None:
    run = wrap(config, "grep", "SigIgn", "/proc/self/status")
    plain, _ = run.communicate(timeout=30)
    done = subprocess.run(
        ["nohup", sys.executable, HOOK, "wrap", "--", "grep", "SigIgn", "/proc/self/status"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True, check=True,
    )  # fmt: skip
    assert int(done.stdout.split()[1], 16) == int(plain.split()[1], 16) | 1 << signal.SIGHUP - 1


def test_each_command_of_a_batch_script_that_fails_is_reported(slurm: Path, config: Path, intake: Intake) -> None:
    for code in (3, 4):
        run = wrap(config, "sh", "-c", f"exit {code}", SLURM_JOB_ID="61")
        run.communicate(timeout=60)
        assert run.returncode == code
    seen = intake.job("61")
    assert seen
    assert [body["job"]["exit_code"] for body in seen.closings] == [3, 4]


@pytest.mark.parametrize("laid", ["a link", "a folder", "a pipe"])
def test_what_lies_in_the_way_of_a_nodes_ranks_costs_no_report(
    slurm: Path, config: Path, intake: Intake, laid: str
) -> None:
    place = slurm / f"firstfault-{os.getuid()}-61-0-0"
    if laid == "a link":
        place.symlink_to(slurm / "elsewhere")
    elif laid == "a folder":
        place.mkdir()
    else:
        os.mkfifo(place)
    run = wrap(config, "sh", "-c", "exit 7", **task(rank=1))
    _, said = run.communicate(timeout=60)
    assert (run.returncode, said) == (7, "")
    seen = intake.job("61")
    assert seen
    assert seen.logs["n2/slurmd.log"].endswith(b"exited with exit code 7.\n")


def test_who_is_stopped_by_the_time_limit_reports_that(slurm: Path, config: Path, intake: Intake) -> None:
    record(slurm, "COMPLETING", "0:15", "TimeLimit")
    run = wrap(config, "sh", "-c", "kill -TERM $$", **task())
    run.communicate(timeout=60)
    assert run.returncode == -signal.SIGTERM
    seen = intake.job("61")
    assert seen
    assert seen.closings[0]["job"]["state"] == "TIMEOUT"


def test_a_step_that_ends_because_its_job_is_being_ended_reports_nothing(
    slurm: Path, config: Path, intake: Intake
) -> None:
    record(
        slurm, "COMPLETING", "0:15"
    )  # as scancel leaves it: srun in the batch script fails, and nobody signals its shell
    run = wrap(config, "sh", "-c", "exit 143", SLURM_JOB_ID="61")
    run.communicate(timeout=60)
    assert run.returncode == 143
    assert intake.requests == []


def test_a_wrapper_that_cannot_report_says_so_in_one_line(tmp_path: Path) -> None:
    run = wrap(tmp_path / "no.conf", "sh", "-c", "exit 3", **task())
    _, said = run.communicate(timeout=60)
    assert run.returncode == 3
    assert said.count("\n") == 1
    assert "not reported: cannot read" in said
