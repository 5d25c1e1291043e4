"""The hook in a real Slurm cluster of two nodes: what each way of ending makes of a job."""

from __future__ import annotations

import pwd
from collections.abc import Iterator

import pytest

from tests.cluster.hooks import InstalledHooks
from tests.cluster.slurm import Cluster, slurm_is_installed
from tests.hooks.intake import TOKEN, Intake, running_intake

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(not slurm_is_installed(), reason="no Slurm here; apt-get install slurm-wlm munge"),
]

ALL_HOOKS = ("epilog", "epilog", "epilog_slurmctld", "jobcomp")
ASLEEP = "#!/bin/bash\nsrun sleep 100\n"
ONE_OF_FOUR_FAILS = """#!/bin/bash
srun --label --output=%x-%j-%t.out bash -c '
echo rank $SLURM_PROCID with password=hunter22
[ $SLURM_PROCID = 2 ] && { echo "RuntimeError: boom" >&2; exit 1; }
sleep 1'
"""


Rehearsal = tuple[Cluster, InstalledHooks, Intake]


@pytest.fixture(scope="module")
def rehearsal() -> Iterator[Rehearsal]:
    with (
        running_intake() as intake,
        InstalledHooks() as installed,
        Cluster(nodes=2, settings=installed.slurm_settings) as cluster,
    ):
        installed.configure(cluster, intake.url, TOKEN, {"controller_log": f"{cluster.folder}/log/slurmctld.log"})
        yield cluster, installed, intake


def test_a_rank_that_fails_is_reported_by_both_nodes_and_the_controller(rehearsal: Rehearsal) -> None:
    cluster, installed, intake = rehearsal
    job = cluster.submit(ONE_OF_FOUR_FAILS, "-N2", "-n4", "-J", "train", "-o", "%x-%j.out")
    seen = intake.wait_for_reports(job, 3)
    assert {"n1", "n2"} < seen.reporters
    facts = next(body["job"] for body in seen.closings if body["role"] == "controller")
    assert (facts["state"], facts["nodes"], facts["world_size"]) == ("FAILED", ["n1", "n2"], 4)
    assert {f"train-{job}.out", *(f"train-{job}-{rank}.out" for rank in range(4))} <= set(seen.logs)
    assert b"2: RuntimeError: boom" in seen.logs[f"train-{job}-2.out"]
    assert b"task 2: Exited with exit code 1" in seen.logs[f"train-{job}.out"]
    assert b"exited with exit code 1." in seen.logs["n1/slurmd.log"]
    assert b"hunter22" not in b"".join(seen.logs.values())
    runs = installed.wait_for_runs(job, *ALL_HOOKS)
    assert all(run.status == 0 and run.milliseconds < 1000 for run in runs)


def test_a_job_that_a_person_cancels_is_no_incident_though_its_ranks_cry_out(rehearsal: Rehearsal) -> None:
    cluster, installed, intake = rehearsal
    crying = "trap 'echo Traceback; echo RuntimeError: SIGTERM; exit 1' TERM; sleep 100 & wait"
    job = cluster.submit(f'#!/bin/bash\nsrun bash -c "{crying}"\n', "-N2", "-n2", "-o", "%j.out")
    cluster.wait_for_step(job)
    cluster.cancel(job)
    verdicts = installed.wait_for_verdict(job, 3)
    assert all("ended: none (CANCELLED" in verdict for verdict in verdicts)
    assert intake.job(job) is None
    assert {run.status for run in installed.wait_for_runs(job, *ALL_HOOKS)} == {0}


def test_a_cancel_that_signals_the_batch_shell_looks_like_a_failure_and_is_none(rehearsal: Rehearsal) -> None:
    cluster, installed, intake = rehearsal
    job = cluster.submit(ASLEEP, "-N2", "-n2", "-o", "%j.out")
    cluster.wait_for_step(job)
    cluster.cancel(job, "-f", "-s", "TERM")
    assert cluster.wait_for(job, "FAILED") == "FAILED"
    verdicts = installed.wait_for_verdict(job, 3)
    assert all("ended: none (CANCELLED, cancelled by" in verdict for verdict in verdicts)
    assert any(f"cancelled by uid {pwd.getpwnam(cluster.job_user).pw_uid}" in verdict for verdict in verdicts)
    assert intake.job(job) is None


