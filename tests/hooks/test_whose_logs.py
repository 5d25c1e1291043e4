"""What the user of a job must not be able to do with its outputs, and whose logs are sent."""

from __future__ import annotations

import os
import pwd
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hooks.conftest import collected

NOBODY = pwd.getpwnam("nobody")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
MakeJob = Callable[..., Any]


@pytest.fixture
def of_nobody(job: MakeJob, settings: Any) -> Iterator[Any]:
    """A job of the user `nobody` that writes `out.log` into a folder of its own, which is inside one of root's."""
    with tempfile.TemporaryDirectory(dir="/tmp") as outer:
        Path(outer).chmod(0o755)
        work = Path(outer) / "work"
        work.mkdir()
        os.chown(work, NOBODY.pw_uid, NOBODY.pw_gid)
        settings.shared_paths = [outer]
        yield job(uid=NOBODY.pw_uid, gid=NOBODY.pw_gid, SLURM_JOB_USER="nobody", SLURM_JOB_WORK_DIR=str(work),
                  SLURM_JOB_STDOUT="out.log")  # fmt: skip


def own(path: Path, text: str = "") -> None:
    path.write_text(text)
    os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)


@as_root
def test_the_users_own_log_is_taken(hook: Any, settings: Any, of_nobody: Any) -> None:
    own(Path(of_nobody.work_dir) / "out.log", "RuntimeError: boom\n")
    assert collected(hook, settings, of_nobody) == {"out.log": b"RuntimeError: boom\n"}
    assert (os.geteuid(), os.getegid()) == (0, 0)


@as_root
@pytest.mark.parametrize(
    "trick", ["symlink", "hard link", "folder", "pipe", "own symlink", "link to a folder", "foreign"]
)
def test_no_name_leads_to_a_file_that_is_not_the_users_log(
    hook: Any, settings: Any, of_nobody: Any, trick: str
) -> None:
    outer = Path(of_nobody.work_dir).parent
    secret = outer / "shadow"
    secret.write_text("root:not-a-hash\n")
    secret.chmod(0o644)  # even one that everybody may read
    log = Path(of_nobody.work_dir) / "out.log"
    match trick:
        case "symlink":
            log.symlink_to(secret)
        case "hard link":
            log.hardlink_to(secret)
        case "folder":
            log.mkdir()
        case "pipe":
            os.mkfifo(log)
            os.chown(log, NOBODY.pw_uid, NOBODY.pw_gid)
        case "own symlink":
            own(outer / "elsewhere", "mine\n")
            log.symlink_to(outer / "elsewhere")
        case "link to a folder":
            (Path(of_nobody.work_dir) / "sub").symlink_to(outer)
            of_nobody.stdout = "sub/shadow"
        case "foreign":
            of_nobody.stdout = str(secret)
    assert collected(hook, settings, of_nobody) == {}


@pytest.mark.parametrize(
    ("trick", "why"),
    [("pipe", "not a regular file"), ("folder", "not a regular file"), ("foreign", "it belongs to uid 0"),
     ("old", "not written since the job began")],
)  # fmt: skip
@as_root
def test_an_output_that_is_left_out_is_said(hook: Any, settings: Any, of_nobody: Any, trick: str, why: str) -> None:
    log = Path(of_nobody.work_dir) / "out.log"
    match trick:
        case "pipe":
            os.mkfifo(log)
        case "folder":
            log.mkdir()
        case "foreign":
            log.write_text("not yours\n")
        case "old":
            own(log, "of yesterday\n")
            of_nobody.started = time.time() + 60
    evidence = hook.Evidence(settings, of_nobody)
    evidence.collect(evidence.patterns())
    assert evidence.packed == {}
    assert evidence.facts("FAILED", "")["unread"] == [f"n1: {log}: {why}"]


@as_root
def test_root_reads_with_no_more_rights_than_the_user(hook: Any, settings: Any, of_nobody: Any) -> None:
    closed = Path(of_nobody.work_dir).parent / "closed"
    closed.mkdir(mode=0o700)
    own(closed / "out.log", "behind a door that only root may open\n")
    of_nobody.stdout = str(closed / "out.log")
    assert collected(hook, settings, of_nobody) == {}


@pytest.mark.parametrize("uid", ["", "-1", "4294967295", "\N{SUPERSCRIPT TWO}"])
def test_without_a_known_user_no_file_is_read_and_that_is_said(
    hook: Any, settings: Any, job: MakeJob, tmp_path: Path, uid: str
) -> None:
    (tmp_path / "out.log").write_text("root's own\n")
    unknown = job(SLURM_JOB_UID=uid, SLURM_JOB_STDOUT=str(tmp_path / "out.log"))
    evidence = hook.Evidence(settings, unknown)
    evidence.collect(evidence.patterns(), failed=True)
    assert evidence.packed == {}
    assert evidence.batch_tail() is None
    assert evidence.facts("FAILED", "")["unread"] == [
        "n1: the job's files: Slurm did not tell the uid of the job's user"
    ]


