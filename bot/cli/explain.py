"""`firstfault explain`: what a message, a number or a cause means, for three kinds of reader."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bot.cli import output
from bot.cli.codes import Told
from bot.cli.lookup import MAX_TEXT, Found, Hit, find, layers
from bot.slack.escape import clean, cut
from bot.terminal import Layout, one_line
from knowledge.causes import Cause
from knowledge.diagnosis import Restart, VerifyStep
from knowledge.signature import CAPTURES, Nature, Signature, SignatureRole

MAX_OTHERS = 8  # further entries listed
MAX_LINE = 300  # characters shown of a pasted line
FOUND, UNKNOWN = 0, 1  # exit status


class Depth(StrEnum):
    """How much the reader wants to know."""

    SHORT = "short"  # one paragraph for whoever asks why the run stopped
    ONCALL = "oncall"  # that, and the steps
    ENGINEER = "engineer"  # that, and how the machine comes to say it


_NATURE = {
    Nature.HARDWARE: "A machine has to be looked after; the program is not at fault.",
    Nature.SOFTWARE: "The program has to change; the machines are not at fault.",
    Nature.CONFIGURATION: "A setting or an installation has to change; neither the model nor the hardware is broken.",
    Nature.EITHER: "Program or machine may be at fault; the line alone does not settle it.",
}
_PART = {
    SignatureRole.CASCADE: "The line tells that something else failed first: the cause stands in another log.",
    SignatureRole.CONFIRMATION: "The line supports others and is no cause by itself.",
    SignatureRole.ADVICE: "The line is advice that a library prints, never a cause.",
    SignatureRole.TEARDOWN: "The line belongs to the shutdown, not to the failure.",
    SignatureRole.NOISE: "The line looks like an error and is none.",
}
RESTART = {
    Restart.SAFE: "Starting the job again as it is makes sense.",
    Restart.AFTER_FIX: "Started again unchanged, the job fails again: fix it first.",
    Restart.ELSEWHERE: "The job can be started again on other nodes.",
    Restart.UNSAFE: "Do not start the job again yet; it would do harm.",
    Restart.UNKNOWN: "Whether to start again depends on the cause behind it.",
}

_PLACE = re.compile(r"\{(" + "|".join(sorted(CAPTURES)) + r")\}")
_NOBODY = {"host": "the host", "rank": "N", "peer": "its peer"}


def run(words: Sequence[str], depth: Depth) -> int:
    """Explain what `words` (or standard input, where they are `-`) mean; return the exit status."""
    text = sys.stdin.buffer.read(MAX_TEXT).decode("utf-8", "replace") if list(words) == ["-"] else " ".join(words)
    found = find(text)
    output.write(render(found, depth, width=output.width(), colour=output.coloured()))
    return FOUND if found.hits or found.cause or found.told else UNKNOWN


def render(found: Found, depth: Depth, *, width: int = 80, colour: bool = False) -> str:
    """Return the explanation as text for a terminal, ending in a newline."""
    page = _Page.on(width, colour=colour)
    if found.cause:
        sections = [page.about_cause(found.cause), *page.steps_of_cause(found.cause, depth)]
        sections.append(page.others(found.hits, "Lines that tell of it"))
    elif found.told and not found.lead:
        facts = found.told.facts
        sections = [page.of_code(found.told, found.hits if found.pasted else ())]
        sections.append(page.facts(facts[:1] if depth is Depth.SHORT else facts))
        sections.append(page.others(found.hits[found.pasted :], "See also"))
    elif first := found.lead:
        sections = [page.head(first, found.note)]
        if depth is not Depth.SHORT:
            sections.append(page.facts(found.told.facts if found.told else ()))
            sections += page.steps(first.entry, first.captures)
        if depth is Depth.ENGINEER:
            sections += page.depth(first.entry)
        sections.append(page.others(found.hits[1:], "Also in this text" if found.pasted else "See also"))
        if found.pasted and depth is not Depth.SHORT:
            sections.append(page.advice())
    else:
        sections = [page.unknown(found)]
    return "\n".join("\n".join(lines) + "\n" for lines in map(list, sections) if lines)


def spoken(template: str, captures: Mapping[str, str] | None = None) -> str:
    """The sentence with its places filled by `captures`, or by words that fit any case."""
    known = captures or {}

    def fill(place: re.Match[str]) -> str:
        return known.get(place[1]) or _NOBODY.get(place[1]) or f"⟨{place[1].replace('_', ' ')}⟩"

    text = _PLACE.sub(fill, template)
    return text[:1].upper() + text[1:]


def paragraph(entry: Signature, captures: Mapping[str, str] | None = None) -> str:
    """Why the run stopped, for somebody who does not know the machine."""
    part = _PART.get(entry.role)
    told = [spoken(entry.summary, captures), part or _NATURE[entry.nature]]
    if entry.role is SignatureRole.ROOT:
        told.append(RESTART[entry.restart])
    return " ".join(told)


@dataclass(frozen=True, slots=True)
class _Page(Layout):
    def head(self, hit: Hit, note: str) -> Iterator[str]:
        entry = hit.entry
        yield self.style.strong(one_line(entry.title))
        origin = f"{entry.id} · {layers().get(entry.id, '')} · {entry.role.value} · cause {entry.cause}"
        yield from map(self.style.faint, self.wrapped(" · ".join(filter(None, (note, origin))), 0))
        if hit.line:
            yield from map(self.style.log, self.wrapped(cut(one_line(hit.line), MAX_LINE), 2))
        yield ""
        yield from self.wrapped(one_line(paragraph(entry, hit.captures)), 0)

    def of_code(self, told: Told, hits: Sequence[Hit]) -> Iterator[str]:
        yield self.style.strong(one_line(told.title))
        yield self.style.faint(one_line(told.note))
        for hit in hits[:1]:
            yield from map(self.style.log, self.wrapped(cut(one_line(hit.line), MAX_LINE), 2))

    def facts(self, facts: Sequence[tuple[str, str]]) -> Iterator[str]:
        for title, text in facts:
            yield from self.told(title, text)

    def steps(self, entry: Signature, captures: Mapping[str, str]) -> Iterator[Iterator[str]]:
        yield self.pair("Look at", entry.look_at) if entry.look_at else iter(())
        if entry.confirm:
            yield self.commands("Confirm", [entry.confirm])
        yield self.numbered("Fix", [_step(step, captures) for step in entry.fix])
        yield self.code(entry)
        yield self.commands("Verify", entry.verify)

    def depth(self, entry: Signature) -> Iterator[Iterator[str]]:
        told = [
            ("How the machine comes to say it", entry.mechanism),
            ("What it is not", entry.is_not),
            ("Where it began", entry.seen_on_initiator),
            ("On the other ranks", entry.seen_on_others),
            ("What decides", entry.discriminator),
        ]
        for title, text in told:
            yield self.told(title, text)
        yield self.listed("Easily taken for", [f"{sibling.id}: {sibling.tell}" for sibling in entry.siblings])
        explained = ", ".join(sorted(entry.explained_by))
        yield self.told("A mere symptom where one of these is found on the same rank or host", explained)
        yield self.told("Prevention", entry.prevention)
        yield self.told("Watch for", entry.watch)
        if entry.metric:
            yield self.told("Alert", f"{entry.metric.promql} ({entry.metric.needs})")
        yield self.listed("Lines", [cut(one_line(sample.text), MAX_LINE) for sample in entry.samples.match[:3]])
        yield self.told("Related", ", ".join(entry.related))
        yield self.listed("References", entry.references)

    def about_cause(self, cause: Cause) -> Iterator[str]:
        yield self.style.strong(one_line(cause.title))
        yield self.style.faint(f"cause {cause.id} · {cause.layer}")
        yield ""
        yield from self.wrapped(one_line(f"{cause.means} {_NATURE[cause.nature]} {RESTART[cause.restart]}"), 0)

    def steps_of_cause(self, cause: Cause, depth: Depth) -> Iterator[Iterator[str]]:
        if depth is Depth.SHORT:
            return
        yield self.numbered("Fix", [_step(step, {}) for step in cause.fix])
        yield self.commands("Verify", cause.verify)
        yield self.told("What would decide that it is something deeper", cause.fact_that_decides)

    def others(self, hits: Sequence[Hit], title: str) -> Iterator[str]:
        if not hits:
            return
        yield self.style.strong(title)
        for hit in hits[:MAX_OTHERS]:
            often = f" ({hit.count:,} lines)" if hit.count > 1 else ""
            yield from self.item("·", one_line(f"{hit.entry.id}: {hit.entry.title}{often}"))
        if len(hits) > MAX_OTHERS:
            yield self.style.faint(f"  and {len(hits) - MAX_OTHERS} more")

    def advice(self) -> Iterator[str]:
        text = "Which rank began it, and which only followed, is told by `firstfault diagnose` on all logs of the job."
        yield from map(self.style.faint, self.wrapped(text, 0))

    def unknown(self, found: Found) -> Iterator[str]:
        yield self.style.strong("The catalogue knows nothing of this.")
        yield from self.wrapped(one_line(found.note), 0)
        if not found.near:
            yield from self.wrapped("No entry has even one of its words. Paste the lines of the log as they are.", 0)
            return
        yield from self.wrapped("The closest by words, which may be something else altogether:", 0)
        for entry in found.near:
            yield from self.item("·", one_line(f"{entry.id}: {entry.title}"))

    def told(self, title: str, text: str) -> Iterator[str]:
        if text:
            yield self.style.strong(title)
            yield from self.wrapped(one_line(text), 2)

    def listed(self, title: str, texts: Sequence[str]) -> Iterator[str]:
        if texts:
            yield self.style.strong(title)
        for text in texts:
            yield from self.item("·", one_line(text))

    def numbered(self, title: str, texts: Sequence[str]) -> Iterator[str]:
        if texts:
            yield self.style.strong(title)
        for number, text in enumerate(texts, 1):
            yield from self.item(f"{number}.", one_line(text))

    def commands(self, title: str, steps: Sequence[VerifyStep]) -> Iterator[str]:
        yield self.style.strong(title)
        for step in steps:
            yield "  $ " + self.style.command(one_line(_step(step.run, {})))
            yield from map(self.style.good, self.item("  →", one_line(step.expect)))

    def code(self, entry: Signature) -> Iterator[str]:
        if entry.snippet:
            yield self.style.strong(one_line(entry.snippet.stack))
            for line in clean(entry.snippet.code).rstrip().split("\n"):
                yield "    " + self.style.command(line) if line else ""


def _step(template: str, captures: Mapping[str, str]) -> str:
    """A step with its places filled; names in capitals stand for what the reader has to put in."""
    plain = re.compile(r"[A-Za-z0-9][\w.:,@\[\]-]{0,79}")

    def fill(place: re.Match[str]) -> str:
        value = captures.get(place[1], "")
        return value if plain.fullmatch(value) else place[1].upper()

    return _PLACE.sub(fill, template)
