"""A diagnosis as a person reads it in a terminal: the same story as the Slack message, in the same order and words."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from bot.slack import phrases
from bot.slack.contract import IncidentStatus
from bot.slack.escape import clean, cut
from knowledge.diagnosis import Diagnosis, Evidence, Outcome, Role
from knowledge.job import JobFacts

MIN_WIDTH, MAX_WIDTH = 40, 100
MAX_EVIDENCE = 6  # proving lines shown; the JSON holds all
MAX_LINE = 600  # characters of one log line
MAX_ALTERNATIVES = 3

_PROOF = {Role.ROOT: 0, Role.CONFIRMATION: 1, Role.CASCADE: 2, Role.CONTEXT: 3}


@dataclass(frozen=True, slots=True)
class Style:
    """Colours, or nothing at all."""

    colour: bool

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text

    def bad(self, text: str) -> str:
        """What failed."""
        return self._paint("1;31", text)

    def good(self, text: str) -> str:
        """What did not, and what a good answer looks like."""
        return self._paint("32", text)

    def strong(self, text: str) -> str:
        """Headings and names."""
        return self._paint("1", text)

    def log(self, text: str) -> str:
        """Text that came out of a log."""
        return self._paint("33", text)

    def command(self, text: str) -> str:
        """Something to type."""
        return self._paint("36", text)

    def faint(self, text: str) -> str:
        """What can be read last."""
        return self._paint("2", text)


def render(diagnosis: Diagnosis, job: JobFacts | None = None, *, width: int = 80, colour: bool = False) -> str:
    """Return the text for a terminal `width` columns wide, ending in a newline.

    Whatever the logs hold, no control character but the line breaks and, with `colour`, our own colours is in it.
    """
    page = _Page.on(width, colour=colour)
    facts = job or JobFacts()
    sections = [
        page.verdict(diagnosis, facts),
        page.proof(diagnosis),
        page.fix(diagnosis),
        page.verify(diagnosis),
        page.standing(diagnosis),
        page.alternatives(diagnosis),
        page.missing(diagnosis),
        page.footer(diagnosis),
    ]
    return "\n".join("\n".join(lines) + "\n" for lines in map(list, sections) if lines)


@dataclass(frozen=True, slots=True)
class Layout:
    """How paragraphs, pairs and lists stand on a page `width` columns wide."""

    style: Style
    width: int

    @classmethod
    def on(cls, width: int, *, colour: bool) -> Self:
        """Return a layout for a terminal of `width` columns, within what reads well."""
        return cls(Style(colour), max(MIN_WIDTH, min(width, MAX_WIDTH)))

    def pair(self, label: str, text: str) -> Iterator[str]:
        """Yield a label and its text beside it."""
        first, *rest = self.wrapped(one_line(text), 12)
        yield f"{self.style.strong(label):<{12 + len(self.style.strong(label)) - len(label)}}{first.strip()}"
        yield from rest

    def item(self, mark: str, text: str) -> list[str]:
        """Return the lines of a list's item behind its mark."""
        lead = f"  {mark} "
        first, *rest = self.wrapped(text, len(lead))
        return [lead + first.strip(), *rest]

    def wrapped(self, text: str, indent: int) -> list[str]:
        """Break `text` into indented lines."""
        blank = " " * indent
        wrapped = textwrap.wrap(text, self.width, initial_indent=blank, subsequent_indent=blank, break_on_hyphens=False)
        return wrapped or [blank]