def test_a_log_of_an_earlier_job_is_left_alone(hook: Any, settings: Any, job: MakeJob, tmp_path: Path) -> None:
    settings.shared_paths = [str(tmp_path)]
    for name, age in (("rank-0.log", 0), ("rank-9.log", 3600)):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (1796026600 - age, 1796026600 - age))
    mine = job(SLURM_JOB_STDOUT="rank-%t.log", SLURM_JOB_START_TIME="1796026000")
    assert list(collected(hook, settings, mine)) == ["rank-0.log"]


BEGAN = 1796026000


def written(path: Path, after: float) -> None:
    """A file that was last written so many seconds after the job began, by the clock of its file server."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(path.name)
    os.utime(path, (BEGAN + after, BEGAN + after))


@pytest.mark.parametrize(
    ("pattern", "name", "more"),
    [
        ("out-%j.log", "out-61.log", {}),
        ("%6j/rank-%t.log", "000061/rank-0.log", {}),
        ("%J-%t.log", "61.0-0.log", {}),
        ("%A.log", "61.log", {}),
        ("%A_%a.log", "60_3.log", {"SLURM_ARRAY_JOB_ID": "60", "SLURM_ARRAY_TASK_ID": "3"}),
        ("run-48213/rank-%t.log", "run-48213/rank-0.log", {"SLURM_JOB_ID": "48213"}),
    ],
)
def test_a_log_with_the_jobs_id_in_its_name_is_its_own_whatever_the_file_servers_clock_says(
    hook: Any, settings: Any, job: MakeJob, tmp_path: Path, pattern: str, name: str, more: dict[str, str]
) -> None:
    settings.shared_paths = [str(tmp_path)]
    written(tmp_path / name, after=-4000)
    mine = job(SLURM_JOB_STDOUT=pattern, SLURM_JOB_START_TIME=str(BEGAN), **more)
    assert list(collected(hook, settings, mine)) == [name]


@pytest.mark.parametrize(
    ("pattern", "name", "more"),
    [
        ("rank-%t.log", "rank-61.log", {}),
        ("v61/rank-%t.log", "v61/rank-0.log", {}),
        ("148213/rank-%t.log", "148213/rank-0.log", {"SLURM_JOB_ID": "48213"}),
        ("%A.log", "60.log", {"SLURM_ARRAY_JOB_ID": "60", "SLURM_ARRAY_TASK_ID": "3"}),
        ("out-%j.log", "out-61.log", {"SLURM_JOB_RESTART_COUNT": "1"}),  # the attempt before wrote it too
    ],
)
def test_a_log_that_an_earlier_job_may_have_written_is_taken_by_its_age(
    hook: Any, settings: Any, job: MakeJob, tmp_path: Path, pattern: str, name: str, more: dict[str, str]
) -> None:
    settings.shared_paths = [str(tmp_path)]
    written(tmp_path / name, after=-100)
    mine = job(SLURM_JOB_STDOUT=pattern, SLURM_JOB_START_TIME=str(BEGAN), **more)
    assert collected(hook, settings, mine) == {}


@pytest.mark.parametrize(("after", "taken"), [(-20, True), (-100, False)])
def test_what_slurm_makes_for_the_job_may_look_a_little_older(
    hook: Any, settings: Any, job: MakeJob, tmp_path: Path, after: int, taken: bool
) -> None:
    settings.shared_paths = [str(tmp_path)]
    written(tmp_path / "train.out", after)
    mine = job(SLURM_JOB_STDOUT="train.out", SLURM_JOB_START_TIME=str(BEGAN))
    assert bool(collected(hook, settings, mine)) is taken


def test_how_far_a_file_server_is_behind_shows_in_the_output_that_is_surely_the_jobs(
    hook: Any, settings: Any, job: MakeJob, tmp_path: Path
) -> None:
    settings.shared_paths, settings.globs = [str(tmp_path)], ["rank*.log"]
    for name, after in (("slurm-61.out", -290), ("rank0.log", -292), ("rank9.log", -900)):
        written(tmp_path / name, after)
    mine = job(SLURM_JOB_STDOUT="slurm-%j.out", SLURM_JOB_START_TIME=str(BEGAN))
    assert sorted(collected(hook, settings, mine)) == ["rank0.log", "slurm-61.out"]


def test_two_paths_with_one_name_stay_two_logs(hook: Any, settings: Any, job: MakeJob, tmp_path: Path) -> None:
    settings.shared_paths = [str(tmp_path)]
    (tmp_path / "a b.log").write_text("one")
    (tmp_path / "a_b.log").write_text("two")
    assert sorted(collected(hook, settings, job(SLURM_JOB_STDOUT="a b.log", SLURM_JOB_STDERR="a_b.log")).values()) == [
        b"one",
        b"two",
    ]


def test_a_node_never_sends_more_than_its_share(hook: Any, settings: Any, job: MakeJob, tmp_path: Path) -> None:
    settings.shared_paths, settings.node_bytes, settings.file_bytes = [str(tmp_path)], 40_000, 30_000
    for rank in range(8):
        (tmp_path / f"rank-{rank}.log").write_text("step done\n" * (5_000 if rank else 10))
    logs = collected(hook, settings, job(SLURM_JOB_STDOUT="rank-%t.log"))
    assert len(logs) == 8
    assert logs["rank-0.log"] == b"step done\n" * 10  # what a short log leaves goes to the long ones
    assert 30_000 < sum(map(len, logs.values())) < 42_000
