"""Weighing hypotheses against each other: symptoms yield to what explains them, and the best one leads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from knowledge.attribution import (
    containers,
    endings,
    flight,
    hardware,
    interfaces,
    loose,
    members,
    named,
    network,
    odd_one,
    odd_words,
    own_errors,
    platform,
    waiting,
)
from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.notation import compress
from knowledge.attribution.view import CaseView
from knowledge.causes import load_causes
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Hit
from knowledge.signature import Scope, SignatureRole, SourceKind
from knowledge.tables.xids import consequences

_RULES = (
    platform.propose,
    hardware.propose,
    own_errors.propose,
    named.propose,
    odd_one.propose,
    interfaces.propose,
    network.propose,
    endings.propose,
    containers.propose,
    waiting.propose,
    members.propose,
    flight.propose,
    odd_words.propose,
    loose.propose,
)

_STATED = ("time-limit", "preempted", "node-failure", "cancelled", "evicted")
"""Decisions of the platform: whatever ranks say after them is collateral."""

_VAGUE = (
    "killed-unknown", "silent-exit", "peer-lost", "rank-hang", "missing-rank", "collective-timeout", "native-abort", "nccl-error",
    "terminated", "coordinator-died", "actor-died", "dataloader-worker-killed", "unknown", "segfault", "bus-error",
    "app-abort", "init-failed",
)  # fmt: skip
"""Causes that say how it ended rather than why: another cause near them, that says why, explains them."""

_STALLS = ("rank-hang", "straggler", "slow-checkpoint", "slow-preprocessing")
"""Causes that say who was slow or stood still, which storage that does not answer would explain."""

_OWN = ("own_errors", "hardware", "named")
"""Kinds of reasoning that show where it failed, rather than how it went on."""

_SKEW = 5.0
"""Seconds by which hosts' clocks may differ."""

_MOMENT = 120.0
"""Seconds within which a fault may have ended a rank that made its last step."""

_STARTED = 0.4
"""Most that a launch that failed is worth in a job that made steps."""

_UNSAID = 0.7
"""Most that such a cause is worth where the rank's own last words are lost."""

_OF_NODES = (
    "gpu-hardware",
    "driver",
    "host-memory",
    "host-hardware",
    "storage",
    "kubernetes",
    "scheduler",
    "network",
    "gpu-memory",
    "gpu",
    "launcher",
)
"""Layers whose causes can make a process end or hang without a word."""


def weigh(view: CaseView) -> list[Hypothesis]:
    """All hypotheses, the best first. Empty: nothing in the evidence speaks of a failure."""
    found = [hypothesis for rule in _RULES for hypothesis in _proposed(view, rule)]
    found += [deeper for hypothesis in found for deeper in _confirmed(view, hypothesis)]
    for hypothesis in found:
        hypothesis.failed = hypothesis.failed and hypothesis.cause != "cancelled"
        _doubt(view, hypothesis)
    for hypothesis in found:
        _localise(view, hypothesis, found)
    found = [_against(view, hypothesis, found) for hypothesis in found]
    found.sort(key=lambda hypothesis: (-round(hypothesis.score, 3), not hypothesis.ranks, not hypothesis.hosts))
    return _merge(found)


def _proposed(view: CaseView, rule: Callable[[CaseView], Iterator[Hypothesis]]) -> Iterator[Hypothesis]:
    for hypothesis in rule(view):
        hypothesis.kind = rule.__module__.rsplit(".", 1)[-1]
        yield hypothesis


def _doubt(view: CaseView, one: Hypothesis) -> None:
    """Lower the score of what only says how ranks ended, where the words in which they may have said why are lost, and of
    what says that they did not start, where they had."""
    if one.cause == "launch-failed" and view.pulse.count:
        one.score = min(one.score, _STARTED)
    if one.cause not in _VAGUE or one.cause == "missing-rank" or one.traceback is not None:
        return
    lost = [rank for rank in one.ranks if rank in view.gaps.unheard]
    torn = [rank for rank in one.ranks if rank in view.gaps.torn]
    if torn or (lost and len(lost) < len(view.ranks)):
        one.score = min(one.score, _UNSAID)
        facts = [view.gaps.rest_of(rank) for rank in torn[:1]]
        facts += [f"Why rank {compress(lost)} ended: its own log, of which nothing was read."] if lost else []
        one.missing = [*(fact for fact in facts if fact not in one.missing), *one.missing]


