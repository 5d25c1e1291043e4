"""What a user does whose site has no hook: watch a job, report logs by hand. See also test_wrap.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hooks.conftest import record
from tests.hooks.intake import TOKEN, Intake

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
    assert out.splitlines() == [
        "job 61 attempt 0 failed (FAILED, NonZeroExitCode)",
        f"reported: incident inc-61-0 {intake.url}/v1/incidents/inc-61-0",
    ], err
    assert run.returncode == 1
    seen = intake.job("61")
    assert seen
    assert b"RuntimeError: shard 17" in b"".join(seen.logs.values())


def test_a_watched_job_that_is_cancelled_is_no_incident(slurm: Path, intake: Intake) -> None:
    record(slurm, "CANCELLED", "0:15")
    run = watch(slurm, intake)
    out, err = run.communicate(timeout=60)
    assert out.endswith("): nothing to report\n"), err
    assert "job 61 attempt 0 did not fail (CANCELLED" in out
    assert run.returncode == 0
    assert intake.requests == []


def test_a_watched_job_that_works_did_not_fail(slurm: Path, intake: Intake) -> None:
    record(slurm, "COMPLETED")
    out, err = watch(slurm, intake).communicate(timeout=60)
    assert out == "job 61 attempt 0 did not fail (COMPLETED): nothing to report\n", err


@pytest.mark.parametrize(
    ("away", "spool", "why"),
    [
        (
            True,
            True,
            "{url} does not know the token in {folder}/token; the report waits in {folder}/cache/firstfault/spool/",
        ),
        (True, False, "the report is lost: {url} does not know the token in {folder}/token, and "),
        (False, False, "the report is lost: {url} does not take it: HTTP 400 trouble on demand"),
    ],
    ids=["a token that is not known", "and nowhere to wait", "a report that is refused"],
)
def test_a_watcher_hears_what_became_of_a_report_that_did_not_arrive(
    slurm: Path, intake: Intake, away: bool, spool: bool, why: str
) -> None:
    intake.away = away
    intake.troubles = [] if away else [(400, {})]
    if not spool:
        (slurm / "cache").write_text("a file where the folder of the spool would be")
    record(slurm, "FAILED", "1:0", "NonZeroExitCode")
    run = watch(slurm, intake)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 1
    assert err.startswith(why.format(url=intake.url, folder=slurm))
    assert err.count("\n") == 1


@pytest.mark.skipif(Path("/etc/firstfault/hook.conf").exists(), reason="this machine has a hook")
@pytest.mark.parametrize("deed", ["watch", "report"])
def test_who_has_no_settings_and_gives_none_hears_what_to_give(tmp_path: Path, deed: str) -> None:
    (tmp_path / "rank-0.log").write_text("RuntimeError: boom\n")
    words = ["watch", "61"] if deed == "watch" else ["report", "--logs", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "bot.cli", *words], env={"HOME": str(tmp_path)}, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("firstfault: name the service: --bot URL --token-file FILE, or make ")
    assert done.stderr.endswith("/hook.conf (docs/reporting.md)\n")


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
        ('{"attempt": "first"}', "attempt must be a whole number"),
        ('{"exit_code": "bad", "nodes": "n1"}', "exit_code must be a whole number"),
        ('{"nodes": "n1"}', "nodes must be a list"),
        ('{"scheduler": "My LSF"}', "scheduler must be one lower-case word"),
        ('{"job_id": ""}', "job_id must have 1 to 200 characters"),
        ('{"started_at": "yesterday"}', "started_at must be a time"),
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
    assert "firstfault: link.log is left out: not a regular file\n" in done.stderr
