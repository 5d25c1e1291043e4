"""What the kernel, the driver and the node's own reports say: GPUs, links, memory, the OOM killer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.notation import bus_key, compress
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Hit
from knowledge.signature import Scope, SignatureRole, SourceKind
from knowledge.tables.xids import consequences

_KINDS = (SourceKind.KERNEL, SourceKind.NODE)
_BEFORE_START = 3600.0  # seconds before the job's start from which a node's state still matters
_AFTER_END = 900.0
_ZONES = 14 * 3600.0  # seconds by which readings may differ whose lines do not tell their zone
_SOON = 60.0  # seconds within which a step's report may have been on its way when a fault began
_OURS = re.compile(r"(?i)python|^pt_|torch|^ray|train|deepspeed|mpi|^java|worker|slurmstepd")
"""Names that processes of a job have, its loaders and launchers too."""


_AT_ONCE = 2.0  # seconds within which links go down that one switch took with it


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """One hypothesis for each host with a root line in its kernel log or reports; one for links that went down at once."""
    links: list[Hypothesis] = []
    for one in _each_host(view):
        if one.cause == "link-down":
            links.append(one)
        else:
            yield one
    yield from _together(links)


def _together(links: list[Hypothesis]) -> list[Hypothesis]:
    """Links of several nodes that went down in the same moment have one fault in common, and no node is the first."""
    times = [one.proofs[0].place.seconds for one in links]
    known = [time for time in times if time is not None]
    if len(links) < 2 or len(known) < len(links) or max(known) - min(known) > _AT_ONCE:
        return links
    first = links[0]
    first.ranks = sorted({rank for one in links for rank in one.ranks})
    first.hosts = sorted({host for one in links for host in one.hosts})
    first.proofs = [one.proofs[0] for one in links[:3]]
    first.reason = f"links of {len(links)} nodes went down in the same moment: look at the switch that they share"
    first.missing = [lack for one in links for lack in one.missing]
    return [first]


def _each_host(view: CaseView) -> Iterator[Hypothesis]:
    by_host: dict[str, list[Hit]] = {}
    for hit in view.case.hits:
        if hit.place.source.kind in _KINDS and _accuses(hit) and in_time(view, hit) and not of_a_stranger(view, hit):
            host = hit.captures.get("host") or hit.place.host or ""
            if view.is_foreign(host):
                continue
            by_host.setdefault(host, []).append(hit)
    for host, hits in by_host.items():
        lead = min(hits, key=_weight)
        named = _named(view, host, lead)
        local = [rank for rank in view.ranks_on(host) if _may_be(view, rank, lead)]
        same = [hit for hit in hits if hit.signature.cause == lead.signature.cause]
        buses = {bus_key(bus) for hit in same if (bus := hit.captures.get("bus"))}
        score = 0.6 if _ran_on(view, lead) else 0.4 if _came_back(view, same) else 0.94
        missing: list[str] = []
        whole = any(hit.signature.scope is Scope.NODE for hit in same)
        struck = {rank for hit in same if "pid" in hit.captures and (rank := view.rank_of_hit(hit)) is not None}
        if whole and len(struck) == 1:
            ranks, reason = (
                [*struck],
                "the kernel's line is about this whole host, and it names the process that it ended",
            )
        elif named is not None and not whole and len(buses) <= 1:
            ranks, reason = [named], "the kernel's line is tied to this rank by process or GPU"
        elif not whole and (suspect := _troubled(view, local)):
            ranks, reason = suspect, "the kernel's line is about this host, and this rank's own words fit it"
        else:
            ranks, reason = local, "the kernel's line is about this whole host"
            score = min(score, score if whole else 0.9)
            if not whole:
                reason = "the kernel's line is about this host, and nothing ties it to one of its ranks"
            if not whole and (
                lost := [rank for rank in view.gaps.unheard if rank in local or view.host_of(rank) is None]
            ):
                score, missing = 0.72, [f"Which rank of {host} it was: the logs of ranks {compress(lost)}."]
        rest = [hit for hit in same if hit is not lead][:3]
        yield Hypothesis(
            cause=lead.signature.cause, score=score, reason=reason, ranks=ranks, hosts=[host] if host else [],
            proofs=[Proof(lead.place, Role.ROOT, lead.signature.id), *(Proof(hit.place, Role.CONFIRMATION, hit.signature.id) for hit in rest)],
            signature=lead.signature, captures=lead.captures, missing=missing,
        )  # fmt: skip


def _ran_on(view: CaseView, lead: Hit) -> bool:
    """Whether a fault keeps programs from starting only, and the job's had started: its ranks told of steps."""
    return lead.signature.cause == "driver-mismatch" and view.pulse.count > 0 and bool(view.own)


