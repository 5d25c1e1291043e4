"""What `test_slurm_install` runs in a mount namespace of its own, where the hook's real places are copies, in this order."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.slurm import Cluster
from tests.hooks.intake import TOKEN, Intake, running_intake

HOOK = Path("/usr/local/sbin/firstfault-hook")
SETTINGS = Path("/etc/firstfault")
FAILS = "#!/bin/bash\necho RuntimeError: boom\nexit 3\n"
WORKS = "#!/bin/bash\nsrun hostname\n"


@dataclass
class Site:
    """A cluster of two nodes that somebody installs the hook on."""

    cluster: Cluster
    intake: Intake
    folder: Path
    before: bytes

    def install(self, *options: str, then_read: bool = True) -> subprocess.CompletedProcess[str]:
        """`firstfault hook install slurm …`, as root types it; then slurmctld reads its configuration again."""
        command = [sys.executable, "-m", "bot.cli", "hook", "install", "slurm", "--slurm-conf", str(self.cluster.conf)]
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60, check=False)
        if then_read and "--check" not in options:
            self.cluster.restart_controller()
            self.cluster.run("scontrol", "reconfigure")
        return done

    def fail(self) -> str:
        """A job of two nodes that has failed."""
        job = self.cluster.submit(FAILS, "-N2", "-o", "%j.out")
        self.cluster.wait_for(job, "FAILED")
        return job


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "token").touch(mode=0o600)
    (folder / "token").write_text(TOKEN)
    with running_intake() as intake, Cluster(nodes=2) as cluster:
        yield Site(cluster, intake, folder, cluster.conf.read_bytes())


def test_check_tells_that_slurm_does_not_know_of_it_yet(site: Site) -> None:
    options = ("--bot", site.intake.url, "--token-file", str(site.folder / "token"), "--apply")
    done = site.install(*options, then_read=False)
    assert done.returncode == 0
    assert "    scontrol reconfigure " in done.stdout
    done = site.install("--check")
    assert done.returncode == 1
    assert "WRONG Slurm does not use it yet (Epilog, EpilogSlurmctld, JobCompLoc): restart slurmctld" in done.stdout


def test_after_it_is_applied_a_job_that_fails_is_an_incident(site: Site) -> None:
    done = site.install("--bot", site.intake.url, "--token-file", str(site.folder / "token"), "--apply")
    assert done.returncode == 0, done.stderr
    job = site.fail()
    seen = site.intake.wait_for_reports(job, 3)
    assert {(body["role"], body["job"]["state"]) for body in seen.closings} == {
        ("node", "FAILED"),
        ("controller", "FAILED"),
    }
    assert any(b"RuntimeError: boom" in text for text in seen.logs.values())
    assert any(b"task 0" in text for name, text in seen.logs.items() if name.endswith("slurmd.log"))


def test_check_finds_nothing_wrong_for_each_of_its_users(site: Site) -> None:
    done = site.install("--check")
    assert done.returncode == 0, done.stdout
    assert "WRONG" not in done.stdout
    assert "--- as root" in done.stdout
    assert f"--- as {site.cluster.controller_user}" in done.stdout


def test_a_new_release_is_one_file(site: Site) -> None:
    others = {path: path.read_bytes() for path in [site.cluster.conf, *SETTINGS.iterdir()]}
    release = HOOK.read_bytes()
    HOOK.write_text("#!/bin/sh\nexit 0\n")
    assert site.install("--check").returncode == 1
    done = site.install("--apply", then_read=False)
    assert done.returncode == 0
    assert "next  nothing has to be restarted:" in done.stdout
    assert HOOK.read_bytes() == release
    assert {path: path.read_bytes() for path in others} == others
    assert site.intake.wait_for_reports(site.fail(), 3)


def test_the_hook_stays_while_slurm_may_call_it(site: Site) -> None:
    for _ in range(2):
        done = site.install("--uninstall", then_read=False)
        assert done.returncode == 0
        assert "next  restart slurmctld, scontrol reconfigure, then --uninstall again" in done.stdout
        assert site.cluster.conf.read_bytes() == site.before
        assert HOOK.exists()
    site.fail()
    site.cluster.wait_for_nodes()


def test_after_it_is_taken_away_slurm_is_as_it_was_and_works(site: Site) -> None:
    site.cluster.restart_controller()
    site.cluster.run("scontrol", "reconfigure")
    assert site.install("--uninstall").returncode == 0
    assert site.cluster.conf.read_bytes() == site.before
    assert not HOOK.exists()
    assert list(SETTINGS.iterdir()) == []
    failed = site.fail()
    worked = site.cluster.submit(WORKS, "-N2", "-n2", "-o", "%j.out")
    assert site.cluster.wait_for(worked, "COMPLETED") == "COMPLETED"
    site.cluster.wait_for_nodes()
    time.sleep(1)
    assert site.intake.job(failed) is None
