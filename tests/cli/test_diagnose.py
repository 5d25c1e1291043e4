"""`firstfault diagnose`: what it prints, how it ends, and what it does not need."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from knowledge.diagnosis import Diagnosis

from .conftest import FIRSTFAULT, Run, environment, on_a_terminal


def healthy(folder: Path) -> Path:
    """A job that trained to its end."""
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "rank-0.log").write_text(
        "INFO step 10 loss 2.1\nINFO step 20 loss 2.0\nINFO training finished\n"
    )
    facts = {"scheduler": "slurm", "job_id": "7", "state": "COMPLETED", "exit_code": 0, "world_size": 1}
    (folder / "job.json").write_text(json.dumps(facts))
    return folder


def test_a_folder_gets_a_verdict_that_names_the_rank_and_its_host(firstfault: Run, recording: Path) -> None:
    result = firstfault("diagnose", recording)

    assert result.returncode == 0
    assert result.stderr == ""
    verdict = result.stdout.split("Proof")[0]
    assert "minigpt-pretrain failed after 2 m 6 s" in verdict
    assert "on gpu-n04 (rank 5)" in verdict
    assert "7 other ranks failed only because of it." in " ".join(verdict.split())


def test_the_text_follows_the_story_from_verdict_to_doubt(firstfault: Run, recording: Path) -> None:
    text = firstfault("diagnose", recording).stdout
    places = [text.index(f"\n{heading}") for heading in ("Proof", "Fix", "Verify", "Restart", "Confidence")]
    assert places == sorted(places)


def test_every_line_of_proof_stands_where_it_is_said_to_stand(firstfault: Run, recording: Path) -> None:
    document = Diagnosis.model_validate_json(firstfault("diagnose", "--json", recording).stdout)

    assert document.evidence
    for evidence in document.evidence:
        lines = (recording / "logs" / evidence.source).read_text(encoding="utf-8").split("\n")
        assert evidence.text.strip() in lines[evidence.line - 1]


def test_json_is_one_document_of_the_contract(firstfault: Run, recording: Path) -> None:
    result = firstfault("diagnose", "--json", recording)

    assert result.returncode == 0
    document = json.loads(result.stdout)
    assert document["schema"] == 1
    assert document["outcome"] == "failed"
    assert document["initiating"] == {"ranks": [5], "hosts": ["gpu-n04"]}
    assert document["collateral"]["count"] == 7
    assert document["stats"]["lines"] > 400


def test_single_files_are_enough(firstfault: Run, recording: Path) -> None:
    logs = recording / "logs"
    result = firstfault("diagnose", "--json", logs / "gpu-n04" / "rank-5.log", logs / "gpu-n03" / "rank-0.log")
    assert json.loads(result.stdout)["initiating"]["ranks"] == [5]


def test_standard_input_is_read_as_a_file(firstfault: Run, recording: Path) -> None:
    text = (recording / "logs" / "gpu-n04" / "rank-5.log").read_text(encoding="utf-8")
    result = firstfault("diagnose", "--json", "-", text=text)

    assert result.returncode == 0
    document = json.loads(result.stdout)
    assert document["initiating"]["ranks"] == [5]
    assert {evidence["source"] for evidence in document["evidence"]} == {"stdin"}


def test_a_pipe_of_the_shell_is_read_as_a_file(recording: Path) -> None:
    log = recording / "logs" / "gpu-n04" / "rank-5.log"
    command = f"{shlex.join(FIRSTFAULT)} diagnose --json <(cat {shlex.quote(str(log))})"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False, env=environment()
    )
    assert result.returncode == 0, result.stderr
    assert Diagnosis.model_validate_json(result.stdout).cause.id == "index-out-of-range"


@pytest.mark.parametrize("content", [b"", gzip.compress(b"ValueError: x", mtime=0)[:12]])
def test_where_nothing_can_be_read_nothing_is_claimed(firstfault: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rank-0.log").write_bytes(content)
    result = firstfault("diagnose", tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert str(tmp_path) in result.stderr


def test_a_device_is_no_log(firstfault: Run) -> None:
    result = firstfault("diagnose", "/dev/zero")
    assert (result.returncode, result.stdout) == (2, "")
    assert "/dev/zero" in result.stderr


def test_a_job_that_did_not_fail_has_a_status_of_its_own(firstfault: Run, tmp_path: Path) -> None:
    result = firstfault("diagnose", healthy(tmp_path / "job"))
    assert result.returncode == 3
    assert result.stdout.startswith("✓")
    assert "Restart" not in result.stdout


def test_a_name_that_no_file_can_have_is_one_line(firstfault: Run) -> None:
    result = firstfault("diagnose", "x" * 300)
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1


def test_a_missing_path_is_one_line_that_names_it(firstfault: Run, tmp_path: Path) -> None:
    result = firstfault("diagnose", tmp_path / "nowhere.log")
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert "nowhere.log" in line


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file whose reading fails: Linux has one")
def test_an_unreadable_file_is_one_line_that_names_it(firstfault: Run) -> None:
    result = firstfault("diagnose", "/proc/self/mem")
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert "/proc/self/mem" in line


def test_an_empty_folder_is_one_line_that_names_it(firstfault: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = firstfault("diagnose", tmp_path / "empty")
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert "empty" in line


@pytest.mark.parametrize("arguments", [["diagnose"], ["diagnose", "--jsn", "x"], ["diagnoze"], ["diagnose", "--json"]])
def test_a_wrong_command_line_ends_with_2(firstfault: Run, arguments: list[str]) -> None:
    result = firstfault(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr


def test_any_locale_will_do(recording: Path) -> None:
    result = subprocess.run(
        [*FIRSTFAULT, "diagnose", str(recording)],
        capture_output=True,
        check=False,
        timeout=120,
        env={**environment(), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )
    assert result.returncode == 0, result.stderr
    assert "✗" in result.stdout.decode()


def test_a_reader_who_leaves_early_is_no_error(recording: Path) -> None:
    with subprocess.Popen(
        [*FIRSTFAULT, "diagnose", str(recording)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        command.stdout.close()
        assert command.stderr.read() == b""
    assert command.returncode == 0


def test_ctrl_c_ends_it_without_a_word() -> None:
    with subprocess.Popen(
        [*FIRSTFAULT, "diagnose", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=_listen_to_the_keyboard,
    ) as command:
        assert command.stdin is not None
        _until_it_reads(command)
        command.send_signal(signal.SIGINT)
        out, complaints = command.communicate(timeout=60)
    assert (command.returncode, out, complaints) == (130, b"", b"")


def _listen_to_the_keyboard() -> None:
    """A shell that runs the tests in the background has their children ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _until_it_reads(command: subprocess.Popen[bytes]) -> None:
    """Feed standard input until the command takes more than the pipe holds, so it is past its start."""
    assert command.stdin is not None
    descriptor = command.stdin.fileno()
    os.set_blocking(descriptor, False)
    written, deadline = 0, time.monotonic() + 60
    while written < 4 << 20:
        assert time.monotonic() < deadline
        try:
            written += os.write(descriptor, b"step 1\n" * 4096)
        except BlockingIOError:
            time.sleep(0.02)


