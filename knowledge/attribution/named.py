"""Lines that name the guilty: a barrier that lists who is missing, MPI_Abort, a coordinator's unhealthy tasks."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.own_errors import cause_of_exception, first_of
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Hit
from knowledge.reading.exits import expand
from knowledge.signature import Says


def accused(hit: Hit) -> list[int]:
    """The ranks that a line names."""
    if "ranks" in hit.captures:
        return expand(hit.captures["ranks"].replace(" ", ""))
    rank = hit.number("rank")
    return [rank] if rank is not None else []


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """One hypothesis for each set of ranks that lines name; the rank's own words, if any, say why."""
    by_ranks: dict[tuple[int, ...], list[Hit]] = {}
    for hit in view.case.hits:
        if Says.NAMES_RANK in hit.signature.says and (ranks := accused(hit)):
            by_ranks.setdefault(tuple(ranks), []).append(hit)
    for ranks, hits in by_ranks.items():
        lead = hits[0]
        cause, signature, traceback = lead.signature.cause, lead.signature, None
        proofs = [Proof(hit.place, Role.ROOT, hit.signature.id) for hit in hits[:2]]
        score = 0.86
        if len(ranks) == 1 and ranks[0] in view.own:
            own = first_of(view.own[ranks[0]])
            cause = own.hit.signature.cause if own.hit else cause_of_exception(own)
            signature = own.hit.signature if own.hit else lead.signature
            traceback = own.traceback
            proofs.insert(0, Proof(own.hit.place if own.hit else own.traceback.original.end, Role.ROOT))  # type: ignore[union-attr]
            score = 0.94
        yield Hypothesis(
            cause=cause, score=score, reason="a line names the rank", ranks=list(ranks), hosts=view.hosts_of(ranks), proofs=proofs,
            signature=signature, captures=lead.captures, traceback=traceback,
        )  # fmt: skip
