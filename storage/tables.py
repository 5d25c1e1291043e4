"""The tables. A change here needs a migration in `storage/migrations/versions`; a test compares the two."""

from __future__ import annotations

import uuid
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from sqlalchemy import Index, MetaData, UniqueConstraint
from sqlmodel import Field, SQLModel

from storage.types import JsonColumn, UtcDateTime, utc_now

_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Table(SQLModel):
    """Base of all tables; constraints get predictable names so that migrations can drop them."""

    metadata: ClassVar[MetaData] = MetaData(naming_convention=_NAMES)


class IncidentState(StrEnum):
    """How far the evidence of an incident has come. What people did about it is its episode's state."""

    OPEN = "open"
    DIAGNOSED = "diagnosed"


class EpisodeState(StrEnum):
    """What people have done about a failure."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


class Part(StrEnum):
    """What part a node plays in an incident."""

    INITIATING = "initiating"
    SUSPECT = "suspect"


class ActionKind(StrEnum):
    """What a person did with an episode."""

    ACKNOWLEDGE = "acknowledge"
    ASSIGN = "assign"
    RESOLVE = "resolve"
    REOPEN = "reopen"
    MUTE = "mute"
    UNMUTE = "unmute"
    REDIAGNOSE = "rediagnose"
    RIGHT = "right"  # thumbs up
    WRONG = "wrong"  # thumbs down, perhaps with a correction


class OutboxState(StrEnum):
    """How far a message has come. `sending` survives a crash and means: ask Slack whether it arrived."""

    QUEUED = "queued"
    SENDING = "sending"
    SENT = "sent"
    REFUSED = "refused"  # Slack says it will never work like this; a person has to act


class OutgoingKind(StrEnum):
    """What is sent: a message with blocks, or a file into a thread."""

    MESSAGE = "message"
    FILE = "file"


class Cluster(Table, table=True):
    """A cluster that may report, and the hash of its token."""

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(max_length=100, unique=True)
    token_hash: str = Field(max_length=64, unique=True)
    created_at: datetime = Field(default_factory=utc_now, sa_type=UtcDateTime)


class Incident(Table, table=True):
    """One failed attempt of one job.

    `revision` counts the changes of its evidence and `diagnosed_revision` is the one last diagnosed. `due_at` is when
    to diagnose next (NULL: nothing to do); `lease_until` keeps others away meanwhile; `tries` counts claims since the
    last stored diagnosis, so that evidence which kills the service cannot kill it for ever.

    `family` is the job that attempts, array tasks and parts of a heterogeneous job have in common. From `outcome` to
    `ended_at` stands what the last diagnosis and the scheduler said, so that it can be counted; `owner` is the
    scheduler's user, `ranks` the world size.
    """

    __table_args__ = (UniqueConstraint("cluster_id", "scheduler", "job_id", "attempt"), Index(None, "due_at"))

    id: str = Field(default_factory=lambda: uuid.uuid4().hex, primary_key=True, max_length=32)
    cluster_id: int = Field(foreign_key="cluster.id")
    scheduler: str = Field(max_length=40)
    job_id: str = Field(max_length=200)
    attempt: int
    state: str = Field(default=IncidentState.OPEN, max_length=20)
    node_facts: dict[str, Any] = Field(default_factory=dict, sa_type=JsonColumn)
    controller_facts: dict[str, Any] = Field(default_factory=dict, sa_type=JsonColumn)
    expected_reporters: int | None = None
    episode_id: str | None = Field(default=None, foreign_key="episode.id", ondelete="SET NULL", index=True)
    family: str = Field(default="", max_length=300, index=True)
    fingerprint: str = Field(default="", max_length=200, index=True)
    outcome: str = Field(default="", max_length=20)
    cause: str = Field(default="", max_length=100, index=True)
    layer: str = Field(default="", max_length=40)
    job_name: str = Field(default="", max_length=200)
    owner: str = Field(default="", max_length=100, index=True)
    ranks: int | None = None
    started_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    ended_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    revision: int = 0
    diagnosed_revision: int = 0
    due_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    lease_until: datetime | None = Field(default=None, sa_type=UtcDateTime)
    tries: int = 0
    created_at: datetime = Field(default_factory=utc_now, sa_type=UtcDateTime)
    updated_at: datetime = Field(default_factory=utc_now, sa_type=UtcDateTime)
    keep_until: datetime | None = Field(default=None, sa_type=UtcDateTime)


class Report(Table, table=True):
    """What one reporter has told. One host may report twice: as a node and as the controller."""

    __table_args__ = (UniqueConstraint("incident_id", "reporter", "role"),)

    id: int | None = Field(default=None, primary_key=True)
    incident_id: str = Field(foreign_key="incident.id", ondelete="CASCADE")
    reporter: str = Field(max_length=255)
    role: str = Field(max_length=20)
    opened_at: datetime = Field(default_factory=utc_now, sa_type=UtcDateTime)
    completed_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class LogFile(Table, table=True):
    """One log of an incident. `sha256` and `bytes` are of what was received, `blob` names what is kept (redacted)."""

    __tablename__ = "logfile"
    __table_args__ = (UniqueConstraint("incident_id", "name"),)

    id: int | None = Field(default=None, primary_key=True)
    incident_id: str = Field(foreign_key="incident.id", ondelete="CASCADE")
    name: str = Field(max_length=200)
    sha256: str = Field(max_length=64)
    bytes: int
    blob: str = Field(max_length=100)
    received_at: datetime = Field(default_factory=utc_now, sa_type=UtcDateTime)


class StoredDiagnosis(Table, table=True):
    """What was said about an incident, and when. `error` is set where the diagnosing itself failed."""

    __tablename__ = "diagnosis"
    __table_args__ = (UniqueConstraint("incident_id", "version"),)

    id: int | None = Field(default=None, primary_key=True)
    incident_id: str = Field(foreign_key="incident.id", ondelete="CASCADE")
    version: int
    revision: int
    outcome: str = Field(max_length=20)
    cause: str = Field(max_length=100)
    fingerprint: str = Field(default="", max_length=200)
    document: dict[str, Any] = Field(sa_type=JsonColumn)
    dossier: dict[str, Any] | None = Field(default=None, sa_type=JsonColumn)
    error: str | None = None
    created_at: datetime = Field(default_factory=utc_now, sa_type=UtcDateTime)


class IncidentNode(Table, table=True):
    """A node that an incident's last diagnosis names."""

    __tablename__ = "incidentnode"
    __table_args__ = (UniqueConstraint("incident_id", "host", "part"), Index(None, "host"))

    id: int | None = Field(default=None, primary_key=True)
    incident_id: str = Field(foreign_key="incident.id", ondelete="CASCADE")
    host: str = Field(max_length=255)
    part: str = Field(max_length=20)


