"""Slurm waits for its hooks and drains the node of one that fails: ours answers 0 at once, whatever happens."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster.hooks import HOOK
from tests.hooks.conftest import INTERPRETERS, head_for

EPILOG = {"SLURM_SCRIPT_CONTEXT": "epilog_slurmd", "SLURM_JOB_ID": "7", "SLURM_JOB_UID": "1001"}

# Stands in for an interpreter: says where it runs, what it holds open, and stays for a while.
WITNESS = """#!/bin/sh
[ "$2" = -c ] && exit 0
ls -l /proc/self/fd >{report}.part
ps -o pid=,pgid=,sid= $$ >>{report}.part
mv {report}.part {report}
exec sleep 3
"""


def called(command: list[str], env: Mapping[str, str], **more: object) -> tuple[int, float]:
    """(exit status, seconds) of a hook called as Slurm does: no PATH, one pipe for all output, read to its end."""
    began = time.monotonic()
    done = subprocess.run(  # type: ignore[call-overload]
        command,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=30,
        **more,
    )
    assert done.stdout == b""
    return done.returncode, time.monotonic() - began


def witnessed(tmp_path: Path) -> tuple[Path, Path]:
    """A hook with a witness for an interpreter, and where the witness reports."""
    report = tmp_path / "report"
    witness = tmp_path / "python3"
    witness.write_text(WITNESS.format(report=report))
    witness.chmod(0o755)
    return head_for(witness, tmp_path), report


def test_it_answers_0_within_200_ms_while_the_work_goes_on(tmp_path: Path) -> None:
    hook, report = witnessed(tmp_path)
    answers = [called([str(hook)], EPILOG) for _ in range(5)]
    assert {status for status, _ in answers} == {0}
    assert min(seconds for _, seconds in answers) < 0.2
    wait_for(report)


def test_what_goes_on_is_out_of_slurms_reach(tmp_path: Path) -> None:
    hook, report = witnessed(tmp_path)
    inherited = os.memfd_create("slurmd's", 0)
    os.set_inheritable(inherited, True)
    slurm = subprocess.Popen([str(hook)], env=EPILOG, start_new_session=True, stdout=subprocess.PIPE)
    assert slurm.wait(10) == 0
    group = slurm.pid
    wait_for(report)
    *files, ids = report.read_text().strip().splitlines()
    _, its_group, its_session = map(int, ids.split())
    assert group not in (its_group, its_session)
    assert not any("pipe:" in file for file in files)
    assert slurm.stdout
    assert slurm.stdout.read() == b""  # closed already: nobody else holds it
    with pytest.raises(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    os.close(inherited)


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_python_leaves_by_itself_where_there_is_no_setsid(tmp_path: Path, interpreter: str) -> None:
    log = tmp_path / "hook.log"
    config = tmp_path / "hook.conf"
    config.touch(mode=0o600)
    config.write_text(f"[hook]\nurl = https://127.0.0.1:9\ntoken = x\nlog_file = {log}\nspool = /proc/none\nwait = 1\n")
    env = {**EPILOG, "SLURM_SCRIPT_CONTEXT": "prolog_slurmd", "FIRSTFAULT_HOOK_CONFIG": str(config)}
    status, _ = called([interpreter, "-I", str(HOOK)], env)
    assert status == 0
    wait_for(log)
    assert "knows nothing of: prolog_slurmd" in wait_for_text(log, "knows")


def test_an_interpreter_that_hangs_holds_nobody_even_where_there_is_no_setsid(tmp_path: Path) -> None:
    slow, tools = tmp_path / "python3", tmp_path / "tools"
    slow.write_text("#!/bin/sh\nexec sleep 20\n")
    slow.chmod(0o755)
    tools.mkdir()
    for tool in ("date", "sleep"):
        (tools / tool).symlink_to(shutil.which(tool) or "")
    began = time.monotonic()
    with subprocess.Popen(
        [head_for(slow, tmp_path)], env={**EPILOG, "PATH": str(tools)}, start_new_session=True
    ) as slurm:
        assert slurm.wait(15) == 0
        assert time.monotonic() - began < 10
        os.killpg(slurm.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "trouble",
    ["no configuration", "configuration is a folder", "nonsense", "no job id", "no network", "disk full", "no path"],
)
def test_no_trouble_of_ours_becomes_slurms(tmp_path: Path, trouble: str) -> None:
    config = tmp_path / "hook.conf"
    env = {**EPILOG, "FIRSTFAULT_HOOK_CONFIG": str(config)}
    good = (
        f"[hook]\nurl = http://127.0.0.1:9\ntoken = x\nwait = 1\nspool = {tmp_path}/spool\nlog_file = {tmp_path}/log\n"
    )
    match trouble:
        case "configuration is a folder":
            config.mkdir()
        case "nonsense":
            config.write_bytes(os.urandom(4096))
        case "no job id":
            config.write_text(good)
            del env["SLURM_JOB_ID"]
        case "no network":
            config.write_text(good)
        case "disk full":
            config.write_text(
                good.replace(f"{tmp_path}/spool", "/dev/full/spool").replace(f"{tmp_path}/log", "/dev/full")
            )
        case "no path":
            config.write_text(good)
            env["PATH"] = ""
    answers = [called([str(HOOK)], env) for _ in range(3)]
    assert {status for status, _ in answers} == {0}
    assert min(seconds for _, seconds in answers) < 0.5


def test_no_interpreter_is_no_failure_of_the_job(tmp_path: Path) -> None:
    for absent in ("/no/such/python3", "/bin/false"):
        hook = head_for(absent, tmp_path)
        assert called([str(hook)], EPILOG)[0] == 0
        person = subprocess.run([hook, "--version"], capture_output=True, text=True, check=False)
        assert person.returncode == 1
        assert "found no Python 3.6" in person.stderr


def test_an_interpreter_that_is_too_old_or_broken_is_passed_over(tmp_path: Path) -> None:
    hook = head_for(f"/bin/false {INTERPRETERS[0]}", tmp_path)
    told = subprocess.run([hook, "--version"], capture_output=True, text=True, check=False)
    assert told.stdout.startswith("firstfault-hook ")


def small_python(folder: Path, missing: str) -> Path:
    """An interpreter that lacks one module of the standard library."""
    start = (
        f"import sys; sys.modules['{missing}'] = None; a = [each for each in sys.argv[1:] if each != '-I']; "
        "sys.argv = a[:1] + a[2:] if a[0] == '-c' else a; "
        "exec(a[1] if a[0] == '-c' else compile(open(a[0]).read(), a[0], 'exec'), {'__name__': '__main__'})"
    )
    path = folder / "small-python"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{start}" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("missing", ["ssl", "gzip", "tarfile", "http.client", "unicodedata"])
def test_an_interpreter_that_lacks_a_module_is_passed_over_and_named(tmp_path: Path, missing: str) -> None:
    small = small_python(tmp_path, missing)
    passed = subprocess.run(
        [head_for(f"{small} {sys.executable}", tmp_path), "--version"], capture_output=True, text=True, check=False
    )
    assert passed.stdout.startswith("firstfault-hook ")
    alone = subprocess.run([head_for(small, tmp_path), "--check"], capture_output=True, text=True, check=False)
    assert alone.returncode == 1
    assert alone.stderr.count("\n") == 1
    assert str(small) in alone.stderr
    assert missing in alone.stderr


def test_each_module_that_is_needed_is_looked_for_beforehand() -> None:
    text = HOOK.read_text("utf-8")
    asked = {each.strip() for each in text.split("modules='", 1)[1].partition("'")[0].split(",")} | {"sys"}
    needed = {
        name
        for node in ast.parse(text).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names])
    }
    assert needed <= asked


def test_a_machine_that_can_start_no_process_still_gets_0() -> None:
    limited = ["prlimit", "--nproc=1", "/bin/sh", "-c", f"exec {HOOK}"]
    if os.geteuid() == 0:  # root has no such limit
        limited = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *limited]
    path = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
    if subprocess.run([*limited[:-1], f"test -r {HOOK}"], env=path, check=False).returncode:
        pytest.skip("the other user cannot read the hook where it lies")
    assert called(limited, {**EPILOG, **path})[0] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE])
def test_a_signal_at_any_moment_is_answered_with_0(number: signal.Signals) -> None:
    """The shell sets its traps in its first lines; before them only the time of starting it is open."""
    status = set()
    for pause in (0.004, 0.008, 0.016):
        hook = subprocess.Popen([str(HOOK)], env=EPILOG, stdout=subprocess.PIPE, start_new_session=True)
        until = time.monotonic() + pause
        while time.monotonic() < until or (hook.poll() is None and not trapped(hook.pid, number)):
            time.sleep(0.0005)
        hook.send_signal(number)
        status.add(hook.wait(10))
    assert status == {0}


def trapped(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def test_a_person_gets_a_word_of_help_and_an_honest_status() -> None:
    alone = subprocess.run([HOOK], capture_output=True, text=True, check=False)
    assert alone.returncode == 2
    assert alone.stderr.startswith("usage: firstfault-hook")


def wait_for(path: Path, seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"{path.name} never came"
        time.sleep(0.02)


def wait_for_text(path: Path, word: str, seconds: float = 20) -> str:
    until = time.monotonic() + seconds
    while word not in path.read_text():
        assert time.monotonic() < until, path.read_text()
        time.sleep(0.02)
    return path.read_text()
