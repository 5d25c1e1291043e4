"""What attempts, array tasks and parts of one job have in common."""

from __future__ import annotations

import re

_SLURM_PART = re.compile(r"^(\d+)(?:[_+.]\S*)?$")


def family(cluster_id: int, scheduler: str, job_id: str) -> str:
    """Return the name of the job that `job_id` belongs to, the same for its attempts, tasks and parts.

    Slurm names array tasks `48213_7`, parts of a heterogeneous job `48213+1`.

    >>> family(1, "slurm", "48213_7"), family(1, "kubernetes", "train/llama")
    ('1/slurm/48213', '1/kubernetes/train/llama')
    """
    part = _SLURM_PART.match(job_id) if scheduler == "slurm" else None
    return f"{cluster_id}/{scheduler}/{part[1] if part else job_id}"
