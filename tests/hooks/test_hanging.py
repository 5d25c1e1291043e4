"""What the hook asks does not answer, or never comes to an end: it goes on without, and no report is lost."""

from __future__ import annotations

import gzip
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.hooks.conftest import stand_in
from tests.hooks.intake import Intake


@pytest.fixture
def spool(hook: Any, settings: Any) -> Any:
    return hook.Spool(settings).prepare()


@pytest.fixture
def calls(settings: Any, tmp_path: Path) -> Path:
    """A Slurm whose controller hangs; the file has a line for each time that it is asked."""
    told = tmp_path / "calls"
    stand_in(tmp_path, f'#!/bin/sh\necho "$*" >>{told}\nexec sleep 1000\n')
    settings.slurm_bin = str(tmp_path)
    return told


def test_where_the_controller_hangs_one_worker_waits_and_the_others_do_without(
    hook: Any, settings: Any, spool: Any, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "ANSWER_TIME", 1)
    workers = [hook.Slurm(settings, spool.lock) for _ in range(6)]
    threads = [threading.Thread(target=worker.show, args=("61",)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [worker.hung for worker in workers] == [True] * 6
    assert len(calls.read_text().splitlines()) == 1
    monkeypatch.setattr(hook, "HUNG_TIME", -1)
    assert workers[0].show("61") is None
    assert len(calls.read_text().splitlines()) == 2


@pytest.mark.parametrize(("code", "kept"), [("1:0", 1), ("0:0", 0)])
def test_a_worker_whose_time_is_over_leaves_what_it_knows_in_the_spool(
    hook: Any, settings: Any, spool: Any, config: Path, calls: Path, code: str, kept: int
) -> None:
    config.write_text(config.read_text().replace("wait = 20", "wait = 0") + f"slurm_bin = {calls.parent}\n")
    worker = os.fork()
    if not worker:
        env = {"SLURM_JOB_ID": "61", "SLURM_JOB_UID": str(os.getuid()), "SLURM_NODELIST": "n1"}
        env |= {"SLURMD_NODENAME": "n1", "SLURM_JOB_EXIT_CODE2": code, "FIRSTFAULT_HOOK_CONFIG": str(config)}
        os.environ.update(env)
        hook.OVERTIME, hook.ANSWER_TIME = 1, 600
        hook.work("node")
        os._exit(0)
    os.waitpid(worker, 0)
    assert len(spool.waiting()) == kept
    assert "gave up: it took too long" in Path(settings.log_file).read_text()
    for path in spool.waiting():
        with Path(path).open("rb") as source:
            assert hook.Report.read(source).closing["job"]["state"] == "FAILED"


ENDLESS = "import os\nwhile True: os.write(1, b'JobId=7 JobState=FAILED\\n' * 999)"


def ended(pid: int) -> bool:
    """Whether a process is no more, or waits only for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except FileNotFoundError:
        return True


def test_what_says_more_than_anybody_reads_is_ended_and_its_whole_lines_are_taken(
    hook: Any, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "MOST_ANSWER", 1_000_003)
    stand_in(tmp_path, f'#!/bin/sh\necho $$ >{tmp_path}/pid\nexec {sys.executable} -c "{ENDLESS}"\n')
    settings.slurm_bin = str(tmp_path)
    slurm = hook.Slurm(settings)
    assert set(slurm.run("scontrol").split("\n")) == {"JobId=7 JobState=FAILED", ""}
    assert slurm.show("7").state == "FAILED"
    assert not slurm.hung
    until = time.monotonic() + 10
    while not ended(int((tmp_path / "pid").read_text())):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_of_a_long_kernel_log_the_newest_lines_are_kept(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "MOST_ANSWER", 1000)
    script = "import sys; sys.stdout.write(''.join('%d\\n' % n for n in range(100000)))"
    status, text = hook.output_of([sys.executable, "-c", script], newest=True)
    assert status == 0
    assert text.endswith(b"\n99998\n99999\n")
    assert len(text) == 1000


def test_a_command_that_has_said_all_and_does_not_end_is_ended(hook: Any) -> None:
    assert hook.output_of(["/bin/sh", "-c", "echo here; exec sleep 1000"], timeout=1) == (None, b"here\n")


def test_a_handshake_that_never_ends_is_cut(hook: Any, settings: Any, spool: Any) -> None:
    """The head of a record of TLS, then its body by single bytes: each comes well within a socket's own timeout."""
    over = threading.Event()

    def drip() -> None:
        line, _ = server.accept()
        with line:
            line.recv(1 << 16)
            line.sendall(b"\x16\x03\x03\x40\x00")
            try:
                while not over.wait(0.2):
                    line.sendall(b"\x02")
            except OSError:
                ended.append(True)

    ended: list[bool] = []
    facts = {"job_id": "7", "attempt": 0}
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip)
        thread.start()
        settings.url, settings.timeout = f"https://127.0.0.1:{server.getsockname()[1]}", 1
        hook.deliver(hook.Report(facts, facts, [("a", gzip.compress(b""))]), settings, spool, patience=0)
        thread.join(5)
        over.set()
        thread.join()
    assert ended == [True]
    assert len(spool.waiting()) == 1


def test_an_answer_that_drips_has_an_end(hook: Any, settings: Any, spool: Any) -> None:
    over = threading.Event()

    def drip() -> None:
        line, _ = server.accept()
        with line:
            line.recv(1 << 16)
            line.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 5000\r\n\r\n")
            try:
                while not over.wait(0.2):
                    line.sendall(b" ")
            except OSError:
                return

    facts = {"job_id": "7", "attempt": 0}
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip)
        thread.start()
        settings.url, settings.timeout = f"http://127.0.0.1:{server.getsockname()[1]}", 1
        hook.deliver(hook.Report(facts, facts, [("a", gzip.compress(b""))]), settings, spool, patience=0)
        over.set()
        thread.join()
    assert len(spool.waiting()) == 1