class Episode(Table, table=True):
    """One failure as people see it: one message in each of its channels, however many incidents it covers.

    Attempts and tasks of a job, and jobs that failed alike, are incidents of one episode; all of them are told in the
    same `channels`, in some of them not before a moment (`holds`, ISO). `lead_id` is the incident whose diagnosis is
    shown. `previous_id` is the episode of the same failure before, `merged_id` the storm that took over this one's
    incidents. `revision` counts what changed and `told_revision` is what the outbox holds; `due_at` is when to tell the
    rest (NULL: nothing to tell), `lease_until` keeps others away meanwhile.
    """

    __table_args__ = (Index(None, "due_at"), Index(None, "fingerprint", "last_at"))

    id: str = Field(default_factory=lambda: uuid.uuid4().hex, primary_key=True, max_length=32)
    fingerprint: str = Field(default="", max_length=200)
    cause: str = Field(default="", max_length=100)
    channels: list[str] = Field(default_factory=list, sa_type=JsonColumn)
    lead_id: str = Field(max_length=32)
    previous_id: str | None = Field(default=None, foreign_key="episode.id", ondelete="SET NULL")
    merged_id: str | None = Field(default=None, foreign_key="episode.id", ondelete="SET NULL")
    state: str = Field(default=EpisodeState.OPEN, max_length=20, index=True)
    acknowledged_by: str | None = Field(default=None, max_length=40)
    acknowledged_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    assignee: str | None = Field(default=None, max_length=40)
    resolved_by: str | None = Field(default=None, max_length=40)
    resolved_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    resolution: str | None = Field(default=None, max_length=40)
    note: str | None = Field(default=None, max_length=1000)
    recovered_by: str | None = Field(default=None, max_length=200)
    holds: dict[str, str] = Field(default_factory=dict, sa_type=JsonColumn)
    opened_at: datetime = Field(default_factory=utc_now, sa_type=UtcDateTime)
    last_at: datetime = Field(default_factory=utc_now, sa_type=UtcDateTime)
    revision: int = 0
    told_revision: int = 0
    due_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    lease_until: datetime | None = Field(default=None, sa_type=UtcDateTime)