def test_colours_are_for_terminals_and_can_be_refused(firstfault: Run, recording: Path) -> None:
    assert "\x1b[" in on_a_terminal("diagnose", str(recording))
    assert "\x1b[" not in on_a_terminal("diagnose", str(recording), NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal("diagnose", str(recording), TERM="dumb")
    assert "\x1b[" not in firstfault("diagnose", recording).stdout


def test_what_a_log_says_cannot_steer_the_terminal(firstfault: Run, tmp_path: Path, recording: Path) -> None:
    bundle = tmp_path / "job"
    shutil.copytree(recording, bundle)
    log = bundle / "logs" / "gpu-n04" / "rank-5.log"
    hostile = "index out of range in self \x1b]0;owned\x07\x1b[2J\x9b31m\u202etxet\u202c\x08\x08"
    log.write_text(log.read_text().replace("index out of range in self", hostile))
    facts = json.loads((bundle / "job.json").read_text())
    (bundle / "job.json").write_text(json.dumps({**facts, "name": "evil\x1b[2Jname\r\x07"}))

    text = firstfault("diagnose", bundle).stdout

    assert "evil" in text
    assert "IndexError" in text
    assert [character for character in text if not character.isprintable() and character != "\n"] == []


def test_it_needs_no_service_database_or_slack(recording: Path) -> None:
    """Whoever only diagnoses does not wait for the rest to be imported."""
    program = (
        "import sys; from pathlib import Path; from bot.cli.diagnose import run; import bot.cli.main;"
        "run([Path(sys.argv[1])], as_json=True);"
        "print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(recording)], capture_output=True, text=True, timeout=120, check=True
    )
    heavy = {"aiohttp", "alembic", "rich", "slack_bolt", "slack_sdk", "sqlalchemy", "sqlmodel", "storage", "structlog"}
    assert heavy & set(result.stderr.split()) == set()
