"""Lines of trouble in streams that name neither rank nor peer: better than nothing, and told as that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from knowledge.attribution.hardware import in_time, of_a_stranger
from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.platform import placed_later
from knowledge.attribution.strangers import busy_stranger
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Hit
from knowledge.reading.roster import KINDS_OF_RANKS
from knowledge.signature import SignatureRole

TOLD_BY_OTHERS = ("killed-unknown", "actor-died", "native-abort")
"""Causes by which a parent, the shell or Ray tells of a process that ended without a word to them."""

_WAITERS = (
    "peer-lost",
    "collective-timeout",
    "nccl-error",
    "terminated",
    "unknown",
    "rank-hang",
    "rdma-retry-exceeded",
)


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """Lines that prove a cause though a neighbour wrote them; then lines of nobody."""
    yield from _by_neighbours(view)
    yield from _of_nobody(view)
    yield from _of_followers(view)


def _by_neighbours(view: CaseView) -> Iterator[Hypothesis]:
    """A rank that only suffered can still prove what happened, as by a message of the wrong size."""
    by_cause: dict[str, list[Hit]] = {}
    for hit in view.case.hits:
        if (
            hit.signature.role is SignatureRole.CASCADE
            and hit.signature.cause not in _WAITERS
            and hit.place.attempt == view.attempt
            and not view.survived(hit.place)
        ):
            by_cause.setdefault(hit.signature.cause, []).append(hit)
    for cause, hits in by_cause.items():
        yield Hypothesis(
            cause=cause, score=0.66, reason="a rank that only suffered from it proves it, without telling who began",
            proofs=[Proof(hit.place, Role.CASCADE, hit.signature.id) for hit in hits[:2]], signature=hits[0].signature,
            captures=hits[0].captures, whole_job=True,
            missing=["Which rank began it: rerun with TORCH_DISTRIBUTED_DEBUG=DETAIL, which names the rank and its collective."],
        )  # fmt: skip


def _of_nobody(view: CaseView) -> Iterator[Hypothesis]:
    """One weak hypothesis from the most telling kind of line, roots before cascades."""
    loose = [
        hit
        for hit in view.case.hits
        if hit.place.rank is None
        and hit.place.attempt == view.attempt
        and hit.signature.role in (SignatureRole.ROOT, SignatureRole.CASCADE)
        and not view.survived(hit.place)
        and in_time(view, hit)
        and not of_a_stranger(view, hit)
        and not placed_later(view, hit)
    ]
    for role, score in ((SignatureRole.ROOT, 0.6), (SignatureRole.CASCADE, 0.42)):
        hits = [hit for hit in loose if hit.signature.role is role]
        if not hits:
            continue
        if role is SignatureRole.CASCADE and not view.waiting and (busy := busy_stranger(view, [])):
            yield busy
        causes = {hit.signature.cause for hit in hits}
        deeper = [hit for hit in hits if not hit.signature.explained_by & (causes - {hit.signature.cause})] or hits
        cause = Counter(hit.signature.cause for hit in deeper).most_common(1)[0][0]
        same = [hit for hit in deeper if hit.signature.cause == cause]
        told = [hit for hit in hits if hit.signature.cause == cause or cause in hit.signature.explained_by]
        named = {host for hit in told if (host := hit.captures.get("host"))}
        hosts = list(dict.fromkeys(host for hit in told if (host := hit.captures.get("host") or _host_of(view, hit))))
        yield Hypothesis(
            cause=cause, score=score, reason="lines of this kind stand in the logs, without telling whose they are",
            hosts=hosts if len(hosts) == 1 and (named or len(view.hosts) > 1 or _beside_others(view, same[0])) else [],
            proofs=[Proof(hit.place, Role.ROOT if role is SignatureRole.ROOT else Role.CASCADE, hit.signature.id) for hit in same[:3]],
            signature=same[0].signature, captures=same[0].captures, whole_job=True,
            missing=["Which rank or host these lines belong to: one log file a rank, or `srun --label`, or NCCL_DEBUG=INFO from the start."],
        )  # fmt: skip
        if cause not in TOLD_BY_OTHERS:
            return


def _beside_others(view: CaseView, hit: Hit) -> bool:
    """Whether lines of the same log tell by themselves that they were written on other hosts."""
    source = hit.place.source
    there = {other.place.host for other in view.case.hits if other.place.source == source} - {None}
    return source.host is None and len(there) > 1


def _host_of(view: CaseView, hit: Hit) -> str | None:
    """Where a line was written. One log of all ranks lies in the folder of one host, whoever wrote its lines."""
    source = hit.place.source
    if source.host and source.kind in KINDS_OF_RANKS:
        apart = {other.host for other in view.case.sources if other.kind in KINDS_OF_RANKS}
        return hit.place.host if len(apart) > 1 else None
    return hit.place.host


def _of_followers(view: CaseView) -> Iterator[Hypothesis]:
    """Ranks that ended by others' failure, as they say, where nothing else tells of one: it failed, and why is not known."""
    if view.waiting or view.bereft or view.own:
        return
    ended = [
        hit
        for hit in view.case.hits
        if _tells_of_others(hit)
        and hit.signature.cause in _WAITERS
        and hit.place.rank is not None
        and hit.place.attempt == view.attempt
        and not view.survived(hit.place)
        and not view.handled(view.stories[hit.place.rank], hit.place, hit.place.order)
    ]
    if any(view.stories[hit.place.rank].finished for hit in ended if hit.place.rank is not None):
        return
    if ended:
        lead = ended[0]
        yield Hypothesis(
            cause=lead.signature.cause, score=0.42, reason="ranks ended by it, and nothing that was read says what began it",
            proofs=[Proof(hit.place, Role.CASCADE, hit.signature.id) for hit in ended[:3]], signature=lead.signature,
            captures=lead.captures, whole_job=True,
            missing=[_WHO_STOPPED if lead.signature.cause == "terminated" else _WHAT_BEGAN],
        )  # fmt: skip


_WHAT_BEGAN = "What began it: the logs of all ranks with NCCL_DEBUG=WARN, and the kernel logs of their hosts."
_WHO_STOPPED = (
    "Who sent SIGTERM: the scheduler's word for the job's end (`sacct -j JOB -o State,Reason,ExitCode`, `kubectl describe pod`), "
    "and the launcher's output."
)


def _tells_of_others(hit: Hit) -> bool:
    """Whether a rank says by this line that it ended by others' doing: a peer's failure, or a stop from outside."""
    stopped = hit.signature.role is SignatureRole.TEARDOWN and hit.signature.cause == "terminated"
    return stopped or hit.signature.role is SignatureRole.CASCADE
