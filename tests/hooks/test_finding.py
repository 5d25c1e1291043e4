"""From the file name patterns of Slurm, a batch script and a site to the logs that may be sent."""

from __future__ import annotations

import os
import pwd
import socket
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hooks.conftest import collected

NOBODY = pwd.getpwnam("nobody")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
MakeJob = Callable[..., Any]


@pytest.mark.parametrize(
    ("pattern", "file", "letters"),
    [
        ("logs-%A-%a-%j-%N-%n-%t-%s-%u-%x-%4j-%%.out",
         "logs-61-4294967294-61-vm-0-0-batch-alice-pat-0061-%.out", {"N": "vm", "n": "0", "t": "0"}),
        ("%x-%j-%t.out", "pat-61-2.out", {"t": "2"}),
        ("pat-%j-s%s-%N-n%n-t%2t-%u.log", "pat-61-s1-vm-n1-t03-alice.log", {"N": "vm", "n": "1", "t": "03"}),
        ("%t.log", "10.log", {"t": "10"}),
        ("%3t.log", "1024.log", {"t": "1024"}),
        ("%10j.out", "0000000061.out", {}),
        ("slurm-%j.out", "slurm-61.out", {}),
        ("%j/%N/rank-%t.err", "61/gpu-n17/rank-7.err", {"N": "gpu-n17", "t": "7"}),
        ("%t-%t.out", "3-3.out", {"t": "3"}),
        ("%q-%j.out", "%q-61.out", {}),
        ("step-%J.out", "step-61.0.out", {}),
        ("\\%j.out", "%j.out", {}),
        ("a.b-%j.out", "a.b-61.out", {}),
    ],
)  # fmt: skip
def test_slurms_letters_find_the_real_file(
    hook: Any, job: MakeJob, tmp_path: Path, pattern: str, file: str, letters: dict[str, str]
) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).touch()
    found = hook.matching(hook.expand(pattern, job().values()), str(tmp_path))
    assert found == [(str(tmp_path / file), letters)]


@pytest.mark.parametrize(
    ("pattern", "other"),
    [
        ("%x-%j-%t.out", "pat-62-2.out"),
        ("%x-%j-%t.out", "pat-61-x.out"),
        ("%2t.out", "3.out"),
        ("a.b-%t.out", "aXb-1.out"),
        ("%t.log", "1.log.bak"),
        ("*-%t.log", "x-1.log"),  # a star is a star, unless the site wrote it
        ("%N.log", "../n1.log"),
    ],
)
def test_slurms_letters_find_nothing_else(hook: Any, job: MakeJob, tmp_path: Path, pattern: str, other: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / other).touch()
    assert hook.matching(hook.expand(pattern, job().values()), str(tmp_path / "in")) == []


def test_an_array_task_has_its_own_letters(hook: Any, job: MakeJob) -> None:
    task = job(SLURM_ARRAY_JOB_ID="36", SLURM_ARRAY_TASK_ID="12")
    assert hook.expand("%A_%a-%j-%b.out", task.values()) == ["36_12-61-2.out"]
    assert task.facts("FAILED", "")["part_of"] == "36"
    assert "part_of" not in job().facts("FAILED", "")


def test_a_site_adds_places_with_wildcards(hook: Any, job: MakeJob, tmp_path: Path) -> None:
    log = tmp_path / "torchrun" / "61" / "attempt_0" / "3" / "stderr.log"
    log.parent.mkdir(parents=True)
    log.touch()
    components = hook.expand("torchrun/%j/attempt_*/?/stderr.log", job().values(), wildcards=True)
    assert hook.matching(components, str(tmp_path)) == [(str(log), {})]


def test_the_batch_script_tells_where_steps_write(hook: Any, job: MakeJob) -> None:
    script = """#!/bin/bash
#SBATCH -o ignored-%j.out
LOGS=$SLURM_SUBMIT_DIR/logs
export RUN="run-${SLURM_JOB_ID}"
srun --output=$LOGS/%x-%t.out \\
     --error "$LOGS/$RUN-%t.err" python train.py --output=not-ours
/usr/bin/srun -N2 -o ranks-%t.log python -c 'first line
second line'
srun -o/tmp/short-%t.log true
srun -o $UNKNOWN/x.log true   # nobody knows it
srun -o `date`.log true
echo srun is a word too
"""
    work = job().work_dir
    assert [pattern for pattern, _ in hook.step_patterns(script, job())] == [
        f"{work}/logs/%x-%t.out",
        f"{work}/logs/run-61-%t.err",
        "not-ours",  # harmless: it is still only a file of the job's own user
        "ranks-%t.log",
        "/tmp/short-%t.log",
    ]


