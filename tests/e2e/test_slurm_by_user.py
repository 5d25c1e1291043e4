"""A user of a site that has installed nothing: a wrapped command and a watched job, in a real cluster."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.cluster.hooks import HOOK
from tests.cluster.slurm import Cluster, slurm_is_installed
from tests.hooks.intake import TOKEN, Intake, running_intake

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(not slurm_is_installed(), reason="no Slurm here; apt-get install slurm-wlm munge"),
]

ONE_FAILS = (
    "#!/bin/bash\nexport TMPDIR=$PWD\nsrun --label {wrap} bash -c 'echo up; [ $SLURM_PROCID = 2 ] && exit 9; sleep 5'\n"
)
ASLEEP = "#!/bin/bash\nexport TMPDIR=$PWD\nsrun --label {wrap} bash -c 'echo Traceback; sleep 300'\n"


class Home:
    """What the user has: a copy of the hook and settings of their own."""

    def __init__(self, cluster: Cluster, url: str) -> None:
        self.hook = cluster.jobs / "firstfault-hook"
        shutil.copy(HOOK, self.hook)
        self.hook.chmod(0o755)
        folder = cluster.jobs / ".config" / "firstfault"
        folder.mkdir(parents=True)
        settings = folder / "hook.conf"
        settings.touch(mode=0o600)
        settings.write_text(
            f"[hook]\nurl = {url}\ntoken = {TOKEN}\nspool = {cluster.jobs}/spool\nslurm_conf = {cluster.conf}\n"
            f"shared_paths = {cluster.jobs}\n"
        )
        for path in (folder, settings):
            shutil.chown(path, cluster.job_user)

    @property
    def wrap(self) -> str:
        return f"{self.hook} wrap --"


User = tuple[Cluster, Home, Intake]


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with running_intake() as intake, Cluster(nodes=2) as cluster:
        yield cluster, Home(cluster, intake.url), intake


def test_a_wrapped_rank_that_fails_is_reported_by_itself(user: User) -> None:
    cluster, home, intake = user
    job = cluster.submit(ONE_FAILS.format(wrap=home.wrap), "-N2", "-n4", "-J", "mine", "-o", "%x-%j.out")
    seen = intake.wait_for_reports(job, 1)
    (facts,) = [body["job"] for body in seen.closings]
    assert (facts["state"], facts["exit_code"], facts["world_size"], facts["name"]) == ("FAILED", 9, 4, "mine")
    (exits,) = [text for name, text in seen.logs.items() if name.endswith("slurmd.log")]
    assert b"task 2 (" in exits
    assert b"2: up" in seen.logs[f"mine-{job}.out"]
    assert cluster.wait_for(job, "FAILED") == "FAILED"
    assert "ExitCode=9:0" in cluster.run("scontrol", "show", "job", "-o", job)


def test_a_wrapped_job_that_is_cancelled_reports_nothing(user: User) -> None:
    cluster, home, intake = user
    job = cluster.submit(ASLEEP.format(wrap=home.wrap), "-N2", "-n4", "-o", "%j.out")
    output = cluster.jobs / f"{job}.out"
    cluster.wait_until("slurmctld", lambda: output.exists() and output.read_text().count("Traceback") == 4)
    cluster.cancel(job)
    cluster.wait_for_nodes()
    assert cluster.wait_for(job, "CANCELLED") == "CANCELLED"
    assert intake.job(job) is None


@pytest.mark.parametrize("ending", ["fails", "is cancelled"])
def test_a_watched_job_is_judged_as_the_hook_would(user: User, ending: str) -> None:
    cluster, home, intake = user
    script = "#!/bin/bash\nsleep 3\necho RuntimeError: boom\nexit 4\n" if ending == "fails" else ASLEEP.format(wrap="")
    job = cluster.submit(script, "-N1", "-o", "%j.out")
    watcher = cluster.start_as_job_user(str(home.hook), "watch", job)
    if ending == "is cancelled":
        cluster.wait_for_step(job)
        cluster.cancel(job)
    said, _ = watcher.communicate(timeout=90)
    if ending == "fails":
        assert "failed (FAILED" in said
        assert b"RuntimeError: boom" in intake.wait_for_reports(job, 1).logs[f"{job}.out"]
    else:
        assert "did not fail (CANCELLED" in said
        assert intake.job(job) is None
