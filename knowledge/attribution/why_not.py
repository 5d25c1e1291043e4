"""Why an explanation that was weighed was not chosen: what it rests on, and what speaks for the one that leads."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.attribution.clocks import SURE
from knowledge.attribution.hypothesis import Hypothesis
from knowledge.attribution.notation import compress
from knowledge.attribution.platform import SCHEDULERS
from knowledge.attribution.view import CaseView
from knowledge.causes import load_causes
from knowledge.reading.evidence import Place

_STOPPED = (-15, 143)  # exit codes of processes that their launcher ended


def why_not(view: CaseView, best: Hypothesis, other: Hypothesis) -> str:
    """One sentence for an engineer, true of this job: why `other` yields to `best`."""
    return f"{_capital(_rests_on(view, best, other))}; {_speaks_for(best)}."


def _rests_on(view: CaseView, best: Hypothesis, other: Hypothesis) -> str:
    who, same = _who(other.ranks), bool(other.ranks) and set(other.ranks) <= set(best.ranks)
    if other.kind == "waiting":
        return _of_waiting(view, other, who)
    if other.kind == "network":
        where = ", ".join(other.hosts) or who or "a host"
        return f"others lost their connection to {where}, which follows from any end of a rank there"
    if other.kind == "endings":
        return f"{other.reason.removesuffix(' and it said nothing itself')}, which says how {who or 'ranks'} ended and not why"
    if other.kind == "own_errors" and same:
        return f"what {who} reports, {_title(other)}, is explained by the cause that leads"
    if other.kind == "own_errors":
        return _of_another_error(best, other, who)
    if other.kind == "loose" and other.signature and not any(proof.place.rank is None for proof in other.proofs):
        return f"only ranks that suffered from others report {_title(other)}, and not who began it"
    if other.kind == "loose":
        return f"the lines that speak of {_title(other)} do not tell whose they are"
    if other.kind == "platform":
        return f"the scheduler's words, {_title(other)}, tell what it did and not what led to it"
    if other.kind == "hardware":
        return f"the node's log also tells of {_title(other)}"
    if other.kind == "interfaces":
        return "the connections that failed are explained by the cause that leads"
    return f"{who or 'it'}: {other.reason}" if who else other.reason


def _of_waiting(view: CaseView, other: Hypothesis, who: str) -> str:
    if not other.ranks:
        timed_out = bool(view.waiting)
        return (
            f"ranks that {'timed out' if timed_out else 'lost a connection'} only tell that others failed them, not why"
        )
    if all((ended := view.exits.get(rank)) and ended.code in _STOPPED for rank in other.ranks):
        return f"{who} fell silent because the launcher ended it (SIGTERM) after the failure"
    unheard = [rank for rank in other.ranks if rank in view.gaps.unheard]
    if unheard:
        return f"nothing was read of {who}, and that alone proves nothing"
    if load_causes()[other.cause].fact_that_decides:
        return f"{who} fell silent, which fits many causes"
    return f"{who}: {other.reason}"


def _of_another_error(best: Hypothesis, other: Hypothesis, who: str) -> str:
    if other.traceback and other.traceback.warned:
        return f"{who or 'a rank'} says that it got over its error"
    lead, later = _first(best), _first(other)
    if lead and later and lead.seconds is not None and later.seconds is not None and lead.host == later.host:
        apart = later.seconds - lead.seconds
        if apart > SURE:
            return f"the error of {who or 'a rank'} ({_title(other)}) came {apart:.0f} s later"
    if not who:
        return f"the lines that speak of {_title(other)} do not tell whose they are"
    return f"{who} met an error too ({_title(other)})"


def _speaks_for(best: Hypothesis) -> str:
    who, hosts = _who(best.ranks), ", ".join(best.hosts)
    if best.kind == "own_errors" and "error" in best.reason:
        itself = "themselves" if len(best.ranks) > 1 else "itself"
        named = f"{who} met {_title(best)} {itself}" if who else f"{_title(best)} was met by the ranks themselves"
        return named if not best.whole_job else f"every rank met {_title(best)}, so no rank began it"
    if best.kind == "hardware":
        return f"the log of {hosts or 'the node'} itself tells of {_title(best)}"
    if best.kind == "platform" and best.signature:
        return f"{'the scheduler itself' if best.reason == SCHEDULERS else 'a line about the whole job'} tells of {_title(best)}"
    if best.kind == "named":
        return f"a line accuses {who}" if who else "lines tell who differs"
    if best.kind == "endings":
        return f"of {who}, {best.reason}" if who else best.reason
    return f"of {who} it is known more: {best.reason}" if who else best.reason


def _first(one: Hypothesis) -> Place | None:
    return one.proofs[0].place if one.proofs else None


def _who(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {compress(ranks)}" if ranks else ""


def _title(one: Hypothesis) -> str:
    title = (
        one.signature.title if one.signature and one.signature.cause == one.cause else load_causes()[one.cause].title
    )
    return f'"{title}"'


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
