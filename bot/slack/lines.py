"""The evidence in context: each source with the lines that tell, in their order, the proving ones marked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from bot.slack import phrases, rich
from bot.slack.contract import Block, SlackMessage
from bot.slack.escape import literal, mrkdwn
from knowledge.diagnosis import Diagnosis, Evidence, Role
from knowledge.dossier import Dossier, Part, RankAccount, SourceAccount

MAX_SOURCES = 8
MAX_LINES = 8  # of a source
MAX_LINE = 240
MAX_CHARACTERS = 10_000
COLUMN = 90  # of the fallback's lines

Lines = dict[int, tuple[str, Role | None]]  # by line number: the text, and its role where it is evidence

_MARKS = {Role.ROOT: "▶", Role.CONFIRMATION: "▸"}
_FIRST = {Role.ROOT: 0, Role.CONFIRMATION: 1, Role.CONTEXT: 2, Role.CASCADE: 3}


def evidence(diagnosis: Diagnosis, dossier: Dossier | None) -> SlackMessage | None:
    """Return the reply with all lines of the evidence in their sources; None where there is no line."""
    sources = _sources(diagnosis, dossier)
    if not sources:
        return None
    about = {account.name: account for account in dossier.sources} if dossier else {}
    elements: list[rich.Element] = []
    told = ["Evidence, line by line (▶ proves, ▸ confirms)"]
    for name in list(sources)[:MAX_SOURCES]:
        added = list(_source(name, sources[name], about.get(name)))
        if elements and len(json.dumps([*elements, *added], ensure_ascii=False)) > MAX_CHARACTERS:
            break
        elements += added
        told.append(f"{literal(name, 100)}: {_telling(sources[name])}")
    hidden = len(sources) - (len(told) - 1)
    blocks: list[Block] = [rich.context(told[0]), rich.rich_text(*elements)]
    if hidden:
        blocks.append(rich.context(f"and {phrases.count(hidden, 'more source')}"))
    return SlackMessage(mrkdwn("\n".join(told), 3_000, lines=20), blocks, "")


def _sources(diagnosis: Diagnosis, dossier: Dossier | None) -> dict[str, Lines]:
    """Each source with its lines; those that prove most come first, and a source without evidence does not come."""
    sources: dict[str, Lines] = {}
    for line in sorted(diagnosis.evidence, key=lambda each: _FIRST[each.role]):
        sources.setdefault(line.source, {})[line.line] = (line.text, line.role)
    for name, number, text in _around(dossier) if dossier else ():
        if name in sources:
            sources[name].setdefault(number, (text, None))
    return sources


def _around(dossier: Dossier) -> Iterator[tuple[str, int, str]]:
    yield from ((line.source, line.line, line.text) for line in dossier.timeline)
    began = (account for account in dossier.ranks if account.part is Part.INITIATING)
    yield from _words(began)


def _words(accounts: Iterable[RankAccount]) -> Iterator[tuple[str, int, str]]:
    for account in accounts:
        for said in (account.telling, account.last):
            if said is not None:
                yield said.source, said.line, said.text


def _source(name: str, lines: Lines, about: SourceAccount | None) -> Iterator[rich.Element]:
    heading = [rich.bold(literal(name, 200) or "?")]
    words = _whose(about)
    if words:
        heading.append(rich.plain(f" · {literal(words, 200)}"))
    yield rich.section(*heading)
    yield rich.preformatted("\n".join(_listed(lines)))


def _whose(about: SourceAccount | None) -> str:
    if about is None:
        return ""
    shown = [f"{about.kind} log", phrases.ranks(about.ranks) if about.ranks else "", about.host or ""]
    return " · ".join(word for word in shown if word)


def _listed(lines: Lines) -> Iterator[str]:
    """The lines with their numbers, in their order; of too many, the evidence and what is nearest to it stays."""
    kept = sorted(sorted(lines, key=lambda number: _worth(number, lines))[:MAX_LINES])
    width = len(str(kept[-1]))
    before = None
    for number in kept:
        if before is not None and number > before + 1:
            yield f"  {'⋮'.rjust(width)}"
        text, role = lines[number]
        yield f"{_MARKS.get(role, ' ') if role else ' '} {str(number).rjust(width)}  {literal(text, MAX_LINE)}".rstrip()
        before = number


def _worth(number: int, lines: Lines) -> tuple[int, int]:
    role = lines[number][1]
    proving = [each for each, (_, found) in lines.items() if found in _MARKS] or list(lines)
    return (_FIRST[role] if role else 4, min(abs(number - each) for each in proving))


def _telling(lines: Lines) -> str:
    number = min(lines, key=lambda each: _worth(each, lines))
    return f"{number}  {literal(lines[number][0], COLUMN)}"


def evidence_origin(line: Evidence) -> str:
    """`gpu-n17/kern.log:812 · rank 137 · 03:12:07 UTC`."""
    shown = [f"{line.source}:{line.line}"]
    if line.host and line.host not in line.source:
        shown.append(line.host)
    if line.rank is not None:
        shown.append(f"rank {line.rank}")
    if line.time is not None:
        shown.append(f"{line.time:%H:%M:%S %Z}".strip())
    return " · ".join(shown)
