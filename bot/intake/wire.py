"""The documents of the wire. Unknown fields are ignored, so that a newer hook can talk to an older service."""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from bot.intake.errors import IntakeError
from knowledge.diagnosis import Diagnosis
from knowledge.job import JobFacts
from storage.incidents import ReporterRole

MAX_NAME = 200  # characters of a log's name
MAX_PART = 255  # bytes of one part of it, as file systems allow

Word = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$", max_length=40)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


class _Document(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True, hide_input_in_errors=True)


class Opening(_Document):
    """A reporter begins to tell of a failed job attempt."""

    schema_version: Literal[1] = Field(alias="schema")
    scheduler: Word
    job_id: Name
    attempt: int = Field(default=0, ge=0, le=1_000_000, description="restart count, from 0")
    reporter: Name = Field(description="host name")
    role: ReporterRole
    job: JobFacts = Field(default_factory=JobFacts)
    expected_reporters: int | None = Field(default=None, ge=1, le=1_000_000, description="nodes that will report")


class Completion(_Document):
    """A reporter has sent all it has."""

    reporter: Name
    role: ReporterRole
    job: JobFacts = Field(default_factory=JobFacts)


class Opened(_Document):
    """The incident that a report belongs to."""

    id: str
    url: str


class LogAccepted(_Document):
    """What was received, after decompression."""

    sha256: str
    bytes: int


class Accepted(_Document):
    """It is on disk."""

    id: str


class AlertTold(_Document):
    """The incident that an alert belongs to."""

    fingerprint: str
    id: str
    url: str


class AlertRefused(_Document):
    """An alert that makes no incident, and why. `alert` is its place in the notification, from 0."""

    alert: int
    fingerprint: str
    why: str


class AlertsAccepted(_Document):
    """What became of a notification's alerts; those that are resolved are passed over."""

    incidents: list[AlertTold]
    refused: list[AlertRefused]


class IncidentKey(_Document):
    """What makes an incident the same one."""

    cluster: str
    scheduler: str
    job_id: str
    attempt: int


class ReportSeen(_Document):
    """One reporter, and when it began and ended."""

    reporter: str
    role: ReporterRole
    opened_at: datetime
    completed_at: datetime | None


class LogSeen(_Document):
    """One log, as received."""

    name: str
    sha256: str
    bytes: int


class DiagnosisSeen(_Document):
    """What was said last. `error` tells why the diagnosing itself failed, where it did."""

    version: int
    created_at: datetime
    error: str | None
    document: Diagnosis


class MessageSeen(_Document):
    """Where a message stands in Slack."""

    channel: str
    ts: str


class IncidentSeen(_Document):
    """Everything known about an incident. `current`: nothing came in since it was last diagnosed."""

    id: str
    state: str
    current: bool
    key: IncidentKey
    job: dict[str, Any]
    reports: list[ReportSeen]
    logs: list[LogSeen]
    diagnosis: DiagnosisSeen | None
    messages: list[MessageSeen]


class Problem(_Document):
    """What went wrong, and what to do."""

    code: str
    message: str
    hint: str


class Failure(_Document):
    """Every answer that is not a success."""

    error: Problem


class Health(_Document):
    """Whether the service, and each part of it, is fit."""

    ok: bool
    parts: dict[str, str]


def checked_name(name: str) -> str:
    """Return a log's name if it is a plain relative path. Raises IntakeError 400 for one that is not."""
    parts = name.split("/")
    plain = (
        0 < len(name) <= MAX_NAME
        and name.isprintable()
        and "\\" not in name
        and all(part not in ("", ".", "..") and _fits(part) for part in parts)
        and not PurePosixPath(name).is_absolute()
    )
    if not plain:
        raise IntakeError(
            400,
            "bad-name",
            "the log's name is no plain relative path",
            f"use up to {MAX_NAME} printable characters, parts joined by '/', none of them empty, '.' or '..'",
        )
    return name


def _fits(part: str) -> bool:
    try:
        return len(part.encode()) <= MAX_PART
    except UnicodeEncodeError:
        return False
