"""Facts of the node: what its kernel, GPUs and daemons say about the job."""

import os
import re
import time
from typing import Dict, List, Optional

from hooks.slurm.source.asking import output_of
from hooks.slurm.source.jobs import Job
from hooks.slurm.source.verdict import KILL_WINDOW
from hooks.slurm.source.words import hosts

GPU_FIELDS = (
    "index,name,uuid,pci.bus_id,pstate,temperature.gpu,memory.used,memory.total,ecc.errors.uncorrected.volatile.total"
)


def kernel_log(env: Dict[str, str], since: float) -> Optional[bytes]:
    """The kernel's lines since then, as bytes; None where we may not read them."""
    status, text = output_of(["dmesg", "--time-format", "iso"], env, newest=True)
    if status == 0 and text:
        oldest = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since)).encode()
        return b"".join(line for line in text.splitlines(True) if line[:19] >= oldest)
    asked = ["journalctl", "-k", "-q", "--no-pager", "-o", "short-iso-precise", "-n", "20000", "--since", "@%d" % since]
    by_journal, text = output_of(asked, env, newest=True)
    return text if by_journal == 0 else b"" if status == 0 else None


def of_this_job(text: bytes, job_id: str) -> bytes:
    """Kernel lines without the reports of the OOM killer that name another job's control group."""
    kept: List[bytes] = []
    report: Optional[List[bytes]] = None
    for line in text.splitlines(True):
        if b" invoked oom-killer:" in line:
            kept += _unless_others(report or [], job_id)
            report = []
        if report is None:
            kept.append(line)
            continue
        report.append(line)
        if b"Killed process " in line:
            kept += _unless_others(report, job_id)
            report = None
    return b"".join(kept + _unless_others(report or [], job_id))


def _unless_others(report: List[bytes], job_id: str) -> List[bytes]:
    jobs = set(re.findall(rb"/job_(\d+)\b", b"".join(report)))
    return [] if jobs and job_id.encode() not in jobs else report


def gpu_state(env: Dict[str, str]) -> bytes:
    """What nvidia-smi says, errors included: a lost GPU shows as one."""
    status, listed = output_of(["nvidia-smi", "-L"], env, timeout=20, errors=True)
    if not listed:
        hangs = status is None and found_in(env["PATH"], "nvidia-smi")
        return b"nvidia-smi did not answer within 20 s\n" if hangs else b""
    query = ["nvidia-smi", "--query-gpu=" + GPU_FIELDS, "--format=csv"]
    return listed + output_of(query, env, timeout=20, errors=True)[1]


def found_in(path: str, command: str) -> bool:
    """Whether one of the folders of a PATH has the command."""
    return any(os.access(os.path.join(folder, command), os.X_OK) for folder in path.split(":"))


def slurmd_lines(path: str, job: Job) -> bytes:
    """The lines of slurmd's log about this attempt: exits of tasks, with times."""
    number = job.id.encode()
    about = re.compile(rb"\[(?:job )?%s[.\]]|(?:JobId=|StepId=|job )%s\b" % (number, number))
    return b"".join(line for line in _daemons_lines(daemons_log(path, job), job.started) if about.search(line))


def daemons_log(path: str, job: Job) -> str:
    """slurmd's log of this node: Slurm's own letters in its settings are filled in."""
    return path.replace("%n", job.node).replace("%h", job.host)


NODE_TROUBLE = re.compile(
    rb"\b[Nn]odes? (?P<nodes>[\w.,\[\]-]+) (?:not responding|state set to|reason set to|unexpectedly rebooted|.{0,40}rebooted)"
)


def slurmctld_lines(path: str, job: Job, most: int) -> bytes:
    """The lines of slurmctld's log about this attempt and about what became of its nodes, at most so many bytes."""
    number, nodes = job.id.encode(), set(job.nodes)
    kept: List[bytes] = []
    about = re.compile(rb"(?:JobId|StepId|job_id)[ =]%s\b" % number)
    over, near = (
        time.strftime("[%Y-%m-%dT%H:%M:%S", time.localtime(job.ended - before)).encode() if job.ended else b""
        for before in (1, KILL_WINDOW)
    )
    for line in _daemons_lines(path, job.started):
        trouble = None if about.search(line) else NODE_TROUBLE.search(line)
        if trouble and nodes.intersection(hosts(trouble.group("nodes").decode("utf-8", "replace"), 10000)):
            kept.append(line)
        elif trouble is None and about.search(line):
            if b"REQUEST_KILL_JOB" in line and line < near:
                continue  # a signal, as for a checkpoint: it did not end the job
            kept.append(line)
            if b"Requeuing JobId=%s" % number in line and over and line >= over:
                break  # what follows is about the next attempt
    text = b"".join(kept)
    return text if len(text) <= most else text[-most:].partition(b"\n")[2]


def _daemons_lines(path: str, since: Optional[float]) -> List[bytes]:
    """The last lines of a daemon's log, from then on. Its times are local ones: `[2026-11-30T08:05:38.915] …`."""
    try:
        with open(path, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - (8 << 20)))
            text = log.read()
    except (OSError, ValueError):
        return []
    oldest = time.strftime("[%Y-%m-%dT%H:%M:%S", time.localtime(since)).encode() if since else b""
    return [line for line in text.splitlines(True) if line[:1] != b"[" or line[: len(oldest)] >= oldest]
