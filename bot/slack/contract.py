"""What the rest of the service knows of Slack: a message, where it was posted, and how posting fails."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

Block = dict[str, Any]


class State(StrEnum):
    """Where an incident stands, as the message's colour shows it."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"
    MUTED = "muted"


@dataclass(frozen=True, slots=True)
class Member:
    """One incident of an episode, a line of its table. `where` is who began it, in words."""

    incident_id: str
    job_id: str
    attempt: int
    name: str
    owner: str  # the scheduler's user
    where: str
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Before:
    """How an earlier episode of the same failure ended: who resolved it, how, and where its message stands.

    `resolved_by` is a name, not an id: who dealt with it then is not to be woken by the news that it is back.
    """

    resolved_by: str | None
    resolved_at: datetime | None
    resolution: str | None
    note: str | None
    link: str | None


@dataclass(frozen=True, slots=True)
class IncidentStatus:
    """What the service knows about an episode beyond the diagnosis of its leading incident.

    `reported` of `expected` nodes have sent their logs; `expected` is None where nobody said how many there are.
    `occurrences` counts incidents with this fingerprint, this one included; `first_seen` and `last_seen` are the first
    of them and the last one before this episode, `nodes` the nodes that began them, most frequent first. `members` are
    the incidents that this message stands for, newest first and at most 100, `member_count` is how many there are.
    Persons are Slack's ids; `owner` is the one to mention, once. Without `episode_id` the message has no buttons.
    """

    state: State = State.OPEN
    url: str | None = None
    reported: int | None = None
    expected: int | None = None
    occurrences: int = 1
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    nodes: tuple[str, ...] = ()
    episode_id: str | None = None
    owner: str | None = None
    acknowledged_by: str | None = None
    acknowledged_at: datetime | None = None
    assignee: str | None = None
    resolved_by: str | None = None
    resolved_at: datetime | None = None
    resolution: str | None = None
    note: str | None = None
    muted_by: str | None = None
    muted_until: datetime | None = None
    recovered_by: str | None = None  # what went well afterwards: "attempt 2"
    members: tuple[Member, ...] = ()
    member_count: int = 1
    before: Before | None = None


@dataclass(frozen=True, slots=True)
class SlackMessage:
    """A message ready to send. `text` alone tells the story: notifications and screen readers show nothing else."""

    text: str
    blocks: list[Block]
    colour: str  # "#rrggbb", the bar beside the blocks; empty: no bar


@dataclass(frozen=True, slots=True)
class Posted:
    """Where a message stands. `channel` is the id that Slack answered with; `ts` is a name, never a number."""

    channel: str
    ts: str


@dataclass(frozen=True, slots=True)
class SlackFile:
    """A text file for a thread. Slack shows `title` and offers it under `name`, which no other file of the thread has."""

    name: str
    title: str
    text: str


class PosterError(Exception):
    """A message could not be posted, edited or looked for."""


class RateLimited(PosterError):  # noqa: N818
    """Slack asks to wait `retry_after` seconds. Nothing was posted."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"Slack asks to wait {retry_after:g} s")
        self.retry_after = retry_after


class Refused(PosterError):  # noqa: N818
    """Slack said no, and will say no again until somebody follows `remedy`. Nothing was posted."""

    def __init__(self, code: str, remedy: str) -> None:
        super().__init__(f"Slack refused ({code}): {remedy}")
        self.code = code
        self.remedy = remedy


class Unreachable(PosterError):  # noqa: N818
    """No answer, or none to rely on. After a `post` the message may stand in the channel: `find` it first."""


class Poster(Protocol):
    """Posts messages, edits them in place, and finds those whose address was lost in a crash.

    `thread` is the `ts` of the message in whose thread to post; replies are never shown in the channel as well.
    """

    async def post(self, channel: str, message: SlackMessage, key: str, thread: str | None = None) -> Posted:
        """Post once, marked with `key`. Raises RateLimited, Refused, or Unreachable (then `find` before retrying)."""
        ...

    async def update(self, channel: str, ts: str, message: SlackMessage) -> None:
        """Replace the message at `ts`. Safe to repeat. Raises RateLimited, Refused, Unreachable."""
        ...

    async def find(self, channel: str, key: str, since: datetime, thread: str | None = None) -> Posted | None:
        """Return our message marked `key`, posted at or after `since` (aware), or None. Raises like `update`."""
        ...

    async def upload(self, channel: str, thread: str, file: SlackFile) -> Posted:
        """Share a file in a thread; `ts` is the file's id. After Unreachable `find_file` before trying again."""
        ...

    async def find_file(self, channel: str, thread: str, name: str) -> Posted | None:
        """Return our file named `name` in a thread, or None. Raises like `update`."""
        ...

    def link(self, posted: Posted) -> str | None:
        """Return the address of a message for people, or None where there is none, or none yet."""
        ...
