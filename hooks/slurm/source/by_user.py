"""Without a site's help: jobs watched and commands wrapped by their own user."""

import contextlib
import fcntl
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from typing import List, Optional, Sequence, Tuple

from hooks.slurm.source.asking import Slurm
from hooks.slurm.source.evidence import Evidence
from hooks.slurm.source.finding import step_patterns
from hooks.slurm.source.jobs import Job, View
from hooks.slurm.source.logs import log_name
from hooks.slurm.source.service import Report
from hooks.slurm.source.settings import Settings
from hooks.slurm.source.spool import Spool, deliver
from hooks.slurm.source.verdict import FAILURES, Signs, by_reason, cancelled
from hooks.slurm.source.words import LIVE, whole
from hooks.slurm.source.workers import decide, too_long

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FORWARDED = STOPPING + (signal.SIGUSR1, signal.SIGUSR2)
# What stops, continues or is no matter to a process, or tells of a fault of its own. Any other signal would end us.
LEFT_ALONE = {
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
    signal.SIGWINCH, signal.SIGURG, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT,
    signal.SIGTRAP, signal.SIGSYS,
}  # fmt: skip
MOST_DELAY = 30  # seconds that a failed command may end later
GRACE = 3  # seconds in which the other ranks of a node may tell how they ended


def job_of(view: View) -> Job:
    """The Job of Slurm's own record, for one who is not called by Slurm and reports alone."""
    user, _, uid = view.text("UserId").partition("(")
    gid = view.text("GroupId").partition("(")[2]
    named = {"ID": view["JobId"], "USER": user, "UID": uid.partition(")")[0], "GID": gid.partition(")")[0],
             "NODELIST": view.text("NodeList"), "WORK_DIR": view.text("WorkDir"), "STDOUT": view.text("StdOut"),
             "STDERR": view.text("StdErr")}  # fmt: skip
    job = Job({"SLURM_JOB_" + name: value for name, value in named.items()}, "node")
    job.alone = True
    return job


def follow(settings: Settings, spool: Optional[Spool], job_id: str) -> int:
    """Wait for the job's end and report each attempt that failed. Returns 0 where none did, 1 else."""
    slurm = Slurm(settings, spool.lock if spool else None)
    pause, silent, failed = 2.0, 0, False
    seen: Optional[View] = None
    while silent < (8 if seen else 3):
        view = slurm.show(job_id)
        silent = 0 if view else silent + 1
        if view and seen and view.restarts > seen.restarts:
            failed |= report_as_user(settings, spool, slurm, view, seen)
        if view and view.state not in LIVE | {"COMPLETING"}:
            return 1 if report_as_user(settings, spool, slurm, view, view) or failed else 0
        seen = view or seen
        time.sleep(15 if slurm.hung else pause)
        pause = min(pause * 1.2, 15)
    raise ValueError("Slurm knows no job %s" % job_id)


def report_as_user(settings: Settings, spool: Optional[Spool], slurm: Slurm, view: View, first: View) -> bool:
    """Whether the attempt failed, once that is reported."""
    job, requeued = job_of(view), view.requeued(time.time())
    job.learn(view, requeued)
    evidence = Evidence(settings, job)
    evidence.collect(evidence.patterns() + step_patterns(slurm.scripts(job.id), job), failed=view.state in FAILURES)
    tail = evidence.batch_tail()
    signs = Signs(first, view, output=None if tail is None else cancelled(tail, job.id))
    verdict, state, reason = decide(signs, job, slurm, settings)
    failed, how = verdict == "failure", state + (", %s" % reason if reason else "")
    what = "failed (%s)" % how if failed else "did not fail (%s): nothing to report" % how
    print("job %s attempt %d %s" % (job.id, job.restarts, what), flush=True)
    if failed:
        arrived, told = send_evidence(settings, spool, evidence, job, state, reason)
        print(told, file=sys.stdout if arrived else sys.stderr, flush=True)
    return failed


def send_evidence(
    settings: Settings,
    spool: Optional[Spool],
    evidence: Evidence,
    job: Job,
    state: str,
    reason: str,
    patience: float = 120,
) -> Tuple[bool, str]:
    """Report the job with what was found of it, which waits in the spool when the service is away for `patience` seconds.

    Returns what `deliver` returns.
    """
    facts = evidence.facts(state, reason)
    return deliver(Report.about(job, facts, job.host, "node", evidence.logs()), settings, spool, patience)


def wrap(config: str, command: Sequence[str]) -> int:
    """Run the command, and tell of its failure before ending as it did. Whatever goes wrong here is one line on stderr."""
    stopped: List[int] = []
    early: List[int] = []
    running: "List[subprocess.Popen[bytes]]" = []
    witness = Witness()

    def arrived(number: int, _: object) -> None:
        if number in STOPPING:
            stopped.append(number)
        if number not in FORWARDED:
            return
        if not running:
            early.append(number)
        elif not witness.saw(number):
            running[0].send_signal(number)

    for number in set(range(1, signal.NSIG)) - LEFT_ALONE:
        with contextlib.suppress(OSError, ValueError):
            if signal.getsignal(number) != signal.SIG_IGN:  # what is ignored, as under nohup, the command ignores too
                signal.signal(number, arrived)
    try:
        running.append(subprocess.Popen(command))
    except OSError as error:
        witness.close()
        print("firstfault-hook: %s: %s" % (command[0], error.strerror), file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126
    child = running[0]
    for number in early:
        child.send_signal(number)
    status = child.wait()
    witness.close()
    if status:
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(MOST_DELAY)
        try:
            report_command(config, status, child.pid, bool(stopped))
        except Exception as error:
            print("firstfault-hook: not reported: %s" % error, file=sys.stderr)
        signal.alarm(0)
    if status < 0:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has left its own
        signal.signal(-status, signal.SIG_DFL) if -status not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -status)
    return status if status >= 0 else 128 - status


