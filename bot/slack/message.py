"""One incident, one message: who began it, why, the line that proves it, what to do, and how sure we are."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from bot.slack import buttons, phrases, rich, standing
from bot.slack.contract import Block, IncidentStatus, SlackMessage, State
from bot.slack.escape import link, literal, mrkdwn, person
from bot.slack.lines import evidence_origin
from bot.slack.members import members
from knowledge.diagnosis import Diagnosis, Evidence, Outcome, Role
from knowledge.job import JobFacts

HEADLINE_BLOCKS = 3
"""The first blocks (headline, facts, verdict) stand above the coloured bar: Slack may fold what is beside it."""

MAX_BLOCKS = 12
MAX_CHARACTERS = 12_000  # of all blocks as JSON; Slack refuses from about 13,200 on
MAX_TEXT = 4_000
ROOM = 400  # characters of both, for a remark that the message is late

_LOOKS = {
    State.OPEN: ("🔴", "#c62828"),
    State.ACKNOWLEDGED: ("🟠", "#daa038"),
    State.RESOLVED: ("🟢", "#2eb886"),
    State.MUTED: ("⚪", "#9e9e9e"),
}
_NO_FAILURE = ("⚪", "#9e9e9e")
_RECOVERED = ("🔵", "#1d9bd1")
_PROOF = {Role.ROOT: 0, Role.CONFIRMATION: 1, Role.CONTEXT: 2, Role.CASCADE: 3}
_STRONG = {Role.ROOT, Role.CONFIRMATION}


@dataclass(frozen=True, slots=True)
class _Limits:
    """How much of each part is shown; characters unless they count things."""

    lines: int = 3
    line: int = 400
    steps: int = 6
    step: int = 400
    commands: int = 3
    command: int = 300
    facts: int = 3
    fact: int = 400
    summary: int = 600
    members: int = 20


_EVER_TIGHTER = (
    _Limits(),
    _Limits(2, 300, 5, 300, 2, 300, 2, 300, 400, 15),
    _Limits(2, 250, 4, 200, 2, 200, 2, 200, 300, 10),
    _Limits(1, 200, 3, 150, 1, 150, 1, 150, 200, 5),
)


def render(job: JobFacts, diagnosis: Diagnosis, status: IncidentStatus) -> SlackMessage:
    """Return the message for an incident. Whatever the inputs hold, it fits Slack's limits and nothing is live."""
    emoji, colour = _look(diagnosis, status)
    headline = f"{emoji} {phrases.headline(job, diagnosis, status)}"
    blocks: list[Block] = []
    for limits in _EVER_TIGHTER:
        blocks = _blocks(headline, job, diagnosis, status, limits)
        if len(json.dumps(blocks, ensure_ascii=False)) <= MAX_CHARACTERS - ROOM:
            break
    return SlackMessage(text=_story(headline, job, diagnosis, status), blocks=blocks, colour=colour)


def render_merged(job: JobFacts, into: str | None) -> SlackMessage:
    """Return what a message says whose incidents another one tells; `into` is the address of that one."""
    name = mrkdwn(job.name or f"Job {job.job_id or ''}".strip(), 100)
    told = f"⚪ {name} failed as many jobs did: folded into {link(into, 'one message') if into else 'one message'}."
    return SlackMessage(text=told, blocks=[rich.context(told)], colour="")


def _look(diagnosis: Diagnosis, status: IncidentStatus) -> tuple[str, str]:
    if diagnosis.outcome is not Outcome.FAILED:
        return _NO_FAILURE
    if phrases.stands(status) == "recovered":
        return _RECOVERED
    return _LOOKS[status.state]


def _blocks(headline: str, job: JobFacts, diagnosis: Diagnosis, status: IncidentStatus, limits: _Limits) -> list[Block]:
    """At most five blocks stand beside the bar: of more, Slack hides the last, and those are the buttons."""
    done = standing.deeds(status)
    body = _body(diagnosis, limits)
    others = members(status, limits.members)
    long = others is not None and others["type"] == "table"  # nobody should have to scroll past it to the buttons
    parts = [
        rich.header(headline),
        rich.context(_facts_line(job, status)),
        _verdict(job, diagnosis, status, limits),
        rich.context(done) if done else None,
        rich.rich_text(*body) if body else None,
        None if long else others,
        _footer(job, diagnosis, status, limits),
        buttons.row(diagnosis, status),
        others if long else None,
    ]
    return [block for block in parts if block is not None]


