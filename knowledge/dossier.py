"""The case file of a job: what each rank and each source said, for people who ask further.

The diagnosis says what happened; the dossier holds what answers are made of. Like the diagnosis it is bounded, redacted,
and every text in it is a line of a source.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from knowledge.diagnosis import Evidence

MAX_RANKS = 4096
MAX_TIMELINE = 80
MAX_SOURCES = 1024


class _Document(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class Part(StrEnum):
    """What part a rank plays."""

    INITIATING = "initiating"
    COLLATERAL = "collateral"
    SILENT = "silent"  # nothing of it has arrived
    OTHER = "other"  # heard of, neither guilty nor known to have failed


class Said(_Document):
    """A line of a source, exact and redacted. `line` counts from 1; `time` is the line's own clock."""

    source: str
    line: int
    text: str
    time: datetime | None = None


class RankAccount(_Document):
    """One rank: where it lived, what it said that tells most, its last line, how far it came, how it ended."""

    rank: int
    host: str | None = None
    part: Part = Part.OTHER
    telling: Said | None = None
    last: Said | None = None
    step: int | None = None
    ended: str = ""  # "exit code 1", "signal 9 (SIGKILL)"; empty: not known


class SourceAccount(_Document):
    """One log: what kind it is, whose it is, how large, and the times of its first and last stamped line."""

    name: str
    kind: str
    ranks: list[int] = Field(default_factory=list)  # at most 16
    host: str | None = None
    bytes: int = 0
    first: datetime | None = None
    last: datetime | None = None


class Setting(_Document):
    """A fact that the logs tell of the run itself: a version, an environment variable, a world size, a checkpoint."""

    name: str  # "torch", "nccl", "NCCL_SOCKET_IFNAME", "checkpoint"
    value: str
    said: Said


class Dossier(_Document):
    """All accounts of one attempt. Lists are bounded; `omitted` says what was left out, in words."""

    schema_version: int = Field(default=1, alias="schema", serialization_alias="schema")
    world_size: int | None = None
    ranks: list[RankAccount] = Field(default_factory=list)  # by rank
    timeline: list[Evidence] = Field(default_factory=list)  # first to last, clocks corrected where they can be
    sources: list[SourceAccount] = Field(default_factory=list)
    settings: list[Setting] = Field(default_factory=list)
    omitted: str = ""
