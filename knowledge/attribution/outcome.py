"""Did it fail at all? Then, and only then, why."""

from __future__ import annotations

from knowledge.attribution.endings import of_nobody
from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.platform import ended_well, placed_later, state_of
from knowledge.attribution.troubles import LAUNCHERS, OF_THE_GROUP
from knowledge.attribution.view import CaseView
from knowledge.attribution.weigh import weigh
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Hit, Place
from knowledge.signature import SignatureRole
from knowledge.tables.exits import Kind, job_states

_FAILED = frozenset(state.state for state in job_states().values() if state.kind is Kind.FAILED)
_STOPPED = ("TIMEOUT", "NODE_FAIL", "PREEMPTED", "CANCELLED")
_TROUBLE = (SignatureRole.ROOT, SignatureRole.CASCADE)


def conclude(view: CaseView) -> list[Hypothesis]:
    """The hypotheses that stand, best first; empty when nothing failed."""
    if ended_well(view):
        return []
    found = weigh(view)
    if found and found[0].cause == "cancelled":
        return found
    if _only_parted(view):
        return []
    teardown = _after_the_end(view)
    if teardown:
        return [teardown, *found]
    failed = state_of(view) in _FAILED or bool(view.case.job.exit_code)
    if found and (failed or not _all_well(view)):
        return found
    if failed or _broke_off(view):
        return [*found, _unknown(view)]
    return []


def _all_well(view: CaseView) -> bool:
    """Every rank that spoke said that training was done, and no process ended badly."""
    if any(ended.code != 0 for ended in view.exits.values()):
        return False
    told = [story for story in view.stories.values() if story.lines]
    return bool(told) and all(story.finished for story in told)


def _only_parted(view: CaseView) -> bool:
    """Training said that it was done, and all that followed is ranks noticing that others had gone home."""
    if view.pulse.finished is None or state_of(view) in _FAILED or view.case.job.exit_code or _broke_off(view):
        return False
    if view.waiting or view.own or view.unattributed:
        return False
    return all(hit.place.rank in view.bereft for hit in view.case.hits if hit.signature.role is SignatureRole.ROOT)


def _after_the_end(view: CaseView) -> Hypothesis | None:
    """Training said that it was done, made no more progress, and only then the trouble began."""
    finished, last = view.pulse.finished, view.pulse.last
    if (
        finished is None
        or state_of(view) in _STOPPED
        or (last and last.source == finished.source and last.order > finished.order)
    ):
        return None
    later = [hit for hit in view.case.hits if hit.signature.role in _TROUBLE and hit.place.attempt == view.attempt]
    if not later or any(hit.place.source != finished.source or hit.place.order < finished.order for hit in later):
        return None
    return Hypothesis(
        cause="teardown-hang", score=0.85, reason="training had said that it was done before anything went wrong",
        proofs=[Proof(finished, Role.ROOT), Proof(later[0].place, Role.CONFIRMATION, later[0].signature.id)], whole_job=True,
        kind="outcome",
    )  # fmt: skip


def _broke_off(view: CaseView) -> bool:
    ended = [*view.exits.values(), *of_nobody(view)]
    return any(each.code != 0 for each in ended) or bool(_crashing(view)) or bool(_given_up(view))


def _given_up(view: CaseView) -> list[Place]:
    """Where a log ends with an exception by which a launcher or a rank tells of others' failure, and no training follows."""
    return [
        traceback.end
        for traceback in view.case.tracebacks
        if traceback.original.exception.rsplit(".", 1)[-1] in (*LAUNCHERS, *OF_THE_GROUP)
        and not view.survived(traceback.end)
    ]


def _crashing(view: CaseView) -> list[Hit]:
    """Kubernetes' words on containers that it starts again and again."""
    return [hit for hit in view.case.hits if hit.signature.id == "k8s-crash-loop" and not placed_later(view, hit)]


def _unknown(view: CaseView) -> Hypothesis:
    places = (
        [ended.place for ended in (*view.exits.values(), *of_nobody(view)) if ended.code]
        + _given_up(view)
        + [hit.place for hit in _crashing(view)]
    )
    pod = next((host for hit in _crashing(view) if (host := hit.captures.get("host"))), "POD")
    return Hypothesis(
        cause="unknown", score=0.3, reason="it failed, and nothing that was read says why",
        proofs=[Proof(place, Role.CONTEXT) for place in places[:2]], kind="outcome",
        missing=[f"What the container wrote before it crashed: `kubectl logs {pod} --previous`."] if _crashing(view) else [],
    )  # fmt: skip
