"""From the node to the service: once, in spite of a service that is slow, away, or says no."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.hooks import HOOK
from tests.hooks.intake import Intake


@pytest.fixture
def spool(hook: Any, settings: Any) -> Any:
    return hook.Spool(settings).prepare()


def report(hook: Any, job: str = "7", *, size: int = 0) -> Any:
    facts = {"scheduler": "slurm", "job_id": job, "attempt": 0, "state": "FAILED"}
    opening = {"schema": 1, "job_id": job, "attempt": 0, "reporter": "n1", "role": "node", "job": facts}
    logs = [("rank-2.err", gzip.compress(b"RuntimeError: boom\n")), ("n1/kernel.log", os.urandom(size))]
    return hook.Report(opening, {"reporter": "n1", "role": "node", "job": facts}, logs[: 2 if size else 1])


def flush(config: Path) -> str:
    done = subprocess.run(
        [sys.executable, HOOK, "--config", config, "--flush"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or done.stderr


@pytest.fixture
def quick(hook: Any, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, not waited for. The module of others keeps its `sleep`."""
    pauses: list[float] = []
    own = types.SimpleNamespace(**vars(time) | {"sleep": pauses.append})
    monkeypatch.setattr(hook, "time", own)
    return pauses


def test_open_then_logs_then_complete_over_one_connection(hook: Any, settings: Any, spool: Any, intake: Intake) -> None:
    hook.deliver(report(hook), settings, spool)
    assert intake.requests == [
        ("POST", "/v1/incidents"),
        ("PUT", "/v1/incidents/inc-7-0/logs/rank-2.err"),
        ("POST", "/v1/incidents/inc-7-0/complete"),
    ]
    seen = intake.job("7")
    assert seen
    assert seen.logs == {"rank-2.err": b"RuntimeError: boom\n"}
    assert spool.waiting() == []


@pytest.mark.parametrize(
    "date", ["yesterday", "Mon, 30 Nov 99999999999999 21:00:00 GMT", "Mon, 30 Nov 2026 99:99:99 +9999999999"]
)
def test_a_service_that_does_not_know_the_time_is_told_all_the_same(
    hook: Any, settings: Any, spool: Any, intake: Intake, date: str
) -> None:
    intake.date = date
    hook.deliver(report(hook), settings, spool)
    assert spool.waiting() == []


def test_a_busy_service_is_asked_again_with_growing_pauses(
    hook: Any, settings: Any, spool: Any, intake: Intake, quick: list[float]
) -> None:
    intake.troubles = [(503, {}), (502, {}), (429, {"Retry-After": "30"})]
    hook.deliver(report(hook), settings, spool)
    assert intake.job("7")
    assert len(quick) == 3
    assert quick[0] <= 1.5 <= 4 * 1.5
    assert quick[2] == 30


def test_a_service_that_is_away_finds_the_report_in_the_spool_once_it_is_back(
    hook: Any, settings: Any, spool: Any, config: Path, intake: Intake, quick: list[float]
) -> None:
    here, settings.url = settings.url, "http://127.0.0.1:9"
    hook.deliver(report(hook, "7"), settings, spool)
    hook.deliver(report(hook, "8"), settings, spool)
    assert len(spool.waiting()) == 2
    assert {oct(Path(path).stat().st_mode & 0o777) for path in [spool.folder, *spool.waiting()]} <= {"0o700", "0o600"}
    settings.url = here
    assert flush(config) == "delivered 2, waiting 0"
    assert flush(config) == "delivered 0, waiting 0"
    assert [path for method, path in intake.requests if path == "/v1/incidents"] == ["/v1/incidents"] * 2
    seen = intake.job("7")
    assert seen
    assert seen.logs == {"rank-2.err": b"RuntimeError: boom\n"}


def test_a_service_that_refuses_the_token_is_not_said_to_be_away(
    hook: Any, settings: Any, spool: Any, intake: Intake
) -> None:
    intake.away = True
    arrived, told = hook.deliver(report(hook), settings, spool)
    assert not arrived
    assert told.endswith(f"; the report waits in {spool.folder}: firstfault-hook --config {settings.path} --flush")
    log = Path(settings.log_file).read_text()
    assert "the service refuses the token; the report waits: HTTP 401 unknown-token" in log
    assert "away" not in log


