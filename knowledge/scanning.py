"""Finding candidate lines: all the catalogue's literals at once, in linear time, on blocks of bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import hyperscan

from knowledge.signature import Signature


class LiteralScanner:
    """A set of literals, compiled once. One scan at a time: the scratch space is not shared between threads."""

    def __init__(self, literals: Iterable[str]) -> None:
        self.literals: Sequence[str] = sorted(set(literals))
        if not self.literals:
            raise ValueError("a scanner needs at least one literal")
        self._every = self._compile(0)
        self._once = self._compile(hyperscan.HS_FLAG_SINGLEMATCH)
        self._scratch = hyperscan.Scratch(self._every)
        self._scratch_once = hyperscan.Scratch(self._once)

    def _compile(self, flags: int) -> hyperscan.Database:
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        count = len(self.literals)
        database.compile(
            expressions=[literal.encode() for literal in self.literals],
            ids=list(range(count)),
            elements=count,
            flags=[flags] * count,
            literal=True,
        )
        return database

    def scan(self, block: bytes) -> list[tuple[int, int]]:
        """Return (end offset, number of the literal) for every place where a literal stands, in order of offset."""
        found: list[tuple[int, int]] = []

        def on_match(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            found.append((end, number))

        self._every.scan(block, match_event_handler=on_match, scratch=self._scratch)
        return found

    def present(self, block: bytes) -> list[int]:
        """Return the numbers of the literals that stand in `block` at all: cheap also where one repeats without end."""
        found: list[int] = []

        def on_match(number: int, _start: int, _end: int, _flags: int, _context: object) -> None:
            found.append(number)

        self._once.scan(block, match_event_handler=on_match, scratch=self._scratch_once)
        return found


@dataclass(slots=True)
class Candidate:
    """What the literals in one line make worth looking at."""

    entries: dict[str, Signature] = field(default_factory=dict)  # by id
    marks: set[str] = field(default_factory=set)


class SignatureScanner:
    """All signatures of a catalogue; tells for each line of a block which of them may match it."""

    def __init__(self, signatures: Sequence[Signature], marks: Iterable[str] = ()) -> None:
        """`marks` are further literals worth reading about, such as where a traceback begins."""
        by_literal: dict[str, list[Signature]] = {}
        for entry in signatures:
            for literal in entry.literals:
                by_literal.setdefault(literal, []).append(entry)
        self.marks = frozenset(marks)
        self.literals = LiteralScanner([*by_literal, *self.marks])
        self._entries = [by_literal.get(literal, []) for literal in self.literals.literals]

    def candidates(self, block: bytes, line_ends: Sequence[int]) -> dict[int, Candidate]:
        """Map line index → what its literals make worth looking at; lines without any are absent.

        `line_ends` are the offsets just behind each line's newline, ascending.
        """
        lines: dict[int, Candidate] = {}
        for end, number in self.literals.scan(block):
            line = bisect_right(line_ends, end - 1)
            candidate = lines.get(line)
            if candidate is None:
                candidate = lines[line] = Candidate()
            for entry in self._entries[number]:
                candidate.entries[entry.id] = entry
            if (literal := self.literals.literals[number]) in self.marks:
                candidate.marks.add(literal)
        return lines


def speakers(matches: Mapping[str, object], signatures: Mapping[str, Signature]) -> list[str]:
    """Of the signatures that match one line (by id), those that speak: none yields to another match."""
    return [entry for entry in matches if not (signatures[entry].yields_to & matches.keys())]