def _confirmed(view: CaseView, one: Hypothesis) -> list[Hypothesis]:
    """What the node's own words add to a rank's: its host, or the deeper cause that the entry says to look for."""
    lines = [
        hit
        for hit in view.case.hits
        if hit.signature.role is SignatureRole.CONFIRMATION
        and hit.place.source.kind in _NODE_KINDS
        and hardware.in_time(view, hit)
    ]
    same = [hit for hit in lines if hit.signature.cause == one.cause]
    hosts = list(dict.fromkeys(hit.place.host for hit in same if hit.place.host))
    if len(hosts) == 1 and (not one.hosts or hosts == list(one.hosts)):
        one.hosts = hosts
        one.proofs.extend(Proof(hit.place, Role.CONFIRMATION, hit.signature.id) for hit in same[:2])
    symptoms = [one.signature, *(hit.signature for hit in same if hit.place.host in one.hosts)]
    explaining = {cause for symptom in symptoms if symptom for cause in symptom.explained_by}
    explaining |= {"storage-io-error"} if one.cause in _STALLS else set()
    explaining -= {hit.signature.cause for hit in view.case.hits if _asserts(hit)}
    deeper = [hit for hit in lines if hit.signature.cause in explaining and _near_host(view, hit, one)]
    peer = one.captures.get("peer")
    deeper += [hit for hit in view.case.hits if peer and hit.captures.get("peer") == peer and _adds(hit, explaining)]
    deeper += [hit for hit in lines if one.cause in _VAGUE and one.signature is None and _met_by(view, hit, one.ranks)]
    deeper = [hit for hit in deeper if hit.signature.id not in consequences() and not _over(view, hit)]
    if not one.hosts and len({hit.place.host for hit in deeper}) > 1 and one.cause in _STALLS:
        return []  # several nodes wait for storage: nothing tells which of them held up the job
    return [_deeper(view, one, deeper[0])] if deeper else []


def _met_by(view: CaseView, hit: Hit, ranks: Sequence[int]) -> bool:
    """Whether the kernel tells of a fault in the program of the only rank in `ranks`: by its process, or at the job's end."""
    if len(ranks) != 1 or load_causes()[hit.signature.cause].layer != "gpu" or view.rank_of_hit(hit) != ranks[0]:
        return False
    process = view.case.processes.get(ranks[0])
    if process and process.pid and process.pid == hit.number("pid"):
        return True
    last, when = view.pulse.last.seconds if view.pulse.last else None, hit.place.seconds
    return (
        last is not None and when is not None and abs((last - when + 1800) % 3600 - 1800) < _MOMENT
    )  # in any time zone


def _over(view: CaseView, hit: Hit) -> bool:
    """Whether the node said later that what it told of was over, before the first rank gave up waiting."""
    gave_up = [when for hits in view.waiting.values() for one in hits if (when := one.place.seconds) is not None]
    return any(
        other.signature.role is SignatureRole.NOISE
        and other.signature.cause == hit.signature.cause
        and other.place.source == hit.place.source
        and other.place.order > hit.place.order
        and not (gave_up and (other.place.seconds or 0.0) > min(gave_up) + _SKEW)
        for other in view.case.hits
    )


def _asserts(hit: Hit) -> bool:
    """Whether a node's own log says outright what others only confirm; that is a hypothesis of its own already."""
    return hit.signature.role is SignatureRole.ROOT and hit.place.source.kind in _NODE_KINDS


def _adds(hit: Hit, causes: Collection[str]) -> bool:
    return hit.signature.role is SignatureRole.CONFIRMATION and hit.signature.cause in causes


_NODE_KINDS = (SourceKind.KERNEL, SourceKind.NODE)


