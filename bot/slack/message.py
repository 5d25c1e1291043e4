"""One incident, one message: who began it, why, the line that proves it, what to do, and how sure we are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from bot.slack import phrases, rich
from bot.slack.contract import Block, IncidentStatus, SlackMessage, State
from bot.slack.escape import link, literal, mrkdwn
from knowledge.diagnosis import Diagnosis, Evidence, Outcome, Role
from knowledge.job import JobFacts

HEADLINE_BLOCKS = 3
"""The first blocks (headline, facts, verdict) stand above the coloured bar: Slack may fold what is beside it."""

MAX_BLOCKS = 12
MAX_CHARACTERS = 12_000  # of all blocks as JSON; Slack refuses from about 13,200 on
MAX_TEXT = 4_000

_LOOKS = {
    State.OPEN: ("🔴", "#c62828"),
    State.ACKNOWLEDGED: ("🟠", "#daa038"),
    State.RESOLVED: ("🟢", "#2eb886"),
    State.MUTED: ("⚪", "#9e9e9e"),
}
_NO_FAILURE = ("⚪", "#9e9e9e")
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


_EVER_TIGHTER = (_Limits(), _Limits(2, 300, 5, 300, 2, 300, 2, 300, 400), _Limits(1, 200, 3, 150, 1, 150, 1, 150, 200))


def render(job: JobFacts, diagnosis: Diagnosis, status: IncidentStatus) -> SlackMessage:
    """Return the message for an incident. Whatever the inputs hold, it fits Slack's limits and nothing is live."""
    emoji, colour = _LOOKS[status.state] if diagnosis.outcome is Outcome.FAILED else _NO_FAILURE
    headline = f"{emoji} {phrases.headline(job, diagnosis, status.state)}"
    blocks: list[Block] = []
    for limits in _EVER_TIGHTER:
        blocks = _blocks(headline, job, diagnosis, status, limits)
        if len(json.dumps(blocks, ensure_ascii=False)) <= MAX_CHARACTERS:
            break
    return SlackMessage(text=_story(headline, job, diagnosis, status), blocks=blocks, colour=colour)


def _blocks(headline: str, job: JobFacts, diagnosis: Diagnosis, status: IncidentStatus, limits: _Limits) -> list[Block]:
    proof, remedy, unknown = _proof(diagnosis, limits), _remedy(diagnosis, limits), _unknown(diagnosis, limits)
    parts = [
        rich.header(headline),
        rich.context(mrkdwn(_facts(job), 500)),
        _verdict(job, diagnosis, limits),
        proof,
        *((unknown, remedy) if _guess(diagnosis) else (remedy, unknown)),
        _footer(job, diagnosis, status),
    ]
    return [block for block in parts if block is not None]


def _facts(job: JobFacts) -> str:
    return " · ".join(phrases.facts(job)) or "The scheduler's facts about this job are not known."


def _verdict(job: JobFacts, diagnosis: Diagnosis, limits: _Limits) -> Block:
    where = literal(phrases.where(diagnosis.initiating), 200)
    parts = [rich.bold(_title(diagnosis))]
    if where:
        parts += [rich.plain(" on "), rich.bold(where)]
    told = _told(job, diagnosis, limits.summary)
    if told:
        parts.append(rich.plain("\n" + told))
    return rich.rich_text(rich.section(*parts))


def _title(diagnosis: Diagnosis) -> str:
    title = literal(diagnosis.cause.title, 200) or "Cause unknown"
    return f"Perhaps: {title}" if _guess(diagnosis) and diagnosis.cause.id != "unknown" else title


def _told(job: JobFacts, diagnosis: Diagnosis, limit: int) -> str:
    """What happened in a sentence or three: the summary, who else fell, and who cannot be named."""
    sentences = [literal(diagnosis.cause.summary, limit)]
    if diagnosis.outcome is Outcome.FAILED:
        sentences.append(phrases.collateral(job, diagnosis))
        if not phrases.where(diagnosis.initiating):
            guess = _guess(diagnosis)
            sentences.append("Nobody can be named from what has arrived." if guess else "No single rank began it.")
    return " ".join(sentence for sentence in sentences if sentence)


def _guess(diagnosis: Diagnosis) -> bool:
    return diagnosis.outcome is Outcome.FAILED and diagnosis.confidence < phrases.SURE


