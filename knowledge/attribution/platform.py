"""What the scheduler decided: time limit, preemption, a node that went down, a person who cancelled."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Hit
from knowledge.signature import Scope, SignatureRole, SourceKind

_STATES = {
    "TIMEOUT": "time-limit",
    "DEADLINE": "time-limit",
    "DEADLINEEXCEEDED": "time-limit",
    "PREEMPTED": "preempted",
    "NODE_FAIL": "node-failure",
    "BOOT_FAIL": "node-failure",
    "OUT_OF_MEMORY": "host-oom",
    "CANCELLED": "cancelled",
    "EVICTED": "evicted",
}
_WELL = ("COMPLETED", "SUCCEEDED", "COMPLETE")


def state_of(view: CaseView) -> str:
    """The scheduler's word for the job's end, upper case without what follows it; empty when not known."""
    words = (view.case.job.state or "").replace(" ", "").upper()
    if words.startswith("CANCELLED"):
        return "CANCELLED"
    if words == "FAILED" and (view.case.job.reason or "").upper().replace(" ", "") in ("DEADLINEEXCEEDED", "EVICTED", "PREEMPTED"):
        return (view.case.job.reason or "").upper().replace(" ", "")
    return words


def ended_well(view: CaseView) -> bool:
    """Whether the scheduler says that the job succeeded."""
    return state_of(view) in _WELL


def job_hits(view: CaseView) -> list[Hit]:
    """Root lines about the whole job, from wherever they stand."""
    return [
        hit
        for hit in view.case.hits
        if hit.signature.role is SignatureRole.ROOT
        and (hit.signature.scope is Scope.JOB or hit.place.source.kind in (SourceKind.SCHEDULER, SourceKind.KUBERNETES))
        and hit.place.attempt in (view.attempt, 0)
    ]


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """One hypothesis for each decision of the platform that the evidence shows."""
    stated = _STATES.get(state_of(view))
    by_cause: dict[str, list[Hit]] = {}
    for hit in job_hits(view):
        by_cause.setdefault(hit.signature.cause, []).append(hit)
    for cause, hits in by_cause.items():
        lead = hits[0]
        ranks: list[int] = []
        hosts: list[str] = []
        if lead.signature.scope is Scope.NODE or cause == "node-failure":
            hosts = list(dict.fromkeys(host for hit in hits if (host := hit.captures.get("host"))))
            ranks = [rank for host in hosts for rank in view.ranks_on(host)]
        elif lead.signature.scope is Scope.RANK:
            named = [rank for hit in hits if (rank := view.rank_of_hit(hit)) is not None]
            ranks, hosts = sorted(set(named)), view.hosts_of(named)
            if not hosts:
                hosts = list(dict.fromkeys(host for hit in hits if (host := hit.captures.get("host"))))
                ranks = [rank for host in hosts for rank in view.ranks_on(host)]
        yield Hypothesis(
            cause=cause, score=0.97 if cause == stated else 0.9, reason="the scheduler's own words", ranks=ranks, hosts=hosts,
            proofs=[Proof(hit.place, Role.ROOT, hit.signature.id) for hit in hits[:3]], signature=lead.signature,
            captures=lead.captures, failed=cause != "cancelled", whole_job=not ranks,
        )  # fmt: skip
    if stated and stated not in by_cause:
        yield Hypothesis(
            cause=stated, score=0.95, reason=f"the scheduler's state is {view.case.job.state}",
            failed=stated != "cancelled", whole_job=True,
        )  # fmt: skip
