"""`firstfault hook install slurm` on a cluster that runs: applied, checked, renewed and taken away.

The hook's places are the real ones (`/usr/local/sbin`, `/etc/firstfault`, `/var/spool/firstfault`). So that this machine keeps
its own, `slurm_installing` runs in a mount namespace of its own, where those folders are copies.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.slurm import slurm_is_installed
from tests.e2e import slurm_installing

COPIED = ("/usr/local/sbin", "/etc", "/var/spool")
IN_A_NAMESPACE = "".join(f'cp -a {path} "$0{path.replace("/", "-")}" && mount --bind "$0{path.replace("/", "-")}" {path} && '
                         for path in COPIED) + 'exec "$@"'  # fmt: skip


def may_mount() -> bool:
    """Whether we may have folders of our own in the places of others."""
    probe = ["unshare", "--mount", "mount", "--bind", "/var/spool", "/var/spool"]
    return os.geteuid() == 0 and subprocess.run(probe, capture_output=True, check=False).returncode == 0


@pytest.mark.slurm
@pytest.mark.skipif(not slurm_is_installed(), reason="no Slurm here; apt-get install slurm-wlm munge")
@pytest.mark.skipif(not may_mount(), reason="needs root and mount namespaces")
def test_a_site_installs_the_hook_renews_it_and_takes_it_away(tmp_path: Path) -> None:
    there = slurm_installing.HOOK.exists()
    inner = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        slurm_installing.__file__,
    ]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("FIRSTFAULT_", "PYTEST_", "COV_"))}
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", IN_A_NAMESPACE, tmp_path / "copy", *inner],
        env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout, done.stdout
    assert slurm_installing.HOOK.exists() == there