class Witness:
    """A process beside the command that waits for its end: a signal that has ended it was sent to the command as well, as
    Slurm and a terminal do, and one that has not was meant for the wrapper alone."""

    def __init__(self) -> None:
        self.pid: Optional[int] = None
        with contextlib.suppress(OSError):
            self._start()

    def _start(self) -> None:
        ends, self.held = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            for number in FORWARDED:
                if signal.getsignal(number) != signal.SIG_IGN:
                    signal.signal(number, signal.SIG_DFL)
            for standard in {0, 1, 2, self.held} - {ends}:
                with contextlib.suppress(OSError):
                    os.close(standard)
            os.read(ends, 1)
            os._exit(0)
        os.close(ends)

    def saw(self, number: int) -> bool:
        """Whether the signal was sent to others as well."""
        if self.pid is None:
            return True
        time.sleep(0.1)  # who signals many does so one by one
        with contextlib.suppress(OSError):
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                os.close(self.held)
                self.pid = None
                self._start()
                return True
        return False

    def close(self) -> None:
        """End the process."""
        if self.pid is not None:
            with contextlib.suppress(OSError):
                os.close(self.held)
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        self.pid = None


def report_command(config: str, status: int, pid: int, stopped: bool) -> None:
    """Report for the first of a node's ranks that failed; those that fail meanwhile leave it how they ended.

    Where the command was told to stop, or its job is being ended, it is no failure unless Slurm's reason says so.
    """
    env = os.environ
    if whole(env.get("SLURM_JOB_ID")) is None:
        raise ValueError("no Slurm job is around; see firstfault report")
    settings = Settings(config)
    settings.timeout, settings.scan_time = min(settings.timeout, 5), min(settings.scan_time, 8)
    line = None
    if env.get("SLURM_STEP_ID", "").isdigit() and env.get("SLURM_PROCID", "").isdigit():
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now)) + ".%03d" % (now % 1 * 1000)
        how = "exited with exit code %d." % status if status > 0 else "exited. Killed by signal %d." % -status
        line = "[%s] [%s.%s] task %s (%d) %s\n" % (
            stamp, env["SLURM_JOB_ID"], env["SLURM_STEP_ID"], env["SLURM_PROCID"], pid, how)  # fmt: skip
    ends = None
    if line:  # else it has no other ranks beside it
        ends = os.path.join(env.get("TMPDIR") or "/tmp", "firstfault-%d-%s-%s-%s" % (
            os.getuid(), env["SLURM_JOB_ID"], env.get("SLURM_RESTART_COUNT", "0"), env["SLURM_STEP_ID"]))  # fmt: skip
    told, leads = told_together(ends, line)
    if not leads:
        return
    slurm = Slurm(settings)
    view, state = slurm.show(env["SLURM_JOB_ID"]), "FAILED"
    if stopped or (view and view.state != "RUNNING"):
        state = by_reason([view] if view else [])
        if not state:
            return
    time.sleep(GRACE)
    job = job_of(view) if view else Job(env, "node")
    job.uid, job.gid = os.getuid(), os.getgid()
    if view:
        job.learn(view, False)
    job.node, job.ended, job.alone = env.get("SLURMD_NODENAME") or job.host, time.time(), True
    job.exit_code = "%d:%d" % (max(status, 0), max(-status, 0))
    evidence = Evidence(settings, job)
    evidence.collect(evidence.patterns() + step_patterns(slurm.scripts(job.id), job), failed=True)
    evidence.add_node_facts(slurm.env)
    if line:
        text = line.encode()
        if told is not None:
            fcntl.flock(told, fcntl.LOCK_UN)  # who finds it locked has left its line already
            text = os.pread(told, settings.file_bytes, 0)
        evidence.keep_text(log_name("slurmd.log", "", job.node), text)
    arrived, words = send_evidence(
        settings, Spool(settings).prepare_or_none(), evidence, job, state, "told by firstfault-hook wrap", patience=15
    )
    if not arrived:
        print("firstfault-hook: %s" % words, file=sys.stderr)


def told_together(path: Optional[str], line: Optional[str]) -> Tuple[Optional[int], bool]:
    """(descriptor of the file in which a node's ranks tell how they ended, whether this one reports), once it has its line.

    Who reports holds the file's lock until it reads the lines, so that who comes later than that reports anew, with all of
    them. (None, True) for one that is alone, or where somebody else has laid something there.
    """
    if not path or not line:
        return None, True
    told = None
    try:
        told = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        facts = os.fstat(told)
        if facts.st_uid == os.getuid() and stat.S_ISREG(facts.st_mode):
            os.write(told, line.encode())
            fcntl.flock(told, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return told, True
    except BlockingIOError:
        return told, False
    except OSError:
        pass
    if told is not None:
        os.close(told)
    return None, True
