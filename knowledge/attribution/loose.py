"""Lines of trouble in streams that name neither rank nor peer: better than nothing, and told as that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.signature import SignatureRole


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """One weak hypothesis from the most telling kind of line, roots before cascades."""
    loose = [
        hit
        for hit in view.case.hits
        if hit.place.rank is None and hit.place.attempt == view.attempt and hit.signature.role in (SignatureRole.ROOT, SignatureRole.CASCADE)
    ]
    for role, score in ((SignatureRole.ROOT, 0.6), (SignatureRole.CASCADE, 0.42)):
        hits = [hit for hit in loose if hit.signature.role is role]
        if not hits:
            continue
        cause = Counter(hit.signature.cause for hit in hits).most_common(1)[0][0]
        same = [hit for hit in hits if hit.signature.cause == cause]
        hosts = list(dict.fromkeys(hit.place.host for hit in same if hit.place.host))
        yield Hypothesis(
            cause=cause, score=score, reason="lines of this kind stand in the logs, without telling whose they are",
            hosts=hosts if len(hosts) == 1 and len(view.hosts) > 1 else [],
            proofs=[Proof(hit.place, Role.ROOT if role is SignatureRole.ROOT else Role.CASCADE, hit.signature.id) for hit in same[:3]],
            signature=same[0].signature, captures=same[0].captures, whole_job=True,
            missing=["Which rank or host these lines belong to: one log file a rank, or `srun --label`, or NCCL_DEBUG=INFO from the start."],
        )  # fmt: skip
        return
