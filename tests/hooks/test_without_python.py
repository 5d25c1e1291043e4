"""A node without Python: facts and the end of the job's output go out by curl, or one line says why nothing does."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.hooks.container import OUTPUT, SHELLS, Container
from tests.hooks.intake import TOKEN, Intake, Seen


@pytest.fixture(params=SHELLS)
def container(request: pytest.FixtureRequest, tmp_path: Path, intake: Intake) -> Container:
    if not shutil.which("curl"):
        pytest.skip("no curl here")
    return Container(tmp_path, request.param, intake.url)


def test_the_facts_and_the_end_of_the_output_arrive_by_the_same_intake(container: Container, intake: Intake) -> None:
    began = time.monotonic()
    done = container.run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - began < 2
    seen = intake.wait_for_reports("61", 1)
    (opened,) = seen.openings
    assert (opened["scheduler"], opened["reporter"], opened["role"]) == ("slurm", "n1", "node")
    facts = seen.closings[0]["job"]
    assert (facts["name"], facts["user"], facts["account"], facts["partition"]) == ("train", "alice", "lab", "gpu")
    assert (facts["state"], facts["reason"], facts["exit_code"]) == ("FAILED", "NonZeroExitCode", 1)
    assert facts["nodes"] == ["n1", "n2"]
    (text,) = seen.logs.values()
    assert b"RuntimeError: shard 17 is truncated" in text
    assert b"hunter22" not in text
    assert b"hf_abc" not in text
    assert any("job 61 is incident inc-61-0, told without Python" in line for line in container.said("incident"))


def test_a_long_output_is_told_by_its_end(container: Container, intake: Intake) -> None:
    container.output.write_text("step done\n" * 200_000 + OUTPUT)
    container.run()
    (text,) = intake.wait_for_reports("61", 1).logs.values()
    assert text.endswith(b"RuntimeError: shard 17 is truncated\n")
    assert len(text) <= 256 << 10


def test_the_first_node_sends_the_output_and_the_others_their_facts(container: Container, intake: Intake) -> None:
    container.run(node="n2")
    seen = intake.wait_for_reports("61", 1)
    assert (seen.reporters, seen.logs) == ({"n2"}, {})


def test_the_attempt_is_the_one_that_slurm_counts(container: Container, intake: Intake) -> None:
    container.record("FAILED", "1:0", restarts=2)
    container.run()
    assert intake.wait_for_reports("61", 1, attempt=2)


def test_the_controller_tells_what_it_knows(container: Container, intake: Intake) -> None:
    container.run(SLURM_SCRIPT_CONTEXT="epilog_slurmctld", SLURM_JOB_NODELIST="n[1-2]")
    assert intake.wait_for_reports("61", 1).openings[0]["role"] == "controller"


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED", "PREEMPTED", "PENDING"])
def test_what_is_no_failure_is_not_told(container: Container, intake: Intake, state: str) -> None:
    container.record(state)
    container.run()
    time.sleep(1.5)
    assert intake.requests == []


def test_a_job_that_a_person_stopped_is_not_told(container: Container, intake: Intake) -> None:
    container.record("FAILED", "0:15")
    container.output.write_text(OUTPUT + "slurmstepd: error: *** JOB 61 ON n1 CANCELLED AT 2026-11-30T08:10:08 ***\n")
    container.run()
    time.sleep(1.5)
    assert intake.requests == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_file_of_somebody_else_is_not_read(container: Container, intake: Intake) -> None:
    os.chown(container.output, 12345, 12345)
    container.run()
    assert intake.wait_for_reports("61", 1).logs == {}


def test_a_link_is_not_followed(container: Container, intake: Intake) -> None:
    secret = container.folder / "secret"
    secret.write_text("what the job's user must not see\n")
    container.output.unlink()
    container.output.symlink_to(secret)
    container.run()
    assert intake.wait_for_reports("61", 1).logs == {}


def test_words_of_a_user_do_not_break_the_report(container: Container, intake: Intake) -> None:
    record = container.folder / "record"
    record.write_text(record.read_text().replace("JobName=train", 'JobName=a"},$(id)`id`\\'))
    container.run(SLURM_JOB_USER='x"y')
    facts = intake.wait_for_reports("61", 1).closings[0]["job"]
    assert (facts["name"], facts["user"]) == ("a,idid", "xy")


def test_without_curl_it_says_so_in_one_line_and_answers_0(container: Container, intake: Intake) -> None:
    (container.tools / "curl").unlink()
    done = container.run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (line,) = container.said("no curl")
    assert "found no Python 3.6 or newer" in line
    assert intake.requests == []


def test_a_token_that_others_can_read_is_not_used(container: Container, intake: Intake) -> None:
    container.config.chmod(0o644)
    assert container.run().returncode == 0
    (line,) = container.said("mode 0600")
    assert "hook.conf" in line
    assert intake.requests == []


def test_a_service_that_does_not_answer_costs_the_job_nothing(container: Container, intake: Intake) -> None:
    container.config.write_text(container.config.read_text().replace(intake.url, "http://127.0.0.1:9"))
    began = time.monotonic()
    assert container.run().returncode == 0
    assert time.monotonic() - began < 2
    assert any("did not reach" in line for line in container.said("did not reach"))


def test_a_wrapped_command_runs_all_the_same(container: Container) -> None:
    done = container.run("wrap", "--", "sh", "-c", "echo out; exit 7", SLURM_SCRIPT_CONTEXT="")
    assert (done.returncode, done.stdout) == (7, "out\n")
    said = "no Python 3.6 or newer here: the command runs, its failure is not reported"
    assert done.stderr == f"firstfault-hook: {said}\n"


@pytest.mark.parametrize("option", ["--flush", "--check"])
def test_what_needs_python_says_so(container: Container, option: str) -> None:
    done = container.run(option, SLURM_SCRIPT_CONTEXT="")
    assert done.returncode == 1
    assert "found no Python 3.6 or newer" in done.stderr


def test_a_log_that_could_not_be_sent_is_told_of(container: Container, intake: Intake) -> None:
    intake.refused_logs.add("train-61.out")
    container.run()
    seen = intake.wait_for_reports("61", 1)
    assert seen.closings[0]["job"]["unread"] == ["n1: train-61.out: could not be sent"]
    assert "could not be sent" in container.said("incident")[-1]


@pytest.mark.parametrize("cut", [4, 9, 26])
def test_a_secret_that_the_end_begins_within_does_not_leave(container: Container, intake: Intake, cut: int) -> None:
    line = "password=hunter22 hf_abcdefghijklmnopqrstuv tail\n"
    rest = "x y\n" * 70_000 + "RuntimeError: boom\n"
    container.output.write_text("head\n" + line + rest[-(262144 - len(line) + cut) :])
    container.run()
    (text,) = intake.wait_for_reports("61", 1).logs.values()
    assert text.endswith(b"RuntimeError: boom\n")
    assert not any(part in text for part in (b"hunter22", b"abcdef", b"uv tail"))


@pytest.mark.parametrize("change", ["timeout = 10s", "wait = 1d", "wait = 0.5h", "URL", "url:", " url", "CRLF"])
def test_settings_are_read_as_python_reads_them(container: Container, intake: Intake, change: str) -> None:
    text = container.config.read_text()
    if change == "CRLF":
        text = text.replace("\n", "\r\n")
    elif "=" in change:
        text += change + "\n"
    else:
        text = text.replace("url =", change if ":" in change else f"{change} =")
    container.config.write_bytes(text.encode())
    container.run()
    intake.wait_for_reports("61", 1, seconds=15)


@pytest.mark.parametrize(
    "wrong",
    [
        "writable",
        pytest.param("owner", marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")),
    ],
)
def test_settings_that_somebody_else_may_write_are_not_obeyed(container: Container, intake: Intake, wrong: str) -> None:
    """Neither its commands are run nor its log is written to; syslog says why."""
    if wrong == "writable":
        container.config.chmod(0o666)
    else:
        os.chown(container.config, 12345, 12345)
    heard, ran = container.folder / "syslog", container.folder / "ran"
    for tool, script in (("logger", f'echo "$*" >>{heard}'), ("scontrol", f"echo >{ran}")):
        (container.tools / tool).unlink()
        (container.tools / tool).write_text(f"#!{container.tools}/sh\n{script}\n")
        (container.tools / tool).chmod(0o755)
    assert container.run().returncode == 0
    time.sleep(2)
    assert container.shell == "busybox" or "writable by nobody else" in heard.read_text()  # it has a logger of its own
    assert (ran.exists(), container.log.exists(), intake.requests) == (False, False, [])


def test_its_log_is_for_its_own_eyes(container: Container, intake: Intake) -> None:
    container.run()
    container.said("incident")
    assert container.log.stat().st_mode & 0o777 == 0o600


def test_the_command_line_of_curl_holds_no_secret(container: Container, intake: Intake) -> None:
    seen, curl = container.folder / "arguments", container.tools / "curl"
    real = curl.resolve()
    curl.unlink()
    curl.write_text(f'#!{container.tools}/sh\necho "$*" >>{seen}\nexec {real} "$@"\n')
    curl.chmod(0o755)
    container.config.write_text(container.config.read_text() + f"proxy = http://me:hunter22@{intake.url[7:]}\n")
    container.run()
    container.said("61")
    assert not any(secret in seen.read_text() for secret in ("hunter22", TOKEN))
    assert intake.requests[0][1].startswith("http://127.0.0.1"), "the proxy was asked"


def running(words: str) -> list[str]:
    """The command lines of processes with these words in them."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = process.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue
        if words in line and "pytest" not in line:
            found.append(line)
    return found


