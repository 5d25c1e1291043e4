"""What slurmdbd adds, in a real cluster that keeps accounts: who cancelled, memory and CPU, and where steps wrote."""

from __future__ import annotations

import pwd
from collections.abc import Iterator

import pytest

from tests.cluster.accounting import accounts_can_be_kept
from tests.cluster.hooks import InstalledHooks
from tests.cluster.slurm import Cluster, memory_can_be_limited, slurm_is_installed
from tests.e2e.slurm_endings import run_again
from tests.hooks.intake import TOKEN, Intake, Seen, running_intake

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(not slurm_is_installed(), reason="no Slurm here; apt-get install slurm-wlm munge"),
    pytest.mark.skipif(
        not accounts_can_be_kept(),
        reason="no slurmdbd here; apt-get install slurmdbd slurm-wlm-mysql-plugin mariadb-server",
    ),
]

ASLEEP = "#!/bin/bash\nsrun sleep 300\n"
NESTED = """#!/bin/bash
mkdir -p ranks
cat >launch-$SLURM_JOB_ID.sh <<'END'
srun -n2 --output=ranks/$SLURM_JOB_ID-%t.log bash -c 'echo rank $SLURM_PROCID up; [ $SLURM_PROCID = 0 ] || exit 6'
END
bash launch-$SLURM_JOB_ID.sh
"""
HUNGRY = """#!/bin/bash
srun -n2 --kill-on-bad-exit=1 python3 -c '
import os, time
while time.process_time() < 1:
    pass
kept = [bytearray(30 << 20)]
time.sleep(3)
while os.environ["SLURM_PROCID"] == "1":
    kept.append(bytearray(20 << 20))
time.sleep(60)
'
"""
AGAIN = "#!/bin/bash\n[ ${SLURM_RESTART_COUNT-0} -gt 0 ] && exit 4\nsrun sleep 300\n"

Kept = tuple[Cluster, InstalledHooks, Intake]


@pytest.fixture(scope="module")
def kept() -> Iterator[Kept]:
    """A site without JobComp and without slurmctld's log, so that only slurmdbd can tell."""
    limited = memory_can_be_limited()
    watched = {"JobAcctGatherParams": "OverMemoryKill", "SelectTypeParameters": "CR_CPU_Memory", "DefMemPerCPU": "100"}
    with (
        running_intake() as intake,
        InstalledHooks(names=("epilog", "epilog_slurmctld")) as hooks,
        Cluster(
            nodes=1,
            cpus=8,
            settings=hooks.slurm_settings | ({} if limited else watched),
            limit_memory=limited,
            accounts=True,
        ) as cluster,
    ):
        hooks.configure(cluster, intake.url, TOKEN)
        yield cluster, hooks, intake


def accounts_of(seen: Seen) -> list[list[str]]:
    """The rows of the table that the controller sent, without its head."""
    (table,) = [text.decode() for name, text in seen.logs.items() if name.endswith("/sacct.txt")]
    return [line.split("|") for line in table.splitlines()[1:]]


@pytest.mark.parametrize("by", ["the user", "root"])
def test_who_cancelled_is_known(kept: Kept, by: str) -> None:
    cluster, hooks, intake = kept
    job = cluster.submit(ASLEEP, "-o", "%j.out")
    cluster.wait_for_step(job)
    cluster.cancel(job) if by == "the user" else cluster.run("scancel", job)
    uid = pwd.getpwnam(cluster.job_user if by == "the user" else cluster.node_user).pw_uid
    verdicts = hooks.wait_for_verdict(job, 2)
    assert any(verdict.endswith(f"ended: none (CANCELLED, cancelled by uid {uid})") for verdict in verdicts)
    assert intake.job(job) is None


def test_the_files_of_a_step_are_found_though_the_batch_script_does_not_name_them(kept: Kept) -> None:
    cluster, _, intake = kept
    job = cluster.submit(NESTED, "-n2", "-o", "%j.out")
    seen = intake.wait_for_reports(job, 2)
    assert {name for name in seen.logs if name.startswith("ranks/")} == {f"ranks/{job}-0.log", f"ranks/{job}-1.log"}
    assert seen.logs[f"ranks/{job}-1.log"] == b"rank 1 up\n"


def test_a_step_that_ran_out_of_memory_has_its_peak_and_the_task_that_took_it(kept: Kept) -> None:
    cluster, _, intake = kept
    job = cluster.submit(HUNGRY, "-n2", "--mem-per-cpu=60M", "-o", "%j.out")
    seen = intake.wait_for_reports(job, 2)
    (facts,) = [body["job"] for body in seen.closings if body["role"] == "controller"]
    assert facts["peak_memory_bytes"] > 30 << 20
    assert facts["cpu_seconds"] >= 1
    (step,) = [row for row in accounts_of(seen) if row[0] == f"{job}.0"]
    assert step[1].split()[0] == (
        "OUT_OF_MEMORY" if memory_can_be_limited() else "CANCELLED"
    )  # Slurm's own watch cancels it


def test_an_attempt_has_its_own_accounts(kept: Kept) -> None:
    cluster, hooks, intake = kept
    job = cluster.submit(AGAIN, "-o", "%j.out")
    cluster.wait_for_step(job)
    cluster.run("scontrol", "requeue", job)
    run_again(cluster, job)
    seen = intake.wait_for_reports(job, 2, attempt=1)
    assert [row[:3] for row in accounts_of(seen)] == [[job, "FAILED", "4:0"], [f"{job}.batch", "FAILED", "4:0"]]
    assert sum("attempt 0 ended: none (REQUEUED" in line for line in hooks.wait_for_verdict(job, 4)) == 2
    assert intake.job(job) is None
