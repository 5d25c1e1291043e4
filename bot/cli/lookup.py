"""From what somebody types or pastes to the entries that speak of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate

from bot.cli.cuda_numbers import CUDA_ERRORS, CudaError
from bot.cli.words import Index
from knowledge.catalogue import FOLDER, Catalogue, load_catalogue
from knowledge.causes import Cause, load_causes
from knowledge.reading.prefixes import learn_habits, strip_prefix
from knowledge.reading.text import clean, pieces
from knowledge.scanning import speakers
from knowledge.signature import Signature, SignatureRole

MAX_TEXT = 16 << 20
"""Bytes of pasted text that are read; a larger log is for `firstfault diagnose`."""

_XID = re.compile(r"(?:nvrm:? *)?(?P<switch>s?)xid[ :#=-]*(?P<number>\d{1,6})", re.IGNORECASE)
_CUDA = re.compile(r"cuda(?:[ _-]?(?:error|failure|code))?[ :#=-]*(?P<number>\d{1,4})", re.IGNORECASE)
_CUDA_NAME = re.compile(r"cudaError[A-Z]\w+|CUDA_ERROR_[A-Z_]+")

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
    """What was meant. Without hits and cause nothing was, and `near` holds the closest entries."""

    hits: list[Hit] = field(default_factory=list)  # the most telling one first
    cause: Cause | None = None
    note: str = ""  # what a number stands for
    near: list[Signature] = field(default_factory=list)
    pasted: bool = False  # the hits were found in lines of a log


@cache
def layers() -> Mapping[str, str]:
    """The layer of every entry: the folder that it stands in."""
    return {path.stem: path.parent.name for path in FOLDER.glob("*/*.yaml")}


def find(text: str) -> Found:
    """Find what `text` means: an entry's or a cause's id, "xid 79", "cuda 700", or lines of a log."""
    catalogue = load_catalogue()
    asked = " ".join(clean(text.encode("utf-8", "replace")).split()) if len(text) < 200 else ""
    if asked in catalogue.entries:
        return Found([Hit(catalogue[asked])])
    if cause := load_causes().get(asked):
        entries = [Hit(entry) for entry in catalogue if entry.cause == cause.id and entry.role is SignatureRole.ROOT]
        return Found(entries, cause=cause)
    if number := _XID.fullmatch(asked):
        return _xid(catalogue, int(number["number"]), switch=bool(number["switch"]))
    if error := _cuda_error(asked):
        return _cuda(catalogue, error)
    hits = _ordered(list(_spoken(catalogue, text)))
    if hits:
        return Found(hits, pasted=True)
    return Found(near=[result.entry for result in Index(catalogue, layers()).search(text[:2000])[:5]])


def _xid(catalogue: Catalogue, number: int, *, switch: bool) -> Found:
    word = "SXid" if switch else "Xid"
    named = re.compile(rf"\b{word}[^:]{{0,4}}\([^)]*\): {number}\b")
    own = [entry for entry in catalogue if any(named.search(sample.text) for sample in entry.samples.match)]
    line = f"NVRM: Xid (PCI:0000:3b:00): {number}, pid=4242, name=python"
    spoken = [] if switch else [hit.entry for hit in _spoken(catalogue, line)]
    entries = {entry.id: entry for entry in [*own, *spoken]}
    if len(entries) > 1:
        entries.pop("xid-other", None)
    if entries:
        return Found([Hit(entry) for entry in entries.values()], note=f"{word} {number}")
    return Found(near=[result.entry for result in Index(catalogue, layers()).search(word)[:5]])


def _cuda_error(asked: str) -> CudaError | None:
    if number := _CUDA.fullmatch(asked):
        return CUDA_ERRORS.get(int(number["number"]))
    if _CUDA_NAME.fullmatch(asked):
        plain = asked.removeprefix("cudaError").removeprefix("CUDA_ERROR_").replace("_", "").lower()
        return next((error for error in CUDA_ERRORS.values() if error.name[9:].lower() == plain), None)
    return None


def _cuda(catalogue: Catalogue, error: CudaError) -> Found:
    lines = f"RuntimeError: CUDA error: {error.text}\nn1:1:2 [0] init.cc:1 NCCL WARN Cuda failure {error.number} '{error.text}'"
    hits = _ordered(list(_spoken(catalogue, lines)))
    specific = [hit for hit in hits if hit.entry.id not in ("nccl-cuda-failure", "cuda-error-other")]
    return Found(
        [Hit(hit.entry, captures=hit.captures) for hit in specific or hits],
        note=f"CUDA error {error.number}, {error.name}: {error.text}",
    )


def _spoken(catalogue: Catalogue, text: str) -> Iterator[Hit]:
    """The entries that speak for lines of `text`, in the order of their first line."""
    block = text.encode("utf-8", "replace")[:MAX_TEXT] + b"\n"
    raws = block.split(b"\n")[:-1]
    habits = learn_habits(clean(raw) for raw in raws[:400])
    ends = list(accumulate(len(raw) + 1 for raw in raws))
    hits: dict[str, Hit] = {}
    for number, candidate in sorted(catalogue.scanner.candidates(block, ends).items()):
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