def test_nothing_of_it_stays_behind_a_job_that_worked(container: Container) -> None:
    container.record("COMPLETED")
    container.config.write_text(container.config.read_text().replace("wait = 20s", "wait = 7777"))
    container.run()
    until = time.monotonic() + 15
    while running("sleep 8077"):
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.parametrize("limited", [True, False], ids=["timeout", "no timeout"])
def test_an_scontrol_that_hangs_is_ended_with_all_that_it_started(container: Container, limited: bool) -> None:
    name = f"sleep 43{os.getpid()}{int(limited)}"
    (container.tools / "scontrol").write_text(f"#!{container.tools}/sh\n{'exec ' * limited}{name}\n")
    if limited:
        real = shutil.which("busybox" if container.shell == "busybox" else "timeout")
        assert real
        (container.tools / "timeout").symlink_to(real)
    hook = container.hook.read_text().replace("KILL 30", "KILL 1").replace("wait + 300", f"{20 if limited else 2}")
    container.hook.write_text(hook)
    container.run()
    until = time.monotonic() + 15
    while not running(name):  # it runs for a second at least
        assert time.monotonic() < until
        time.sleep(0.02)
    if not limited:
        assert "gave up" in container.said("gave up")[-1]
    until = time.monotonic() + 15
    while running(name):
        assert time.monotonic() < until
        time.sleep(0.1)