def test_a_slow_service_gets_what_comes_first_and_is_told_what_is_left_out(
    hook: Any, settings: Any, spool: Any, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "LONGEST", 1)
    intake.delay = 0.2
    facts, logs = {"job_id": "7", "attempt": 0}, [(f"rank-{rank}.log", gzip.compress(b"x")) for rank in range(50)]
    hook.deliver(hook.Report(facts, facts, logs), settings, spool, patience=0)
    assert spool.waiting() == []
    seen = intake.job("7")
    assert seen
    assert 1 <= len(seen.logs) < 12
    assert seen.closings[0]["job"]["unread"][0].endswith(
        f"{50 - len(seen.logs)} logs: not sent, for the service was slow"
    )


def test_the_jobs_output_is_sent_before_all_others(hook: Any, settings: Any, job: Any, tmp_path: Path) -> None:
    (tmp_path / "slurm-61.out").write_text("srun: error: n1: task 7: Exited with exit code 1\n" * 50)
    for rank in range(5):
        (tmp_path / f"rank{rank}.log").write_text("step 1\n")
    settings.globs = [f"{tmp_path}/rank*.log"]
    evidence = hook.Evidence(settings, job())
    evidence.collect(evidence.patterns())
    evidence.keep_text("n1/slurmd.log", b"exited\n")
    names = [name.rpartition("/")[2] for name, _ in evidence.logs()]
    assert names[:2] == ["slurm-61.out", "slurmd.log"]
    assert len(names) == 7


def test_a_syslog_that_takes_nothing_any_more_is_waited_for_once(
    hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "SYSLOG", str(tmp_path / "log"))
    monkeypatch.setattr(hook, "_log_file", "")
    monkeypatch.setattr(hook, "_silent", False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "log"))
        for number in range(1000):
            hook.note(f"line {number}")
        assert b"firstfault-hook[%d]: line 0" % os.getpid() in server.recv(2000)


def test_what_tells_a_worker_that_its_time_is_over_gets_through_its_log(
    hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_: object) -> None:
        raise hook.TooLong("late")

    monkeypatch.setattr(hook, "_log_file", "/dev/null")
    monkeypatch.setattr(hook, "user_name", late)
    with pytest.raises(hook.TooLong):
        hook.note("a line")
