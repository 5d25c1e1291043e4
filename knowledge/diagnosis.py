"""The answer: what a diagnosis says, as one typed document.

This is the JSON contract of `firstfault diagnose --json`, of the incident API and of the database. Fields are only
ever added; `schema` rises when one changes its meaning.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Outcome(StrEnum):
    """Whether the job failed at all."""

    FAILED = "failed"
    NOT_A_FAILURE = "not-a-failure"


class Role(StrEnum):
    """What part a line of evidence plays in the story."""

    ROOT = "root"
    CASCADE = "cascade"
    CONFIRMATION = "confirmation"
    CONTEXT = "context"


class Restart(StrEnum):
    """Whether starting the job again, unchanged, makes sense."""

    SAFE = "safe"
    AFTER_FIX = "after-fix"
    ELSEWHERE = "elsewhere"
    UNSAFE = "unsafe"
    UNKNOWN = "unknown"


class _Document(BaseModel):
    model_config = ConfigDict(extra="ignore")


class CauseFound(_Document):
    """The cause, by its id in `causes.yaml`, and one sentence about this job."""

    id: str
    layer: str
    title: str
    summary: str


class Initiating(_Document):
    """Who began it. Empty lists: cannot tell, or there is no single one."""

    ranks: list[int] = Field(default_factory=list)
    hosts: list[str] = Field(default_factory=list)


class Collateral(_Document):
    """Ranks that failed only because others had. `count` may exceed the ranks known by number."""

    ranks: list[int] = Field(default_factory=list)
    count: int = 0


class Evidence(_Document):
    """One line that proves or explains: `text` is the exact, redacted line `line` (from 1) of `source`.

    A flight-recorder dump has no lines: `line` is the number of an entry, `text` says what stands in it.
    """

    source: str
    line: int
    rank: int | None = None
    host: str | None = None
    time: datetime | None = None
    text: str
    role: Role
    signature: str | None = None


class Alternative(_Document):
    """Another cause that was weighed, and why it was not chosen."""

    cause: str
    confidence: float
    why_not: str


class VerifyStep(_Document):
    """A command to run, and what a good answer looks like."""

    run: str
    expect: str


class Stats(_Document):
    """How much was read, and how long it took (wall-clock seconds)."""

    bytes: int = 0
    lines: int = 0
    seconds: float = 0.0


class Diagnosis(_Document):
    """What happened, who began it, how sure we are, the lines that prove it, and what to do."""

    schema_version: int = Field(default=1, alias="schema", serialization_alias="schema")
    outcome: Outcome
    cause: CauseFound
    initiating: Initiating = Field(default_factory=Initiating)
    collateral: Collateral = Field(default_factory=Collateral)
    confidence: float = 0.0
    evidence: list[Evidence] = Field(default_factory=list)
    alternatives: list[Alternative] = Field(default_factory=list)
    missing: list[str] = Field(default_factory=list)
    fix: list[str] = Field(default_factory=list)
    verify: list[VerifyStep] = Field(default_factory=list)
    restart: Restart = Restart.UNKNOWN
    suspect_nodes: list[str] = Field(default_factory=list)
    fingerprint: str = ""
    stats: Stats = Field(default_factory=Stats)

    model_config = ConfigDict(extra="ignore", populate_by_name=True)