def _facts_line(job: JobFacts, status: IncidentStatus) -> str:
    """The facts, and the owner's mention, which takes the place of the name that the scheduler knows."""
    if status.owner is None:
        return mrkdwn(_facts(job, status), 500)
    facts = _facts(job.model_copy(update={"user": None}), status)
    return f"{mrkdwn(facts, 500)} · {person(status.owner)}"


def _facts(job: JobFacts, status: IncidentStatus) -> str:
    facts = phrases.facts(job)
    if phrases.several_jobs(status) and facts:
        return " · ".join([f"Example: {job.name}" if job.name else "Example", *facts])
    return " · ".join(facts) or "The scheduler's facts about this job are not known."


def _verdict(job: JobFacts, diagnosis: Diagnosis, status: IncidentStatus, limits: _Limits) -> Block:
    word, where = _where(diagnosis, status)
    parts = [rich.bold(_title(diagnosis))]
    if where:
        parts += [rich.plain(word), rich.bold(where)]
    told = _told(job, diagnosis, status, limits.summary)
    if told:
        parts.append(rich.plain("\n" + told))
    return rich.rich_text(rich.section(*parts))


def _where(diagnosis: Diagnosis, status: IncidentStatus) -> tuple[str, str]:
    """` on ` and who began it. Several jobs may share a host; else that of the one whose lines are shown is an example."""
    where = literal(phrases.where(diagnosis.initiating), 200)
    if not phrases.several_jobs(status):
        return " on ", where
    if len({member.where for member in status.members}) == 1:
        return " on ", literal(phrases.hosts(diagnosis.initiating.hosts), 200)
    return ", for example on ", where


def _title(diagnosis: Diagnosis) -> str:
    title = literal(diagnosis.cause.title, 200) or "Cause unknown"
    return f"Perhaps: {title}" if _guess(diagnosis) and diagnosis.cause.id != "unknown" else title


def _told(job: JobFacts, diagnosis: Diagnosis, status: IncidentStatus, limit: int) -> str:
    """What happened in a sentence or three: the summary, who else fell, and who cannot be named.

    Of several jobs only what they have in common: the ranks of one of them would mislead.
    """
    sentences = [literal(diagnosis.cause.summary, limit)]
    if diagnosis.outcome is Outcome.FAILED and not phrases.several_jobs(status):
        sentences.append(phrases.collateral(job, diagnosis))
        if not phrases.where(diagnosis.initiating):
            sentences.append(phrases.nobody(diagnosis, source="what has arrived"))
    return " ".join(sentence for sentence in sentences if sentence)


def _guess(diagnosis: Diagnosis) -> bool:
    return diagnosis.outcome is Outcome.FAILED and diagnosis.confidence < phrases.SURE


def _body(diagnosis: Diagnosis, limits: _Limits) -> list[rich.Element]:
    """The proof, what to do, and for a guess, what would decide it."""
    proof, remedy = _proof(diagnosis, limits), _remedy(diagnosis, limits)
    if not _guess(diagnosis) or not _missing(diagnosis, limits):
        return [*proof, *remedy]
    decides = rich.section(rich.bold("What would decide it: "), *rich.prose(_missing(diagnosis, limits)[0]))
    return [*proof, decides, *remedy]


def _proof(diagnosis: Diagnosis, limits: _Limits) -> list[rich.Element]:
    elements: list[rich.Element] = []
    for evidence in _proving(diagnosis)[: limits.lines]:
        heading = [] if elements else [rich.bold("Proof: " if evidence.role in _STRONG else "Seen: ")]
        elements.append(rich.section(*heading, rich.plain(literal(evidence_origin(evidence), 200))))
        elements.append(rich.preformatted(literal(evidence.text, limits.line) or " "))
    return elements


def _proving(diagnosis: Diagnosis) -> list[Evidence]:
    """Root lines and what confirms them, one of each kind; cascade lines only where nothing better exists."""
    ordered = sorted(diagnosis.evidence, key=lambda evidence: _PROOF[evidence.role])
    kinds: dict[str, Evidence] = {}
    for evidence in ordered:
        if evidence.role in _STRONG:
            kinds.setdefault(re.sub(r"\d+", "#", evidence.text), evidence)
    return list(kinds.values()) or ordered[:1]


