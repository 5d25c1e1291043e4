"""From the best hypothesis to a Diagnosis: every sentence rests on lines that were read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from knowledge.attribution.calibration import confidence_of, grounds_of
from knowledge.attribution.earlier import Earlier
from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.notation import compress
from knowledge.attribution.platform import ended_well
from knowledge.attribution.view import CaseView
from knowledge.attribution.why_not import why_not
from knowledge.causes import Cause, load_causes
from knowledge.diagnosis import (
    Alternative,
    CauseFound,
    Collateral,
    Diagnosis,
    Evidence,
    Initiating,
    Outcome,
    Restart,
    Role,
    VerifyStep,
)
from knowledge.fingerprint import fingerprint
from knowledge.job import JobFacts
from knowledge.redaction import redact
from knowledge.signature import CAPTURES, Nature, SourceKind

MAX_EVIDENCE = 12
_MOST_ALTERNATIVES = 3
_SURE = 0.8  # confidence below which it is told which logs are not whole


_PLACE = re.compile(r"\{(" + "|".join(sorted(CAPTURES)) + r")\}")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:,@\[\]-]{0,79}")
"""What a value from a log may look like in a command that a person will paste."""


def _sentence(template: str, values: Mapping[str, str]) -> str | None:
    """The sentence with its places filled, or None where a value is not known."""
    if any(not values.get(place) for place in _PLACE.findall(template)):
        return None
    return _PLACE.sub(lambda found: values[found[1]], template)


def _step(template: str, values: Mapping[str, str]) -> str:
    """A step or command with its places filled; HOST stands where the host is not known, or is no plain name."""

    def fill(found: re.Match[str]) -> str:
        value = values.get(found[1], "")
        return value if _PLAIN.fullmatch(value) else found[1].upper()

    return _PLACE.sub(fill, template)


def report(view: CaseView, hypotheses: Sequence[Hypothesis]) -> Diagnosis:
    """Write the diagnosis for the first of `hypotheses`; none: nothing speaks of a failure."""
    causes = load_causes()
    if not hypotheses:
        return _no_failure(view, causes["none"])
    best = hypotheses[0]
    cause = causes[best.cause]
    ranks = sorted(best.ranks)
    hosts = list(dict.fromkeys(name for host in best.hosts for name in (view.node_under(host), host) if name))
    values = _values(best, hosts)
    signature = best.signature if best.signature and best.signature.cause == best.cause else None
    confidence = confidence_of(grounds_of(view, hypotheses))
    return Diagnosis(
        schema=1,
        outcome=Outcome.FAILED if best.failed else Outcome.NOT_A_FAILURE,
        cause=CauseFound(
            id=cause.id, layer=cause.layer, title=signature.title if signature else _title(best, cause),
            summary=redact(_summary(best, cause, values)),
        ),
        initiating=Initiating(ranks=ranks, hosts=hosts),
        collateral=_collateral(view, best),
        confidence=confidence,
        evidence=_evidence(view, best),
        alternatives=_alternatives(view, best, hypotheses[1:]),
        missing=_missing(view, best, cause, confidence),
        fix=[_step(step, values) for step in (signature.fix if signature else cause.fix)],
        verify=[
            VerifyStep(run=_step(step.run, values), expect=step.expect)
            for step in (signature.verify if signature else cause.verify)
        ],
        restart=signature.restart if signature else cause.restart,
        suspect_nodes=hosts if (signature.node_suspect if signature else cause.node_suspect) else [],
        fingerprint=fingerprint(best.cause, signature.id if signature else None, best.traceback),
    )  # fmt: skip


def tell_earlier(diagnosis: Diagnosis, earlier: Earlier) -> None:
    """Add to the last attempt's diagnosis what ended an attempt before it."""
    one = earlier.hypothesis
    cause = load_causes()[one.cause]
    what = redact(_summary(one, cause, _values(one, list(dict.fromkeys(one.hosts)))))
    told = f"Attempt {earlier.attempt + 1} of {earlier.last + 1}"
    if earlier.same:
        diagnosis.cause.summary += f" {told} had ended the same way."
    else:
        diagnosis.cause.summary += f" This follows from an earlier failure. {told}: {what}"
        why_not = f"It ended attempt {earlier.attempt + 1}; the last one failed by what that left behind."
        alternative = Alternative(cause=one.cause, confidence=round(one.score * 0.5, 2), why_not=why_not)
        diagnosis.alternatives = [alternative, *diagnosis.alternatives[:2]]
        diagnosis.fix.insert(0, f"Repair first what ended attempt {earlier.attempt + 1}: {cause.title}.")
    proofs = [Proof(proof.place, Role.CONTEXT, proof.signature) for proof in one.proofs[:2]]
    diagnosis.evidence = [*diagnosis.evidence[: MAX_EVIDENCE - len(proofs)], *map(_line, proofs)]


def _values(best: Hypothesis, hosts: Sequence[str]) -> dict[str, str]:
    """What may stand in sentences and commands about a hypothesis, whose hosts go by these names."""
    ranks = sorted(best.ranks)
    return {
        **best.captures,
        "rank": str(ranks[0]) if len(ranks) == 1 else "",
        "ranks": compress(ranks),
        "host": hosts[0] if len(set(best.hosts)) == 1 else "",
        "hosts": ", ".join(hosts),
    }


