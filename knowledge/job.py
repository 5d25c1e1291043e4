"""What the scheduler knows about a job attempt: `job.json` of a bundle."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator


class JobFacts(BaseModel):
    """Scheduler facts. Everything is optional: a bundle of logs alone has none."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    scheduler: str | None = None  # "slurm", "kubernetes"
    cluster: str | None = None
    job_id: str | None = None
    attempt: int = 0  # restart count, from 0
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

    @field_validator("state", mode="before")
    @classmethod
    def _first_state(cls, value: Any) -> Any:
        """Slurm 23.11 and later give the state as a list of flags; the base state comes first."""
        return value[0] if isinstance(value, list) and value else value
