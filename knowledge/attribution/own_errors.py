"""Ranks with trouble of their own: an exception, a CUDA error, a full disk. The strongest evidence there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.view import CaseView, Own
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Frame
from knowledge.signature import Scope

_CLOCK_DOUBT = 2.0  # seconds by which hosts' clocks are not compared

_DATA_FRAMES = ("data", "loader", "collate", "sample", "dataset", "batch", "token")
_BY_TYPE = {
    "MemoryError": "host-oom",
    "ModuleNotFoundError": "import-error",
    "ImportError": "import-error",
    "FloatingPointError": "loss-not-finite",
    "JSONDecodeError": "data-error",
    "UnicodeDecodeError": "data-error",
    "FileNotFoundError": "file-not-found",
    "PermissionError": "permission-denied",
}


def cause_of_exception(own: Own) -> str:
    """The cause that an exception without a catalogue entry stands for."""
    assert own.traceback
    original = own.traceback.original
    name = original.exception.rsplit(".", 1)[-1]
    if name in _BY_TYPE:
        return _BY_TYPE[name]
    frame = original.innermost_user_frame
    if frame and _reads_data(frame):
        return "data-error"
    return "app-exception"


def _reads_data(frame: Frame) -> bool:
    place = f"{frame.path.rsplit('/', 1)[-1]} {frame.function}".lower()
    return any(word in place for word in _DATA_FRAMES)


def first_of(owns: list[Own]) -> Own:
    """Of one rank's troubles the one that began: a catalogue entry before a bare exception, never what another explains."""
    named = [own for own in owns if own.hit]
    causes = {own.hit.signature.cause for own in named if own.hit}
    deeper = [
        own for own in named if own.hit and not own.hit.signature.explained_by & (causes - {own.hit.signature.cause})
    ]
    return (deeper or named or owns)[0]


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """One hypothesis for each distinct trouble, the earliest first in score."""
    firsts = {rank: first_of(owns) for rank, owns in view.own.items()}
    if not firsts:
        yield from _of_nobody(view)
        return
    groups: dict[str, list[Own]] = {}
    for own in firsts.values():
        groups.setdefault(own.key, []).append(own)
    ordered = sorted(groups.values(), key=_when)
    for place, group in enumerate(ordered):
        yield _explain(view, group, place, len(ordered))


def _of_nobody(view: CaseView) -> Iterator[Hypothesis]:
    """Errors in a stream that does not tell whose they are; the launcher's exits may."""
    owns = view.unattributed
    if not owns:
        return
    lead = first_of(owns)
    began = [
        ended.rank
        for ended in view.exits.values()
        if ended.first and ended.code not in (0, -15) and ended.rank is not None and not view.suffered(ended.rank)
    ]
    locals_ = {local for own in owns if own.key == lead.key and (local := own.place.local) is not None}
    named = view.rank_of_local(lead.place.local) if lead.place.local is not None and len(locals_) == 1 else None
    ranks = [named] if named is not None else began if len(began) == 1 else []
    reason = "an error in a stream of many ranks" + (", and the launcher saw this rank end first" if ranks else "")
    if len(locals_) > 1:
        ranks, reason = (
            view.ranks_on(view.host_of(ranks[0])) if ranks else [],
            "the same error on several ranks of one host",
        )
    hypothesis = _explain(view, [lead], 0, 1)
    hypothesis.ranks, hypothesis.hosts, hypothesis.reason = ranks, view.hosts_of(ranks), reason
    hypothesis.score -= 0.05 if ranks else 0.1
    yield hypothesis


def _when(group: list[Own]) -> tuple[float, float, int]:
    """Order of groups: time where every group has one, else fewer ranks first, else the order of the lines."""
    times = [own.seconds for own in group if own.seconds is not None]
    alone = min(len(group), 3)
    specific = 0 if any(own.hit for own in group) else 1
    return (min(times) if times else float("inf"), alone + specific, min(own.order for own in group))


def _explain(view: CaseView, group: list[Own], place: int, total: int) -> Hypothesis:
    lead = min(group, key=lambda own: (own.seconds is None, own.seconds or 0.0, own.order))
    ranks = sorted(own.rank for own in group if own.rank >= 0)
    signature = lead.hit.signature if lead.hit else None
    cause = signature.cause if signature else cause_of_exception(lead)
    score = 0.93 if signature else 0.88
    hosts = view.hosts_of(ranks)
    everyone = len(ranks) > 1 and len(ranks) >= 0.75 * len(view.ranks)
    one_host = len(hosts) == 1 and len(view.hosts) > 1 and len(ranks) > 1 and ranks == view.ranks_on(hosts[0])
    reason = "the only rank with an error of its own" if len(ranks) == 1 else "ranks with the same error of their own"
    if everyone:
        ranks, hosts = [], []
        reason = "the same error on every rank: a common cause, no rank began it"
    elif one_host:
        reason = "the same error on every rank of one host and on no other"
    elif len(ranks) > 1:
        earliest = _clearly_first(group)
        if earliest:
            ranks, hosts = [earliest.rank], view.hosts_of([earliest.rank])
            reason = "the first of several ranks with this error, by the clock"
            score -= 0.06
        else:
            score -= 0.05
    if signature and signature.scope is Scope.NODE and len(hosts) == 1 and len(ranks) > 1 and len(view.hosts) > 1:
        ranks = view.ranks_on(hosts[0]) or ranks
        reason = "the fault is this host's, so all its ranks share it"
    if signature and signature.scope is Scope.JOB:
        ranks, hosts = [], []
    score -= 0.25 * min(place, 2) if total > 1 else 0.0
    proofs = [_proof(own) for own in sorted(group, key=lambda own: own.order)[:3]]
    return Hypothesis(
        cause=cause, score=score, reason=reason, ranks=ranks, hosts=hosts, proofs=proofs, signature=signature,
        captures=lead.hit.captures if lead.hit else {}, traceback=lead.traceback, whole_job=everyone,
    )  # fmt: skip


def _clearly_first(group: list[Own]) -> Own | None:
    """The rank that had the error before the others by more than clocks may differ, if there is one."""
    times = sorted((own.seconds, own.rank, own) for own in group if own.seconds is not None)
    if len(times) < len(group) or len(times) < 2:
        return None
    if Counter(own.key for own in group).most_common(1)[0][1] != len(group):
        return None
    return times[0][2] if times[1][0] - times[0][0] > _CLOCK_DOUBT else None


def _proof(own: Own) -> Proof:
    if own.hit:
        return Proof(own.hit.place, Role.ROOT, own.hit.signature.id)
    assert own.traceback
    return Proof(own.traceback.original.end, Role.ROOT)