def test_the_next_hook_run_delivers_what_waits(hook: Any, settings: Any, spool: Any, intake: Intake) -> None:
    spool.put(report(hook, "7"))
    hook.deliver(report(hook, "8"), settings, spool)
    assert intake.job("7")
    assert spool.waiting() == []


def test_who_is_killed_while_it_delivers_has_kept_the_report(
    hook: Any, settings: Any, spool: Any, config: Path, intake: Intake
) -> None:
    intake.delay = 3
    worker = os.fork()
    if not worker:
        hook.deliver(report(hook), settings, spool)
        os._exit(0)
    while not intake.requests:
        time.sleep(0.02)
    assert flush(config) == "delivered 0, waiting 1"  # whoever delivers it holds it
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    intake.delay = 0
    assert flush(config) == "delivered 1, waiting 0"
    seen = intake.job("7")
    assert seen
    assert len(seen.closings) == 1


def test_what_was_never_finished_does_not_stay(hook: Any, settings: Any, spool: Any) -> None:
    for name, age in (("1-7-1.report.part", 2 * hook.UNFINISHED), ("2-7-1.report.part", 0)):
        (Path(spool.folder) / name).touch()
        os.utime(Path(spool.folder) / name, (time.time() - age, time.time() - age))
    spool.put(report(hook))
    assert [path.name for path in Path(spool.folder).glob("*.part")] == ["2-7-1.report.part"]


def test_two_that_flush_at_once_deliver_once(hook: Any, settings: Any, spool: Any, intake: Intake) -> None:
    for number in range(8):
        spool.put(report(hook, str(number)))
    services = [hook.Service(settings) for _ in range(2)]
    threads = [threading.Thread(target=spool.flush, args=(service,)) for service in services]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for service in services:
        service.close()
    assert len([path for _, path in intake.requests if path.endswith("/complete")]) == 8
    assert spool.waiting() == []


@pytest.mark.parametrize("status", [401, 403, 307])
def test_a_wrong_token_or_address_is_for_people_to_mend_so_the_report_waits(
    hook: Any, settings: Any, spool: Any, intake: Intake, quick: list[float], status: int
) -> None:
    intake.troubles = [(status, {"Location": "http://127.0.0.1:9/"})]
    hook.deliver(report(hook), settings, spool)
    assert len(intake.requests) == 1
    assert quick == []
    assert len(spool.waiting()) == 1
    assert f"HTTP {status}" in Path(settings.log_file).read_text()


def test_what_the_service_will_never_take_is_not_kept(hook: Any, settings: Any, spool: Any, intake: Intake) -> None:
    intake.troubles = [(422, {})]
    hook.deliver(report(hook), settings, spool)
    assert spool.waiting() == []
    assert "refused the report: HTTP 422" in Path(settings.log_file).read_text()


@pytest.mark.parametrize("status", [400, 404, 405, 411, 413])
@pytest.mark.parametrize("answer", [{}, {"error": {"code": 404, "message": "no route"}}, {"error": "not found"}])
def test_what_something_in_between_says_costs_no_report(
    hook: Any, settings: Any, spool: Any, intake: Intake, quick: list[float], status: int, answer: dict[str, Any]
) -> None:
    spool.put(report(hook, "7"))
    intake.in_between = (status, answer)
    hook.deliver(report(hook, "8"), settings, spool)
    with hook.Service(settings) as service:
        assert spool.flush(service) == (0, 2)
    assert f"HTTP {status}, and not from the service itself" in Path(settings.log_file).read_text()
    intake.in_between = None
    hook.deliver(report(hook, "9"), settings, spool)
    assert spool.waiting() == []
    assert intake.job("7")
    assert intake.job("8")


def test_one_log_that_is_refused_does_not_cost_the_others(hook: Any, settings: Any, spool: Any, intake: Intake) -> None:
    intake.refused_logs = {"rank-2.err"}
    both = report(hook)
    both.logs.append(("rank-3.err", gzip.compress(b"fine\n")))
    hook.deliver(both, settings, spool)
    seen = intake.job("7")
    assert seen
    assert list(seen.logs) == ["rank-3.err"]
    assert seen.reporters == {"n1"}
    assert "log over 1 byte" in Path(settings.log_file).read_text()


