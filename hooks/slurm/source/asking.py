"""Asking Slurm: its commands may hang, say too much, or answer nonsense."""

import collections
import contextlib
import fcntl
import os
import re
import select
import signal
import subprocess
import time
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from hooks.slurm.source.jobs import Attempt, Job, View
from hooks.slurm.source.settings import Settings
from hooks.slurm.source.words import duration, epoch

MOST_ANSWER = 4 << 20  # bytes that a command may say


def output_of(
    command: Sequence[str],
    env: Optional[Mapping[str, str]] = None,
    timeout: float = 10,
    errors: bool = False,
    newest: bool = False,
) -> Tuple[Optional[int], bytes]:
    """(exit status, bytes) of a command; (None, what came) when it did not start, did not end within `timeout` seconds,
    or said more than MOST_ANSWER bytes, at which it is ended. With `newest` it may go on, and what it said last is kept.

    A process that cannot be killed, as one stuck in a driver, is left behind and not waited for.
    """
    until, text, status = time.monotonic() + timeout, bytearray(), None
    try:
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if errors else subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except OSError:
        return None, b""
    says = process.stdout
    assert says is not None  # since it is a pipe
    try:
        ready = select.poll()
        ready.register(says, select.POLLIN)
        while (newest or len(text) <= MOST_ANSWER) and ready.poll(1000 * max(0, until - time.monotonic())):
            piece = os.read(says.fileno(), 1 << 16)
            if not piece:
                status = process.wait(timeout=max(0, until - time.monotonic()))
                break
            text += piece
            if newest and len(text) > 2 * MOST_ANSWER:
                del text[:-MOST_ANSWER]
    except subprocess.TimeoutExpired:
        pass
    finally:
        says.close()
        if status is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
    return status, bytes(text[-MOST_ANSWER:] if newest else text[:MOST_ANSWER])


ANSWER_TIME = 10  # seconds in which a command of Slurm answers
HUNG_TIME = 30  # seconds in which nobody asks again what has not answered


class Slurm:
    """Slurm's commands. Only one worker of a machine asks at a time, and where one got no answer the others do without for a while."""

    hung = False  # whether the last command got no answer in time

    def __init__(self, settings: Settings, lock: Optional[str] = None, attempt: Optional[Attempt] = None) -> None:
        self.lock, self.attempt = lock, attempt
        path = ":".join(filter(None, [settings.slurm_bin, "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin"]))
        self.conf = settings.slurm_conf or os.environ.get("SLURM_CONF") or "/etc/slurm/slurm.conf"
        self.env = {"PATH": path, "SLURM_CONF": self.conf, "LC_ALL": "C"}
        if "TZ" in os.environ:
            self.env["TZ"] = os.environ["TZ"]

    def run(self, *command: str) -> Optional[str]:
        """Text of the command, of one that does not come to an end the whole lines that came; None when it failed or hangs."""
        mark = self.lock and "%s.%s-hangs" % (self.lock, command[0])
        with one_at_a_time(self.lock):
            self.hung = marked_since(mark, time.time() - HUNG_TIME) if mark else False
            if self.hung:
                return None
            began = time.time()
            status, text = output_of(self._found(command), self.env, ANSWER_TIME)
            self.hung = status is None and len(text) < MOST_ANSWER and time.time() - began >= ANSWER_TIME
            if self.hung and mark:
                with contextlib.suppress(OSError):
                    os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
                    os.utime(mark, None)
        if len(text) == MOST_ANSWER:
            return text[: text.rfind(b"\n") + 1].decode("utf-8", "replace")
        return text.decode("utf-8", "replace") if status == 0 else None

    def _found(self, command: Tuple[str, ...]) -> Tuple[str, ...]:
        for folder in self.env["PATH"].split(":"):
            if os.access(os.path.join(folder, command[0]), os.X_OK):
                return (os.path.join(folder, command[0]),) + command[1:]
        return command

    def show(self, job_id: str) -> Optional[View]:
        """The job's View, or None: forgotten, or the controller does not answer."""
        text = self.run("scontrol", "show", "job", "-o", "-d", job_id) or ""
        name, uid = (self.attempt.name, self.attempt.uid) if self.attempt is not None else ("", None)
        if not name and any(line.count(" UserId=") > 1 for line in text.split("\n")):
            name = self._name(job_id)
        if name:  # which may be made to look like more of the record
            text = text.replace("JobName=%s " % name, "JobName= ")
        views = [View.parse(line, uid) for line in text.split("\n")]
        for view in views:
            view.attempt = self.attempt
        # An array or het job prints its other parts too.
        found = next((view for view in views if view.get("JobId") == job_id), None)
        if found is not None and name:
            found["JobName"] = name
        return found

    def _name(self, job_id: str) -> str:
        """The job's name, from where nothing else stands beside it; empty where Slurm does not tell."""
        text = self.run("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%A %j") or ""
        return next((line[len(job_id) + 1 :] for line in text.split("\n") if line.startswith(job_id + " ")), "")

    def accounting(self, job: Job) -> "Account":
        """What slurmdbd has of the attempt that has just ended: see Account."""
        # No names: they may hold anything, also what looks like a state.
        columns = "JobIDRaw,State,ExitCode,Start,End,Elapsed,TotalCPU,MaxRSS,MaxRSSNode,MaxRSSTask,ReqMem,NodeList"
        text = self.run("sacct", "-j", job.id, "-D", "-n", "-P", "-o", columns) or ""
        rows: List[Row] = [
            collections.OrderedDict(zip(columns.split(","), line.split("|"))) for line in text.splitlines()
        ]
        return Account([row for row in rows if len(row) == columns.count(",") + 1], job.id, job.hook_began)

    def nodes(self, names: Sequence[str]) -> List[Tuple[str, str]]:
        """(state, reason) of each node."""
        text = self.run("sinfo", "-N", "-h", "-n", ",".join(names), "-o", "%T|%E") if names else ""
        lines = (line.partition("|") for line in (text or "").splitlines())
        return [(state, reason) for state, bar, reason in lines if bar]

    def scripts(self, job_id: str) -> str:
        """The batch script, and the command lines of the steps where slurmdbd keeps them."""
        script = self.run("scontrol", "write", "batch_script", job_id, "-") or ""
        return script + "\n" + (self.run("sacct", "-j", job_id, "-n", "-P", "-o", "SubmitLine") or "")


