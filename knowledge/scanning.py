"""Finding candidate lines: all the catalogue's literals at once, in linear time, on blocks of bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import hyperscan

from knowledge.rarity import rare_beginning
from knowledge.signature import Signature


class LiteralScanner:
    """A set of literals, compiled once. One scan at a time: the scratch space is not shared between threads.

    Of a long literal only a beginning is looked for: what is found may turn out to go on otherwise.
    """

    def __init__(self, literals: Iterable[str], whole: Iterable[str] = ()) -> None:
        """`whole` ones are looked for to their ends."""
        searched = {literal: rare_beginning(literal) for literal in literals} | {literal: literal for literal in whole}
        self.literals: Sequence[str] = sorted(searched)
        self._searched = [searched[literal].encode() for literal in self.literals]
        if not self.literals:
            raise ValueError("a scanner needs at least one literal")
        self._every = self._compile(0)
        self._scratch = hyperscan.Scratch(self._every)

    @cached_property
    def _once(self) -> hyperscan.Database:
        return self._compile(hyperscan.HS_FLAG_SINGLEMATCH)  # only large files need it

    @cached_property
    def _scratch_once(self) -> hyperscan.Scratch:
        return hyperscan.Scratch(self._once)

    def _compile(self, flags: int) -> hyperscan.Database:
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        count = len(self.literals)
        database.compile(
            expressions=self._searched,
            ids=list(range(count)),
            elements=count,
            flags=[flags] * count,
            literal=True,
        )
        return database

    def scan(self, block: bytes | memoryview) -> list[tuple[int, int]]:
        """Return (end offset, number of the literal) for every place where a literal stands, in order of offset."""
        found: list[tuple[int, int]] = []

        def on_match(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            found.append((end, number))

        self._every.scan(cast("bytes", block), match_event_handler=on_match, scratch=self._scratch)
        return found

    def present(self, block: bytes | memoryview) -> list[int]:
        """Return the numbers of the literals that stand in `block` at all: cheap also where one repeats without end."""
        found: list[int] = []

        def on_match(number: int, _start: int, _end: int, _flags: int, _context: object) -> None:
            found.append(number)

        self._once.scan(cast("bytes", block), match_event_handler=on_match, scratch=self._scratch_once)
        return found


@dataclass(slots=True, frozen=True, eq=False)
class Candidate:
    """What the literals in one line make worth looking at. Lines with the same literals share one."""

    entries: Mapping[str, Signature]  # by id
    marks: frozenset[str]


class SignatureScanner:
    """All signatures of a catalogue; tells for each line of a block which of them may match it."""

    def __init__(self, signatures: Sequence[Signature], marks: Iterable[str] = (), hints: Iterable[str] = ()) -> None:
        """`marks` are further literals worth reading about, such as where a traceback begins; of `hints` the beginning is
        enough."""
        by_literal: dict[str, list[Signature]] = {}
        for entry in signatures:
            for literal in entry.literals:
                by_literal.setdefault(literal, []).append(entry)
        marks, hints = frozenset(marks), frozenset(hints)
        self.marks = marks | hints
        self.literals = LiteralScanner([*by_literal, *hints], marks)
        self._entries = [by_literal.get(literal, []) for literal in self.literals.literals]
        self._candidates: dict[tuple[int, ...], Candidate] = {}  # by the numbers of the literals

    def candidates(self, block: bytes, line_ends: Sequence[int]) -> dict[int, Candidate]:
        """Map line index → what its literals make worth looking at; lines without any are absent.

        `line_ends` are the offsets just behind each line's newline, ascending.
        """
        numbers: dict[int, list[int]] = {}
        found: list[int] = []
        end_of_line = -1
        for end, number in self.literals.scan(block):
            if end > end_of_line:
                line = bisect_right(line_ends, end - 1)
                end_of_line = line_ends[line] if line < len(line_ends) else len(block)
                found = numbers[line] = []
            found.append(number)
        return {line: self._candidate(tuple(found)) for line, found in numbers.items()}

    def _candidate(self, numbers: tuple[int, ...]) -> Candidate:
        known = self._candidates.get(numbers)
        if known is None:
            if len(self._candidates) >= _MOST:
                self._candidates.clear()
            entries = {entry.id: entry for number in numbers for entry in self._entries[number]}
            literals = {self.literals.literals[number] for number in numbers}
            known = self._candidates[numbers] = Candidate(entries, self.marks & literals)
        return known


_MOST = 4096  # combinations of literals that are remembered


def speakers(matches: Mapping[str, object], signatures: Mapping[str, Signature]) -> list[str]:
    """Of the signatures that match one line (by id), those that speak: none yields to another match."""
    return [entry for entry in matches if not (signatures[entry].yields_to & matches.keys())]
