"""What attempts, array tasks and parts of one job have in common."""

from __future__ import annotations

import re

_SLURM_PART = re.compile(r"^(\d+)(?:[_+.]\S*)?$")


def family(cluster_id: int, scheduler: str, job_id: str, part_of: str | None = None) -> str:
    """Return the name of the job that `job_id` belongs to, the same for its attempts, tasks and parts.

    Slurm names array tasks `48213_7` and parts of a heterogeneous job `48213+1`, but gives each task a number of its own,
    too: by that it belongs to the job that it is told to be `part_of`.

    >>> family(1, "slurm", "48213_7"), family(1, "slurm", "48220", "48213"), family(1, "kubernetes", "train/llama")
    ('1/slurm/48213', '1/slurm/48213', '1/kubernetes/train/llama')
    """
    job_id = (part_of or "")[:200] or job_id
    part = _SLURM_PART.match(job_id) if scheduler == "slurm" else None
    return f"{cluster_id}/{scheduler}/{part[1] if part else job_id}"
