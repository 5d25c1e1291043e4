"""What the scheduler decided: time limit, preemption, a node that went down, a person who cancelled."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.view import CaseView
from knowledge.causes import load_causes
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Hit
from knowledge.reading.roster import KINDS_OF_RANKS
from knowledge.signature import Scope, SignatureRole, SourceKind
from knowledge.tables.exits import Kind, job_state, job_states

_STATES = {state.state: state.cause for state in job_states().values() if state.cause}
_OVERRULING = ("DEADLINEEXCEEDED", "EVICTED", "PREEMPTED")  # as the reason of a pod or job that "Failed"
_LOCATED = ("host-oom", "node-failure")
"""States that tell of one place in the job, without saying which."""

_LEADS_TO = {"prolog-failed": "launch-failed"}
"""What the scheduler's lines tell of, and the state that it gives the job for it."""

_WELL = frozenset(state.state for state in job_states().values() if state.kind is Kind.WELL)


def state_of(view: CaseView) -> str:
    """The scheduler's word for the job's end, upper case without what follows it; empty when not known."""
    word = view.case.job.state or ""
    known = job_state(word)
    words = known.state if known else word.replace(" ", "").upper()
    if words == "FAILED" and (reason := job_state(view.case.job.reason or "")) and reason.state in _OVERRULING:
        return reason.state
    return words


def ended_well(view: CaseView) -> bool:
    """Whether the scheduler says that the job succeeded."""
    return state_of(view) in _WELL


def job_hits(view: CaseView) -> list[Hit]:
    """Root lines about the whole job, from wherever they stand."""
    return [
        hit
        for hit in view.case.hits
        if hit.signature.role is SignatureRole.ROOT
        and (hit.signature.scope is Scope.JOB or hit.place.source.kind in (SourceKind.SCHEDULER, SourceKind.KUBERNETES))
        and hit.place.attempt in (view.attempt, 0)
        and not view.survived(hit.place)
        and not placed_later(view, hit)
        and not _outlived(view, hit)
        and not _of_earlier_pod(view, hit)
    ]


def _of_earlier_pod(view: CaseView, hit: Hit) -> bool:
    """Whether a line is about a pod that another replaced, where the last attempt is asked for."""
    pod = view.case.pods.get(hit.place.host or "")
    return pod is not None and pod.replaced and view.attempt == view.case.last_attempt


_GRACE = {"node-failure": 180.0}
"""Seconds that the scheduler may leave a job after it told it to stop; for all else:"""
_LONGEST_GRACE = 900.0


def _outlived(view: CaseView, hit: Hit) -> bool:
    """Whether the source of a stop of the whole job goes on long after it: the job was started again, into the same file."""
    stop, state = hit.place, _STATES.get(state_of(view))
    if hit.signature.scope is not Scope.JOB or stop.source.kind not in KINDS_OF_RANKS:
        return False
    if (
        view.case.job.attempt
        and state_of(view) == "FAILED"
        and hit.signature.cause in _STATES.values()
        and state is None
    ):
        return True  # the last attempt failed by itself, and an earlier one was stopped
    if stop.seconds is None:
        return False
    grace = _GRACE.get(hit.signature.cause, _LONGEST_GRACE)
    seen = [view.pulse.last, *(other.place for other in view.case.hits), *(ended.place for ended in view.case.exits)]
    seen += [place for story in view.stories.values() for place in (story.last, *story.words)]
    return any(
        place.order > stop.order and place.seconds is not None and place.seconds > stop.seconds + grace
        for place in seen
        if place is not None and place.source == stop.source
    )


def placed_later(view: CaseView, hit: Hit) -> bool:
    """Whether a pod came to a good end after all, or found a node or got its image, which it had not at first."""
    if hit.place.source.kind is SourceKind.KUBERNETES and hit.place.host in view.case.pods_done:
        return True
    got = {"unschedulable": {*view.case.pod_nodes, *view.case.pods_started}, "image-pull": view.case.pods_started}
    return hit.place.host in got.get(hit.signature.cause, ())


