"""Lines that name the guilty: a barrier that lists who is missing, MPI_Abort, a coordinator's unhealthy tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.notation import numbers
from knowledge.attribution.own_errors import cause_of_trouble, first_of
from knowledge.attribution.troubles import Own
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Hit
from knowledge.signature import Says, SignatureRole

_BELOW = 60  # lines under a line that names a rank in which that rank's error may stand


def accused(view: CaseView, hit: Hit) -> list[int]:
    """The ranks that a line names, also by process and GPU where only one rank has both."""
    if "ranks" in hit.captures:
        return list(numbers(hit.captures["ranks"]))
    rank = hit.number("rank")
    if rank is None and (pid := hit.number("pid")) is not None and (device := hit.number("device")) is not None:
        same = [one.rank for one in view.case.processes.values() if one.pid == pid and one.local_rank == device]
        return same if len(same) == 1 else []
    return [rank] if rank is not None else []


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """One hypothesis for each set of ranks that lines name; the rank's own words, if any, say why."""
    by_ranks: dict[tuple[int, ...], list[Hit]] = {}
    for hit in view.case.hits:
        if Says.NAMES_RANK in hit.signature.says and not view.survived(hit.place) and (named := accused(view, hit)):
            by_ranks.setdefault(tuple(named), []).append(hit)
    yield from _voted(view)
    everyone = _each_named(view, by_ranks)
    for ranks, hits in by_ranks.items():
        lead = hits[0]
        if any(set(ranks) < set(more) and said[0].signature is lead.signature for more, said in by_ranks.items()):
            continue  # the same message lists them among others
        cause, signature, traceback, named = lead.signature.cause, lead.signature, None, list(ranks)
        proofs = [Proof(hit.place, Role.ROOT, hit.signature.id) for hit in hits[:2]]
        score = 0.86
        if len(ranks) == 1 and ranks[0] in view.own:
            own = first_of(view.own[ranks[0]])
            cause = cause_of_trouble(own)
            signature = own.hit.signature if own.hit else lead.signature
            traceback = own.traceback
            proofs.insert(0, Proof(own.hit.place if own.hit else own.traceback.original.end, Role.ROOT))  # type: ignore[union-attr]
            score = 0.94
        elif not view.own and cause == "app-exception" and (told := _told_below(view, lead)):
            own, alone = told
            cause = cause_of_trouble(own)
            signature, traceback = own.hit.signature if own.hit else lead.signature, own.traceback
            proofs.insert(0, Proof(own.place, Role.ROOT))
            named, score = named if alone else [], 0.92
        elif not view.own and cause == "app-exception" and _suffered_below(view, lead):
            continue
        if lead.signature.id in everyone:
            named = []
        yield Hypothesis(
            cause=cause, score=score, reason="a line names the rank" if named else "lines of this kind name every rank", ranks=named,
            whole_job=lead.signature.id in everyone,
            hosts=view.hosts_of(named) or [host for hit in hits[:1] if (host := hit.captures.get("host"))], proofs=proofs,
            signature=signature, captures=lead.captures, traceback=traceback,
        )  # fmt: skip


def _each_named(view: CaseView, by_ranks: Mapping[tuple[int, ...], Sequence[Hit]]) -> set[str]:
    """The kinds of line that name nearly every rank, one after the other: then none of these began it."""
    named: dict[str, set[int]] = {}
    for ranks, hits in by_ranks.items():
        for kind in {hit.signature.id for hit in hits} if len(ranks) == 1 else ():
            named.setdefault(kind, set()).update(ranks)
    return {kind for kind, ranks in named.items() if len(ranks) > 2 and len(ranks) >= 0.75 * len(view.ranks)}


def _told_below(view: CaseView, lead: Hit) -> tuple[Own, bool] | None:
    """The error that stands under a line which names its rank, and whether it stands nowhere else: then it is that rank's alone."""
    below = [
        own
        for own in view.unattributed
        if own.place.source == lead.place.source and 0 < own.order - lead.place.order <= _BELOW
    ]
    if not below:
        return None
    own = first_of(below)
    same = [hit.place for hit in view.case.hits if own.hit and hit.signature is own.hit.signature]
    return own, not any(place.order < lead.place.order or place.source != lead.place.source for place in same)


def _suffered_below(view: CaseView, lead: Hit) -> bool:
    """Whether what stands under a line that names its rank tells of others' trouble: then it did not begin there."""
    return any(
        hit.signature.role is SignatureRole.CASCADE
        and hit.place.source == lead.place.source
        and 0 < hit.place.order - lead.place.order <= _BELOW
        for hit in view.case.hits
    )


def _voted(view: CaseView) -> Iterator[Hypothesis]:
    """Lines in which each rank compares itself with one other: the one that most others point at is the odd one."""
    by_cause: dict[str, list[Hit]] = {}
    for hit in view.case.hits:
        if {"rank", "other_rank"} <= hit.captures.keys() and Says.NOTIFIED not in hit.signature.says:
            by_cause.setdefault(hit.signature.cause, []).append(hit)
    for cause, hits in by_cause.items():
        votes = Counter(
            other
            for hit in {(hit.number("rank"), hit.number("other_rank")): hit for hit in hits}.values()
            if (other := hit.number("other_rank")) is not None
        )
        (odd, count), *rest = votes.most_common(2)
        clear = count >= 2 and (not rest or rest[0][1] < count)
        ranks = [odd] if clear else []
        if clear and cause == "nccl-version-mismatch":  # who finds another than the odd one different is like it
            blaming = {
                rank for hit in hits if hit.number("other_rank") == odd and (rank := hit.number("rank")) is not None
            }
            told = {rank for hit in hits if (rank := hit.number("rank")) is not None}
            ranks = sorted({odd} | (told - blaming))
        lead = next((hit for hit in hits if hit.number("rank") == odd), hits[0])
        yield Hypothesis(
            cause=cause, score=0.96 if clear else 0.7, reason="the rank that differs from what the others report", ranks=ranks,
            hosts=view.hosts_of(ranks), proofs=[Proof(hit.place, Role.ROOT, hit.signature.id) for hit in hits[:2]],
            signature=lead.signature, captures=lead.captures,
        )  # fmt: skip
