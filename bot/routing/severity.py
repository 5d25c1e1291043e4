"""How much a failure matters: decided here alone, from what failed and how much of it.

| severity | when |
| --- | --- |
| low | the job did not fail, was cancelled by a person or preempted; or the program or its configuration failed on few ranks |
| high | a storm; hardware failed or a node is suspect; or many ranks were lost |
| medium | everything else |

The first line that fits decides a job that nobody need repair; otherwise high goes before low.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from knowledge.causes import load_causes
from knowledge.diagnosis import Diagnosis, Outcome
from knowledge.job import JobFacts
from knowledge.signature import Nature

_BY_DESIGN = {"cancelled": "cancelled by a person", "preempted": "preempted"}
_OF_THE_PROGRAM = {Nature.SOFTWARE, Nature.CONFIGURATION}


class Severity(StrEnum):
    """How much a failure matters."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    def reaches(self, least: Severity) -> bool:
        """Return whether this is `least` or more."""
        order = list(Severity)
        return order.index(self) >= order.index(least)


@dataclass(frozen=True, slots=True)
class Bounds:
    """From how many ranks a failure is large, up to how many it is small, and how many incidents make a storm."""

    many_ranks: int = 64
    few_ranks: int = 8
    storm: int = 5


def severity(job: JobFacts, diagnosis: Diagnosis, bounds: Bounds, incidents: int = 1) -> tuple[Severity, str]:
    """Return the severity and why; `incidents` is how many failed jobs are told as one."""
    if diagnosis.outcome is Outcome.NOT_A_FAILURE:
        return Severity.LOW, "the job did not fail"
    if diagnosis.cause.id in _BY_DESIGN:
        return Severity.LOW, _BY_DESIGN[diagnosis.cause.id]
    cause = load_causes().get(diagnosis.cause.id)
    nature = cause.nature if cause else None
    ranks = world_size(job, diagnosis)
    if incidents >= bounds.storm:
        return Severity.HIGH, f"{incidents} jobs failed alike"
    if nature is Nature.HARDWARE:
        return Severity.HIGH, "hardware failed"
    if diagnosis.suspect_nodes:
        return Severity.HIGH, "a node is suspect"
    if ranks is not None and ranks >= bounds.many_ranks:
        return Severity.HIGH, f"{ranks} ranks were lost"
    if nature in _OF_THE_PROGRAM and ranks is not None and ranks <= bounds.few_ranks:
        return Severity.LOW, f"the program or its configuration failed on {ranks} rank{'s' if ranks > 1 else ''}"
    size = "an unknown number of ranks" if ranks is None else f"{ranks} rank{'s' if ranks > 1 else ''}"
    return Severity.MEDIUM, f"{diagnosis.cause.id} on {size}"


def world_size(job: JobFacts, diagnosis: Diagnosis) -> int | None:
    """Return how many ranks were lost: what the scheduler says, else as many as the diagnosis knows; None: none."""
    if job.world_size:
        return job.world_size
    if job.nodes and job.ranks_per_node:
        return len(job.nodes) * job.ranks_per_node
    return len(diagnosis.initiating.ranks) + diagnosis.collateral.count or None
