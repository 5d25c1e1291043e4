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
class IncidentStatus:
    """What the service knows about an incident beyond its diagnosis.

    `reported` of `expected` nodes have sent their logs; `expected` is None where nobody said how many there are.
    `occurrences` counts incidents with this fingerprint, this one included; `first_seen` is the first of them.
    """

    state: State = State.OPEN
    url: str | None = None
    reported: int | None = None
    expected: int | None = None
    occurrences: int = 1
    first_seen: datetime | None = None


@dataclass(frozen=True, slots=True)
class SlackMessage:
    """A message ready to send. `text` alone tells the story: notifications and screen readers show nothing else."""

    text: str
    blocks: list[Block]
    colour: str  # "#rrggbb", the bar beside the blocks


@dataclass(frozen=True, slots=True)
class Posted:
    """Where a message stands. `channel` is the id that Slack answered with; `ts` is a name, never a number."""

    channel: str
    ts: str


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
    """Posts messages, edits them in place, and finds those whose address was lost in a crash."""

    async def post(self, channel: str, message: SlackMessage, key: str) -> Posted:
        """Post once, marked with `key`. Raises RateLimited, Refused, or Unreachable (then `find` before retrying)."""
        ...

    async def update(self, channel: str, ts: str, message: SlackMessage) -> None:
        """Replace the message at `ts`. Safe to repeat. Raises RateLimited, Refused, Unreachable."""
        ...

    async def find(self, channel: str, key: str, since: datetime) -> Posted | None:
        """Return our message marked `key`, posted at or after `since` (aware), or None. Raises like `update`."""
        ...
