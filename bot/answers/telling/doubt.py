"""What else it could be, what is missing, and how sure this is."""

from __future__ import annotations

from bot.answers.asked import Asked
from bot.answers.reply import Quotes, Reply, Steps, Words
from bot.answers.telling.culprit import KINDS, kind_of, speaking_for
from bot.slack import phrases
from knowledge.causes import load_causes
from knowledge.dossier import Part


async def alternatives(asked: Asked) -> Reply:
    """Other causes that were weighed, and why they were not chosen; first the kind that was asked for."""
    diagnosis, causes = asked.diagnosis, load_causes()
    listed = [
        f"{causes[other.cause].title if other.cause in causes else other.cause} ({other.confidence:.0%}): {other.why_not}"
        for other in diagnosis.alternatives
    ]
    kinds = [kind for kind in ("node", "network", "code", "data") if kind in asked.meanings]
    told = [_about(asked, kind) for kind in kinds] + [_host(asked, host) for host in asked.slots.hosts[:2]]
    lines = tuple(line for kind in kinds for line in speaking_for(asked, kind))
    opening = f"{asked.verdict()} {phrases.certainty(diagnosis)}."
    if not listed and not told:
        told = ["No other cause found support in what was read."]
    return asked.reply(
        Words(" ".join([opening, *told])),
        Steps(tuple(listed), "Weighed, and less likely") if listed else None,
        Quotes(lines, "What speaks of it") if lines else None,
        Quotes(asked.proofs(), "What decides"),
        Words(f"What would settle it: {diagnosis.missing[0]}") if diagnosis.missing else None,
    )


def _about(asked: Asked, kind: str) -> str:
    causes = load_causes()
    if not asked.known or not asked.failed:
        return ""
    own, words = kind_of(asked.diagnosis.cause.layer)
    if own == kind:
        return f"It is {words}, as far as the lines go."
    weighed = [
        other
        for other in asked.diagnosis.alternatives
        if other.cause in causes and kind_of(causes[other.cause].layer)[0] == kind
    ]
    if weighed or speaking_for(asked, kind):
        return f"Something speaks for {KINDS[kind]}, but less."
    return f"No line that was read accuses {KINDS[kind]}."


def _host(asked: Asked, host: str) -> str:
    if host in asked.diagnosis.initiating.hosts:
        return f"{host} is where it began."
    accused = [line.place for line in asked.proofs() if line.host == host]
    return f"{host} did not begin it." if not accused else f"{host}: see {accused[0]}."


async def missing(asked: Asked) -> Reply:
    """The facts that would decide, and of whom nothing has arrived."""
    silent = [account.rank for account in asked.matter.dossier.ranks if account.part is Part.SILENT]
    facts = list(asked.diagnosis.missing)
    told = f"Nothing has arrived of {phrases.ranks(silent)}." if silent else ""
    if not facts and not silent:
        return asked.reply(
            Words(f"Nothing that would change the verdict. {asked.verdict()} {phrases.certainty(asked.diagnosis)}."),
            Quotes(asked.proofs(2), "What it rests on"),
        )
    return asked.reply(
        Words(f"{'This would decide it:' if facts else 'Nothing that would change the verdict.'} {told}".strip()),
        Steps(tuple(facts)) if facts else None,
        Words(f"Until then: {asked.verdict()} {phrases.certainty(asked.diagnosis)}."),
    )


async def sure(asked: Asked) -> Reply:
    """The confidence, what it rests on, and what speaks against it."""
    diagnosis = asked.diagnosis
    against = [f"{other.cause} ({other.confidence:.0%}): {other.why_not}" for other in diagnosis.alternatives]
    meaning = "Of verdicts with this confidence, about so many turn out right."
    return asked.reply(
        Words(f"{phrases.certainty(diagnosis)}. {asked.verdict()} {meaning}"),
        Quotes(asked.proofs(), "What it rests on") if asked.proofs() else None,
        Steps(tuple(against), "What else was weighed") if against else Words("Nothing else found support."),
        Steps(tuple(diagnosis.missing), "What would make it surer") if diagnosis.missing else None,
    )