def _near_host(view: CaseView, hit: Hit, one: Hypothesis) -> bool:
    return not one.hosts or hit.place.host in one.hosts or not view.ranks_on(hit.place.host)


def _deeper(view: CaseView, one: Hypothesis, hit: Hit) -> Hypothesis:
    of_rank = hit.place.source.kind in _NODE_KINDS and hit.signature.scope is Scope.RANK
    struck = view.rank_of_hit(hit) if of_rank else None
    return Hypothesis(
        cause=hit.signature.cause, score=max(0.62, min(0.97, one.score + 0.02)), reason="the node's own log explains what the rank met",
        ranks=(one.ranks or _few_who_said(view, hit)) if struck is None else [struck],
        hosts=one.hosts or ([hit.place.host] if hit.place.host else []),
        proofs=[Proof(hit.place, Role.ROOT, hit.signature.id), *one.proofs[:2]], signature=hit.signature, captures=hit.captures,
        kind="hardware",
    )  # fmt: skip


def _few_who_said(view: CaseView, hit: Hit) -> list[int]:
    """The ranks that said something that fewer than half of all said; else none: then it is not theirs alone."""
    same = [other.place for other in view.case.hits if other.signature is hit.signature]
    ranks = sorted({place.rank for place in same if place.rank is not None and place.attempt == view.attempt})
    return ranks if 2 * len(ranks) < len(view.ranks) else []


def _localise(view: CaseView, one: Hypothesis, all_of_them: Sequence[Hypothesis]) -> None:
    """A node's fact that names no single rank takes the rank whose own words it explains, and gives it its host."""
    if (one.whole_job and not one.hosts) or (one.kind == "own_errors" and len(one.ranks) > 1):
        return  # each of several ranks has said itself that it met the error
    if one.kind == "interfaces" and len(one.hosts) > 1 and not one.ranks:
        return  # what lies between hosts is no single rank's
    for other in all_of_them:
        if (
            other is one
            or not other.ranks
            or other.cause == "unknown"
            or not (one.cause == other.cause or _explains(view, one, other) or _crash_of(one, other))
        ):
            continue
        if not one.hosts and other.cause == "peer-lost" and not any(rank in view.stories for rank in other.ranks):
            continue  # of whom nothing was heard is only missed, and need not be where this was met
        if one.kind == "own_errors" and other.kind == "endings" and len(view.hosts_of(other.ranks)) > 1:
            continue  # who ended alike on several hosts need not all have said what one stream tells
        narrower = not one.ranks or (set(other.ranks) < set(one.ranks) and (not _of_node(one) or _stalled(one, other)))
        placed = bool(one.hosts) or one.whole_job or one.signature is None
        if narrower and (not placed or not other.hosts or set(other.hosts) <= set(one.hosts) or _unplaced(view, one)):
            one.ranks = other.ranks if _of_node(one) else _struck(view, other.ranks)
            one.hosts = one.hosts or other.hosts
            one.proofs.extend(other.proofs[:2])
    if one.cause in _VAGUE and not one.ranks and not one.hosts:
        ended = [other for other in all_of_them if other.kind == "containers" and other is not one]
        if len(ended) == 1 and len(ended[0].hosts) == 1:  # the one pod that ended so is where somebody was lost
            one.hosts = ended[0].hosts
            one.proofs.extend(ended[0].proofs[:1])


_CRASHES = ("segfault", "native-abort", "bus-error", "illegal-instruction")


def _crash_of(one: Hypothesis, other: Hypothesis) -> bool:
    """Whether a crash of nobody is that of the one rank that ended without a word while the others lost it."""
    return one.cause in _CRASHES and not one.ranks and other.cause == "killed-unknown" and other.kind == "waiting"


def _stalled(one: Hypothesis, other: Hypothesis) -> bool:
    """Whether storage that a node cannot reach held up some of its ranks, while the others waited for these in a collective."""
    return load_causes()[one.cause].layer == "storage" and other.cause in ("rank-hang", "straggler")


def _struck(view: CaseView, ranks: Sequence[int]) -> Sequence[int]:
    """Of several troubled ranks on a node the one whose process its launcher saw end first, if it says so."""
    first = [rank for rank in ranks if (ended := view.exits.get(rank)) and ended.first]
    return first if len(first) == 1 else ranks


