"""What one benchmark leaves behind: a table for people and figures for machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark's result. `rows` are cells as they shall be shown; `figures` are the named numbers."""

    title: str
    text: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: dict[str, float] = field(default_factory=dict)

    def markdown(self) -> str:
        """The section as Markdown: the first column to the left, numbers to the right."""
        lines = [f"## {self.title}", "", self.text, ""]
        lines += [f"| {' | '.join(self.head)} |", f"| --- |{' ---: |' * (len(self.head) - 1)}"]
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        return "\n".join(lines) + "\n"


def figure_lines(sections: Sequence[Section]) -> str:
    """All figures, one a line, `name: number`."""
    return "\n".join(f"{name}: {value:.2f}" for section in sections for name, value in section.figures.items())