@dataclass(frozen=True, slots=True)
class _Page(Layout):
    def verdict(self, diagnosis: Diagnosis, job: JobFacts) -> Iterator[str]:
        failed = diagnosis.outcome is Outcome.FAILED
        mark = self.style.bad("✗") if failed else self.style.good("✓")
        headline = phrases.headline(job, diagnosis, IncidentStatus())
        first, *rest = self.wrapped(one_line(headline), 2)
        yield f"{mark} {self.style.strong(first.strip())}"
        yield from rest
        facts = " · ".join(phrases.facts(job))
        if facts:
            yield from map(self.style.faint, self.wrapped(one_line(facts), 2))
        yield ""
        guess = failed and diagnosis.confidence < phrases.SURE and diagnosis.cause.id != "unknown"
        title = ("Perhaps: " if guess else "") + (one_line(diagnosis.cause.title) or "Cause unknown")
        where = one_line(phrases.where(diagnosis.initiating))
        paint = self.style.bad if failed else self.style.good
        yield from map(paint, self.wrapped(f"{title} on {where}" if where else title, 2))
        told = [one_line(diagnosis.cause.summary)]
        if failed:
            told.append(phrases.collateral(job, diagnosis))
            if not where:
                told.append(phrases.nobody(diagnosis, source="these logs"))
        yield from self.wrapped(" ".join(part for part in told if part), 2)

    def proof(self, diagnosis: Diagnosis) -> Iterator[str]:
        ordered = sorted(diagnosis.evidence, key=lambda evidence: _PROOF[evidence.role])
        if not ordered:
            return
        yield self.style.strong("Proof")
        for evidence in ordered[:MAX_EVIDENCE]:
            yield from map(self.style.faint, self.wrapped(_origin(evidence), 2))
            yield from map(self.style.log, self.wrapped(cut(one_line(evidence.text), MAX_LINE), 4))
        hidden = len(ordered) - MAX_EVIDENCE
        if hidden > 0:
            yield self.style.faint(f"  and {hidden} more {'line' if hidden == 1 else 'lines'} (--json shows all)")

    def fix(self, diagnosis: Diagnosis) -> Iterator[str]:
        if not diagnosis.fix:
            return
        yield self.style.strong("Fix")
        for number, step in enumerate(diagnosis.fix, 1):
            yield from self.item(f"{number}.", one_line(step))

    def verify(self, diagnosis: Diagnosis) -> Iterator[str]:
        if not diagnosis.verify:
            return
        yield self.style.strong("Verify")
        for step in diagnosis.verify:
            # A command is never broken: it is there to be copied.
            yield "  $ " + self.style.command(one_line(step.run))
            yield from map(self.style.good, self.item("  →", one_line(step.expect)))

    def standing(self, diagnosis: Diagnosis) -> Iterator[str]:
        failed = diagnosis.outcome is Outcome.FAILED
        if failed:
            yield from self.pair("Restart", phrases.restart(diagnosis))
        label, _, certainty = phrases.certainty(diagnosis).partition(" ")
        yield from self.pair(label, certainty)
        if failed and diagnosis.suspect_nodes:
            yield from self.pair("Suspect", phrases.hosts(diagnosis.suspect_nodes))

    def alternatives(self, diagnosis: Diagnosis) -> Iterator[str]:
        if not diagnosis.alternatives:
            return
        yield self.style.strong("Less likely")
        for other in diagnosis.alternatives[:MAX_ALTERNATIVES]:
            yield from self.item("·", one_line(f"{other.cause} ({other.confidence:.0%}): {other.why_not}"))

    def missing(self, diagnosis: Diagnosis) -> Iterator[str]:
        if not diagnosis.missing:
            return
        yield self.style.strong("What would help to know")
        for fact in diagnosis.missing:
            yield from self.item("·", one_line(fact))

    def footer(self, diagnosis: Diagnosis) -> Iterator[str]:
        stats = diagnosis.stats
        if stats.lines:
            yield self.style.faint(f"{_size(stats.bytes)}, {stats.lines:,} lines read in {stats.seconds:.1f} s")


def one_line(text: str) -> str:
    """Return harmless text without line breaks."""
    return " ".join(clean(text).split())


def _origin(evidence: Evidence) -> str:
    """`gpu-n17/kern.log:812 · rank 137 · 03:12:07 UTC`."""
    shown = [f"{one_line(evidence.source)}:{evidence.line}"]
    if evidence.host and evidence.host not in evidence.source:
        shown.append(one_line(evidence.host))
    if evidence.rank is not None:
        shown.append(f"rank {evidence.rank}")
    if evidence.time is not None:
        shown.append(f"{evidence.time:%H:%M:%S %Z}".strip())
    return " · ".join(shown)


def _size(count: float) -> str:
    """`12.3 MB`, in powers of ten."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