def told(container: Container, intake: Intake, out: Path, err: Path | None = None, **env: str) -> Seen:
    """What the service hears of a job with these outputs."""
    record = container.folder / "record"
    head, _, _ = record.read_text().partition(" StdErr=")
    record.write_text(f"{head} StdErr={err or out} StdIn=/dev/null StdOut={out} Power= TresPerNode=gpu:8\n")
    container.run(**env)
    return intake.wait_for_reports("61", 1, seconds=15)


def unread(seen: Seen) -> object:
    return seen.closings[-1]["job"].get("unread")


@pytest.mark.parametrize("way", ["environment", "record"])
def test_a_log_of_an_earlier_job_is_not_sent_as_this_ones(container: Container, intake: Intake, way: str) -> None:
    now = time.time()
    env = {}
    if way == "environment":
        env = {"SLURM_JOB_START_TIME": str(int(now - 60))}
    else:
        record, start = container.folder / "record", time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now - 60))
        record.write_text(record.read_text().replace(" StdErr=", f" StartTime={start} StdErr="))
    os.utime(container.output, (now - 86400, now - 86400))
    seen = told(container, intake, container.output, None, **env)
    assert (seen.logs, unread(seen)) == ({}, ["n1: train-61.out: not written since the job began"])
    os.utime(container.output, (now - 70, now - 70))  # a file server's clock
    seen = told(container, intake, container.output, None, **env)
    until = time.monotonic() + 10
    while not seen.logs:
        assert time.monotonic() < until
        time.sleep(0.1)


