"""Finding candidate lines: all the catalogue's literals at once, in linear time, on blocks of bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import hyperscan

from knowledge.rarity import rare_beginning
from knowledge.signature import Signature, SignatureRole


class _Compiled:
    """Literals that can be searched for, by several threads at once."""

    def __init__(self, literals: Sequence[bytes], numbers: Sequence[int], flags: int) -> None:
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=list(literals),
            ids=list(numbers),
            elements=len(literals),
            flags=[flags] * len(literals),
            literal=True,
        )
        self._own = threading.local()  # a search needs working space of its own

    def scan(self, block: bytes | memoryview, on_match: Callable[..., bool | None]) -> bool:
        """Search, and say whether to the end: `on_match` may return True to stop."""
        scratch = getattr(self._own, "scratch", None)
        if scratch is None:
            scratch = self._own.scratch = hyperscan.Scratch(self._database)
        try:
            self._database.scan(cast("bytes", block), match_event_handler=on_match, scratch=scratch)
        except hyperscan.ScanTerminated:
            return False
        return True


class LiteralScanner:
    """A set of literals, compiled once.

    Of a long literal only a beginning is looked for: what is found may turn out to go on otherwise.
    """

    def __init__(self, literals: Iterable[str], whole: Iterable[str] = (), alone: Container[str] = frozenset()) -> None:
        """`whole` ones are looked for to their ends; of those that stand `alone`, the line around is of no interest."""
        searched = {literal: rare_beginning(literal) for literal in literals} | {literal: literal for literal in whole}
        self.literals: Sequence[str] = sorted(searched)
        self._searched = [searched[literal].encode() for literal in self.literals]
        if not self.literals:
            raise ValueError("a scanner needs at least one literal")
        self._numbers: Sequence[int] = range(len(self.literals))
        self.alone = frozenset(number for number, literal in enumerate(self.literals) if literal in alone)
        self._variants: dict[frozenset[int], LiteralScanner] = {}

    @cached_property
    def _every(self) -> _Compiled:
        return self._compile(0)

    @cached_property
    def _once(self) -> _Compiled:
        return self._compile(hyperscan.HS_FLAG_SINGLEMATCH)  # only storms need it

    def _compile(self, flags: int) -> _Compiled:
        return _Compiled([self._searched[number] for number in self._numbers], self._numbers, flags)

    def prepare(self) -> None:
        """Compile what every file needs now, before processes are forked that would each do it for themselves."""
        _ = self._every

    def without(self, numbers: frozenset[int]) -> LiteralScanner:
        """A scanner that does not look for some of the literals, whose numbers stay; itself where that is not worth it."""
        known = self._variants.get(numbers)
        if known:
            return known
        left = [number for number in self._numbers if number not in numbers]
        if left and len(self._variants) < _VARIANTS:
            fewer = copy(self)
            fewer._numbers, fewer._variants = left, {}
            fewer.__dict__.pop("_every", None)
            fewer.__dict__.pop("_once", None)
            self._variants[numbers] = fewer
            return fewer
        return self

    def scan(self, block: bytes | memoryview) -> list[tuple[int, int]]:
        """Return (end offset, number of the literal) for every place where a literal stands, in order of offset."""
        found: list[tuple[int, int]] = []

        def on_match(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            found.append((end, number))

        self._every.scan(block, on_match)
        return found

    def few(self, block: bytes | memoryview) -> list[tuple[int, int]] | None:
        """As `scan`, for blocks in which there is hardly ever anything; None where there is much."""
        found: list[tuple[int, int]] = []

        def on_match(number: int, _start: int, end: int, _flags: int, _context: object) -> bool:
            found.append((end, number))
            return len(found) > _FEW

        return found if self._every.scan(block, on_match) else None

    def first(self, block: bytes | memoryview, wanted: Mapping[int, int]) -> list[tuple[int, int]]:
        """As `scan`, but of each literal only as many of the first places as `wanted` says by its number, which is
        at least 1."""
        found: list[tuple[int, int]] = []
        left = dict(wanted)

        def on_match(number: int, _start: int, end: int, _flags: int, _context: object) -> bool:
            if number in left:
                found.append((end, number))
                left[number] -= 1
                if not left[number]:
                    del left[number]
            return not left

        self._every.scan(block, on_match)
        return found

    def present(self, block: bytes | memoryview) -> list[int]:
        """Return the numbers of the literals that stand in `block` at all: cheap also where one repeats without end."""
        found: list[int] = []

        def on_match(number: int, _start: int, _end: int, _flags: int, _context: object) -> None:
            found.append(number)

        self._once.scan(block, on_match)
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
        noise = {
            literal
            for literal, entries in by_literal.items()
            if all(entry.role is SignatureRole.NOISE for entry in entries)
        }
        self.literals = LiteralScanner([*by_literal, *hints], marks, alone=noise - self.marks)
        self._entries = [by_literal.get(literal, []) for literal in self.literals.literals]
        self._candidates: dict[tuple[int, ...], Candidate] = {}  # by the numbers of the literals

    def candidates(self, block: bytes) -> dict[int, Candidate]:
        """Map line index → what its literals make worth looking at; lines without any are absent. In order of lines."""
        numbers: dict[int, list[int]] = {}
        found: list[int] = []
        line = counted = end_of_line = 0
        for end, number in self.literals.scan(block):
            if end > end_of_line:
                line += block.count(b"\n", counted, end - 1)
                counted = end - 1
                end_of_line = block.find(b"\n", counted) + 1 or len(block)
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


_FEW = 120  # matches in a block, from which calling back for each costs more than searching the block again
_MOST = 4096  # combinations of literals that are remembered
_VARIANTS = 8  # of a scanner, each without some of its literals; making one costs as much as searching 50 MB


def speakers(matches: Mapping[str, object], signatures: Mapping[str, Signature]) -> list[str]:
    """Of the signatures that match one line (by id), those that speak: none yields to another match."""
    if len(matches) < 2:
        return list(matches)
    return [entry for entry in matches if not (signatures[entry].yields_to & matches.keys())]
