"""Groups within the job: which member is missing, by how the members that were heard of are numbered."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Hit


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """The one rank that its group waited for, where the group is a part of the job and its members lie evenly."""
    groups: dict[str, dict[int, Hit]] = {}
    for hits in view.waiting.values():
        for hit in hits:
            member, group = hit.number("group_rank"), hit.captures.get("pg")
            if member is not None and group is not None and hit.place.rank is not None:
                groups.setdefault(group, {}).setdefault(member, hit)
    for heard in groups.values():
        rank = _missing(heard)
        if rank is None or rank not in view.numbered or rank in view.waiting or rank in view.bereft or rank in view.own:
            continue
        story, hit = view.stories.get(rank), next(iter(heard.values()))
        proofs = [Proof(story.last, Role.ROOT)] if story and story.last else []
        yield Hypothesis(
            cause="rank-hang", score=0.82 if proofs else 0.55, ranks=[rank], hosts=view.hosts_of([rank]),
            reason="all other members of its group timed out waiting for it, by the numbers that they have in the group",
            proofs=[*proofs, Proof(hit.place, Role.CASCADE, hit.signature.id)],
            missing=[f"What rank {rank} was doing: `py-spy dump --pid <pid of rank {rank}>` during the next hang."],
        )  # fmt: skip


def _missing(heard: dict[int, Hit]) -> int | None:
    """The rank of the one number that is missing between members at even distances; None: not exactly one, or no part of a job."""
    members = sorted(heard)
    ranks = [heard[member].place.rank or 0 for member in members]
    if len(members) < 3 or members[-1] - members[0] != len(members):
        return None
    stride = (ranks[-1] - ranks[0]) // (members[-1] - members[0])
    first = ranks[0] - stride * members[0]
    if stride < 1 or (stride, first) == (1, 0) or ranks != [first + stride * member for member in members]:
        return None
    return next(first + stride * member for member in range(members[0], members[-1]) if member not in heard)
