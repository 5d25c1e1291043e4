"""What the kernel, the driver and the node's own reports say: GPUs, links, memory, the OOM killer."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Hit
from knowledge.signature import Scope, SignatureRole, SourceKind

_KINDS = (SourceKind.KERNEL, SourceKind.NODE)
_BEFORE_START = 3600.0  # seconds before the job's start from which a node's state still matters
_AFTER_END = 900.0


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """One hypothesis for each host with a root line in its kernel log or reports."""
    by_host: dict[str, list[Hit]] = {}
    for hit in view.case.hits:
        if hit.place.source.kind in _KINDS and hit.signature.role is SignatureRole.ROOT and in_time(view, hit):
            host = hit.captures.get("host") or hit.place.host or ""
            by_host.setdefault(host, []).append(hit)
    for host, hits in by_host.items():
        lead = min(hits, key=_weight)
        named = view.rank_of_hit(lead)
        local = view.ranks_on(host)
        same = [hit for hit in hits if hit.signature.cause == lead.signature.cause]
        buses = {hit.captures.get("bus") for hit in same}
        score = 0.9
        if named is not None and lead.signature.scope is not Scope.NODE and len(buses) <= 1:
            ranks, reason = [named], "the kernel's line is tied to this rank by process or GPU"
        elif lead.signature.scope is Scope.RANK and (suspect := _troubled(view, local)):
            ranks, reason = suspect, "the kernel's line is about this host, and this rank's own words fit it"
        else:
            ranks, reason = local, "the kernel's line is about this whole host"
            score = 0.85
        yield Hypothesis(
            cause=lead.signature.cause, score=score, reason=reason, ranks=ranks, hosts=[_best_name(view, host, ranks)] if host else [],
            proofs=[Proof(hit.place, Role.ROOT if hit is lead else Role.CONFIRMATION, hit.signature.id) for hit in [lead, *(h for h in same if h is not lead)][:4]],
            signature=lead.signature, captures=lead.captures,
        )  # fmt: skip


def _weight(hit: Hit) -> tuple[int, float, int]:
    """Which of a host's lines leads: rank-tied before node-wide of the same moment, then the earliest."""
    return (0 if hit.signature.node_suspect else 1, hit.place.seconds or 0.0, hit.place.order)


def _best_name(view: CaseView, host: str, ranks: list[int]) -> str:
    named = view.hosts_of(ranks)
    return host if not named or len(named) > 1 else host


def _troubled(view: CaseView, local: list[int]) -> list[int]:
    """Ranks of the host with an error of their own, if they are few."""
    found = [rank for rank in local if rank in view.own]
    return found if len(found) == 1 else []


def in_time(view: CaseView, hit: Hit) -> bool:
    """Whether a node's line can belong to this job at all, and was not survived by the ranks it is about."""
    job = view.case.job
    when = hit.place.seconds
    if when is None:
        return True
    if hit.place.time and not hit.place.time.dated and not job.started_at:
        return True
    if job.started_at and when < job.started_at.timestamp() - _BEFORE_START - 14 * 3600:
        return False
    return not (job.ended_at and when > job.ended_at.timestamp() + _AFTER_END + 14 * 3600)
