"""What an entry, a cause or a term means."""

from __future__ import annotations

from bot.answers.asked import Asked
from bot.answers.reply import Command, Part, Quotes, Reply, Steps, Words, of_evidence
from bot.answers.terms import glossary
from bot.cli.explain import paragraph
from bot.cli.lookup import find
from knowledge.catalogue import load_catalogue
from knowledge.causes import load_causes
from knowledge.diagnosis import Role
from knowledge.signature import Signature

_MOST = 2


async def explain(asked: Asked) -> Reply:
    """Explain the terms that were named; none: the entry by which the verdict was found, or its cause."""
    parts: list[Part] = []
    for term in asked.slots.terms[:_MOST]:
        parts += _term(term)
    if not parts:
        parts = _verdict(asked)
    return asked.reply(*parts)


def _term(term: str) -> list[Part]:
    told = glossary(term)
    found = find(term)
    parts: list[Part] = [Words(f"`{term}`: {told}")] if told else []
    if found.cause:
        parts.append(Words(f"{found.cause.title}: {found.cause.means}"))
        parts.append(Steps(tuple(found.cause.fix), "What to do", numbered=True))
    elif found.hits and not told:
        parts += _entry(found.hits[0].entry, found.note)
    elif found.near and not told:
        parts += _entry(found.near[0])
    return parts


def _entry(entry: Signature, note: str = "") -> list[Part]:
    parts: list[Part] = [Words(f"{note + ': ' if note else ''}{entry.title} (`{entry.id}`). {paragraph(entry)}")]
    parts.append(Words(f"How it comes about: {entry.mechanism}"))
    if entry.is_not:
        parts.append(Words(f"What it is not: {entry.is_not}"))
    parts += [Command(entry.confirm.run, entry.confirm.expect)] if entry.confirm else []
    return parts


def _verdict(asked: Asked) -> list[Part]:
    """The line that proves the verdict, explained."""
    entries = load_catalogue().entries
    lines = sorted(asked.diagnosis.evidence, key=lambda line: line.role is not Role.ROOT)
    line = next((line for line in lines if line.signature in entries), None)
    if line is not None and line.signature is not None:
        return [*_entry(entries[line.signature]), Quotes((of_evidence(line),), "The line")]
    cause = load_causes().get(asked.diagnosis.cause.id)
    about = f"{cause.title}: {cause.means}" if cause else asked.diagnosis.cause.summary
    return [Words(about), Quotes(asked.proofs(2), "The lines")]