def _unplaced(view: CaseView, one: Hypothesis) -> bool:
    """Whether a fact's host is known by a name that no rank uses, as a node's beside its pods'."""
    return bool(one.hosts) and not any(view.ranks_on(host) for host in one.hosts)


def _of_node(one: Hypothesis) -> bool:
    return one.signature is not None and one.signature.scope is Scope.NODE


def _against(view: CaseView, one: Hypothesis, all_of_them: Sequence[Hypothesis]) -> Hypothesis:
    """`one`, with its score lowered by every other that explains it."""
    score = one.score
    for other in all_of_them:
        if other is one or (not other.failed and one.failed and other.cause != "cancelled"):
            continue
        if _explains(view, other, one):
            score = min(score, other.score - 0.05)
    return replace(one, score=max(score, 0.01))


def _explains(view: CaseView, other: Hypothesis, one: Hypothesis) -> bool:
    if other.cause == one.cause or (one.cause == "rank-hang" and one.whole_job):
        return False  # a hang before the time limit was weighed against the limit already
    if other.cause in _STATED and other.score >= 0.9:
        return one.cause not in _STATED
    together = bool(set(other.hosts) & set(one.hosts)) or bool(set(other.ranks) & set(one.ranks))
    near = together or not one.hosts or not other.hosts or _unplaced(view, other)
    if one.signature and other.cause in one.signature.explained_by:
        return near
    if (
        one.cause in loose.TOLD_BY_OTHERS
        and not one.ranks
        and other.cause == "collective-timeout"
        and _after(one, other)
    ):
        return True  # a rank whose time is up aborts, and whoever watches it says only that it is gone
    if one.cause == "terminated" and other.kind in _OWN and other.cause not in _VAGUE and other.score >= 0.5:
        return not _after(other, one)  # whoever starts the ranks stops them where one fails, on whatever host
    if one.cause == "silent-exit" and one.kind == "endings" and other.kind == "own_errors" and not other.ranks:
        return other.cause not in _VAGUE  # somebody did say why, though not who
    if one.cause in _VAGUE and other.cause not in _VAGUE and other.score >= 0.5:
        return near and (load_causes()[other.cause].layer in _OF_NODES or bool(set(one.ranks) & set(other.ranks)))
    return False


def _after(one: Hypothesis, other: Hypothesis) -> bool:
    """Whether what proves `one` was certainly written after what proves `other`."""
    if not one.proofs or not other.proofs:
        return False
    later, earlier = one.proofs[0].place, other.proofs[0].place
    if later.source == earlier.source:
        return later.order > earlier.order
    return later.seconds is not None and earlier.seconds is not None and later.seconds - earlier.seconds > _SKEW


def _merge(ordered: list[Hypothesis]) -> list[Hypothesis]:
    """Fold weaker hypotheses that say the same of the same ranks into the stronger one."""
    kept: list[Hypothesis] = []
    for hypothesis in ordered:
        twin = next((one for one in kept if _same(one, hypothesis)), None)
        if twin is None:
            kept.append(hypothesis)
            continue
        seen = {(proof.place.source.name, proof.place.order) for proof in twin.proofs}
        twin.said = twin.said or hypothesis.said
        if not twin.ranks and not twin.whole_job:
            twin.ranks = hypothesis.ranks
        if set(twin.ranks) == set(hypothesis.ranks) or not twin.hosts:
            twin.hosts = [*twin.hosts, *(host for host in hypothesis.hosts if host not in twin.hosts)]
        twin.proofs.extend(
            proof for proof in hypothesis.proofs if (proof.place.source.name, proof.place.order) not in seen
        )
    return kept


def _same(one: Hypothesis, other: Hypothesis) -> bool:
    if one.cause != other.cause:
        return False
    if set(one.ranks) == set(other.ranks) or not other.ranks:
        return True
    return (not one.ranks and not one.whole_job) or (not one.hosts and bool(set(one.ranks) & set(other.ranks)))
