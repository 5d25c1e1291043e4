"""Tables and bars of a digest as rows of text, for Slack's blocks and for fixed-width letters alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bot.digest import phrases, words
from bot.digest.numbers import Bar, CauseLine, Cost, Numbers
from bot.slack.escape import literal

MAX_CAUSES = 6
MAX_BAR = 24  # characters


@dataclass(frozen=True, slots=True)
class Table:
    """A header and rows; the first column is text, the others are set to the right."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def lines(self, first_width: int) -> Iterator[str]:
        """Yield aligned lines, the first column at most `first_width` wide."""
        shown = [(literal(row[0], first_width), *row[1:]) for row in (self.header, *self.rows)]
        widths = [max(len(row[column]) for row in shown) for column in range(len(self.header))]
        for row in shown:
            cells = [row[0].ljust(widths[0])]
            cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            yield "  ".join(cells).rstrip()


def causes(numbers: Numbers) -> Table:
    """The dearest causes, the rest in one row."""
    shown, rest = numbers.causes[:MAX_CAUSES], numbers.causes[MAX_CAUSES:]
    if len(rest) == 1:
        shown, rest = numbers.causes, []
    rows = [_row(line, words.is_new(line)) for line in shown]
    if rest:
        rows.append(_row(_together(rest), "–"))
    return Table(("Cause", "Failures", "Before", "GPU-hours", "New?"), rows)


def bars(labels: Sequence[str], of: Sequence[Bar]) -> Iterator[str]:
    """Yield a line for each bar."""
    highest = max((bar.now for bar in of), default=0) or 1
    width = max(len(label) for label in labels)
    for label, bar in zip(labels, of, strict=True):
        length = round(bar.now / highest * min(MAX_BAR, highest * 4))
        yield f"{label:<{width}}  {'█' * length}{' ' if length else ''}{bar.now} (before: {bar.before})"


def _row(line: CauseLine, kind: str) -> tuple[str, ...]:
    return (line.title, phrases.number(line.count), phrases.number(line.before), words.cost(line.cost), kind)


def _together(lines: Sequence[CauseLine]) -> CauseLine:
    return CauseLine(
        cause="",
        title=phrases.counted(len(lines), "other cause"),
        count=sum(line.count for line in lines),
        before=sum(line.before for line in lines),
        cost=Cost(sum(line.cost.hours for line in lines), sum(line.cost.unknown for line in lines)),
        kinds=0,
        new_kinds=0,
    )