Row = Dict[str, str]


class Account:
    """slurmdbd's rows on one attempt of a job: its own first, then those of its steps. Without slurmdbd there are none."""

    def __init__(self, rows: Sequence[Row], job_id: str, ended: float) -> None:
        def distance(row: Row) -> float:
            return abs((epoch(row["End"]) or 0) - ended)

        attempts = [row for row in rows if row["JobIDRaw"] == job_id and epoch(row["End"])]
        own = min(attempts, key=distance, default=None)
        self.rows: List[Row] = []
        if own and distance(own) <= MOST_DISTANCE:
            self.rows.append(own)
            began, over = epoch(own["Start"]) or 0, epoch(own["End"]) or 0
            steps = [row for row in rows if row["JobIDRaw"].startswith(job_id + ".")]
            self.rows += [row for row in steps if began <= (epoch(row["Start"]) or 0) <= over]

    @property
    def state(self) -> str:
        """The job's state, such as `FAILED` or `CANCELLED by 1001`; empty where it is not known."""
        return self.rows[0]["State"] if self.rows else ""

    @property
    def canceller(self) -> str:
        """The uid of who cancelled the job, as text; empty where nobody did."""
        found = re.match(r"CANCELLED by (\d+)\Z", self.state)
        return found.group(1) if found else ""

    def facts(self) -> Dict[str, int]:
        """CPU seconds of the whole attempt, and the memory in bytes of the task that took most, where they are known."""
        if not self.rows:
            return {}
        peaks = [number for number in map(_bytes, (row["MaxRSS"] for row in self.rows)) if number]
        seconds = duration(self.rows[0]["TotalCPU"].partition(".")[0])
        known = {"cpu_seconds": seconds, "peak_memory_bytes": max(peaks, default=None)}
        return {key: value for key, value in known.items() if value is not None}

    def table(self) -> bytes:
        """The rows as sacct prints them for programs, as bytes; empty where there are none.

        Who cancelled stands in the job's own row only: a step is cancelled by Slurm itself as well, in a person's name.
        """
        rows = self.rows[:1] + [dict(row, State=row["State"].partition(" by ")[0]) for row in self.rows[1:]]
        lines = (
            ["|".join(self.rows[0])] + ["|".join(row[name] for name in self.rows[0]) for row in rows] if rows else []
        )
        return "".join(line + "\n" for line in lines).encode("utf-8", "replace")


MOST_DISTANCE = 120  # seconds between an attempt's end as slurmdbd has it and the run of its hook


def _bytes(text: str) -> Optional[int]:
    """Bytes of sacct's `403144K`; None for anything else."""
    found = re.match(r"(\d{1,18}(?:\.\d+)?)([KMGT]?)\Z", text)
    return int(float(found.group(1)) * 1024 ** " KMGT".index(found.group(2) or " ")) if found else None


def marked_since(path: str, since: float) -> bool:
    """Whether somebody touched the file since then, in seconds since 1970."""
    try:
        return os.stat(path).st_mtime >= since
    except OSError:
        return False


@contextlib.contextmanager
def one_at_a_time(path: Optional[str]) -> Iterator[None]:
    """Hold the lock file while in here; go on without it where it cannot be had."""
    lock = None
    try:
        if path:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        pass
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)