@pytest.mark.parametrize(
    "script",
    [
        "A=xxxxxxxxxxxxxxxx\n" + "A=$A$A\n" * 45 + "srun -o $A true\n",
        "A=" + "x" * 4000 + "\nB=" + "$A" * 2000 + "\nsrun -o $B true\n",
        "A=" + "x" * 4000 + "\n" + "".join(f"A{n}=$A\n" for n in range(20_000)),
        "A=" + "x" * 4000 + "\n" + "srun -o $A -e $A$A true\n" * 20_000,
        "srun " + "-o x " * 100_000,
    ],
)
def test_no_script_makes_its_patterns_grow_without_end(hook: Any, job: MakeJob, script: str) -> None:
    tracemalloc.start()
    try:
        patterns = hook.step_patterns(script, job())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(len(pattern) <= hook.MOST_PATH for pattern, _ in patterns)
    assert most < 64 << 20


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("%x" * 2000, "its name is too long"),
        ("x" * 5000, "its name is too long"),
        ("%t" * 14 + ".out", "more than 8 parts of its name vary"),
    ],
)
def test_a_pattern_without_measure_is_left_out_and_said(
    hook: Any, settings: Any, job: MakeJob, pattern: str, why: str
) -> None:
    evidence = hook.Evidence(settings, job(SLURM_JOB_STDOUT=pattern))
    evidence.collect(evidence.patterns())
    assert evidence.facts("FAILED", "")["unread"] == [f"n1: {pattern[:200]}: {why}"]
    assert evidence.batch_tail() is None


def test_a_name_that_many_ways_lead_to_is_soon_found_to_be_another(hook: Any, job: MakeJob, tmp_path: Path) -> None:
    (tmp_path / ("0" * 200 + "x")).touch()
    (tmp_path / ("0" * 200 + ".out")).touch()
    components = hook.expand("%t0%t0%t0%t0%t0%t0%t0%t.out", job().values())
    assert [letters["t"] for _, letters in hook.matching(components, str(tmp_path))] == ["0" * 186]


@pytest.mark.parametrize(
    "hostile",
    [
        {"SLURM_JOB_RESTART_COUNT": "\N{SUPERSCRIPT TWO}"},
        {"SLURM_JOB_STDOUT": "x%" + "9" * 4301 + "t"},
        {"SLURM_JOB_STDOUT": "x%" + "9" * 3000 + "t"},
        {"SLURM_JOB_EXIT_CODE2": "1" * 4301 + ":0"},
        {"SLURM_JOB_START_TIME": "9" * 18},
        {"SLURM_NODELIST": "n[1-" + "9" * 4301 + "]"},
        {"SLURM_ARRAY_JOB_ID": "60", "SLURM_ARRAY_TASK_ID": "\N{SUPERSCRIPT TWO}"},
        {"FIRSTFAULT_BEGAN": "9" * 400},
    ],
)
def test_no_number_ends_the_report(hook: Any, settings: Any, job: MakeJob, hostile: dict[str, str]) -> None:
    evidence = hook.Evidence(settings, job(**hostile))
    evidence.collect(evidence.patterns())
    evidence.batch_tail()
    assert evidence.facts("FAILED", "")["job_id"] == "61"
    view = hook.View.parse(
        f"JobId=61 JobName=x Restarts={'1' * 4301} ExitCode={'1' * 4301}:0 TimeLimit={'1' * 4301}:00"
    )
    evidence.job.learn(view, False)
    assert evidence.facts("FAILED", "")["attempt"] == 0
    assert len(hook.hosts("n[1-100000][1-100000]", limit=10)) == 10


def test_torchruns_folder_of_logs_and_the_files_of_dumps_are_followed(hook: Any, job: MakeJob) -> None:
    script = """#!/bin/bash
export TORCHELASTIC_ERROR_FILE=/scratch/$SLURM_JOB_ID/error.json
TORCH_NCCL_DEBUG_INFO_TEMP_FILE=dumps/trace_rank_ srun torchrun --nproc-per-node 8 --log-dir=logs/$SLURM_JOB_ID train.py
python -m torch.distributed.run --log_dir elsewhere train.py
"""
    patterns = dict(hook.step_patterns(script, job()))
    assert all(patterns.values())  # their stars are meant
    assert {
        "logs/61/*/attempt_*/*/stderr.log",
        "logs/61/*/attempt_*/*/error.json",
        "elsewhere/*/attempt_*/*/stdout.log",
        "/scratch/61/error.json*",
        "dumps/trace_rank_*",
    } <= set(patterns)


def test_a_flight_recorders_dump_is_sent_whole_or_not_at_all(
    hook: Any, settings: Any, job: MakeJob, tmp_path: Path
) -> None:
    settings.shared_paths, settings.file_bytes = [str(tmp_path)], 5000
    dump = bytes(range(256)) * 4
    (tmp_path / "nccl_trace_rank_3").write_bytes(dump)
    (tmp_path / "nccl_trace_rank_4").write_bytes(dump * 10)
    assert collected(hook, settings, job(SLURM_JOB_STDOUT="none.out")) == {"nccl_trace_rank_3": dump}
    assert "nccl_trace_rank_4 is left out: half a dump says nothing" in Path(settings.log_file).read_text()