def test_two_logs_of_one_name_are_both_kept(container: Container, intake: Intake) -> None:
    out, err = (container.folder / folder / "train.log" for folder in ("out", "err"))
    for path, text in ((out, "RuntimeError: here\n"), (err, "a warning\n")):
        path.parent.mkdir()
        path.write_text(text)
    seen = told(container, intake, out, err)
    assert seen.logs == {"train.log": b"RuntimeError: here\n", "stderr/train.log": b"a warning\n"}


def test_no_name_is_longer_than_the_service_takes(container: Container, intake: Intake) -> None:
    out = container.output.rename(container.folder / ("n" * 240 + ".log"))
    (name,) = told(container, intake, out).logs
    assert len(name) <= 190
    assert name.endswith("nnn.log")


def test_a_path_may_have_spaces(container: Container, intake: Intake) -> None:
    (container.folder / "my runs").mkdir()
    out = container.output.rename(container.folder / "my runs" / "train 61.out")
    assert b"RuntimeError" in told(container, intake, out).logs["train_61.out"]


@pytest.mark.parametrize("name", ["train-%t.out", "no-such.out"])
def test_an_output_that_is_not_sent_is_told_of(container: Container, intake: Intake, name: str) -> None:
    seen = told(container, intake, container.folder / name)
    why = "its name differs by node or task" if "%" in name else "no file that the job's user owns and reaches"
    assert why in str(unread(seen))
    assert seen.logs == {}


def test_an_end_without_a_line_end_is_told_by_its_carriage_returns(container: Container, intake: Intake) -> None:
    container.output.write_bytes(b"boom\n" + b"step 1 of 9\r" * 25_000 + b"CUDA error: out of memory")
    (text,) = told(container, intake, container.output).logs.values()
    assert text.endswith(b"\nstep 1 of 9\nCUDA error: out of memory")


def test_an_end_that_is_one_line_is_told_of(container: Container, intake: Intake) -> None:
    container.output.write_bytes(b"boom\n" + b"x" * 300_000 + b"\n")
    seen = told(container, intake, container.output)
    assert (seen.logs, unread(seen)) == ({}, ["n1: train-61.out: its end is one long line"])


def test_no_folders_name_is_taken_for_a_pattern(container: Container, intake: Intake) -> None:
    """A way of `/x /*/*/*/…` would be looked up all over the node."""
    deep = (container.folder / "x ").joinpath(*["*"] * 6)
    deep.mkdir(parents=True)
    out = container.output.rename(deep / "train.out")
    (container.folder / "way").symlink_to(deep)
    assert "train.out" in told(container, intake, container.folder / "way" / out.name).logs


def test_a_secret_is_hidden_whatever_its_bytes_and_the_nodes_language(container: Container, intake: Intake) -> None:
    container.output.write_bytes(b"password=p\xe4hunter22hunter22 token=x\xff\xfehunter22\n" + OUTPUT.encode())
    (text,) = told(container, intake, container.output, LC_ALL="C.UTF-8").logs.values()
    assert b"hunter22" not in text
    assert b"RuntimeError: shard 17 is truncated" in text
