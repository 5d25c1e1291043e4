"""Lines to quote: exact, redacted and bounded, as long as finding their numbers stays cheap."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from knowledge.diagnosis import Evidence
from knowledge.dossier import Said
from knowledge.reading.bundle import Source
from knowledge.reading.evidence import Place
from knowledge.redaction import redact

MAX_QUOTE = 320  # characters of a line in an account
_LONGEST = 4 * MAX_QUOTE  # characters of a line that are looked at
SMALL = 128 << 10  # bytes of a file whose lines cost nothing to count
_COUNTED = 1 << 30  # bytes in which lines are counted, over all files


class Quoting:
    """Quotes lines for one dossier. A number in a large file costs counting all lines before it, so these are limited."""

    def __init__(self, budget: int = _COUNTED) -> None:
        self._left = budget
        self._counted: set[Source] = set()
        self._sizes: dict[Source, int] = {}
        self.refused = 0

    def is_small(self, source: Source) -> bool:
        """Whether the file's lines cost nothing to count."""
        return self._size(source) <= SMALL

    def affords(self, place: Place) -> bool:
        """Whether the line's number may be asked for; one that may not counts as refused."""
        source = place.source
        # The lines of one rank's own file that are worth quoting stand close together, near its end.
        if self.is_small(source) or (source.rank is not None and source in self._counted):
            return True
        size = self._size(source)
        if size > self._left:
            self.refused += 1
            return False
        self._left -= size
        self._counted.add(source)
        return True

    def _size(self, source: Source) -> int:
        if source not in self._sizes:
            self._sizes[source] = source.path.stat().st_size
        return self._sizes[source]

    def said(self, place: Place | None) -> Said | None:
        """The line, or None where there is none or its number would cost too much. Raises UnreadableEvidence."""
        if place is None or not self.affords(place):
            return None
        return Said(source=place.source.name, line=place.line, text=place.text, time=moment(place.seconds))


def settle(lines: Iterable[Said | Evidence]) -> None:
    """Redact and cut the texts of all lines, in one go: the search for secrets is much faster in one long text."""
    quotes = list(lines)
    if not quotes:
        return
    texts = redact("\n".join(quote.text[:_LONGEST].replace("\n", " ") for quote in quotes)).split("\n")
    for quote, text in zip(quotes, texts, strict=True):
        quote.text = text if len(text) <= MAX_QUOTE else f"{text[:MAX_QUOTE]}…"


def moment(seconds: float | None) -> datetime | None:
    """Seconds since the epoch as an aware time."""
    return datetime.fromtimestamp(seconds, UTC) if seconds is not None else None
