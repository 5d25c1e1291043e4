"""The catalogue: one YAML file a failure signature, in a folder for each layer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from pydantic import ValidationError

from knowledge.cache import MalformedYamlError, parse_all, parse_yaml
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
        entry = _entry(path, parse_yaml(path), checked=False)
    except MalformedYamlError as error:
        raise CatalogueError(f"{_name(path)}: {error}") from error
    if entry.id != path.stem:
        raise CatalogueError(f"{_name(path)}: the id inside is {entry.id!r}; name the file after it")
    return entry


def _entry(path: Path, document: object, *, checked: bool) -> Signature:
    try:
        return Signature.model_validate(document, context={"checked": checked})
    except ValidationError as error:
        raise CatalogueError(f"{_name(path)}: {error}") from error


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _files(folder: Path) -> Iterator[Path]:
    """The entries' files, by layer and name."""
    for layer in sorted(entry.path for entry in os.scandir(folder) if entry.is_dir()):
        for name in sorted(entry.name for entry in os.scandir(layer) if entry.name.endswith(".yaml")):
            yield Path(layer, name)


def _parsed(paths: Sequence[Path], *, checked: bool) -> Sequence[Signature]:
    try:
        documents = parse_all(paths)
    except MalformedYamlError as error:
        raise CatalogueError(f"below {paths[0].parent.parent}: {error}") from error
    return [_entry(path, document, checked=checked) for path, document in zip(paths, documents, strict=True)]


def read_catalogue(folder: Path = FOLDER, *, checked: bool = False) -> Catalogue:
    """Read every entry below `folder`; unless they are `checked`, run their samples too.

    Raises CatalogueError for a malformed entry, an id used twice, or a `yields_to` that names no entry.
    """
    paths = [*_files(folder)]
    entries: dict[str, Signature] = {}
    for path, entry in zip(paths, _parsed(paths, checked=checked), strict=True):
        if entry.id != path.stem:
            raise CatalogueError(f"{_name(path)}: the id inside is {entry.id!r}; name the file after it")
        if entry.id in entries:
            raise CatalogueError(f"{_name(path)}: the id {entry.id!r} is taken by another file")
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