def _title(best: Hypothesis, cause: Cause) -> str:
    if best.traceback and best.cause in ("app-exception", "data-error"):
        original = best.traceback.original
        return f"{original.exception.rsplit('.', 1)[-1]} in {_where(best) or 'the training program'}"
    return cause.title


def _where(best: Hypothesis) -> str:
    frame = best.traceback.original.innermost_user_frame if best.traceback else None
    return f"{frame.function}() ({frame.path.rsplit('/', 1)[-1]}:{frame.line})" if frame else ""


def _summary(best: Hypothesis, cause: Cause, values: Mapping[str, str]) -> str:
    if best.said:
        return best.said
    if best.signature and best.signature.cause == best.cause:
        sentence = _sentence(best.signature.summary, values)
        if sentence:
            where = _where(best)
            return f"{sentence.rstrip('.')}{f', in {where}' if where else ''}."
    if best.traceback:
        original = best.traceback.original
        who = (
            f"rank {values['rank']}"
            if values["rank"]
            else f"ranks {values['ranks']}"
            if values["ranks"]
            else "every rank"
            if best.whole_job
            else "the program"
        )
        message = f": {original.message}" if original.message else ""
        where = _where(best)
        return f"{who[0].upper()}{who[1:]} raised {original.exception}{message[:300]}{f' in {where}' if where else ''}."
    return cause.sentence(values["ranks"], values["hosts"])


def _collateral(view: CaseView, best: Hypothesis) -> Collateral:
    began = set(best.ranks)
    if not best.failed:
        return Collateral()
    others = [rank for rank in view.ranks if rank not in began] if began else []
    return Collateral(ranks=others, count=len(others))


def _evidence(view: CaseView, best: Hypothesis) -> list[Evidence]:
    proofs = list({(proof.place.source.name, proof.place.order): proof for proof in reversed(best.proofs)}.values())[
        ::-1
    ]
    began = set(best.ranks)
    seen = {(proof.place.source.name, proof.place.order) for proof in proofs}
    for victims in (view.waiting, view.bereft):
        for rank, hits in victims.items():
            place = hits[0].place
            if rank not in began and (place.source.name, place.order) not in seen and len(proofs) < MAX_EVIDENCE:
                proofs.append(Proof(place, Role.CASCADE, hits[0].signature.id))
                break
    return [_line(proof) for proof in proofs[:MAX_EVIDENCE]]


def _line(proof: Proof) -> Evidence:
    place = proof.place
    when = datetime.fromtimestamp(place.seconds, UTC) if place.seconds is not None else None
    return Evidence(
        source=place.source.name, line=place.line, rank=place.rank, host=place.host, time=when, text=redact(place.text),
        role=proof.role, signature=proof.signature,
    )  # fmt: skip


def _alternatives(view: CaseView, best: Hypothesis, others: Sequence[Hypothesis]) -> list[Alternative]:
    told = {other.cause: other for other in reversed(others) if other.cause != best.cause or other.ranks != best.ranks}
    return [
        Alternative(
            cause=other.cause, confidence=round(other.score * 0.5, 2), why_not=redact(why_not(view, best, other))
        )
        for other in others
        if told.get(other.cause) is other
    ][:_MOST_ALTERNATIVES]


def _missing(view: CaseView, best: Hypothesis, cause: Cause, confidence: float) -> list[str]:
    facts = list(best.missing)
    node = any(proof.place.source.kind in (SourceKind.KERNEL, SourceKind.NODE) for proof in best.proofs)
    if not facts and cause.fact_that_decides and not node:
        facts.append(cause.fact_that_decides)
    if not facts and cause.nature is Nature.HARDWARE and not node:
        where = f"of {', '.join(best.hosts)}" if best.hosts else "of the hosts concerned"
        facts.append(
            f"The kernel log {where} (`dmesg -T | grep -iE 'xid|nvlink|mlx5'`): only the rank's own words were read."
        )
    if confidence < _SURE and view.gaps.torn and not any("wrote last" in fact for fact in facts):
        facts.append(view.gaps.rests())
    return [redact(fact) for fact in facts] if best.failed else []


def unread(job: JobFacts) -> list[str]:
    """What reporters could not read, as facts that are missing."""
    return [redact(f"What could not be read on {each}.") for each in job.unread]


def _no_failure(view: CaseView, cause: Cause) -> Diagnosis:
    told = [story for story in view.stories.values() if story.lines]
    finished = bool(view.pulse.finished) or (bool(told) and all(story.finished for story in told))
    confidence = 0.97 if ended_well(view) else 0.9 if finished else 0.3 if view.gaps.torn else 0.55
    unsure = (
        "Whether the job ended by itself: the scheduler's state (`sacct -j JOB -o State,ExitCode`, `kubectl get job`)."
    )
    return Diagnosis(
        schema=1,
        outcome=Outcome.NOT_A_FAILURE,
        cause=CauseFound(id=cause.id, layer=cause.layer, title=cause.title, summary=cause.summary_unnamed),
        confidence=confidence,
        missing=[] if confidence > _SURE else [unsure, *([redact(view.gaps.rests())] if view.gaps.torn else [])],
        restart=Restart.UNKNOWN,
        fingerprint=fingerprint("none", None, None),
    )