class Action(Table, table=True):
    """What a person did, and when. `key` is Slack's own mark of the click: the same click counts once."""

    id: int | None = Field(default=None, primary_key=True)
    key: str = Field(max_length=200, unique=True)
    episode_id: str = Field(foreign_key="episode.id", ondelete="CASCADE", index=True)
    incident_id: str | None = Field(default=None, foreign_key="incident.id", ondelete="SET NULL")
    kind: str = Field(max_length=20)
    user: str = Field(max_length=40)
    user_name: str = Field(default="", max_length=100)
    detail: dict[str, Any] = Field(default_factory=dict, sa_type=JsonColumn)
    at: datetime = Field(default_factory=utc_now, sa_type=UtcDateTime)


class Mute(Table, table=True):
    """A failure that a channel does not want to be woken by until a moment. `ended_at`: somebody ended it earlier."""

    __table_args__ = (Index(None, "fingerprint", "channel"),)

    id: int | None = Field(default=None, primary_key=True)
    fingerprint: str = Field(max_length=200)
    channel: str = Field(max_length=100)
    user: str = Field(max_length=40)
    at: datetime = Field(default_factory=utc_now, sa_type=UtcDateTime)
    until: datetime = Field(sa_type=UtcDateTime)
    ended_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class Message(Table, table=True):
    """A message that stands in Slack: the channel as Slack named it, and its time stamp there (a name, no number)."""

    id: int | None = Field(default=None, primary_key=True)
    key: str = Field(max_length=200, unique=True)
    episode_id: str | None = Field(default=None, foreign_key="episode.id", ondelete="CASCADE", index=True)
    channel: str = Field(max_length=100)
    ts: str = Field(max_length=40)
    posted_at: datetime = Field(default_factory=utc_now, sa_type=UtcDateTime)


class Outgoing(Table, table=True):
    """What one message should say. New content raises `revision`; it is sent until `sent_revision` equals that.

    `parent_key` names the message of ours in whose thread it stands, and which is sent first; `thread_ts` a thread that
    somebody else began. `kind` says what `content` is.
    """

    __tablename__ = "outbox"
    __table_args__ = (Index(None, "state", "due_at"),)

    id: int | None = Field(default=None, primary_key=True)
    key: str = Field(max_length=200, unique=True)
    episode_id: str | None = Field(default=None, foreign_key="episode.id", ondelete="CASCADE", index=True)
    channel: str = Field(max_length=100)
    parent_key: str | None = Field(default=None, max_length=200)
    thread_ts: str | None = Field(default=None, max_length=40)
    kind: str = Field(default=OutgoingKind.MESSAGE, max_length=20)
    content: dict[str, Any] = Field(sa_type=JsonColumn)
    revision: int = 1
    sent_revision: int = 0
    state: str = Field(default=OutboxState.QUEUED, max_length=20)
    due_at: datetime = Field(default_factory=utc_now, sa_type=UtcDateTime)
    attempted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    attempted_revision: int = 0
    attempts: int = 0
    error: str | None = Field(default=None, max_length=100)
    remedy: str | None = None
    queued_at: datetime = Field(default_factory=utc_now, sa_type=UtcDateTime)
    sent_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
