"""Lines of a node's journal: the host that wrote them, and the program that spoke."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LINE = re.compile(
    r"^(?:<\d{1,3}>\d? ?)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*) "
    r"(?P<host>[A-Za-z0-9][\w.-]*) (?P<program>[A-Za-z][\w./@()-]*?)(?:\[\d+\])?: "
)
_OF_A_JOB = re.compile(r"(?i)python|torchrun|train|deepspeed|mpi|^srun|^bash$|^sh$")


def host_of_line(line: str) -> str | None:
    """The host that a journal's line names; None where the line is of another form."""
    found = _LINE.match(line)
    return found["host"] if found else None


def split_job_line(line: str) -> tuple[str, str] | None:
    """The host and the words of a job's process whose output went into the journal; None where the line is of another form."""
    found = _LINE.match(line)
    if found is None or not line[: found.end()].endswith("]: ") or not _OF_A_JOB.search(found["program"]):
        return None
    return found["host"], line[found.end() :]


def is_kernel_line(line: str) -> bool:
    """Whether the kernel speaks in a journal's line."""
    found = _LINE.match(line)
    return found is not None and found["program"] == "kernel"


def is_journal(lines: Sequence[str]) -> bool:
    """Whether most lines are a journal's, of services of the node rather than of a job that logs there."""
    found = [line for line in map(_LINE.match, lines) if line]
    of_jobs = sum(_OF_A_JOB.search(line["program"]) is not None for line in found)
    return len(found) > 0.6 * len(lines) and 3 * of_jobs < len(found)
