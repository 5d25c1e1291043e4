"""One explanation of a failure, with what speaks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from knowledge.diagnosis import Role
from knowledge.reading.evidence import Place, Traceback
from knowledge.signature import Signature


@dataclass(slots=True, frozen=True)
class Proof:
    """A line that speaks for a hypothesis."""

    place: Place
    role: Role
    signature: str | None = None


@dataclass(slots=True)
class Hypothesis:
    """An explanation. `score` (0 to 1) is how often an explanation of this kind, on this evidence, is right."""

    cause: str
    score: float
    reason: str  # why this was concluded, one clause for the engineer
    ranks: Sequence[int] = ()
    hosts: Sequence[str] = ()
    proofs: list[Proof] = field(default_factory=list)
    signature: Signature | None = None  # whose words explain it best
    captures: dict[str, str] = field(default_factory=dict)
    traceback: Traceback | None = None
    said: str = ""  # one sentence about this job that tells more than the cause's own can
    missing: list[str] = field(default_factory=list)
    failed: bool = True
    whole_job: bool = False  # no rank is to blame
    kind: str = ""  # of reasoning: the name of the module that proposed it
