"""The catalogue: one YAML file a failure signature, in a folder for each layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import yaml
from pydantic import ValidationError

from knowledge.cache import parse_all, parse_yaml
from knowledge.reading.marks import FINISHED, MARKS
from knowledge.scanning import SignatureScanner
from knowledge.signature import Signature

FOLDER = Path(__file__).parent


class CatalogueError(Exception):
    """An entry that does not follow the format; the message names the file and what is wrong."""


@dataclass(frozen=True)
class Catalogue:
    """All entries by id."""

    entries: Mapping[str, Signature]

    def __iter__(self) -> Iterator[Signature]:
        return iter(self.entries.values())

    def __getitem__(self, entry: str) -> Signature:
        return self.entries[entry]

    @cached_property
    def scanner(self) -> SignatureScanner:
        """The compiled literals of all entries."""
        return SignatureScanner(list(self.entries.values()), MARKS, FINISHED)


def read_entry(path: Path) -> Signature:
    """Read one entry and run its samples. Raises CatalogueError."""
    try:
        return _entry(path, parse_yaml(path), checked=False)
    except yaml.YAMLError as error:
        raise CatalogueError(f"{path.parent.name}/{path.name}: {error}") from error


def _entry(path: Path, document: object, *, checked: bool) -> Signature:
    try:
        entry = Signature.model_validate(document, context={"checked": checked})
    except ValidationError as error:
        raise CatalogueError(f"{path.parent.name}/{path.name}: {error}") from error
    if entry.id != path.stem:
        raise CatalogueError(f"{path.parent.name}/{path.name}: the id inside is {entry.id!r}; name the file after it")
    return entry


def read_catalogue(folder: Path = FOLDER, *, checked: bool = False) -> Catalogue:
    """Read every entry below `folder`; unless they are `checked`, run their samples too.

    Raises CatalogueError for a malformed entry, an id used twice, or a `yields_to` that names no entry.
    """
    paths = sorted(folder.glob("*/*.yaml"))
    try:
        documents = parse_all(paths)
    except yaml.YAMLError as error:
        raise CatalogueError(f"below {folder}: {error}") from error
    entries: dict[str, Signature] = {}
    for path, document in zip(paths, documents, strict=True):
        entry = _entry(path, document, checked=checked)
        if entry.id in entries:
            raise CatalogueError(f"{path.parent.name}/{path.name}: the id {entry.id!r} is taken by another file")
        entries[entry.id] = entry
    for entry in entries.values():
        unknown = entry.yields_to - entries.keys()
        if unknown:
            raise CatalogueError(f"{entry.id}: yields_to names unknown entries {sorted(unknown)}")
    return Catalogue(entries)


@cache
def load_catalogue() -> Catalogue:
    """The shipped catalogue, read once per process."""
    return read_catalogue(checked=True)