def test_the_kernels_reports_on_other_jobs_are_left_out(hook: Any) -> None:
    def killed(job_id: int, name: str) -> bytes:
        return (
            f"2026-11-30T15:03:00 {name} invoked oom-killer: gfp_mask=0xcc0\n2026-11-30T15:03:00 Call Trace:\n"
            f"2026-11-30T15:03:00 oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/slurm/uid_7/job_{job_id}/step_0,task=x\n"
            f"2026-11-30T15:03:00 Memory cgroup out of memory: Killed process 21 ({name})\n"
        ).encode()

    whole_node = b"python invoked oom-killer: order=0\nOut of memory: Killed process 9 (python)\n"
    xid = b"NVRM: Xid (PCI:0000:07:00): 79, GPU has fallen off the bus.\n"
    text = killed(61, "ours") + xid + killed(610, "theirs") + whole_node + killed(16, "theirs") + xid
    assert hook.of_this_job(text, "61") == killed(61, "ours") + xid + whole_node + xid


def test_the_daemons_logs_tell_of_this_attempt_and_its_nodes_only(hook: Any, job: MakeJob, tmp_path: Path) -> None:
    log = tmp_path / "slurmctld.log"
    lines = [
        "[2026-11-30T08:00:00.000] requeue job JobId=61 due to failure of node n2",  # of the attempt before
        "[2026-11-30T09:00:01.000] sched: Allocate JobId=61 NodeList=n[1-2]",
        "[2026-11-30T09:00:02.000] sched: Allocate JobId=610 NodeList=n[1-2]",
        "[2026-11-30T09:00:03.000] error: Nodes n[2-3] not responding, setting DOWN",
        "[2026-11-30T09:00:03.000] error: Nodes n9 not responding, setting DOWN",
        "[2026-11-30T09:00:04.000] Killing JobId=61 on failed node n2",
        "[2026-11-30T09:00:04.000] Killing JobId=77 on failed node n2",
    ]
    log.write_text("\n".join(lines) + "\n")
    ours = job(SLURM_JOB_NODELIST="n[1-2]")
    ours.started = time.mktime(time.strptime("2026-11-30T09:00:00", "%Y-%m-%dT%H:%M:%S"))
    kept = hook.slurmctld_lines(str(log), ours, 10_000).decode().splitlines()
    assert kept == [lines[1], lines[3], lines[5]]


def test_each_shared_file_is_sent_by_one_node_and_a_local_one_by_its_own(hook: Any, job: MakeJob) -> None:
    n1, n2 = job("n1"), job("n2")
    send = hook.ours_to_send
    assert [send(node, {}, False) for node in (n1, n2)] == [True, False]
    assert [send(node, {"t": "3"}, False) for node in (n1, n2)] == [True, False]
    assert [send(node, {"n": "1"}, False) for node in (n1, n2)] == [False, True]
    assert [send(node, {"N": "n2"}, False) for node in (n1, n2)] == [False, True]
    assert [send(node, {}, True) for node in (n1, n2)] == [True, True]
    assert send(n1, {"N": socket.gethostname().split(".")[0]}, False)


def test_local_file_systems_are_known_and_a_site_can_overrule(hook: Any) -> None:
    table = [("/scratch/fast", "xfs"), ("/scratch", "lustre"), ("/", "overlay")]
    assert [hook.is_local(path, table, []) for path in ("/scratch/fast/x", "/scratch/faster/x", "/tmp/x")] == [
        True,
        False,
        True,
    ]
    assert not hook.is_local("/tmp/x", table, ["/tmp"])


@pytest.mark.parametrize(
    ("path", "work_dir", "node", "name"),
    [
        ("/home/alice/run/logs/rank-2.err", "/home/alice/run", "", "logs/rank-2.err"),
        ("/home/alice/run/rank-2.err", "/home/alice/run", "n1", "n1/rank-2.err"),
        ("/scratch/a/b/c/d.log", "/home/alice/run", "", "b/c/d.log"),
        ("/home/alice/run/../../../etc/x", "/home/alice/run", "", "etc/x"),
        ("/home/alice/run/a b\n/c;d.log", "/home/alice/run", "", "a_b_/c_d.log"),
    ],
)
def test_a_logs_name_says_where_it_lay(hook: Any, path: str, work_dir: str, node: str, name: str) -> None:
    assert hook.log_name(path, work_dir, node) == name


def test_a_logs_name_stays_short_and_apart(hook: Any) -> None:
    names = {hook.log_name(f"/w/{letter}{'x' * 300}/rank.log", "/w", "n1") for letter in "ab"}
    assert len(names) == 2
    assert all(len(name) <= 200 and name.endswith("rank.log") for name in names)
