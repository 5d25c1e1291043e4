"""The verdict: whether a job failed, from the sources of truth in their order."""

import os
import re
from typing import Optional, Sequence, Tuple

from hooks.slurm.source.jobs import View
from hooks.slurm.source.words import LIVE, base_state, code_and_signal, epoch

FAILURES = {"FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "LAUNCH_FAILED"}
REASONS = {"NonZeroExitCode": "FAILED", "RaisedSignal": "FAILED", "JobLaunchFailure": "FAILED", "SystemFailure": "FAILED",
           "TimeLimit": "TIMEOUT", "InactiveLimit": "TIMEOUT", "OutOfMemory": "OUT_OF_MEMORY", "NodeDown": "NODE_FAIL",
           "DeadLine": "DEADLINE", "launch_failed_requeued_held": "LAUNCH_FAILED"}  # fmt: skip
ASKED_TO_STOP = {1, 2, 9, 10, 12, 15}  # signals that a person or a tool sends


class Signs:
    """All that a verdict may rest on. No site and no version of Slurm gives everything.

    first, last   View right after the hook ran, and the latest one
    jobcomp       JOBSTATE, from the JobComp script
    exit_code     `code:signal` of the hook's environment: 0:0 for everything that was killed
    output        why the job's output says it was cancelled (see `cancelled`); None where we cannot read it
    killer        uid that asked to kill it just before its end, "prolog" for a failed PrologSlurmctld, "" for neither,
                  None without slurmctld's log
    nodes         (state, reason) of its nodes
    accounting    state word of slurmdbd
    """

    def __init__(
        self,
        first: "Optional[View]" = None,
        last: "Optional[View]" = None,
        jobcomp: str = "",
        exit_code: str = "",
        output: Optional[str] = None,
        killer: Optional[str] = None,
        nodes: Sequence[Tuple[str, str]] = (),
        accounting: str = "",
    ) -> None:
        self.first, self.last, self.jobcomp, self.exit_code = first, last, jobcomp, exit_code
        self.output, self.killer, self.nodes, self.accounting = output, killer, nodes, accounting

    def requeued(self, now: float) -> bool:
        """Whether one of the views tells that this attempt was put back into the queue; `now` in seconds since 1970."""
        return any(view is not None and view.requeued(now) for view in (self.first, self.last))

    @property
    def early(self) -> "Optional[View]":
        """The first view where it speaks of the attempt that has ended."""
        if self.first is None or self.first.of_later_attempt():
            return None
        last = self.last
        if last is not None and last.get("SubmitTime") == self.first.get("SubmitTime") and last.of_later_attempt():
            return None
        return self.first

    def undecided(self, now: float) -> bool:
        """Whether Slurm's own word does not say how this attempt ended."""
        if base_state(self.jobcomp) not in LIVE | {""}:
            return False
        return self.requeued(now) or self.last is None or self.last.state in ("", "COMPLETING")


def judge(signs: Signs, now: float, preempted: bool = False, failed_steps: bool = False) -> Tuple[str, str, str]:
    """(verdict, state, reason): verdict is "failure", "none", or "unsure" where only the batch host can tell.

    The exit code alone decides nothing: it is 0:0 for time limit, node failure, cancel, preemption and requeue alike.
    `preempted` and `failed_steps` are the site's wish to hear of those too.
    """
    views = [view for view in (signs.first, signs.last) if view is not None]
    reason = next((view.text("Reason") for view in reversed(views) if view.text("Reason")), "")
    word = base_state(signs.jobcomp)
    if word in LIVE | {""}:
        if signs.requeued(now):
            word = _why_requeued(signs)
            early = signs.early
            reason = early.text("Reason") if early is not None else ""
        else:
            word = signs.last.state if signs.last is not None else ""
            if word in ("", "COMPLETING"):
                word = base_state(signs.accounting) or by_reason(views) or _by_code(signs)
    if word == "FAILED":
        record = None if signs.requeued(now) else signs.last
        code, number = code_and_signal(signs.exit_code if record is None else record.get("ExitCode"))
        stopped = number in ASKED_TO_STOP or code - 128 in ASKED_TO_STOP
        if stopped and (signs.killer or "").isdigit():
            return "none", "CANCELLED", "cancelled by uid %s" % signs.killer
        if signs.output == "person":
            return "none", "CANCELLED", "cancelled by a person"
        if number in ASKED_TO_STOP and signs.output is None and signs.killer is None:
            return "unsure", word, reason
    if word in FAILURES:
        return "failure", word, reason
    if word == "PREEMPTED" and preempted:
        return "failure", word, reason
    of_steps = None if signs.last is None else signs.last.get("DerivedExitCode")
    if word == "COMPLETED" and failed_steps and code_and_signal(of_steps) != (0, 0):
        return "failure", word, "a step failed"
    return "none", word or "UNKNOWN", reason


def by_reason(views: "Sequence[View]") -> str:
    """The state that the first reason of Slurm's which stands for one means; empty where none does."""
    words = [REASONS.get(view.get("Reason", "").partition(":")[0], "") for view in views]
    return next((word for word in words if word), "")


def _by_code(signs: Signs) -> str:
    return "FAILED" if code_and_signal(signs.exit_code) != (0, 0) else ""


def _why_requeued(signs: Signs) -> str:
    """The state that the finished attempt would have had."""
    early = signs.early
    told = by_reason([early] if early is not None else [])
    if told:
        return told
    if signs.last is not None and signs.last.get("Reason", "").startswith("launch_failed_requeued"):
        return "LAUNCH_FAILED"
    meant = {"node": "NODE_FAIL", "preemption": "PREEMPTED", "requeue": "REQUEUED", "person": "REQUEUED"}
    word = meant.get(signs.output or "") or base_state(signs.accounting) or _by_code(signs)
    if word:
        return word
    if signs.killer == "prolog":
        return "LAUNCH_FAILED"
    for state, why in signs.nodes:
        if "rolog error" in why and "Epilog" not in why:
            return "LAUNCH_FAILED"
        if state.lower().startswith(("down", "fail")):
            return "NODE_FAIL"
    return "REQUEUED"


def cancelled(text: bytes, job_id: str) -> str:
    """Why the batch script's output says the job was ended from outside: "person", "time", "node", "preemption",
    "requeue", "other"; "" where it does not. The STEP line is no such sign: srun prints it for its own kills too."""
    line = rb"\*\*\* JOB %s ON \S+ CANCELLED AT \S+(?: DUE TO ([^*\n]*?))? \*\*\*" % job_id.encode()
    found = None
    for found in re.finditer(line, text, re.IGNORECASE):
        pass
    if not found:
        return ""
    why = (found.group(1) or b"").upper()
    kinds = ((b"TIME LIMIT", "time"), (b"NODE FAIL", "node"), (b"PREEMPTION", "preemption"), (b"REQUEUE", "requeue"))
    known = next((kind for words, kind in kinds if words in why), "")
    return known or ("person" if not why or why.startswith(b"SIGNAL") else "other")


KILL_WINDOW = 120  # seconds before a job's end in which a request to kill it may have caused that


def killer_in_log(path: str, job_id: str, ended: Optional[float]) -> Optional[str]:
    """What slurmctld's log says of the job's end: see Signs.killer."""
    try:
        with open(path, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - (4 << 20)))
            text = log.read().decode("utf-8", "replace")
    except (OSError, TypeError):
        return None
    killer = ""
    signs = r"REQUEST_KILL_JOB JobId=%s uid (\d+)|prolog_slurmctld JobId=%s prolog exit|(Requeuing) JobId=%s\b"
    pattern = r"^\[([^\]]+)\].*?(?:" + signs.replace("%s", job_id) + ")"
    for stamp, uid, requeued in re.findall(pattern, text, re.MULTILINE):
        when = epoch(stamp)
        after = 0 if when is None or ended is None else when - ended
        if requeued and after >= -1:
            break  # what follows is about the next attempt
        # A signal long before, for a checkpoint say, is no kill.
        if requeued or -KILL_WINDOW <= after <= 5:
            killer = "" if requeued else uid or "prolog"
    return killer
