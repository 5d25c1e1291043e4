"""What the shell keeps, hides and refuses on a node without Python, as the Python part does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.hooks import HOOK
from tests.hooks.container import OUTPUT, SHELLS, Container
from tests.hooks.intake import Intake

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")


@pytest.fixture(params=SHELLS)
def container(request: pytest.FixtureRequest, tmp_path: Path, intake: Intake) -> Container:
    if not shutil.which("curl"):
        pytest.skip("no curl here")
    return Container(tmp_path, request.param, intake.url)


@pytest.fixture
def spool(container: Container, hook: Any) -> Path:
    return container.folder / "spool" / str(hook.user_name())


def set_url(container: Container, old: str, new: str) -> None:
    container.config.write_text(container.config.read_text().replace(old, new))


def without(container: Container, tool: str) -> None:
    if container.shell == "busybox":
        pytest.skip(f"it has a {tool} of its own")
    (container.tools / tool).unlink()


AWAY = "http://127.0.0.1:9"


def test_what_cannot_be_delivered_waits_and_the_next_run_delivers_it(
    container: Container, intake: Intake, spool: Path
) -> None:
    set_url(container, intake.url, AWAY)
    container.run()
    assert "waits in" in container.said("did not reach")[-1]
    (waiting,) = spool.glob("*.report")
    assert (spool.stat().st_mode & 0o777, waiting.stat().st_mode & 0o777) == (0o700, 0o600)
    set_url(container, AWAY, intake.url)
    container.record("FAILED", "1:0", restarts=1)
    container.run()
    container.said("delivered")
    for attempt in (0, 1):
        seen = intake.wait_for_reports("61", 1, attempt=attempt)
        assert b"RuntimeError: shard 17 is truncated" in seen.logs["train-61.out"]
    until = time.monotonic() + 10
    while list(spool.iterdir()):
        assert time.monotonic() < until


def test_what_waits_is_delivered_by_the_python_part_too(container: Container, intake: Intake, spool: Path) -> None:
    set_url(container, intake.url, AWAY)
    container.run()
    container.said("waits in")
    set_url(container, AWAY, intake.url)
    command = [sys.executable, str(HOOK), "--config", str(container.config), "--flush"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "delivered 1, waiting 0\n", done.stderr
    seen = intake.wait_for_reports("61", 1)
    assert seen.closings[0]["job"]["state"] == "FAILED"
    assert b"RuntimeError: shard 17 is truncated" in seen.logs["train-61.out"]


def test_a_report_of_the_python_part_is_left_to_it(
    container: Container, intake: Intake, spool: Path, hook: Any
) -> None:
    facts = {"job_id": "7", "attempt": 0}
    hook.Spool(hook.Settings(str(container.config))).prepare().put(hook.Report(facts, facts, []))
    container.run()
    intake.wait_for_reports("61", 1)
    container.said("incident")
    assert len(list(spool.glob("*-7-*.report"))) == 1


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("spool_bytes = 15K", "the spool is full"),
        ("spool_bytes = 20000000", "the spool is full"),
        ("spool_age = 1h", "it is too old"),
    ],
)
def test_the_spool_has_a_size_and_an_age(
    container: Container, intake: Intake, spool: Path, setting: str, why: str
) -> None:
    set_url(container, intake.url, AWAY)
    container.config.write_text(container.config.read_text() + setting + "\n")
    spool.mkdir(parents=True, mode=0o700)
    spool.chmod(0o700)
    old = spool / f"{(int(time.time()) - 7200) * 1_000_000:020d}-60-1.report"
    old.write_bytes(b"x" * 16_000)
    if "20000000" in setting:
        os.truncate(old, 20_000_000)  # one less with the new report
    (spool / f"{(int(time.time()) - 7200) * 1_000_000:020d}-60-2.shell").mkdir()
    container.run()
    container.said("never finished")
    assert f"dropped the report {old.name}: {why}" in container.said(why)[-1]
    assert [path.name.split("-")[1] for path in spool.glob("*.report")] == ["61"]


@pytest.mark.parametrize("missing", ["tar", "a folder of our own"])
def test_where_nothing_can_be_kept_the_report_goes_out_or_one_line_says_that_it_is_lost(
    container: Container, intake: Intake, spool: Path, missing: str
) -> None:
    if missing == "tar":
        without(container, "tar")
    else:
        spool.mkdir(parents=True)
        spool.chmod(0o755)
    tmp = container.folder / "tmp"
    tmp.mkdir()
    container.run(TMPDIR=str(tmp))
    seen = intake.wait_for_reports("61", 1)
    assert b"RuntimeError: shard 17 is truncated" in seen.logs["train-61.out"]
    container.said("is incident")
    container.log.unlink()
    set_url(container, intake.url, AWAY)
    container.run(TMPDIR=str(tmp))
    (line,) = container.said("is lost")
    assert ("tar and gzip are missing" if missing == "tar" else "must be a folder of") in line
    until = time.monotonic() + 10
    while list(tmp.iterdir()):
        assert time.monotonic() < until


def test_without_setsid_it_reports_while_slurm_waits(container: Container, intake: Intake) -> None:
    without(container, "setsid")
    container.record("COMPLETING", "1:0")
    done = container.run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    seen = intake.job("61")
    assert seen, container.log.read_text()
    assert seen.closings[0]["job"]["state"] == "FAILED"


@pytest.mark.parametrize("hangs", ["the service", "scontrol"])
def test_without_setsid_slurm_waits_less_than_a_second_for_what_does_not_answer(
    container: Container, intake: Intake, spool: Path, hangs: str
) -> None:
    without(container, "setsid")
    container.record("COMPLETING", "0:0", reason="TimeLimit")
    if hangs == "scontrol":
        (container.tools / "scontrol").write_text(f"#!{container.tools}/sh\nexec sleep 5\n")
    else:
        intake.delay = 20
    began = time.monotonic()
    assert container.run().returncode == 0
    assert time.monotonic() - began < 1.5  # the bar is 1 s; the rest is a busy machine's
    if hangs == "the service":
        until = time.monotonic() + 10
        while len(list(spool.glob("*.report"))) != 1:
            assert time.monotonic() < until
            time.sleep(0.1)


SECRETS = """\
[rank3]: -----BEGIN RSA PRIVATE KEY-----
[rank3]: MIIEowIBAAKCAQEA7bq8Z0p1Tt3nHq5u9xY2w4v6b8N0m1QwErTyUiOpAsDfGhJk
[rank3]: Zm9vYmFy+shortline==
[rank3]: -----END RSA PRIVATE KEY-----
{"key": "-----BEGIN PRIVATE KEY-----\\nZm9vYmFy12345\\n-----END PRIVATE KEY-----"}
AWS_SECRET_ACCESS_KEY wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY
mysql -h db -u me -pS3cretPw train
docker login -u me -p hunter22 images.example.test
curl -s -u me:hunter22 https://example.com/x
redis-cli -h r -a hunter22 ping
train.py --hub-token hunter22
Authorization: Token hunter22
\x1b[31mpassword\x1b[0m=hunter22
https://me:hunter22@example.com/data
https://example.com/blob?sig=hunter22hunter22&x=1
GET https://hooks.slack.com/services/T000/B000/hunter22
Cookie: session=hunter22
mail to alice@example.com
"""


def test_secrets_are_hidden_in_the_shapes_that_the_python_part_knows(
    container: Container, intake: Intake, hook: Any
) -> None:
    plain = (
        "step 12 loss 0.3 tokens 8192\nroot@gpu-n17.example.com: NCCL WARN\nlayer8_forward_and_back_again ran\n"
        "global-batch-size-4096 task-scheduler-of-the-node\n"
    )
    container.output.write_text(SECRETS.replace("\\x1b", "\x1b") + plain + OUTPUT)
    container.run()
    (text,) = intake.wait_for_reports("61", 1).logs.values()
    told = text.decode()
    for secret in ("MIIEow", "Zm9v", "wJalr", "S3cretPw", "hunter22", "alice"):
        assert secret not in told
        assert secret not in hook.Redaction("site")(SECRETS.encode()).decode()
    assert plain in told
    assert "-----END RSA PRIVATE KEY-----" in told
    assert "mysql -h db -u me -p[redacted] train" in told


@as_root
@pytest.mark.parametrize("way", ["a link", "the path"])
def test_no_way_leads_through_a_folder_that_the_user_may_not_enter(
    container: Container, intake: Intake, way: str
) -> None:
    for folder in (container.folder, *container.folder.parents):
        if folder.stat().st_mode & 0o001 == 0 and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    closed = container.folder / "closed"
    closed.mkdir(mode=0o700)
    (closed / "train-61.out").write_text(OUTPUT)
    os.chown(closed / "train-61.out", 65534, 65534)
    (container.folder / "way").symlink_to(closed)
    container.output = container.folder / ("way" if way == "a link" else "closed") / "train-61.out"
    container.record("FAILED", "1:0")
    container.run(SLURM_JOB_UID="65534", SLURM_JOB_GID="65534")
    seen = intake.wait_for_reports("61", 1)
    assert seen.logs == {}
    assert seen.closings[0]["job"]["unread"] == ["n1: train-61.out: no file that the job's user owns and reaches"]
    closed.chmod(0o755)
    container.record("FAILED", "1:0", restarts=1)
    container.run(SLURM_JOB_UID="65534", SLURM_JOB_GID="65534")
    assert "train-61.out" in intake.wait_for_reports("61", 1, attempt=1).logs


@pytest.mark.parametrize("name", ["train", "x JobState=COMPLETED", "x UserId=root(99) JobState=COMPLETED"])
def test_no_words_of_a_user_pass_for_slurms_record(container: Container, intake: Intake, name: str) -> None:
    record = container.folder / "record"
    text = record.read_text().replace("JobName=train", f"JobName={name}")
    record.write_text(text.replace("\n", f" Comment=UserId=me({os.getuid()}) JobState=COMPLETED Restarts=3\n"))
    container.run()
    facts = intake.wait_for_reports("61", 1).closings[0]["job"]
    assert facts["state"] == "FAILED"
    assert facts["name"] == name.replace("(", "").replace(")", "")


def test_an_scontrol_that_never_comes_to_an_end_is_ended(container: Container, intake: Intake) -> None:
    (container.tools / "scontrol").write_text(f"#!{container.tools}/sh\nwhile :; do echo JobId=7 NodeName=n1; done\n")
    container.run(SLURM_JOB_EXIT_CODE2="1:0")
    assert intake.wait_for_reports("61", 1).closings[0]["job"]["exit_code"] == 1


def test_no_other_job_is_named_by_a_users_words(container: Container, intake: Intake) -> None:
    record = container.folder / "record"
    text = record.read_text()
    record.write_text(text.replace(" StdErr=", " Comment=x HetJobId=99 ArrayJobId=98 HetJobOffset=1 StdErr="))
    container.run()
    assert "part_of" not in intake.wait_for_reports("61", 1).closings[0]["job"]
    record.write_text(text.replace("JobId=61 ", "JobId=61 HetJobId=60 HetJobOffset=1 "))
    container.run()
    assert intake.wait_for_reports("60", 1)


FORGED = "JobState=FAILED ExitCode=1:0 HetJobId=99"


@pytest.mark.parametrize(
    "name", ["a UserId=me({uid}) " + FORGED, "a\nJobId=61 JobName=b UserId=me({uid}) " + FORGED, "a\nb"]
)
def test_a_name_that_could_be_slurms_record_leaves_it_unread(container: Container, intake: Intake, name: str) -> None:
    container.record("COMPLETED")
    record = container.folder / "record"
    record.write_text(record.read_text().replace("JobName=train", "JobName=" + name.format(uid=os.getuid())))
    container.run()
    container.said("leave open what Slurm's record says")
    time.sleep(1)
    assert intake.requests == []
    container.run(SLURM_JOB_EXIT_CODE2="1:0")  # what Slurm tells the hook itself
    closing = intake.wait_for_reports("61", 1).closings[0]["job"]
    assert (closing["state"], closing["exit_code"]) == ("FAILED", 1)
    assert closing["unread"] == ["n1: the words of the job's user leave open what Slurm's record says"]


@pytest.mark.parametrize("wrong", ["Restarts={", "ExitCode=x:0", "Restarts=007"])
def test_what_should_be_a_number_and_is_none_breaks_no_report(container: Container, intake: Intake, wrong: str) -> None:
    record = container.folder / "record"
    key, _, _ = wrong.partition("=")
    words = [wrong if word.startswith(key) else word for word in record.read_text().split(" ")]
    record.write_text(" ".join(words))
    container.run(SLURM_JOB_EXIT_CODE2="1:0")
    assert intake.wait_for_reports("61", 1).closings[0]["job"]["exit_code"] == 1


def test_what_the_service_refuses_keeps_nothing_else_from_it(container: Container, intake: Intake, spool: Path) -> None:
    set_url(container, intake.url, AWAY)
    for attempt in range(4):
        container.record("FAILED", "1:0", restarts=attempt)
        container.run()
        until = time.monotonic() + 15
        while len(list(spool.glob("*.report"))) <= attempt:
            assert time.monotonic() < until
            time.sleep(0.1)
    set_url(container, AWAY, intake.url)
    intake.refused_jobs = {("61", attempt) for attempt in (0, 1, 2, 5)}
    container.record("FAILED", "1:0", restarts=4)
    container.run()
    assert intake.wait_for_reports("61", 1, attempt=3)
    assert container.log.read_text().count("the service refused it") == 3
    container.record("FAILED", "1:0", restarts=5)
    container.run()
    container.said("the service refused the report")
    until = time.monotonic() + 10
    while list(spool.iterdir()):
        assert time.monotonic() < until


def test_what_stands_between_us_and_the_service_drops_nothing(
    container: Container, intake: Intake, spool: Path
) -> None:
    intake.in_between = (404, {"message": "no such backend"})
    container.run()
    container.said("waits in")
    assert len(list(spool.glob("*.report"))) == 1


@as_root
@pytest.mark.parametrize("options", ["size=64k", "ro,size=9m"], ids=["full", "read-only"])
def test_a_spool_that_takes_nothing_loses_no_report(container: Container, intake: Intake, options: str) -> None:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    folder, unshare, mount = container.folder / "spool", shutil.which("unshare"), shutil.which("mount")
    own = folder / "root"
    own.mkdir(parents=True, mode=0o700)
    inside = f"{mount} -t tmpfs -o {options.replace('ro,', '')} none {folder} && mkdir -m 700 {own}"
    if "ro" in options:
        inside += f" && {mount} -o remount,ro {folder}"
    wrapper = container.folder / "mounted"
    wrapper.write_text(f"#!/bin/sh\nexec {unshare} -m /bin/sh -c '{inside}; exec {container.hook}'\n")
    wrapper.chmod(0o755)
    container.hook = wrapper
    container.output.write_text("step done\n" * 20_000 + OUTPUT)
    tmp = container.folder / "tmp"
    tmp.mkdir()
    container.run(TMPDIR=str(tmp))
    seen = intake.wait_for_reports("61", 1, seconds=20)
    assert seen.logs["train-61.out"].endswith(b"RuntimeError: shard 17 is truncated\n")
    until = time.monotonic() + 10
    while list(tmp.iterdir()):
        assert time.monotonic() < until


def test_names_hide_what_looks_like_a_secret(container: Container, intake: Intake) -> None:
    secret = "hf_AbCdEfGh1234567890AbCdEfGh"
    output = container.output.rename(container.folder / f"train-{secret}")
    record = container.folder / "record"
    record.write_text(
        record.read_text()
        .replace("JobName=train", f"JobName=train-{secret}")
        .replace(str(container.output), str(output))
    )
    container.run(SLURM_JOB_USER=f"me-{secret}")
    seen = intake.wait_for_reports("61", 1)
    assert list(seen.logs) == ["train-_redacted_"]
    assert secret not in str((seen.openings, seen.closings, intake.requests))
