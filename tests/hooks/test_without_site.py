"""What a user does whose site has no hook: wrap a command, watch a job, report logs by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.hooks import HOOK
from tests.hooks.conftest import stand_in
from tests.hooks.intake import TOKEN, Intake

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
    (tmp_path / "sacct").write_text("#!/bin/sh\nexit 1\n")  # this machine's own looks for a Slurm for a while
    (tmp_path / "sacct").chmod(0o755)
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


def wrap(config: Path, *command: str, **env: str) -> subprocess.Popen[str]:
    told = {"PATH": os.environ["PATH"], "TMPDIR": str(config.parent), **env}
    return subprocess.Popen(
        [sys.executable, str(HOOK), "--config", str(config), "wrap", "--", *command],
        env=told, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def task(rank: int = 1) -> dict[str, str]:
    return {"SLURM_JOB_ID": "61", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURMD_NODENAME": "n2"}


# --- wrap


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


# --- watch


def watch(folder: Path, intake: Intake) -> subprocess.Popen[str]:
    (folder / "token").touch(mode=0o600)
    (folder / "token").write_text(TOKEN)
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder)}
    command = [sys.executable, "-m", "bot.cli", "watch", "61", "--bot", intake.url, "--token-file", f"{folder}/token"]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_watched_job_is_reported_when_it_fails(slurm: Path, intake: Intake) -> None:
    record(slurm, "FAILED", "1:0", "NonZeroExitCode")
    run = watch(slurm, intake)
    out, err = run.communicate(timeout=60)
    assert "job 61 attempt 0 ended: failure (FAILED, NonZeroExitCode)" in out, err
    assert run.returncode == 1
    seen = intake.job("61")
    assert seen
    assert b"RuntimeError: shard 17" in b"".join(seen.logs.values())


def test_a_watched_job_that_is_cancelled_is_no_incident(slurm: Path, intake: Intake) -> None:
    record(slurm, "CANCELLED", "0:15")
    run = watch(slurm, intake)
    out, err = run.communicate(timeout=60)
    assert "ended: none (CANCELLED" in out, err
    assert run.returncode == 0
    assert intake.requests == []


# --- report


def report(tmp_path: Path, intake: Intake, facts: str | None) -> subprocess.CompletedProcess[str]:
    logs = tmp_path / "logs"
    logs.mkdir(exist_ok=True)
    (logs / "rank-3.log").write_text("password=hunter22\nRuntimeError: boom\n")
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text(TOKEN)
    command = [sys.executable, "-m", "bot.cli", "report", "--logs", str(logs), "--bot", intake.url,
               "--token-file", str(tmp_path / "token")]  # fmt: skip
    if facts is not None:
        (tmp_path / "job.json").write_text(facts)
        command += ["--job", str(tmp_path / "job.json")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_logs_of_any_scheduler_are_reported_by_hand(tmp_path: Path, intake: Intake) -> None:
    facts = {"scheduler": "lsf", "job_id": "881", "attempt": 2, "nodes": ["a1", "a2"], "exit_code": 1}
    done = report(tmp_path, intake, json.dumps(facts))
    assert done.returncode == 0, done.stderr
    assert "inc-881-2" in done.stdout
    seen = intake.job("881", 2)
    assert seen
    assert seen.openings[0]["scheduler"] == "lsf"
    assert b"RuntimeError: boom" in seen.logs["rank-3.log"]
    assert b"hunter22" not in seen.logs["rank-3.log"]


def test_a_report_needs_no_facts(tmp_path: Path, intake: Intake) -> None:
    assert report(tmp_path, intake, None).returncode == 0
    ((job, attempt),) = intake.incidents
    assert job.startswith("logs-")
    assert attempt == 0


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ("[]", "must be one JSON object"),
        ('{"job_id": 7,}', "is no JSON: line 1, column 14"),
        ('{"attempt": "first"}', "attempt: Input should be a valid integer"),
        ('{"exit_code": "bad", "nodes": "n1"}', "exit_code: Input should be a valid integer"),
        ('{"nodes": "n1"}', "nodes: Input should be a valid list"),
        ('{"scheduler": "My LSF"}', "scheduler: String should match pattern"),
        ('{"job_id": ""}', "job_id: String should have at least 1 character"),
        ('{"started_at": "yesterday"}', "started_at: Input should be a valid datetime"),
    ],
)
def test_a_wrong_job_file_is_named_with_what_is_wrong_and_nothing_is_sent(
    tmp_path: Path, intake: Intake, facts: str, why: str
) -> None:
    done = report(tmp_path, intake, facts)
    assert done.returncode == 2
    assert done.stderr.startswith(f"firstfault: {tmp_path}/job.json: ")
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
    assert intake.requests == []


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        ("no folder", "logs is no folder"),
        ("no file in it", "logs holds no file"),
        ("no job file", "other.json: cannot be read (No such file or directory)"),
        ("no address", "--bot must be like https://firstfault.example.com, not 'ff.example.com'"),
        ("no token file", "token cannot be read (No such file or directory)"),
        ("two tokens", "must hold one token"),
        ("an open token", "chmod 600"),
    ],
)
def test_what_is_wrong_is_said_of_what_was_given(tmp_path: Path, intake: Intake, trouble: str, why: str) -> None:
    logs, token, job, bot = tmp_path / "logs", tmp_path / "token", tmp_path / "other.json", intake.url
    logs.mkdir()
    (logs / "rank-0.log").write_text("RuntimeError: boom\n")
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    job.write_text("{}")
    match trouble:
        case "no folder":
            (logs / "rank-0.log").unlink()
            logs.rmdir()
        case "no file in it":
            (logs / "rank-0.log").unlink()
        case "no job file":
            job.unlink()
        case "no address":
            bot = "ff.example.com"
        case "no token file":
            token.unlink()
        case "two tokens":
            token.write_text("one-token-of-a-cluster and-one-more")
        case "an open token":
            token.chmod(0o644)
    command = [
        sys.executable,
        "-m",
        "bot.cli",
        "report",
        "--logs",
        logs,
        "--job",
        job,
        "--bot",
        bot,
        "--token-file",
        token,
    ]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("firstfault: ")
    assert why in done.stderr
    assert "hook" not in done.stderr.replace(TOKEN, "").replace(str(tmp_path), "")
    assert intake.requests == []


def test_what_is_no_file_is_left_out_and_said(tmp_path: Path, intake: Intake) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/link.log").symlink_to("/etc/hostname")
    done = report(tmp_path, intake, None)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "firstfault: link.log is left out: not a regular file\n"