def test_the_spool_drops_the_oldest_when_it_is_full_and_says_so(hook: Any, settings: Any, spool: Any) -> None:
    settings.spool_bytes = 300_000
    for number in range(5):
        spool.put(report(hook, str(number), size=100_000))
    assert [Path(path).name.split("-")[1] for path in spool.waiting()] == ["3", "4"]
    assert Path(settings.log_file).read_text().count("the spool is full") == 3


def test_the_spool_forgets_what_is_too_old_and_says_so(hook: Any, settings: Any, spool: Any, intake: Intake) -> None:
    spool.put(report(hook))
    long_ago = time.time() - settings.spool_age - 10
    os.utime(spool.waiting()[0], (long_ago, long_ago))
    with hook.Service(settings) as service:
        assert spool.flush(service) == (0, 0)
    assert intake.requests == []
    assert "it is too old" in Path(settings.log_file).read_text()


def test_a_service_that_stays_away_does_not_keep_what_is_too_old(hook: Any, settings: Any, spool: Any) -> None:
    for number in range(2):
        spool.put(report(hook, str(number)))
    long_ago = time.time() - settings.spool_age - 10
    os.utime(spool.waiting()[0], (long_ago, long_ago))
    spool.put(report(hook, "2"))
    assert [Path(path).name.split("-")[1] for path in spool.waiting()] == ["1", "2"]
    assert "-0-" in Path(settings.log_file).read_text()
    assert "it is too old" in Path(settings.log_file).read_text()


def test_a_report_larger_than_the_spool_is_dropped_too_and_said(hook: Any, settings: Any, spool: Any) -> None:
    settings.spool_bytes = 50_000
    spool.put(report(hook, "7", size=100_000))
    assert spool.waiting() == []
    assert "the spool is full" in Path(settings.log_file).read_text()


def test_a_damaged_report_does_not_stop_the_others(hook: Any, settings: Any, spool: Any, intake: Intake) -> None:
    spool.put(report(hook, "7"))
    Path(spool.waiting()[0]).write_bytes(b"half a tar")
    spool.put(report(hook, "8"))
    with hook.Service(settings) as service:
        assert spool.flush(service) == (1, 0)
    assert intake.job("8")


def test_a_spool_that_another_hook_prepares_at_the_same_moment_is_used(
    hook: Any, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def beaten(path: str, mode: int = 0o777) -> None:
        if path == settings.spool:
            mkdir(path, mode)
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", beaten)
    hook.Spool(settings).prepare()
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o711


def test_a_report_that_is_delivered_while_the_spool_is_tidied_stops_nobody(
    hook: Any, settings: Any, spool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.put(report(hook, "7"))
    there = spool.waiting()
    monkeypatch.setattr(spool, "waiting", lambda: [f"{spool.folder}/1-1-1.report", *there])
    spool.tidy()
    assert Path(there[0]).exists()


def test_a_spool_that_others_prepared_is_not_used(hook: Any, settings: Any, tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / hook.user_name()).mkdir(mode=0o755)
    with pytest.raises(PermissionError, match="mode 0700"):
        hook.Spool(settings).prepare()
    (tmp_path / "spool" / hook.user_name()).rmdir()
    (tmp_path / "spool" / hook.user_name()).symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="must be a folder"):
        hook.Spool(settings).prepare()


def test_a_full_disk_costs_the_report_and_nothing_else(
    hook: Any, settings: Any, spool: Any, quick: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.url = "http://127.0.0.1:9"

    def full(self: Any, target: Any) -> None:
        target.write(b"x")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(hook.Report, "write", full)
    hook.deliver(report(hook), settings, spool)
    assert [path.name for path in Path(spool.folder).iterdir()] == ["endings"]
    assert "No space left" in Path(settings.log_file).read_text()


def test_a_certificate_of_a_stranger_is_not_taken(hook: Any, settings: Any, spool: Any, quick: list[float]) -> None:
    trust = hook.Service(settings)._connect
    settings.url = "https://127.0.0.1:9"
    connection = hook.Service(settings)._connect()
    assert connection._context.verify_mode == hook.ssl.CERT_REQUIRED
    assert connection._context.check_hostname
    assert type(trust()) is hook.http.client.HTTPConnection
