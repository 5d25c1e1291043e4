"""What an answer is made of. Nothing in it is escaped yet; lines of logs are kept apart from words."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from knowledge.diagnosis import Evidence
from knowledge.dossier import Said


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a log, to be quoted with its place. `number` counts from 1."""

    source: str
    number: int
    text: str
    rank: int | None = None
    host: str | None = None
    time: datetime | None = None

    @property
    def place(self) -> str:
        """`rank-3.log:512`, as people cite it."""
        return f"{self.source}:{self.number}"


@dataclass(frozen=True, slots=True)
class Words:
    """A paragraph; what stands between backticks is code. Of `people`, Slack's ids, `@ID` in the text is shown as the name."""

    text: str
    people: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Quotes:
    """Lines of logs under a heading; `folded` were left out."""

    lines: tuple[Line, ...]
    heading: str = ""
    folded: int = 0
    run: bool = False  # consecutive lines of one log


@dataclass(frozen=True, slots=True)
class Steps:
    """A list, numbered where the order matters."""

    items: tuple[str, ...]
    heading: str = ""
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """Something to run, and what a good answer looks like."""

    run: str
    expect: str


Part = Words | Quotes | Steps | Command


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: the short one first. `intent` is what the question was taken for; empty: it was not understood."""

    intent: str
    parts: tuple[Part, ...] = field(default_factory=tuple)

    @property
    def understood(self) -> bool:
        """Whether the question was understood."""
        return bool(self.intent)

    @property
    def lines(self) -> list[Line]:
        """All lines cited."""
        return [line for part in self.parts if isinstance(part, Quotes) for line in part.lines]


def of_evidence(evidence: Evidence) -> Line:
    """The line of a diagnosis or a timeline."""
    return Line(evidence.source, evidence.line, evidence.text, evidence.rank, evidence.host, evidence.time)


def of_said(said: Said, rank: int | None = None, host: str | None = None) -> Line:
    """The line of a rank's account or of a setting."""
    return Line(said.source, said.line, said.text, rank, host, said.time)
