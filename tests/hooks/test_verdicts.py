"""Which endings of a Slurm job are failures: one row for each way a job was seen to end on Slurm 22.05."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

NOW = 1796026600.0
PAST, FUTURE = "2026-11-30T08:06:44", "2027-11-30T08:15:32"


def view(hook: Any, state: str, reason: str = "None", code: str = "0:0", restarts: int = 0, end: str = PAST) -> Any:
    """A record as scontrol prints it."""
    return hook.View.parse(
        f"JobId=7 JobName=train UserId=alice(1001) GroupId=alice(1001) JobState={state} Reason={reason} "
        f"Restarts={restarts} ExitCode={code} DerivedExitCode=0:0 EndTime={end} NodeList=n[1-2]"
    )


# name, first view, last view, environment's code, output's sign, further signs -> verdict, state
ENDINGS: list[tuple[str, tuple[str, ...], tuple[str, ...], str, str | None, dict[str, Any], tuple[str, str]]] = [
    ("exit 3", ("COMPLETING", "NonZeroExitCode", "3:0"), ("FAILED", "NonZeroExitCode", "3:0"), "3:0", "", {},
     ("failure", "FAILED")),
    ("one task of four exits 1", ("COMPLETING", "NonZeroExitCode", "1:0"), ("FAILED", "NonZeroExitCode", "1:0"), "1:0",
     "", {}, ("failure", "FAILED")),
    ("a task killed, the others by kill-on-bad-exit", ("COMPLETING", "NonZeroExitCode", "143:0"),
     ("FAILED", "NonZeroExitCode", "143:0"), "143:0", "", {}, ("failure", "FAILED")),
    ("segmentation fault", ("COMPLETING", "NonZeroExitCode", "139:0"), ("FAILED", "NonZeroExitCode", "139:0"), "139:0",
     "", {}, ("failure", "FAILED")),
    ("out of memory in a step", ("COMPLETING", "NonZeroExitCode", "1:0"), ("FAILED", "NonZeroExitCode", "1:0"), "1:0",
     "", {}, ("failure", "FAILED")),
    ("out of memory in the batch script", ("COMPLETING", "OutOfMemory", "0:125"),
     ("OUT_OF_MEMORY", "OutOfMemory", "0:125"), "0:125", "", {}, ("failure", "OUT_OF_MEMORY")),
    ("time limit", ("COMPLETING", "TimeLimit", "0:15"), ("TIMEOUT", "TimeLimit", "0:15"), "0:0", "time", {},
     ("failure", "TIMEOUT")),
    ("cancelled", ("COMPLETING", "None", "0:15"), ("CANCELLED", "None", "0:15"), "0:0", "person", {},
     ("none", "CANCELLED")),
    ("cancelled, seen by a node without the output", ("COMPLETING", "None", "0:15"), ("CANCELLED", "None", "0:15"),
     "0:0", None, {}, ("none", "CANCELLED")),
    ("cancelled with a signal to the batch shell too", ("COMPLETING", "JobLaunchFailure", "0:15"),
     ("FAILED", "JobLaunchFailure", "0:15"), "0:15", "person", {}, ("none", "CANCELLED")),
    ("the same, where only slurmctld's log tells", ("COMPLETING", "JobLaunchFailure", "0:15"),
     ("FAILED", "JobLaunchFailure", "0:15"), "0:15", None, {"killer": "1001"}, ("none", "CANCELLED")),
    ("the same, where nothing tells", ("COMPLETING", "JobLaunchFailure", "0:15"),
     ("FAILED", "JobLaunchFailure", "0:15"), "0:15", None, {}, ("unsure", "FAILED")),
    ("batch shell killed by nobody of Slurm", ("COMPLETING", "JobLaunchFailure", "0:9"),
     ("FAILED", "JobLaunchFailure", "0:9"), "0:9", "", {}, ("failure", "FAILED")),
    ("requeued by a person", ("COMPLETING", "None", "0:0", "1", "Unknown"), ("PENDING", "BeginTime", "0:0", "1"), "0:0",
     "", {"nodes": [("idle", "none"), ("idle", "none")]}, ("none", "REQUEUED")),
    ("requeued by a person and running again", ("COMPLETING", "None", "0:0", "1", "Unknown"),
     ("RUNNING", "None", "0:0", "1", FUTURE), "0:0", "", {"nodes": [("allocated", "none")]}, ("none", "REQUEUED")),
    ("preempted and requeued", ("COMPLETING", "None", "0:0", "1", "Unknown"), ("PENDING", "BeginTime", "0:0", "1"),
     "0:0", "preemption", {}, ("none", "PREEMPTED")),
    ("preempted for good", ("COMPLETING", "None", "0:15"), ("PREEMPTED", "None", "0:15"), "0:0", "preemption", {},
     ("none", "PREEMPTED")),
    ("node down", ("COMPLETING", "NodeDown", "0:15"), ("NODE_FAIL", "NodeDown", "0:15"), "0:0", "node", {},
     ("failure", "NODE_FAIL")),
    ("node down and requeued, told by the output", ("COMPLETING", "None", "0:0", "1", FUTURE),
     ("PENDING", "BeginTime", "0:0", "1"), "0:0", "node", {}, ("failure", "NODE_FAIL")),
    ("node down and requeued, told by the node's state", ("COMPLETING", "None", "0:0", "1", FUTURE),
     ("PENDING", "BeginTime", "0:0", "1"), "0:0", None, {"nodes": [("idle", "none"), ("down*", "Not responding")]},
     ("failure", "NODE_FAIL")),
    ("node down and requeued, told by accounting", ("COMPLETING", "None", "0:0", "1", FUTURE),
     ("PENDING", "BeginTime", "0:0", "1"), "0:0", None, {"accounting": "NODE_FAIL"}, ("failure", "NODE_FAIL")),
    ("node down and requeued, told by JobComp", ("COMPLETING", "None", "0:0", "1", FUTURE),
     ("COMPLETING", "None", "0:0", "1", FUTURE), "0:0", None, {"jobcomp": "NODE_FAIL"}, ("failure", "NODE_FAIL")),
    ("missing executable", ("COMPLETING", "NonZeroExitCode", "2:0"), ("FAILED", "NonZeroExitCode", "2:0"), "2:0", "",
     {}, ("failure", "FAILED")),
    ("output directory missing", ("COMPLETING", "JobLaunchFailure", "0:53"), ("FAILED", "JobLaunchFailure", "0:53"),
     "0:53", None, {}, ("failure", "FAILED")),
    ("prolog failed, requeued and held", ("COMPLETING", "launch_failed_requeued_held", "0:0", "1", "Unknown"),
     ("PENDING", "launch_failed_requeued_held", "0:0", "1"), "0:0", None, {"jobcomp": "PENDING"},
     ("failure", "LAUNCH_FAILED")),
    ("the same, cancelled before we looked again", ("COMPLETING", "launch_failed_requeued_held", "0:0", "1", "Unknown"),
     ("CANCELLED", "launch_failed_requeued_held", "0:0", "1"), "0:0", None, {}, ("failure", "LAUNCH_FAILED")),
    ("prolog failed, seen on the node", ("COMPLETING", "None", "0:0", "1", "Unknown"),
     ("PENDING", "None", "0:0", "1"), "0:0", None, {"nodes": [("drained", "Prolog error")]},
     ("failure", "LAUNCH_FAILED")),
    ("an epilog of someone else failed", ("COMPLETING", "None", "0:0", "1", "Unknown"), ("PENDING", "None", "0:0", "1"),
     "0:0", "", {"nodes": [("drained", "Epilog error")]}, ("none", "REQUEUED")),
    ("PrologSlurmctld failed", ("COMPLETING", "None", "0:0", "1", "Unknown"), ("PENDING", "None", "0:0", "1"), "0:0",
     None, {"killer": "prolog"}, ("failure", "LAUNCH_FAILED")),
    ("success", ("COMPLETING", "None", "0:0"), ("COMPLETED", "None", "0:0"), "0:0", "", {}, ("none", "COMPLETED")),
    ("exit 137 in the script", ("COMPLETING", "NonZeroExitCode", "137:0"), ("FAILED", "NonZeroExitCode", "137:0"),
     "137:0", "", {}, ("failure", "FAILED")),
    ("interactive srun", ("COMPLETING", "NonZeroExitCode", "1:0"), ("FAILED", "NonZeroExitCode", "1:0"), "1:0", None,
     {}, ("failure", "FAILED")),
    ("never left COMPLETING, Reason tells", ("COMPLETING", "TimeLimit", "0:15"), ("COMPLETING", "TimeLimit", "0:15"),
     "0:0", None, {}, ("failure", "TIMEOUT")),
    ("never left COMPLETING, cancelled", ("COMPLETING", "None", "0:15"), ("COMPLETING", "None", "0:15"), "0:0", None,
     {"accounting": "CANCELLED by 1001"}, ("none", "CANCELLED")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "last", "code", "output", "more", "expected"),
    [pytest.param(*row[1:], id=row[0]) for row in ENDINGS],
)
def test_each_way_of_ending_has_its_verdict(
    hook: Any,
    first: tuple[Any, ...],
    last: tuple[Any, ...],
    code: str,
    output: str | None,
    more: dict[str, Any],
    expected: tuple[str, str],
) -> None:
    signs = hook.Signs(view(hook, *first), view(hook, *last), exit_code=code, output=output, **more)
    assert hook.judge(signs, NOW)[:2] == expected


def test_slurm_that_cannot_be_asked_leaves_the_word_to_accounting_then_to_the_exit_code(hook: Any) -> None:
    assert hook.judge(hook.Signs(accounting="TIMEOUT", exit_code="0:0"), NOW)[:2] == ("failure", "TIMEOUT")
    assert hook.judge(hook.Signs(exit_code="1:0"), NOW)[:2] == ("failure", "FAILED")
    assert hook.judge(hook.Signs(exit_code="0:0"), NOW)[0] == "none"


@pytest.mark.parametrize("state", ["PREEMPTED", "COMPLETED"])
def test_a_site_may_want_to_hear_of_preemption_and_of_failed_steps(hook: Any, state: str) -> None:
    last = view(hook, state)
    last["DerivedExitCode"] = "1:0"
    signs = hook.Signs(last, last)
    assert hook.judge(signs, NOW)[0] == "none"
    assert hook.judge(signs, NOW, preempted=True, failed_steps=True)[:2] == ("failure", state)


def test_jobcomp_decides_before_the_job_has_settled(hook: Any) -> None:
    completing = view(hook, "COMPLETING", "None", "0:15")
    assert hook.judge(hook.Signs(completing, completing, jobcomp="CANCELLED"), NOW)[:2] == ("none", "CANCELLED")
    assert hook.judge(hook.Signs(completing, completing, jobcomp="TIMEOUT"), NOW)[:2] == ("failure", "TIMEOUT")


def test_newer_versions_write_the_state_with_flags(hook: Any) -> None:
    assert hook.base_state("FAILED,COMPLETING") == "FAILED"
    assert hook.base_state("COMPLETING") == "COMPLETING"
    assert hook.base_state("CANCELLED by 1001") == "CANCELLED"
    assert hook.base_state("") == ""


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("slurmstepd: error: *** JOB 30 ON n1 CANCELLED AT 2026-11-30T08:10:08 ***", "person"),
        ("slurmstepd-n1: error: *** JOB 30 ON n1 CANCELLED AT 2026-11-30T08:10:08 DUE to SIGNAL Terminated ***", "person"),
        ("slurmstepd: error: *** JOB 30 ON n1 CANCELLED AT 2026-11-30T08:10:08 DUE TO TIME LIMIT ***", "time"),
        ("slurmstepd: error: *** JOB 30 ON n1 CANCELLED AT 2026-11-30T08:10:08 DUE TO PREEMPTION ***", "preemption"),
        ("slurmstepd: error: *** JOB 30 ON n1 CANCELLED AT 2026-11-30T08:10:08 DUE TO JOB REQUEUE ***", "requeue"),
        ("error: *** JOB 30 ON n1 CANCELLED AT 2026-11-30T08:10:08 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
         "node"),
        ("slurmstepd: error: *** STEP 30.0 ON n1 CANCELLED AT 2026-11-30T08:10:08 ***", ""),
        ("slurmstepd: error: *** JOB 31 ON n1 CANCELLED AT 2026-11-30T08:10:08 ***", ""),
        ("RuntimeError: boom", ""),
    ],
)  # fmt: skip
def test_the_job_line_of_the_output_says_who_ended_it(hook: Any, line: str, why: str) -> None:
    assert hook.cancelled(b"step 1\n" + line.encode() + b"\nmore\n", "30") == why


def test_slurmctlds_log_names_who_asked_to_kill_just_before_the_end(hook: Any, tmp_path: Any) -> None:
    log = tmp_path / "slurmctld.log"
    log.write_text(
        "[2026-11-30T06:00:00.000] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=34 uid 1001\n"
        "[2026-11-30T08:10:27.945] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=33 uid 1001\n"
        "[2026-11-30T08:21:36.571] error: prolog_slurmctld JobId=68 prolog exit status 1:0\n"
    )
    ended = hook.epoch("2026-11-30T08:10:28")
    assert hook.killer_in_log(str(log), "33", ended) == "1001"
    assert hook.killer_in_log(str(log), "34", ended) == ""  # hours before: a signal for a checkpoint
    assert hook.killer_in_log(str(log), "3", ended) == ""
    assert hook.killer_in_log(str(log), "68", None) == "prolog"
    assert hook.killer_in_log(str(tmp_path / "none"), "33", ended) is None


def test_slurmctlds_log_says_it_of_this_attempt_and_not_of_the_one_before_or_after(hook: Any, tmp_path: Any) -> None:
    log = tmp_path / "slurmctld.log"
    log.write_text(
        "[2026-11-30T08:10:27.390] error: prolog_slurmctld JobId=34 prolog exit status 1:0\n"
        "[2026-11-30T08:10:27.455] Requeuing JobId=34\n"
        "[2026-11-30T08:10:28.517] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=34 uid 1001\n"
        "[2026-11-30T08:10:38.455] Requeuing JobId=34\n"
    )
    assert hook.killer_in_log(str(log), "34", hook.epoch("2026-11-30T08:10:27")) == "prolog"
    assert hook.killer_in_log(str(log), "34", hook.epoch("2026-11-30T08:10:38")) == "1001"
    assert hook.killer_in_log(str(log), "34", hook.epoch("2026-11-30T08:10:48")) == ""


def test_of_slurmctlds_log_is_sent_what_may_have_ended_this_attempt(hook: Any, tmp_path: Path) -> None:
    log = tmp_path / "slurmctld.log"
    lines = [
        "[2026-11-30T06:00:00.000] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=61 uid 1001",
        "[2026-11-30T08:10:27.390] error: prolog_slurmctld JobId=61 prolog exit status 1:0",
        "[2026-11-30T08:10:27.455] Requeuing JobId=61",
        "[2026-11-30T08:10:28.517] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=61 uid 0",
    ]
    log.write_text("\n".join(lines) + "\n")
    job = hook.Job({"SLURM_JOB_ID": "61", "SLURM_JOB_NODELIST": "n1"}, "controller")
    job.ended = hook.epoch("2026-11-30T08:10:27")
    assert hook.slurmctld_lines(str(log), job, 10_000).decode().splitlines() == lines[1:3]


SACCT = """\
61|NODE_FAIL|0:0|{began}|{requeued}|00:01:00|00:30.500||||4G|n[1-2]
61.batch|CANCELLED|0:15|{began}|{requeued}|00:01:00|00:20.500|900M|n1|0||n1
61|FAILED|1:0|{again}|{ended}|1-00:00:40|1-02:03:04.500||||4G|n[1-2]
61.batch|FAILED|1:0|{again}|{ended}|00:00:40|00:00.021|12032K|n1|0||n1
61.0|CANCELLED by 1001|0:9|{again}|{ended}|00:00:39|00:00.006|1.50G|n2|3||n[1-2]
61.1|a|b
610|CANCELLED by 7|0:0|{again}|{ended}|00:00:40|00:00||||4G|n3
"""


def accounts(hook: Any, settings: Any, tmp_path: Path, text: str, ended: float) -> Any:
    """What the hook makes of what sacct prints, at the end of an attempt."""
    sacct = tmp_path / "sacct"
    sacct.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\n")
    sacct.chmod(0o755)
    settings.slurm_bin = str(tmp_path)
    env = {"SLURM_JOB_ID": "61", "FIRSTFAULT_BEGAN": str(ended)}
    return hook.Slurm(settings).accounting(hook.Job(env, "controller"))


def test_each_attempt_has_its_own_rows_of_slurmdbd(hook: Any, settings: Any, tmp_path: Path) -> None:
    at = {name: time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(NOW + seconds))
          for name, seconds in {"began": 0, "requeued": 60, "again": 90, "ended": 130}.items()}  # fmt: skip
    first = accounts(hook, settings, tmp_path, SACCT.format(**at), NOW + 60.4)
    assert (first.state, first.canceller) == ("NODE_FAIL", "")
    assert first.facts() == {"cpu_seconds": 30, "peak_memory_bytes": 900 << 20}
    second = accounts(hook, settings, tmp_path, SACCT.format(**at), NOW + 130.9)
    assert second.state == "FAILED"
    assert second.facts() == {"cpu_seconds": 93784, "peak_memory_bytes": 3 << 29}
    head, *rows = second.table().decode().splitlines()
    assert head.startswith("JobIDRaw|State|ExitCode|")
    assert [row.split("|")[:2] for row in rows] == [["61", "FAILED"], ["61.batch", "FAILED"], ["61.0", "CANCELLED"]]


@pytest.mark.parametrize("text", ["", "61|RUNNING|0:0|2026-11-30T08:00:00|Unknown|00:01|00:00||||4G|n1\n", "what?\n"])
def test_without_rows_there_are_no_facts(hook: Any, settings: Any, tmp_path: Path, text: str) -> None:
    account = accounts(hook, settings, tmp_path, text, NOW)
    assert (account.state, account.canceller, account.facts(), account.table()) == ("", "", {}, b"")


def test_who_cancelled_stands_in_the_jobs_row(hook: Any, settings: Any, tmp_path: Path) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(NOW))
    row = f"61|CANCELLED by 1001|0:0|{now}|{now}|00:00|00:00||||4G|n1\n"
    assert accounts(hook, settings, tmp_path, row, NOW).canceller == "1001"