def test_a_requeue_by_a_person_is_no_incident(rehearsal: Rehearsal) -> None:
    cluster, installed, intake = rehearsal
    job = cluster.submit(ASLEEP, "-N2", "-n2", "-o", "%j.out")
    cluster.wait_for_step(job)
    cluster.run("scontrol", "requeue", job)
    verdicts = installed.wait_for_verdict(job, 3)
    assert all("attempt 0 ended: none (REQUEUED" in verdict for verdict in verdicts)
    cluster.cancel(job)
    assert intake.job(job) is None


@pytest.mark.parametrize("option", ["--requeue", "--no-requeue"])
def test_a_node_that_goes_down_is_an_incident_of_the_attempt_it_ended(rehearsal: Rehearsal, option: str) -> None:
    cluster, _, intake = rehearsal
    job = cluster.submit(ASLEEP, "-N2", "-n2", option, "-o", "%j.out")
    cluster.wait_for_step(job)
    cluster.take_down("n2")
    seen = intake.wait_for_reports(job, 3)
    assert {body["job"]["state"] for body in seen.closings} == {"NODE_FAIL"}
    assert b"DUE TO NODE FAILURE" in seen.logs[f"{job}.out"]  # read before the next attempt truncates it
    if option == "--requeue":
        cluster.cancel(job)
    cluster.wait_for_nodes()
    assert intake.job(job, 1) is None


def test_success_is_no_incident(rehearsal: Rehearsal) -> None:
    cluster, installed, intake = rehearsal
    job = cluster.submit("#!/bin/bash\nsrun true\n", "-N2", "-n2", "-o", "%j.out")
    verdicts = installed.wait_for_verdict(job, 3)
    assert all("ended: none (COMPLETED" in verdict for verdict in verdicts)
    assert intake.job(job) is None


def test_an_output_file_that_cannot_be_opened_is_told_by_the_nodes_own_log(rehearsal: Rehearsal) -> None:
    cluster, _, intake = rehearsal
    job = cluster.submit("#!/bin/bash\ntrue\n", "-N1", "-o", "/no/such/folder/%j.out")
    seen = intake.wait_for_reports(job, 2)
    assert b"Could not open stdout file /no/such/folder" in b"".join(seen.logs.values())


def test_each_task_of_an_array_is_a_job_of_its_own(rehearsal: Rehearsal) -> None:
    cluster, _, intake = rehearsal
    array = cluster.submit("#!/bin/bash\nexit $SLURM_ARRAY_TASK_ID\n", "--array=0-1", "-N1", "-o", "%A_%a.out")
    seen = intake.wait_for_reports(array, 2)  # Slurm gives the array's own id to its last task
    assert [name for name in seen.logs if name.endswith(".out")] == [f"{array}_1.out"]
    assert len({key for key in intake.incidents if int(key[0]) >= int(array)}) == 1


def test_jobcomp_alone_does_the_controllers_work() -> None:
    with (
        running_intake() as intake,
        InstalledHooks(names=("jobcomp",)) as installed,
        Cluster(nodes=1, settings=installed.slurm_settings) as cluster,
    ):
        installed.configure(cluster, intake.url, TOKEN)
        job = cluster.submit("#!/bin/bash\nexit 3\n", "-o", "%j.out")
        seen = intake.wait_for_reports(job, 1)
        assert seen.closings[0]["role"] == "controller"
        assert (seen.closings[0]["job"]["state"], seen.closings[0]["job"]["exit_code"]) == ("FAILED", 3)
        assert [run.hook for run in installed.wait_for_runs(job, "jobcomp")] == ["jobcomp"]
