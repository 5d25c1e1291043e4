"""The cases with known truth, and how one is handed to a diagnoser that must not see the truth."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

CASES = Path(__file__).parents[1] / "cases"

Names = Sequence[Sequence[str]] | Literal["any"]
"""Acceptable sets of ranks or hosts, as text; an empty set among them says that naming nobody is right."""


@dataclass(frozen=True)
class Truth:
    """What really happened, as far as it is scored."""

    outcome: Literal["failed", "not-a-failure", "any"]
    causes: tuple[str, ...]
    ranks: Names
    hosts: Names
    needs_missing_fact: bool

    @classmethod
    def read(cls, file: Path) -> Truth:
        """Read the scored fields of a `truth.json`."""
        told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return cls(
            outcome=told["outcome"],
            causes=tuple(told["causes"]),
            ranks=_names(told["ranks"]),
            hosts=_names(told["hosts"]),
            needs_missing_fact=bool(told.get("needs_missing_fact")),
        )


@dataclass(frozen=True)
class Case:
    """One failed job."""

    folder: Path
    truth: Truth

    @property
    def name(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    def stage(self, scratch: Path) -> Path:
        """Copy the case without its truth to a neutral name below `scratch`, and return the copy."""
        copy = scratch / "case"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.folder, copy, ignore=shutil.ignore_patterns("truth.json"))
        return copy


def find_cases(folders: Sequence[Path] = (CASES,)) -> Iterator[Case]:
    """All cases below `folders`, in order of their names."""
    for folder in folders:
        for truth in sorted(folder.rglob("truth.json")):
            yield Case(truth.parent, Truth.read(truth))


def _names(acceptable: Any) -> Names:
    return "any" if acceptable == "any" else [[str(name) for name in names] for names in acceptable]