def _came_back(view: CaseView, hits: list[Hit]) -> bool:
    """Whether the node says that its fault was over, and training went on or ranks then met errors that it does not explain."""
    lead, last = hits[0], hits[-1]
    back = [
        hit.place.seconds
        for hit in view.case.hits
        if hit.signature.role is SignatureRole.NOISE
        and hit.signature.cause == lead.signature.cause
        and hit.place.source == last.place.source
        and hit.place.order > last.place.order
    ]
    pulse = view.pulse.last.seconds if view.pulse.last else None
    if back and back[-1] is not None and pulse is not None and _SOON < pulse - back[-1] < _BEFORE_START:
        return True
    return bool(back) and any(
        own.hit is None or lead.signature.cause not in {own.hit.signature.cause, *own.hit.signature.explained_by}
        for owns in view.own.values()
        for own in owns
    )


def _accuses(hit: Hit) -> bool:
    """Whether a line can be where it began: no Xid that only follows from another fault."""
    return hit.signature.role is SignatureRole.ROOT and hit.signature.id not in consequences()


def of_a_stranger(view: CaseView, hit: Hit) -> bool:
    """Whether the kernel ended a process for lack of memory that is none of the job's: all of the job's there are known."""
    pid = hit.number("pid")
    if hit.signature.cause != "host-oom" or pid is None or _OURS.search(hit.captures.get("detail", "python")):
        return False
    local = view.ranks_on(hit.captures.get("host") or hit.place.host)
    if any((ended := view.exits.get(rank)) and ended.code in (-9, 137) for rank in local):
        return False
    known = {process.pid for rank in local if (process := view.case.processes.get(rank)) and process.pid}
    return bool(local) and len(known) == len(local) and pid not in known


def _may_be(view: CaseView, rank: int, lead: Hit) -> bool:
    """A line that names a process is not about ranks that are known to be other processes."""
    pid = lead.number("pid")
    process = view.case.processes.get(rank)
    return lead.signature.scope is Scope.NODE or not pid or not process or process.pid in (None, pid)


def _named(view: CaseView, host: str, lead: Hit) -> int | None:
    """The rank that the line is tied to, itself or by another line of the kernel about the same GPU."""
    rank = view.rank_of_hit(lead)
    bus = lead.captures.get("bus")
    if rank is not None or bus is None:
        return rank
    for hit in view.case.hits:
        if (
            hit.place.source.kind in _KINDS
            and (hit.captures.get("host") or hit.place.host or "") == host
            and bus_key(hit.captures.get("bus", "")) == bus_key(bus)
        ):
            rank = view.rank_of_hit(hit)
            if rank is not None:
                return rank
    return None


def _weight(hit: Hit) -> tuple[int, float, int]:
    """Which of a host's lines leads: whole-host faults, then specific ones, then the earliest."""
    vague = hit.signature.cause in ("gpu-fault", "cuda-unknown-error")
    tied = bool({"pid", "bus", "task", "device"} & hit.captures.keys()) or hit.signature.scope is Scope.NODE
    return (4 * vague + 2 * (not hit.signature.node_suspect) + (not tied), hit.place.seconds or 0.0, hit.place.order)


def _troubled(view: CaseView, local: list[int]) -> list[int]:
    """Ranks of the host with an error of their own, if they are few."""
    found = [rank for rank in local if rank in view.own or (rank in view.exits and view.exits[rank].code == -9)]
    return found if len(found) == 1 else []


def in_time(view: CaseView, hit: Hit) -> bool:
    """Whether a node's line can belong to this job at all, and was not survived by the ranks it is about."""
    job = view.case.job
    when = hit.place.seconds
    if when is None:
        return True
    if hit.place.time and not hit.place.time.dated and not job.started_at:
        return True
    unsure = 0.0 if hit.place.time and hit.place.time.zoned else _ZONES
    if job.started_at and when < job.started_at.timestamp() - _BEFORE_START - unsure:
        return False
    return not (job.ended_at and when > job.ended_at.timestamp() + _AFTER_END + unsure)
