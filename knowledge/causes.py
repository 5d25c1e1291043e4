"""The causes that a diagnosis can name, each with what to say and what to do: `causes.yaml`, read once.

An entry of the catalogue brings its own words; these stand where no line speaks, as for a rank that fell silent.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Formatter
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from knowledge.cache import parse_all
from knowledge.diagnosis import Restart, VerifyStep
from knowledge.signature import Id, Nature, Text

FILE = Path(__file__).with_name("causes.yaml")
PLACES = frozenset({"who", "rank", "ranks", "host", "hosts"})
"""What may stand in a summary. `{who}` is the most that is known: "rank 3 on gpu-n17", "ranks 3, 5" or "gpu-n17"."""


def _places(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


class Cause(BaseModel):
    """What somebody has to fix, in the words of this project."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Id
    layer: Id  # groups causes in the digest
    title: Text  # a noun phrase that can head a message
    means: Text
    summary: Text  # one sentence about this job, with PLACES
    summary_unnamed: Text  # the same where nobody can be named
    nature: Nature
    restart: Restart
    node_suspect: bool = False
    fix: tuple[Text, ...] = Field(min_length=2, max_length=4)
    verify: tuple[VerifyStep, ...] = Field(min_length=1, max_length=2)
    fact_that_decides: str = ""  # the one fact whose absence keeps this from being a deeper cause, and how to get it

    @field_validator("summary")
    @classmethod
    def _knows_places(cls, summary: str) -> str:
        unknown = _places(summary) - PLACES
        if unknown:
            raise ValueError(f"unknown places {sorted(unknown)}; known are {sorted(PLACES)}")
        return summary

    def sentence(self, ranks: str = "", hosts: str = "") -> str:
        """Fill the summary. `ranks` and `hosts` are written for people ("3", "1–3, 7", "gpu-n17"); empty: unknown."""
        several = any(character in ranks for character in ",–-")
        named = f"rank{'s' if several else ''} {ranks}" if ranks else ""
        values = {
            "who": " on ".join(part for part in (named, hosts) if part),
            "rank": "" if several else ranks,
            "ranks": ranks,
            "host": "" if "," in hosts else hosts,
            "hosts": hosts,
        }
        if not all(values[place] for place in _places(self.summary)):
            return self.summary_unnamed
        text = self.summary.format_map(values)
        return text[0].upper() + text[1:] if self.summary.startswith("{who}") and ranks else text


@cache
def load_causes() -> Mapping[str, Cause]:
    """All causes by id, in the order of the file. Raises ValidationError when the file does not follow the format."""
    listed = TypeAdapter(list[Cause]).validate_python(parse_all([FILE])[0])
    causes = {cause.id: cause for cause in listed}
    if len(causes) != len(listed):
        raise ValueError(f"{FILE.name}: an id stands twice")
    return MappingProxyType(causes)
