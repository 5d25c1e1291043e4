"""What the scheduler knows about a job attempt: `job.json` of a bundle."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

MOST_RANKS = 1 << 20
"""Ranks of a job; a larger number is taken for a mistake."""

MOST_UNREAD = 20
"""Things that a reporter could not read, which are named as missing."""

_YEARS = range(1971, 9000)  # of times that can be


def _zoned(when: datetime) -> datetime:
    return when if when.tzinfo else when.replace(tzinfo=UTC)


class JobFacts(BaseModel):
    """Scheduler facts. Everything is optional: a bundle of logs alone has none."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    scheduler: str | None = None  # "slurm", "kubernetes"
    cluster: str | None = None
    job_id: str | None = None
    attempt: int = 0  # restart count, from 0
    part_of: str | None = None  # the job that an array's task belongs to, where its own id does not tell
    name: str | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None  # or namespace
    comment: str | None = None
    state: str | None = None  # the scheduler's own word, upper or mixed case: "TIMEOUT", "Failed"
    reason: str | None = None  # "NonZeroExitCode", "CANCELLED by 1001"
    exit_code: int | None = None
    signal: int | None = None
    nodes: list[str] = Field(default_factory=list)
    world_size: int | None = None
    ranks_per_node: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    time_limit_seconds: int | None = None
    cpu_seconds: int | None = None  # of all tasks together
    peak_memory_bytes: int | None = None  # of the task that took most
    unread: list[str] = Field(default_factory=list)  # "gpu-n17: /scratch/7.out: Permission denied"

    @field_validator("world_size", "ranks_per_node")
    @classmethod
    def _plausible_count(cls, value: int | None) -> int | None:
        """A job has at least one rank; a number that no machine has is a mistake, and better not known."""
        return value if value is not None and 0 < value <= MOST_RANKS else None

    @field_validator("attempt", "time_limit_seconds", "cpu_seconds", "peak_memory_bytes")
    @classmethod
    def _not_negative(cls, value: int | None, info: ValidationInfo) -> int | None:
        return value if value is None or value >= 0 else 0 if info.field_name == "attempt" else None

    @field_validator("started_at", "ended_at")
    @classmethod
    def _possible_time(cls, value: datetime | None) -> datetime | None:
        """A time that was never set, or that no calendar reaches, is better not known: nobody can reckon with it."""
        return value if value is not None and value.year in _YEARS else None

    @field_validator("nodes")
    @classmethod
    def _each_node_once(cls, value: list[str]) -> list[str]:
        return list(dict.fromkeys(value))

    @field_validator("unread")
    @classmethod
    def _some_of_it(cls, value: list[str]) -> list[str]:
        return [" ".join(each.split())[:300] for each in value[:MOST_UNREAD]]

    @model_validator(mode="after")
    def _times_in_order(self) -> Self:
        """A job that ended before it began has at least one wrong time, and nothing tells which."""
        if self.started_at and self.ended_at and _zoned(self.ended_at) < _zoned(self.started_at):
            self.started_at = self.ended_at = None
        return self

    @field_validator("state", mode="before")
    @classmethod
    def _first_state(cls, value: Any) -> Any:
        """Slurm 23.11 and later give the state as a list of flags; the base state comes first."""
        return value[0] if isinstance(value, list) and value else value
