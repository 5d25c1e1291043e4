"""The ways in which a job can end in Slurm: what is submitted, what happens to it, and what has to be said of it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tests.cluster.slurm import Cluster, ClusterError
from tests.e2e.slurm_stage import Stage

Act = Callable[[Stage, str], None]


@dataclass(frozen=True)
class Incident:
    """What the diagnosis of one attempt has to say."""

    causes: frozenset[str]
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    attempt: int = 0
    words: tuple[str, ...] = ()
    reporters: int = 0  # 0: each node and the controller


def says(*causes: str, rank: int | None = None, host: str = "", **more: object) -> Incident:
    """The incident whose cause is one of these."""
    ranks, hosts = () if rank is None else (rank,), (host,) if host else ()
    return Incident(frozenset(causes), ranks, hosts, **more)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Ending:
    """One way to end. Without incidents, nobody is told anything."""

    script: str
    nodes: tuple[str, ...] = ("n1",)
    options: tuple[str, ...] = ()
    act: Act | None = None
    after: str = ""  # the ending whose deed has to be done first
    incidents: tuple[Incident, ...] = ()
    verdict: str = ""  # what every hook's worker decides where there is no incident
    hooks: tuple[str, ...] = ()  # () for each node's and the controller's
    terminal: tuple[str, ...] = ()  # what a person runs instead of submitting the script

    @property
    def all_hooks(self) -> tuple[str, ...]:
        """Every run of a hook that this ending causes."""
        return self.hooks or ("epilog",) * len(self.nodes) + ("epilog_slurmctld", "jobcomp")


def ranks(body: str, *flags: str, after: str = "") -> str:
    """A batch script whose ranks run `body`, which has no single quotes."""
    return f"#!/bin/bash\nsrun --label {' '.join(flags)} bash -c '{body}'\n{after}"


def on_rank(number: int, deed: str, otherwise: str) -> str:
    """What one rank does while the others do something else."""
    return f"if [ $SLURM_PROCID = {number} ]; then sleep 1; {deed}; else {otherwise}; fi"


def raising(error: str, text: str) -> str:
    """A Python program that ends with an uncaught exception."""
    return f'exec python3 -c "raise {error}(\\"{text}\\")"'


def hungry(megabytes: int) -> str:
    """A Python program that takes memory and keeps it."""
    return f'exec python3 -c "import time; kept = bytearray({megabytes} << 20); time.sleep(20)"'


# --- what happens to a job from outside


def when_running(deed: Callable[[Stage, str], None]) -> Act:
    """The deed, as soon as the job's ranks run."""

    def act(stage: Stage, job: str) -> None:
        stage.cluster.wait_for_step(job)
        time.sleep(1)  # the ranks themselves begin a moment after their step
        deed(stage, job)

    return act


def cancel(*options: str) -> Callable[[Stage, str], None]:
    """What the job's owner does who changes their mind."""
    return lambda stage, job: stage.cluster.cancel(job, *options)


def cancel_as_root(stage: Stage, job: str) -> None:
    """What an administrator does."""
    stage.cluster.run("scancel", job)


def requeue(stage: Stage, job: str) -> None:
    """Back into the queue by hand, and on at once."""
    stage.cluster.run("scontrol", "requeue", job)
    run_again(stage.cluster, job)


def run_again(cluster: Cluster, job: str) -> None:
    """Let a requeued job begin as soon as it can; Slurm may make it wait two minutes otherwise."""
    wait_for_restart(cluster, job)
    time.sleep(1.1)  # slurmd takes a credential of the same second for the one that it has just revoked
    with suppress(ClusterError):  # it runs already
        cluster.run("scontrol", "update", f"jobid={job}", "starttime=now")
    cluster.wait_for(job, "FAILED")


def wait_for_restart(cluster: Cluster, job: str) -> None:
    """Until the job's first attempt is over and the job back in the queue."""
    until = time.monotonic() + 60
    while "Restarts=0" in cluster.run("scontrol", "show", "job", "-o", job) or cluster.state(job) == "COMPLETING":
        if time.monotonic() > until:
            raise ClusterError(f"job {job} was not requeued")
        time.sleep(0.2)


def node_down(node: str, then: Act | None = None) -> Callable[[Stage, str], None]:
    """The controller holds the node for dead."""

    def deed(stage: Stage, job: str) -> None:
        stage.cluster.take_down(node)
        if then:
            then(stage, job)

    return deed


def kill_node(node: str) -> Callable[[Stage, str], None]:
    """The node is gone without a word."""
    return lambda stage, job: stage.cluster.kill_node(node)


def preempt(stage: Stage, job: str) -> None:
    """Somebody more important takes the node that the job runs on. A job that is requeued is kept from running again."""
    first = stage.cluster.submit("#!/bin/bash\nsleep 8\n", "-p", "urgent", "-w", "n3", "-c", "40", "-o", "/dev/null")
    if stage.cluster.wait_for(job, "PENDING", "PREEMPTED") == "PENDING":
        stage.cluster.run("scontrol", "hold", job)
    stage.cluster.wait_for(first, "COMPLETED")


def cancel_requeued(stage: Stage, job: str) -> None:
    """Keep a job that was put back into the queue from running again."""
    wait_for_restart(stage.cluster, job)
    stage.cluster.run("scancel", job)


def prolog_has_failed(stage: Stage, job: str) -> None:
    """Wait until Slurm has drained the node and holds the job back."""
    until = time.monotonic() + 60
    while "launch_failed_requeued_held" not in stage.cluster.run("scontrol", "show", "job", "-o", job):
        if time.monotonic() > until:
            raise ClusterError(f"the prolog of job {job} did not fail")
        time.sleep(0.2)


def at_a_terminal(stage: Stage, *command: str) -> str:
    """Run `srun` or `salloc` without a batch script; the id of its job, which prints it as its first word."""
    with stage.cluster.start_as_job_user(*command) as person:
        said, _ = person.communicate(timeout=60)
    number = re.search(r"job=(\d+)", said)
    if not number:
        raise ClusterError(f"{command[0]} said: {said}")
    return number[1]