SCHEDULERS, OF_THE_JOB = "the scheduler's own words", "a line about the job as a whole"
"""Reasons of what `propose` finds."""


def _of_scheduler(hit: Hit) -> bool:
    layer = load_causes()[hit.signature.cause].layer
    return layer in ("scheduler", "kubernetes") or hit.place.source.kind in (
        SourceKind.SCHEDULER,
        SourceKind.KUBERNETES,
    )


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """One hypothesis for each decision of the platform that the evidence shows."""
    stated = _STATES.get(state_of(view))
    by_cause: dict[str, list[Hit]] = {}
    for hit in job_hits(view):
        by_cause.setdefault(hit.signature.cause, []).append(hit)
    for cause, hits in by_cause.items():
        lead = hits[0]
        ranks: list[int] = []
        hosts: list[str] = []
        located = [
            hit
            for hit in hits
            if hit.signature.scope is not Scope.JOB or hit.place.source.kind is SourceKind.KUBERNETES
        ]
        if lead.signature.scope is Scope.RANK:
            ranks = sorted({rank for hit in hits if (rank := view.rank_of_hit(hit)) is not None})
            hosts = view.hosts_of(ranks)
        if not ranks:
            hosts = list(dict.fromkeys(host for hit in located if (host := hit.captures.get("host") or hit.place.host)))
            ranks = [rank for host in hosts for rank in view.ranks_on(host)]
        agrees = stated is not None and stated in (cause, _LEADS_TO.get(cause))
        yield Hypothesis(
            cause=cause, score=0.97 if agrees else 0.9, reason=SCHEDULERS if _of_scheduler(lead) else OF_THE_JOB, ranks=ranks, hosts=hosts,
            proofs=[Proof(hit.place, Role.ROOT, hit.signature.id) for hit in hits[:3]], signature=lead.signature,
            captures=lead.captures, failed=cause != "cancelled", whole_job=not ranks,
        )  # fmt: skip
    if stated == "time-limit" or "time-limit" in by_cause:
        yield from _silent_before(view, by_cause.get("time-limit", []))
    if stated and stated not in {*by_cause, *map(_LEADS_TO.get, by_cause)}:
        yield Hypothesis(
            cause=stated, score=0.95, reason=f"the scheduler's state is {view.case.job.state}",
            failed=stated != "cancelled", whole_job=stated not in _LOCATED,
        )  # fmt: skip


_QUIET = 600.0  # seconds without a step before the limit from which the limit is only the executioner


def _silent_before(view: CaseView, hits: list[Hit]) -> Iterator[Hypothesis]:
    """Training had stopped long before the time limit ended the job: a hang, not a limit that was too short."""
    ended = max((hit.place.seconds for hit in hits if hit.place.seconds is not None), default=None)
    if ended is None and view.case.job.ended_at:
        ended = view.case.job.ended_at.timestamp()
    pulse = view.pulse
    if ended is None or pulse.last is None or pulse.last.seconds is None:
        return
    quiet = ended - pulse.last.seconds
    if not any(hit.place.source == pulse.last.source for hit in hits):
        quiet %= 3600  # logs without a zone: whole hours between two sources mean nothing
    if quiet <= max(_QUIET, 10 * pulse.pace):
        return
    yield Hypothesis(
        cause="rank-hang", score=0.985, whole_job=True,
        proofs=[Proof(pulse.last, Role.ROOT), *(Proof(hit.place, Role.CONTEXT, hit.signature.id) for hit in hits[:1])],
        reason=f"training fell silent {quiet / 60:.0f} minutes before the time limit, at a line every {pulse.pace:.0f} s until then",
        missing=[
            "Which rank hung: stacks of all ranks (`py-spy dump --pid`) at the next hang, or a flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE=2000)."
        ],
    )  # fmt: skip
