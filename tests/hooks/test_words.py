"""Slurm's own words: host lists, times, codes, records."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.hooks.conftest import stand_in


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("gpu[08-10,12],login", ["gpu08", "gpu09", "gpu10", "gpu12", "login"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("r[1-2]-ib", ["r1-ib", "r2-ib"]),
        ("", []),
    ],
)
def test_host_lists(hook: Any, text: str, names: list[str]) -> None:
    assert hook.hosts(text) == names


def test_a_hostile_host_list_is_bounded(hook: Any) -> None:
    assert len(hook.hosts("n[0-99999999]x[0-99999]", limit=1000)) == 1000


def test_times_are_local_and_may_be_missing(hook: Any) -> None:
    assert hook.epoch("2026-11-30T08:16:12") == time.mktime((2026, 11, 30, 8, 16, 12, 0, 0, -1))
    assert hook.epoch("1796026572") == 1796026572
    assert [hook.epoch(text) for text in ("Unknown", "N/A", "", "0", "nonsense")] == [None] * 5
    assert hook.utc(1796026572) == "2026-11-30T08:16:12Z"


@pytest.mark.parametrize(
    ("text", "seconds"), [("365-00:00:00", 31_536_000), ("00:01:00", 60), ("1:30", 90), ("UNLIMITED", None)]
)
def test_time_limits(hook: Any, text: str, seconds: int | None) -> None:
    assert hook.duration(text) == seconds


def test_a_record_is_read_by_its_keys_though_values_hold_spaces(hook: Any) -> None:
    view = hook.View.parse(
        "JobId=7 JobName=my run UserId=alice(1001) MCS_label=N/A JobState=FAILED Reason=RaisedSignal:11(Segmentation_fault) "
        "Restarts=2 ReqB:S:C:T=0:0:*:* Command=/w/b.sh --lr 1e-4 WorkDir=/w Comment=JobState=COMPLETED it says"
    )
    assert view["JobName"] == "my run"
    assert view["Command"] == "/w/b.sh --lr 1e-4"
    assert (view.state, view.restarts) == ("FAILED", 2)


def test_the_ranks_of_a_job_are_its_tasks_unless_a_launcher_runs_on_each_node(hook: Any) -> None:
    env = {"SLURM_JOB_ID": "7", "SLURM_NODELIST": "n[1-2]", "SLURM_JOB_EXIT_CODE2": "1:0"}
    tasks = hook.Job({**env, "SLURM_JOB_NTASKS": "16"}, "node").facts("FAILED", "NonZeroExitCode")
    assert (tasks["world_size"], tasks["ranks_per_node"]) == (16, 8)
    assert "world_size" not in hook.Job({**env, "SLURM_JOB_NTASKS": "2"}, "node").facts("FAILED", "")


def test_a_requeued_attempt_keeps_its_own_number_and_not_the_next_ones_times(hook: Any) -> None:
    job = hook.Job({"SLURM_JOB_ID": "7", "SLURM_JOB_RESTART_COUNT": "1"}, "node")
    view = hook.View.parse(
        "JobId=7 JobState=COMPLETING Restarts=1 StartTime=2026-11-30T08:15:32 EndTime=Unknown ExitCode=0:0"
    )
    assert view.requeued(time.time())
    job.learn(view, requeued=True)
    assert (job.restarts, job.started) == (0, None)


def test_the_parts_of_a_het_job_are_one_incident(hook: Any) -> None:
    job = hook.Job({"SLURM_JOB_ID": "54", "SLURM_NODELIST": "n2"}, "node")
    job.learn(hook.View.parse("JobId=54 HetJobId=53 HetJobOffset=1 JobState=FAILED Restarts=0"), requeued=False)
    assert job.facts("FAILED", "")["job_id"] == "53"


def test_jobcomp_has_names_of_its_own(hook: Any) -> None:
    env = {"JOBID": "61", "JOBNAME": "pat", "USERNAME": "alice", "UID": "1001", "GID": "1001", "NODES": "n[1-2]",
           "JOBSTATE": "NODE_FAIL", "EXITCODE": "0:0", "START": "1796026572", "END": "1796026574", "ARRAYJOBID": "0",
           "ARRAYTASKID": "4294967294", "WORK_DIR": "/w", "PARTITION": "main", "ACCOUNT": ""}  # fmt: skip
    facts = hook.Job(env, "jobcomp").facts("NODE_FAIL", "NodeDown")
    assert facts == {
        "scheduler": "slurm", "job_id": "61", "attempt": 0, "name": "pat", "user": "alice", "partition": "main",
        "state": "NODE_FAIL", "reason": "NodeDown", "nodes": ["n1", "n2"], "exit_code": 0,
        "started_at": "2026-11-30T08:16:12Z", "ended_at": "2026-11-30T08:16:14Z",
    }  # fmt: skip


HOSTILE = "x JobState=COMPLETED Restarts=3 UserId=root(0) GroupId=root(0) Reason=None\nJobId=7 JobState=COMPLETED"


@pytest.mark.parametrize(
    "name", ["train", "x JobState=COMPLETED Restarts=3", "a UserId=root(0) JobState=COMPLETED", HOSTILE]
)
@pytest.mark.parametrize("comment", ["", "UserId=root(0) JobState=COMPLETED Restarts=3 "])
def test_a_jobs_name_cannot_pass_for_slurms_record(
    hook: Any, settings: Any, tmp_path: Path, name: str, comment: str
) -> None:
    record = (
        f"JobId=7 ArrayJobId=6 JobName={name} UserId=me(1) GroupId=me(1) MCS_label=N/A JobState=FAILED "
        f"Reason=NonZeroExitCode Restarts=0 ExitCode=1:0 NodeList=n1 Comment={comment}\n"
    )
    (tmp_path / "record").write_text(record)
    stand_in(tmp_path, f"#!/bin/sh\ncat {tmp_path}/record\n")
    settings.slurm_bin = str(tmp_path)
    job = hook.Job({"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": name}, "node")
    view = hook.Slurm(settings, attempt=hook.Attempt(job)).show("7")
    assert (view.state, view.restarts, view["UserId"], view["NodeList"]) == ("FAILED", 0, "me(1)", "n1")


def test_a_name_that_is_not_known_beforehand_is_found_in_the_record(hook: Any) -> None:
    view = hook.View.parse("JobId=7 JobName=x JobState=COMPLETED UserId=me(1) GroupId=me(1) JobState=FAILED Restarts=0")
    assert (view["JobName"], view.state, view["UserId"]) == ("x JobState=COMPLETED", "FAILED", "me(1)")


ANOTHERS = "HetJobId=99 HetJobOffset=1 ArrayJobId=98 ArrayTaskId=3 SLUID=sFORGED"


@pytest.mark.parametrize("name", ["train", f"x {ANOTHERS}"])
@pytest.mark.parametrize("known", [True, False], ids=["name known", "name not known"])
@pytest.mark.parametrize("key", ["Comment=slack-channel=C0MALLORY", "WorkDir=/home/mallory/a", "Command=/x"])
def test_no_words_of_a_user_make_a_job_part_of_anothers(
    hook: Any, settings: Any, tmp_path: Path, name: str, known: bool, key: str
) -> None:
    record = (
        f"JobId=7 JobName={name} UserId=me(1) GroupId=me(1) JobState=FAILED Reason=NonZeroExitCode Restarts=0 "
        f"ExitCode=1:0 NodeList=n1 {key} {ANOTHERS}\n"
    )
    (tmp_path / "record").write_text(record)
    stand_in(tmp_path, f"#!/bin/sh\ncat {tmp_path}/record\n")
    settings.slurm_bin = str(tmp_path)
    job = hook.Job({"SLURM_JOB_ID": "7", "SLURM_JOB_UID": "1"} | ({"SLURM_JOB_NAME": name} if known else {}), "node")
    view = hook.Slurm(settings, attempt=hook.Attempt(job)).show("7")
    job.learn(view, requeued=False)
    facts = job.facts("FAILED", "")
    assert (facts["job_id"], facts.get("part_of"), job.component, job.array_task) == ("7", None, "", "")
    assert view.text("SLUID") == ""


@pytest.mark.parametrize("task", ["2", "1-3", "x"])
def test_a_task_of_an_array_is_known_by_what_slurm_itself_prints(hook: Any, task: str) -> None:
    view = hook.View.parse(
        f"JobId=63 ArrayJobId=61 ArrayTaskId={task} JobName=train UserId=me(1) GroupId=me(1) JobState=FAILED "
        "Comment=ArrayJobId=98 x"
    )
    job = hook.Job({"SLURM_JOB_ID": "63"}, "node")
    job.learn(view, requeued=False)
    assert (job.facts("FAILED", "")["part_of"], job.array_task) == ("61", "2" if task == "2" else "")


FORGED = "UserId=root(0) GroupId=root(0) JobState=COMPLETED Restarts=3 "


@pytest.mark.parametrize("name", ["train", "x JobState=COMPLETED", "x " + FORGED.strip()])
@pytest.mark.parametrize(
    "comment", ["", "x JobState=COMPLETED", "x " + FORGED, "x " + FORGED.replace("root(0)", "me(1)")]
)
@pytest.mark.parametrize("told", [True, False], ids=["squeue tells", "squeue does not tell"])
def test_no_words_of_a_user_hide_the_record_where_the_name_is_not_known(
    hook: Any, settings: Any, tmp_path: Path, name: str, comment: str, told: bool
) -> None:
    record = (
        f"JobId=7 JobName={name} UserId=me(1) GroupId=me(1) MCS_label=N/A JobState=FAILED Reason=NonZeroExitCode "
        f"Restarts=0 ExitCode=1:0 NodeList=n1 Comment={comment}\n"
    )
    (tmp_path / "record").write_text(record)
    stand_in(tmp_path, f"#!/bin/sh\ncat {tmp_path}/record\n")
    (tmp_path / "squeue").write_text(f"#!/bin/sh\necho '7 {name}'\n" if told else "#!/bin/sh\nexit 1\n")
    (tmp_path / "squeue").chmod(0o755)
    settings.slurm_bin = str(tmp_path)
    job = hook.Job({"SLURM_JOB_ID": "7", "SLURM_JOB_UID": "1"}, "node")  # as Epilog is told
    view = hook.Slurm(settings, attempt=hook.Attempt(job)).show("7")
    assert (view.state, view.restarts, view["UserId"], view["NodeList"]) == ("FAILED", 0, "me(1)", "n1")
    assert view["JobName"] == name


@pytest.mark.parametrize("name", ["expert", "expert HetJobIdSet=1 JobState=COMPLETED"])
def test_the_parts_of_a_heterogeneous_job_are_no_part_of_its_name(hook: Any, name: str) -> None:
    view = hook.View.parse(
        f"JobId=36 HetJobId=36 HetJobOffset=0 JobName={name} HetJobIdSet=36-37 UserId=me(1) GroupId=me(1) JobState=FAILED "
        "Restarts=0"
    )
    assert (view["JobName"], view["HetJobIdSet"], view.state) == (name, "36-37", "FAILED")