def _proof(diagnosis: Diagnosis, limits: _Limits) -> Block | None:
    elements: list[rich.Element] = []
    for evidence in _proving(diagnosis)[: limits.lines]:
        heading = [] if elements else [rich.bold("Proof: " if evidence.role in _STRONG else "Seen: ")]
        elements.append(rich.section(*heading, rich.plain(literal(_origin(evidence), 200))))
        elements.append(rich.preformatted(literal(evidence.text, limits.line) or " "))
    return rich.rich_text(*elements) if elements else None


def _proving(diagnosis: Diagnosis) -> list[Evidence]:
    """Root lines and what confirms them; cascade lines only where nothing better exists."""
    ordered = sorted(diagnosis.evidence, key=lambda evidence: _PROOF[evidence.role])
    strong = [evidence for evidence in ordered if evidence.role in _STRONG]
    return strong or ordered[:1]


def _origin(evidence: Evidence) -> str:
    """`gpu-n17/kern.log:812 · rank 137 · 03:12:07 UTC`."""
    shown = [f"{evidence.source}:{evidence.line}"]
    if evidence.host and evidence.host not in evidence.source:
        shown.append(evidence.host)
    if evidence.rank is not None:
        shown.append(f"rank {evidence.rank}")
    if evidence.time is not None:
        shown.append(f"{evidence.time:%H:%M:%S %Z}".strip())
    return " · ".join(shown)


def _remedy(diagnosis: Diagnosis, limits: _Limits) -> Block | None:
    elements = []
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
    return rich.rich_text(*elements) if elements else None


def _bounded(texts: Sequence[str], limit: int, noun: str) -> list[str]:
    kept = [text for text in texts if text]
    hidden = len(kept) - limit
    return kept if hidden <= 0 else [*kept[:limit], f"… and {hidden} more {noun}{'' if hidden == 1 else 's'}"]


def _unknown(diagnosis: Diagnosis, limits: _Limits) -> Block | None:
    """What would decide. For a guess this is the most useful line of all; the first missing fact decides most."""
    missing = [literal(fact, limits.fact) for fact in diagnosis.missing if fact.strip()]
    if not missing:
        return None
    if _guess(diagnosis):
        return rich.rich_text(rich.section(rich.bold("What would decide it: "), *rich.prose(missing[0])))
    shown = _bounded(missing, limits.facts, "fact")
    return rich.context(mrkdwn("Missing: " + "; ".join(shown), limits.facts * limits.fact))


def _footer(job: JobFacts, diagnosis: Diagnosis, status: IncidentStatus) -> Block:
    shown = [mrkdwn(part, 200) for part in _standing(job, diagnosis, status)]
    if status.url:
        shown.append(link(status.url, "Incident"))
    return rich.context(" · ".join(shown))


def _standing(job: JobFacts, diagnosis: Diagnosis, status: IncidentStatus) -> list[str]:
    failed = diagnosis.outcome is Outcome.FAILED
    parts = [
        phrases.certainty(diagnosis),
        phrases.recurrence(status, job.ended_at) if failed else "",
        phrases.reported(status),
    ]
    return [part for part in parts if part]


def _story(headline: str, job: JobFacts, diagnosis: Diagnosis, status: IncidentStatus) -> str:
    """All of it in plain words, for notifications, screen readers and clients without blocks."""
    where = phrases.where(diagnosis.initiating)
    lines = [
        f"{headline} ({_facts(job)})",
        f"{_title(diagnosis)}{f' on {where}' if where else ''}. {_told(job, diagnosis, 600)}".rstrip(),
    ]
    lines += [f"{_origin(evidence)}: {literal(evidence.text, 400)}" for evidence in _proving(diagnosis)[:1]]
    lines += [f"Fix {number}: {literal(step, 300)}" for number, step in enumerate(diagnosis.fix[:4], 1)]
    lines += [f"Verify: {literal(step.run, 200)} → {literal(step.expect, 200)}" for step in diagnosis.verify[:1]]
    if diagnosis.missing and _guess(diagnosis):
        lines.append(f"What would decide it: {literal(diagnosis.missing[0], 400)}")
    if diagnosis.outcome is Outcome.FAILED:
        lines.append(f"Restart: {phrases.restart(diagnosis)}")
    lines.append(" · ".join(_standing(job, diagnosis, status)))
    return _fitted(lines)


def _fitted(lines: Sequence[str]) -> str:
    """Escaped lines, as many as MAX_TEXT holds."""
    text = ""
    for line in lines:
        room = MAX_TEXT - len(text) - 1
        if room < 40:
            break
        text += ("\n" if text else "") + mrkdwn(line, min(1_000, room))
    return text
