"""What is told of the past: resolutions, failures, open episodes, and all that is counted of a period."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

UNKNOWN = "unknown"
"""The cause of what nobody understood."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """How an episode ended, and who says so (Slack's id)."""

    how: str
    by: str
    at: datetime
    note: str = ""


@dataclass(frozen=True, slots=True)
class SeenBefore:
    """How often a failure was seen, when first and last, and how it was resolved the last time."""

    count: int = 0
    first: datetime | None = None
    last: datetime | None = None
    nodes: tuple[str, ...] = ()  # those that began it, most frequent first
    resolution: Resolution | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt of a job. `at` is when it was first heard of; persons of `resolution` are Slack's ids."""

    incident_id: str
    episode_id: str | None
    at: datetime
    cluster: str
    job_id: str
    name: str
    attempt: int
    owner: str
    cause: str
    fingerprint: str
    ranks: int | None
    started_at: datetime | None
    ended_at: datetime | None
    state: str = ""  # of its episode
    resolution: Resolution | None = None
    initiating: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()

    @property
    def gpu_hours(self) -> float | None:
        """Ranks times hours that the attempt ran; None where either is unknown."""
        if not self.ranks or self.started_at is None or self.ended_at is None or self.ended_at < self.started_at:
            return None
        return self.ranks * (self.ended_at - self.started_at).total_seconds() / 3600


@dataclass(frozen=True, slots=True)
class Past:
    """The newest of `count` failures."""

    count: int
    failures: list[Failure]


@dataclass(frozen=True, slots=True)
class OpenEpisode:
    """An episode that is not resolved. `messages` are its places in Slack, (channel, ts)."""

    id: str
    cause: str
    fingerprint: str
    channels: tuple[str, ...]
    opened_at: datetime
    last_at: datetime
    acknowledged_by: str | None
    assignee: str | None
    handler: str | None  # the name of the assignee, or of who acknowledged it
    name: str
    job_id: str
    owner: str
    count: int = 1
    messages: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """[start, end), and the time it is compared with; all aware."""

    start: datetime
    end: datetime
    before_start: datetime
    before_end: datetime


@dataclass(frozen=True, slots=True)
class Period:
    """All that is counted of a span: failures heard of, and what people did, then."""

    span: Span
    failures: list[Failure]
    before: list[Failure]
    first_seen: dict[str, datetime] = field(default_factory=dict)  # by fingerprint
    until_acknowledged: list[timedelta] = field(default_factory=list)
    until_resolved: list[timedelta] = field(default_factory=list)
    judged_wrong: int = 0
    false_alarms: int = 0
    open: list[OpenEpisode] = field(default_factory=list)  # now, oldest first
    open_count: int = 0
