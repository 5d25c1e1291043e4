"""Finding candidate lines: all the catalogue's literals at once, in linear time, on blocks of bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import hyperscan

from knowledge.signature import Signature


class LiteralScanner:
    """A set of literals, compiled once. `scan` may be called from any thread, one at a time each."""

    def __init__(self, literals: Iterable[str]) -> None:
        self._literals: Sequence[bytes] = sorted({literal.encode() for literal in literals})
        if not self._literals:
            raise ValueError("a scanner needs at least one literal")
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=list(self._literals),
            ids=list(range(len(self._literals))),
            elements=len(self._literals),
            flags=[0] * len(self._literals),
            literal=True,
        )
        self._scratch = hyperscan.Scratch(self._database)

    def literal(self, number: int) -> str:
        """The text of literal `number`."""
        return self._literals[number].decode()

    def scan(self, block: bytes) -> list[tuple[int, int]]:
        """Return (end offset, literal number) of every literal in `block`, in order of offset."""
        found: list[tuple[int, int]] = []

        def on_match(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            found.append((end, number))

        self._database.scan(block, match_event_handler=on_match, scratch=self._scratch)
        return found


class SignatureScanner:
    """All signatures of a catalogue; tells for each line of a block which of them may match it."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self._literals = LiteralScanner(literal for entry in signatures for literal in entry.literals)
        self._by_literal: dict[str, list[Signature]] = {}
        for entry in signatures:
            for literal in entry.literals:
                self._by_literal.setdefault(literal, []).append(entry)

    def candidates(self, block: bytes, line_ends: Sequence[int]) -> dict[int, list[Signature]]:
        """Map line index → signatures with a literal in that line.

        `line_ends` are the offsets just behind each line's newline, ascending.
        """
        lines: dict[int, dict[str, Signature]] = {}
        for end, number in self._literals.scan(block):
            line = bisect_right(line_ends, end - 1)
            entries = lines.setdefault(line, {})
            for entry in self._by_literal[self._literals.literal(number)]:
                entries[entry.id] = entry
        return {line: list(entries.values()) for line, entries in lines.items()}


def speakers(matches: dict[str, dict[str, str]], signatures: dict[str, Signature]) -> list[str]:
    """Of the signatures that match one line (id → captures), those that speak: none yields to another match."""
    return [entry for entry in matches if not (signatures[entry].yields_to & matches.keys())]
