"""Every way in which a job can end, in a real cluster: who hears of it, what they hear, and that Slurm never waits."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.cluster.hooks import HookRun
from tests.cluster.slurm import memory_can_be_limited, slurm_is_installed
from tests.e2e.slurm_endings import (
    Ending,
    at_a_terminal,
    cancel,
    cancel_as_root,
    cancel_requeued,
    hungry,
    kill_node,
    node_down,
    on_rank,
    preempt,
    prolog_has_failed,
    raising,
    ranks,
    requeue,
    says,
    when_running,
)
from tests.e2e.slurm_stage import Stage, stage

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(not slurm_is_installed(), reason="no Slurm here; apt-get install slurm-wlm munge"),
]
needs_memory_limits = pytest.mark.skipif(
    not memory_can_be_limited(), reason="no writable control groups of version 1 for memory here"
)

BOTH = ("n1", "n2")
FOUR = ("-n4", "--ntasks-per-node=2")
KILL = "--kill-on-bad-exit=1"
ASLEEP = ranks("exec sleep 300")
DEAF = ranks('trap "" TERM; echo training; for second in $(seq 60); do sleep 1; done')
CRYING = ranks('trap "echo Traceback; echo RuntimeError: told to stop; exit 1" TERM; sleep 300 & wait')
AGAIN = "[ ${SLURM_RESTART_COUNT-0} -gt 0 ] && { %s; }\nsrun --label sleep 300\n"

ENDINGS = {
    "overtime": Ending(ASLEEP, options=("-t", "1"), incidents=(says("time-limit", words=("time limit",)),)),
    "node-killed": Ending(
        ASLEEP,
        ("n2", "n4"),
        ("-n2", "--no-requeue"),
        act=when_running(kill_node("n4")),
        incidents=(says("node-failure", host="n4", reporters=2),),
        hooks=("epilog", "epilog_slurmctld", "jobcomp"),
    ),
    "success": Ending(ranks("echo done"), BOTH, ("-n2",), verdict="COMPLETED"),
    "exit-code": Ending(
        "#!/bin/bash\necho counting shards\nexit 3\n",
        incidents=(says("silent-exit", words=("exited with exit code 3",)),),
    ),
    "one-raises": Ending(
        ranks(on_rank(2, raising("ValueError", "no label for sample 7"), "sleep 3")),
        BOTH,
        FOUR,
        incidents=(says("app-exception", rank=2, words=("no label for sample 7",)),),
    ),
    "one-raises-all-killed": Ending(
        ranks(on_rank(1, raising("ZeroDivisionError", "empty bucket 12"), "sleep 300"), KILL),
        BOTH,
        FOUR,
        incidents=(says("app-exception", rank=1, words=("empty bucket 12",)),),
    ),
    "exit-137": Ending("#!/bin/bash\necho a program says 137\nexit 137\n", incidents=(says("killed-unknown"),)),
    "segfault-alone": Ending(
        ranks(on_rank(3, "kill -SEGV $$", "sleep 3")), BOTH, FOUR, incidents=(says("segfault", rank=3),)
    ),
    "segfault": Ending(
        ranks(on_rank(3, "kill -SEGV $$", "sleep 300"), KILL), BOTH, FOUR, incidents=(says("segfault", rank=3),)
    ),
    "killed": Ending(
        ranks(on_rank(2, "kill -KILL $$", "sleep 300"), KILL), BOTH, FOUR, incidents=(says("killed-unknown", rank=2),)
    ),
    "aborted": Ending(
        ranks(on_rank(0, "kill -ABRT $$", "sleep 3")), BOTH, FOUR, incidents=(says("native-abort", rank=0),)
    ),
    "script-killed": Ending("#!/bin/bash\necho begun\nkill -KILL $$\n", incidents=(says("killed-unknown"),)),
    "cancelled": Ending(CRYING, BOTH, ("-n2",), act=when_running(cancel()), verdict="CANCELLED"),
    "cancelled-by-root": Ending(ASLEEP, BOTH, ("-n2",), act=when_running(cancel_as_root), verdict="CANCELLED"),
    "cancelled-hard": Ending(ASLEEP, BOTH, ("-n2",), act=when_running(cancel("-s", "KILL")), verdict="CANCELLED"),
    "cancelled-and-deaf": Ending(DEAF, BOTH, ("-n2",), act=when_running(cancel()), verdict="CANCELLED"),
    "cancelled-in-full": Ending(
        ASLEEP, BOTH, ("-n2",), act=when_running(cancel("-f", "-s", "TERM")), verdict="CANCELLED"
    ),
    "cancelled-before": Ending(ASLEEP, options=("--hold",), act=cancel(), hooks=("jobcomp",)),
    "cancelled-before-by-root": Ending(ASLEEP, options=("--hold",), act=cancel_as_root, hooks=("jobcomp",)),
    "requeued": Ending(
        "#!/bin/bash\n" + AGAIN % "echo AssertionError: second try; exit 4",
        act=when_running(requeue),
        incidents=(says("app-exception", attempt=1, words=("AssertionError",)),),
        hooks=("epilog", "epilog_slurmctld", "jobcomp") * 2,
    ),
    "requeued-and-long": Ending(
        "#!/bin/bash\n" + AGAIN % "sleep 4; echo AssertionError: second try; exit 4",
        BOTH,
        ("-n2",),
        act=when_running(requeue),
        incidents=(says("app-exception", attempt=1, words=("AssertionError",)),),
        hooks=("epilog", "epilog", "epilog_slurmctld", "jobcomp") * 2,
    ),
    "no-output-folder": Ending(
        "#!/bin/bash\ntrue\n",
        options=("-o", "/no/such/folder/%j.out"),
        incidents=(
            says(
                "launch-failed", words=("What could not be read on n1: /no/such/folder/", "Could not open stdout file")
            ),
        ),
    ),
    "bad-interpreter": Ending(
        "#!/no/such/interpreter\ntrue\n", incidents=(says("launch-failed", words=("/no/such/interpreter",)),)
    ),
    "no-program": Ending(
        "#!/bin/bash\nsrun --label /no/such/program\n", incidents=(says("launch-failed", words=("/no/such/program",)),)
    ),
    "step-failed": Ending(ranks("exit 5", after="exit 0\n"), verdict="COMPLETED"),
    "preempted": Ending(ASLEEP, ("n3",), ("-c", "40", "--no-requeue"), act=when_running(preempt), verdict="PREEMPTED"),
    "preempted-and-requeued": Ending(
        ASLEEP,
        ("n3",),
        ("-c", "40", "--requeue"),
        act=when_running(preempt),
        after="preempted",
        verdict="(?:PREEMPTED|REQUEUED)",
    ),
    "node-down": Ending(
        ASLEEP,
        ("n1", "n3"),
        ("-n2", "--no-requeue"),
        act=when_running(node_down("n3")),
        after="preempted-and-requeued",
        incidents=(says("node-failure", host="n3"),),
    ),
    "node-down-and-requeued": Ending(
        ASLEEP,
        ("n1", "n3"),
        ("-n2", "--requeue"),
        act=when_running(node_down("n3", then=cancel_requeued)),
        after="node-down",
        incidents=(says("node-failure", host="n3"),),
        hooks=("epilog", "epilog", "epilog_slurmctld", "jobcomp", "jobcomp"),
    ),
    "prolog-of-the-controller-failed": Ending(
        "#!/bin/bash\ntrue\n",
        options=("--comment=fail-in-prolog_slurmctld",),
        act=cancel_requeued,
        incidents=(says("prolog-failed", reporters=1),),
        hooks=("epilog_slurmctld", "jobcomp", "jobcomp"),
    ),
    "prolog-failed": Ending(
        "#!/bin/bash\ntrue\n",
        ("n3",),
        ("--comment=fail-in-prolog",),
        act=prolog_has_failed,
        after="node-down-and-requeued",
        incidents=(says("prolog-failed", host="n3"),),
    ),
    "oom-in-a-step": Ending(
        ranks(on_rank(1, hungry(400), "sleep 3"), KILL),
        BOTH,
        (*FOUR, "--mem-per-cpu=60M"),
        incidents=(says("host-oom", rank=1),),
    ),
    "oom-in-the-script": Ending(
        f"#!/bin/bash\n{hungry(400)}\n", options=("--mem-per-cpu=60M",), incidents=(says("host-oom"),)
    ),
    "srun-at-a-terminal": Ending(
        "",
        terminal=(
            "srun",
            "-w",
            "n1",
            "-n2",
            "bash",
            "-c",
            f"echo job=$SLURM_JOB_ID; sleep 1; {on_rank(1, 'exit 6', 'true')}",
        ),
        incidents=(says("silent-exit", rank=1),),
    ),
    "salloc": Ending(
        "",
        terminal=("salloc", "-w", "n1", "bash", "-c", "echo job=$SLURM_JOB_ID; srun true; exit 5"),
        incidents=(says("unknown"),),
    ),
    "heterogeneous": Ending(
        ranks(on_rank(1, raising("LookupError", "no expert for token 9"), "sleep 3"), "--het-group=0,1"),
        options=("-n1", ":", "-w", "n2", "-N1", "-n1"),
        incidents=(says("app-exception", rank=1, words=("no expert for token 9",), reporters=4),),
    ),
}
ARRAY = "#!/bin/bash\n" + raising("EOFError", "split ended early")


@dataclass(frozen=True)
class Play:
    """The stage, and for each ending the job that ends so, once everything has been done to it."""

    stage: Stage
    jobs: dict[str, Future[str]]
    array: str


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """Everything at once, for some endings take their time; one submission after the other, for the machine is small."""
    jobs: dict[str, Future[str]] = {}
    turn = threading.Lock()

    def submit(script: str, *options: str) -> str:
        with turn:
            time.sleep(0.7)
            return here.cluster.submit(script, *options)

    def perform(name: str, ending: Ending) -> str:
        if ending.after:
            jobs[ending.after].result()
        if ending.terminal:
            return at_a_terminal(here, *ending.terminal)
        where = ("-w", ",".join(ending.nodes), f"-N{len(ending.nodes)}", "-J", name, "-o", "%x-%j.out")
        job = submit(ending.script, *where, *ending.options)
        if ending.act:
            ending.act(here, job)
        return job

    with stage(tmp_path_factory.mktemp("stage")) as here, ThreadPoolExecutor(6) as crew:
        for name, ending in ENDINGS.items():
            if memory_can_be_limited() or not name.startswith("oom"):
                jobs[name] = crew.submit(perform, name, ending)
        yield Play(here, jobs, submit(ARRAY, "--array=0-2", "-N1", "-w", "n2", "-J", "array", "-o", "%A_%a.out"))


def slow(here: Stage, job: str, *hooks: str) -> list[HookRun]:
    """The runs that were slow or did not answer 0."""
    runs = here.hooks.wait_for_runs(job, *hooks, seconds=90)
    return [run for run in runs if run.status or run.milliseconds >= 1000]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[needs_memory_limits] if name.startswith("oom") else []) for name in ENDINGS]
)
def test_ending(play: Play, name: str) -> None:
    here, job, ending = play.stage, play.jobs[name].result(150), ENDINGS[name]
    for expected in ending.incidents:
        seen = here.incident(job, expected.attempt, expected.reporters or len(ending.nodes) + 1)
        said = seen["diagnosis"]["document"]
        seen_so_far = [said["cause"], said["evidence"][:6], said["missing"], [log["name"] for log in seen["logs"]]]
        assert said["cause"]["id"] in expected.causes, json.dumps(seen_so_far, indent=1) + here.hooks.log()[-8000:]
        if expected.ranks:
            assert tuple(said["initiating"]["ranks"]) == expected.ranks, said
        if expected.hosts:
            assert tuple(said["initiating"]["hosts"]) == expected.hosts, said
        told = json.dumps(said)
        assert [word for word in expected.words if word not in told] == [], told
        assert re.search(rf"\b(?:Slurm {job}\b|{job} \w)", here.post(seen)[1])
    if ending.verdict:
        for line in here.hooks.wait_for_verdict(job, len(ending.nodes) + 1):
            assert re.search(rf"attempt 0 ended: none \({ending.verdict}\b", line)
    assert slow(here, job, *ending.all_hooks) == []
    assert set(here.incident_ids(job)) == {incident.attempt for incident in ending.incidents}


def test_the_tasks_of_an_array_share_one_message_that_counts_them(play: Play) -> None:
    here = play.stage
    tasks = re.findall(r"\bJobId=(\d+)", here.cluster.run("scontrol", "show", "job", "-o", play.array))
    assert len(tasks) == 3
    incidents = [here.incident(task) for task in tasks]
    assert {seen["diagnosis"]["document"]["cause"]["id"] for seen in incidents} == {"app-exception"}
    posts = dict(map(here.post, incidents))
    assert len(posts) == 1, posts
    (message,) = posts.values()
    assert "array failed" in message
    assert "· 3 incidents" in message
    assert all(slow(here, task, "epilog", "epilog_slurmctld", "jobcomp") == [] for task in tasks)


def test_the_channel_has_a_message_for_each_failure_and_no_other(play: Play) -> None:
    here = play.stage
    seen = [here.incident(play.array)] + [
        here.incident(play.jobs[name].result(), incident.attempt, incident.reporters or len(ending.nodes) + 1)
        for name, ending in ENDINGS.items()
        if name in play.jobs
        for incident in ending.incidents
    ]
    told, posts = {here.post(incident)[0] for incident in seen}, here.messages()
    assert set(posts) == told, {ts: text for ts, text in posts.items() if ts not in told}
