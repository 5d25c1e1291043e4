"""A hook that may not read everything: it reads as the job's user where it can, and else says what it could not read."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.hooks import HOOK
from tests.hooks.intake import TOKEN, Intake, Seen

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run the hook as somebody else")

OWNER, OTHER = pwd.getpwnam("nobody"), pwd.getpwnam("daemon")
AS_OTHER = ["setpriv", f"--reuid={OTHER.pw_uid}", f"--regid={OTHER.pw_gid}", "--clear-groups"]
POWERLESS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
# What root is to a file server that squashes root: anybody. It may still become another user.
SQUASHED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
SCONTROL = """#!/bin/sh
[ "$*" = "show job -o -d 61" ] && cat {folder}/record
"""


@pytest.fixture
def node(intake: Intake) -> Iterator[Path]:
    """A node's folders: job 61 of `nobody` has failed, and nobody else may enter where it wrote."""
    folder = Path(tempfile.mkdtemp(prefix="ff-rights-", dir="/tmp"))
    folder.chmod(0o755)
    shutil.copy(HOOK, folder / "hook")
    began = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 60))
    (folder / "record").write_text(
        f"JobId=61 JobName=train JobState=FAILED Reason=NonZeroExitCode Restarts=0 ExitCode=1:0 StartTime={began} "
        f"EndTime={began} NodeList=n1 NumNodes=1 WorkDir={folder}/work\n"
    )
    (folder / "scontrol").write_text(SCONTROL.format(folder=folder))
    (folder / "work").mkdir(mode=0o700)
    (folder / "work/train-61.out").write_text("RuntimeError: shard 17 is truncated\n")
    (folder / "slurmd.log").write_text(f"[{began}.915] [61.0] task 2 (26227) exited with exit code 1.\n")
    (folder / "slurmd.log").chmod(0o600)
    for path in (folder / "work", folder / "work/train-61.out"):
        os.chown(path, OWNER.pw_uid, OWNER.pw_gid)
    (folder / "sacct").write_text("#!/bin/sh\nexit 1\n")  # this machine's own looks for a Slurm for a while
    for name in ("hook", "scontrol", "sacct"):
        (folder / name).chmod(0o755)
    (folder / "spool").mkdir(mode=0o777)
    (folder / "spool").chmod(0o1777)
    (folder / "hook.conf").touch(mode=0o600)
    (folder / "hook.conf").write_text(
        f"[hook]\nurl = {intake.url}\ntoken = {TOKEN}\nspool = {folder}/spool\nlog_file = {folder}/spool/hook.log\n"
        f"wait = 5\nkernel_log = no\ngpus = no\nslurm_bin = {folder}\nshared_paths = {folder}\n"
        f"slurmd_log = {folder}/slurmd.log\n"
    )
    yield folder
    shutil.rmtree(folder, ignore_errors=True)  # the worker may be flushing its spool still


def reported(node: Path, intake: Intake, rights: list[str]) -> Seen:
    """What the service hears from the hook when Slurm runs it with these rights."""
    if rights is AS_OTHER:
        os.chown(node / "hook.conf", OTHER.pw_uid, OTHER.pw_gid)
    env = {"SLURM_SCRIPT_CONTEXT": "epilog_slurmd", "SLURM_JOB_ID": "61", "SLURM_JOB_USER": OWNER.pw_name,
           "SLURM_JOB_UID": str(OWNER.pw_uid), "SLURM_JOB_GID": str(OWNER.pw_gid), "SLURM_NODELIST": "n1",
           "SLURMD_NODENAME": "n1", "SLURM_JOB_WORK_DIR": f"{node}/work", "SLURM_JOB_STDOUT": "train-%j.out",
           "SLURM_JOB_EXIT_CODE2": "1:0", "FIRSTFAULT_HOOK_CONFIG": f"{node}/hook.conf"}  # fmt: skip
    assert subprocess.run([*rights, str(node / "hook")], env=env, check=False, timeout=30).returncode == 0
    return intake.wait_for_reports("61", 1)


def unread(seen: Seen) -> list[str]:
    (closing,) = seen.closings
    return list(closing["job"].get("unread", []))


@pytest.mark.parametrize("rights", [[], SQUASHED], ids=["root", "squashed root"])
def test_root_reads_as_the_jobs_user_so_a_server_that_squashes_root_is_no_hindrance(
    node: Path, intake: Intake, rights: list[str]
) -> None:
    seen = reported(node, intake, rights)
    assert seen.logs["train-61.out"] == b"RuntimeError: shard 17 is truncated\n"
    assert b"exited with exit code 1." in seen.logs["n1/slurmd.log"]
    assert unread(seen) == []


@pytest.mark.parametrize("rights", [AS_OTHER, POWERLESS], ids=["another user", "root without capabilities"])
def test_who_may_not_read_the_jobs_files_says_so_and_reports_the_rest(
    node: Path, intake: Intake, rights: list[str]
) -> None:
    seen = reported(node, intake, rights)
    assert f"n1: {node}/work/train-61.out: Permission denied" in unread(seen)
    assert (f"n1: {node}/slurmd.log: Permission denied" in unread(seen)) is (rights is AS_OTHER)
    assert "train-61.out" not in seen.logs
    assert seen.closings[0]["job"]["state"] == "FAILED"


def test_a_folder_with_a_pattern_that_may_not_be_listed_is_named(node: Path, intake: Intake) -> None:
    with (node / "hook.conf").open("a") as settings:
        settings.write(f"globs = {node}/work/ranks/*.log\n")
    (node / "work/ranks").mkdir(mode=0o700)
    seen = reported(node, intake, [])
    assert unread(seen) == [
        f"n1: {node}/work/ranks: Permission denied"
    ]  # root's own, which the job's user may not list


def test_a_batch_script_without_any_output_is_said_to_have_none(node: Path, intake: Intake) -> None:
    (node / "work/train-61.out").unlink()
    seen = reported(node, intake, [])
    assert unread(seen) == [f"n1: {node}/work/train-61.out: No such file or directory"]
