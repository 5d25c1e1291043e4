"""Work that no rank's label stands before, as progress bars have none, and that went on while others waited."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Hit, Place
from knowledge.reading.progress import is_going_on, occupation
from knowledge.signature import Says


def busy_stranger(view: CaseView, silent: Sequence[int]) -> Hypothesis | None:
    """What kept others waiting, by the last lines of nobody; it was the `silent` rank's work where there is one only."""
    victim = next((hits[0] for hits in view.waiting.values()), None) or _waiter_of_nobody(view)
    found = victim and _work(view)
    if victim is None or not found:
        return None
    place, cause = found
    ranks = silent if len(silent) == 1 else []
    return Hypothesis(
        cause=cause, score=0.6, reason="the last lines of no named rank tell what went on while the others waited", ranks=ranks,
        hosts=view.hosts_of(ranks), proofs=[Proof(place, Role.ROOT), Proof(victim.place, Role.CASCADE, victim.signature.id)],
        missing=["Which rank did this work while the others waited: one log file a rank, or `srun --label`."],
    )  # fmt: skip


def _work(view: CaseView) -> tuple[Place, str] | None:
    """The last line that tells of something slow, at the end of a source or where the first in it gave up waiting."""
    for sources in (view.case.words, view.case.words_of_waiting):
        told = [
            (place, cause)
            for places in sources.values()
            for place in places[-3:]
            if not _trained_after(view, place) and (cause := occupation(place.text))
        ]
        if told and is_going_on(told[-1][0].text):
            return told[-1]
    return None


def _trained_after(view: CaseView, place: Place) -> bool:
    last = view.pulse.last
    return last is not None and last.source == place.source and last.order > place.order


def _waiter_of_nobody(view: CaseView) -> Hit | None:
    """A line by which a rank that is not told gave up waiting until its time was up."""
    return next(
        (
            hit
            for hit in view.case.hits
            if Says.WAITING in hit.signature.says
            and hit.signature.cause == "collective-timeout"
            and hit.place.rank is None
            and hit.place.attempt == view.attempt
        ),
        None,
    )