def _remedy(diagnosis: Diagnosis, limits: _Limits) -> list[rich.Element]:
    elements: list[rich.Element] = []
    steps = _bounded([literal(step, limits.step) for step in diagnosis.fix], limits.steps, "step")
    if steps:
        elements += [rich.section(rich.bold("Fix:")), rich.listing("ordered", [rich.prose(step) for step in steps])]
    commands = [
        [rich.code(literal(step.run, limits.command)), rich.plain(f" → {literal(step.expect, limits.command)}")]
        for step in diagnosis.verify[: limits.commands]
        if literal(step.run, limits.command)
    ]
    if commands:
        elements += [rich.section(rich.bold("Verify:")), rich.listing("bullet", commands)]
    if diagnosis.outcome is Outcome.FAILED:
        restart = literal(phrases.restart(diagnosis), 200)
        elements.append(rich.section(rich.bold("Restart: "), rich.plain(restart)))
    return elements


def _bounded(texts: Sequence[str], limit: int, noun: str) -> list[str]:
    kept = [text for text in texts if text]
    hidden = len(kept) - limit
    return kept if hidden <= 0 else [*kept[:limit], f"… and {hidden} more {noun}{'' if hidden == 1 else 's'}"]


def _missing(diagnosis: Diagnosis, limits: _Limits) -> list[str]:
    """What is not known, the fact that decides most first."""
    return [literal(fact, limits.fact) for fact in diagnosis.missing if fact.strip()]


def _footer(job: JobFacts, diagnosis: Diagnosis, status: IncidentStatus, limits: _Limits) -> Block:
    failed = diagnosis.outcome is Outcome.FAILED
    sure = [mrkdwn(part, 200) for part in (phrases.certainty(diagnosis), phrases.reported(status)) if part]
    if failed and not status.before:
        sure.insert(1, standing.seen(status, job.ended_at))
    if status.url:
        sure.append(link(status.url, "Incident"))
    lines = [" · ".join(sure)]
    if failed and status.before:
        lines.append(standing.seen(status, job.ended_at))
    missing = _missing(diagnosis, limits)
    if missing and not _guess(diagnosis):
        shown = _bounded(missing, limits.facts, "fact")
        lines.append(mrkdwn("Missing: " + "; ".join(shown), limits.facts * limits.fact))
    return rich.context("\n".join(lines))


def _story(headline: str, job: JobFacts, diagnosis: Diagnosis, status: IncidentStatus) -> str:
    """All of it in plain words, for notifications, screen readers and clients without blocks."""
    word, where = _where(diagnosis, status)
    failed = diagnosis.outcome is Outcome.FAILED
    raw = [f"{_title(diagnosis)}{f'{word}{where}' if where else ''}. {_told(job, diagnosis, status, 600)}".rstrip()]
    raw += [f"{evidence_origin(evidence)}: {literal(evidence.text, 400)}" for evidence in _proving(diagnosis)[:1]]
    raw += [f"Fix {number}: {literal(step, 300)}" for number, step in enumerate(diagnosis.fix[:4], 1)]
    raw += [f"Verify: {literal(step.run, 200)} → {literal(step.expect, 200)}" for step in diagnosis.verify[:1]]
    if diagnosis.missing and _guess(diagnosis):
        raw.append(f"What would decide it: {literal(diagnosis.missing[0], 400)}")
    if failed:
        raw.append(f"Restart: {phrases.restart(diagnosis)}")
    raw.append(" · ".join(part for part in (phrases.certainty(diagnosis), phrases.reported(status)) if part))
    return _fitted(
        [
            f"{mrkdwn(headline, 300)} ({_facts_line(job, status)})",
            standing.deeds(status),
            *(mrkdwn(line, 1_000) for line in raw),
            phrases.capital(standing.seen(status, job.ended_at)) if failed else "",
        ]
    )


def _fitted(lines: Sequence[str]) -> str:
    """Escaped lines, as many as fit; none is cut, so that no mention and no entity is."""
    kept: list[str] = []
    room = MAX_TEXT - ROOM
    for line in lines:
        if line and len(line) < room:
            kept.append(line)
            room -= len(line) + 1
    return "\n".join(kept)
