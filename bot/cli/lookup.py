"""From what somebody types or pastes to the entries that speak of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache

from bot.cli import codes
from bot.cli.codes import Told
from bot.cli.words import Index, words_of
from knowledge.catalogue import FOLDER, Catalogue, load_catalogue
from knowledge.causes import Cause, load_causes
from knowledge.reading.prefixes import learn_habits, strip_prefix
from knowledge.reading.text import clean, pieces
from knowledge.scanning import speakers
from knowledge.signature import Signature, SignatureRole

MAX_TEXT = 16 << 20
"""Bytes of pasted text that are read; a larger log is for `firstfault diagnose`."""

_NAMING, _LONG, _STEM = 2, 10, 3  # words that name an entry; letters of one that does alone; of the beginning of one

_ORDER = {role: place for place, role in enumerate(SignatureRole)}


@dataclass(slots=True)
class Hit:
    """An entry, and the first line that it speaks for."""

    entry: Signature
    line: str = ""
    captures: Mapping[str, str] = field(default_factory=dict)
    count: int = 1  # lines it speaks for


@dataclass(slots=True)
class Found:
    """What was meant. Without hits, cause and told nothing was, and `near` holds the closest entries."""

    hits: list[Hit] = field(default_factory=list)  # the most telling one first
    cause: Cause | None = None
    note: str = ""  # what a number stands for, or why it stands for nothing
    told: Told | None = None  # the number in words
    near: list[Signature] = field(default_factory=list)
    pasted: bool = False  # the hits were found in lines of a log

    @property
    def lead(self) -> Hit | None:
        """The entry that says it best; None where the code alone says more, or several entries speak for it."""
        if self.told and ((not self.pasted and len(self.hits) != 1) or self.hits[0].entry.id == codes.GENERAL):
            return None
        return self.hits[0] if self.hits else None


@cache
def layers() -> Mapping[str, str]:
    """The layer of every entry: the folder that it stands in."""
    return {path.stem: path.parent.name for path in FOLDER.glob("*/*.yaml")}


def find(text: str) -> Found:
    """Find what `text` means: an entry's or a cause's id, "xid 79", "cuda 700", "exit code 137", or lines of a log."""
    catalogue = load_catalogue()
    asked = " ".join(clean(text.encode("utf-8", "replace")).split()) if len(text) < 200 else ""
    if asked in catalogue.entries:
        return Found([Hit(catalogue[asked])])
    if cause := load_causes().get(asked):
        entries = [Hit(entry) for entry in catalogue if entry.cause == cause.id and entry.role is SignatureRole.ROOT]
        return Found(entries, cause=cause)
    told = codes.asked(asked)
    if isinstance(told, Told):
        return _coded(catalogue, told)
    if told:
        return Found(note=told, near=[result.entry for result in Index(catalogue, layers()).search(asked)[:5]])
    hits = _ordered(list(_spoken(catalogue, text)))
    if hits:
        return Found(hits, told=codes.of_line(hits[0].line), pasted=True)
    near = [result.entry for result in Index(catalogue, layers()).search(text[:2000])[:5]]
    if meant := _meant(asked, near):
        return Found([Hit(meant)], note=f"the only entry called like “{asked}”")
    return Found(near=near)


def _meant(asked: str, near: list[Signature]) -> Signature | None:
    """The entry whose name is what was typed, or the only one whose name holds all its words, typing errors forgiven."""
    slug = "-".join(words_of(asked))
    for entry in near:
        if slug in (entry.id, "-".join(words_of(entry.title))):
            return entry
    words = words_of(asked)
    if len(words) < _NAMING and not any(len(word) >= _LONG for word in words):
        return None
    called = [entry for entry in near if all(_in_name(word, words_of(f"{entry.id} {entry.title}")) for word in words)]
    return called[0] if len(called) == 1 else None


def _in_name(word: str, name: list[str]) -> bool:
    beginning = len(word) >= _STEM and word.isalpha()
    return any(word == other or (beginning and other.startswith(word)) for other in name) or bool(
        len(word) > _STEM and get_close_matches(word, name, n=1, cutoff=0.8)
    )


def _coded(catalogue: Catalogue, told: Told) -> Found:
    """The code in words, and the entries that speak for it."""
    hits = [Hit(catalogue[name], captures=told.captures) for name in told.entries]
    return Found(hits, note=told.note, told=told)


def _spoken(catalogue: Catalogue, text: str) -> Iterator[Hit]:
    """The entries that speak for lines of `text`, in the order of their first line."""
    block = text.encode("utf-8", "replace")[:MAX_TEXT] + b"\n"
    raws = block.split(b"\n")[:-1]
    habits = learn_habits([clean(raw) for raw in raws[:400]])
    hits: dict[str, Hit] = {}
    for number, candidate in sorted(catalogue.scanner.candidates(block).items()):
        for piece in pieces(raws[number]):
            prefix, line = strip_prefix(piece, habits)
            own = {} if prefix.rank is None else {"rank": str(prefix.rank)}
            own |= {} if prefix.host is None else {"host": prefix.host}
            matches = {
                name: captures
                for name, entry in candidate.entries.items()
                if (captures := entry.match(line)) is not None
            }
            for name in speakers(matches, catalogue.entries):
                if name in hits:
                    hits[name].count += 1
                else:
                    hits[name] = Hit(catalogue[name], piece, {**own, **matches[name]})
    yield from hits.values()


def _ordered(hits: list[Hit]) -> list[Hit]:
    """Causes before consequences; a root that another one explains stands behind it."""
    roots = {hit.entry.cause for hit in hits if hit.entry.role is SignatureRole.ROOT}
    return sorted(
        hits, key=lambda hit: (_ORDER[hit.entry.role], bool(hit.entry.explained_by & (roots - {hit.entry.cause})))
    )
