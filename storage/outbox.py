"""Queries of the outbox: what has to be said outside, and how far each message has come."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, not_, or_, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from storage.database import Database
from storage.tables import Message, OutboxState, Outgoing, OutgoingKind
from storage.types import utc_now


@dataclass(frozen=True, slots=True)
class Draft:
    """What a message should say.

    `only_edit`: change the message where there is one, begin none, and withdraw one that was not posted yet.
    `parent_key`: our message in whose thread it stands; `thread_ts`: a thread that somebody else began. Before
    `not_before` nothing is posted.
    """

    key: str
    channel: str
    content: dict[str, Any]
    only_edit: bool = False
    parent_key: str | None = None
    thread_ts: str | None = None
    kind: OutgoingKind = OutgoingKind.MESSAGE
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A message to send now. `in_doubt`: an earlier attempt at `attempted_at` may have reached Slack.

    `thread` is the `ts` of the message in whose thread it belongs, `late` says for how many seconds it has been waiting
    and `behind` how many first messages wait for the same channel.
    """

    id: int
    key: str
    channel: str
    content: dict[str, Any]
    revision: int
    attempts: int
    attempted_at: datetime
    attempted_revision: int
    in_doubt: bool
    posted: Message | None
    kind: OutgoingKind = OutgoingKind.MESSAGE
    thread: str | None = None
    late: float = 0.0
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Trouble:
    """A message that Slack refuses until somebody acts."""

    channel: str
    code: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits to be sent now. `lag` is the age in seconds of the oldest content not yet sent.

    What is held back until quiet hours end does not wait, and replies wait only once their thread stands.
    """

    waiting: int
    lag: float
    refused: list[Trouble]


async def queue(session: AsyncSession, episode_id: str | None, draft: Draft) -> None:
    """Make the message `draft.key` say `draft.content`, within the caller's transaction."""
    found = await session.scalars(select(Outgoing).where(Outgoing.key == draft.key).with_for_update())
    row = found.one_or_none()
    now = utc_now()
    if row is None:
        if not draft.only_edit:
            due = max(now, draft.not_before or now)
            session.add(
                Outgoing(
                    key=draft.key,
                    episode_id=episode_id,
                    channel=draft.channel,
                    parent_key=draft.parent_key,
                    thread_ts=draft.thread_ts,
                    kind=draft.kind,
                    content=draft.content,
                    due_at=due,
                    queued_at=due,
                )
            )
        return
    if draft.only_edit and draft.parent_key is None and await _unposted(session, row):
        await session.execute(
            delete(Outgoing).where(or_(col(Outgoing.key) == row.key, col(Outgoing.parent_key) == row.key))
        )
        return
    if row.attempted_at is None and row.due_at > now:  # held back; it may have become urgent
        row.due_at = row.queued_at = min(row.due_at, max(now, draft.not_before or now))
    if row.content == draft.content:
        return
    row.content = draft.content
    row.revision += 1
    if row.sent_revision:  # what was never posted has been waiting since it was queued first
        row.queued_at = now
    # A row in `sending` goes on as it is: whoever sends it sees the newer revision when done.
    if row.state in (OutboxState.SENT, OutboxState.REFUSED):
        row.state, row.due_at, row.attempts = OutboxState.QUEUED, now, 0


async def _unposted(session: AsyncSession, row: Outgoing) -> bool:
    """Return whether the message stands nowhere, for certain. What is being sent may have arrived."""
    if row.state not in (OutboxState.QUEUED, OutboxState.REFUSED):
        return False
    return await session.scalar(select(Message.id).where(Message.key == row.key)) is None


def _held(now: datetime) -> ColumnElement[bool]:
    """What nobody has tried yet because it is not to be posted before a later moment."""
    return and_(col(Outgoing.attempted_at).is_(None), col(Outgoing.due_at) > now)


def _has_its_thread() -> ColumnElement[bool]:
    return or_(col(Outgoing.parent_key).is_(None), col(Outgoing.parent_key).in_(select(Message.key)))


async def _behind(session: AsyncSession, row: Outgoing) -> int:
    waiting = await session.scalar(
        select(func.count()).where(
            Outgoing.channel == row.channel,
            Outgoing.id != row.id,
            col(Outgoing.state) != OutboxState.SENT,
            Outgoing.sent_revision == 0,
            col(Outgoing.parent_key).is_(None),
            Outgoing.due_at <= utc_now(),
        )
    )
    return waiting or 0


class Outbox:
    """Messages on their way. `sending` is committed before Slack is called, so a crash leaves a trace."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, lease: timedelta, besides: Collection[str] = ()) -> Claimed | None:
        """Take the message due longest, in a channel that is not in `besides`; None where none is due."""
        now = utc_now()
        async with self._database.writing() as session:
            found = await session.scalars(
                select(Outgoing)
                .where(
                    col(Outgoing.state) != OutboxState.SENT,
                    Outgoing.due_at <= now,
                    col(Outgoing.channel).not_in(besides),
                    _has_its_thread(),
                )
                .order_by(col(Outgoing.parent_key).is_not(None), col(Outgoing.due_at))
                .limit(1)
                .with_for_update(skip_locked=True)
            )
            row = found.one_or_none()
            if row is None or row.id is None:
                return None
            posted = (await session.scalars(select(Message).where(Message.key == row.key))).one_or_none()
            thread = row.thread_ts
            if row.parent_key is not None:
                thread = await session.scalar(select(Message.ts).where(Message.key == row.parent_key))
            in_doubt = row.state == OutboxState.SENDING and row.attempted_at is not None
            if not in_doubt:
                row.attempted_at, row.attempted_revision = now, row.revision
            row.state = OutboxState.SENDING
            row.attempts += 1
            row.due_at = now + lease
            return Claimed(
                id=row.id,
                key=row.key,
                channel=row.channel,
                content=row.content,
                revision=row.revision,
                attempts=row.attempts,
                attempted_at=row.attempted_at or now,
                attempted_revision=row.attempted_revision,
                in_doubt=in_doubt,
                posted=posted,
                kind=OutgoingKind(row.kind),
                thread=thread,
                late=(now - row.queued_at).total_seconds(),
                behind=await _behind(session, row),
            )

    async def queue(self, draft: Draft, episode_id: str | None = None) -> None:
        """Make the message `draft.key` say `draft.content`, durable when it returns."""
        async with self._database.writing() as session:
            await queue(session, episode_id, draft)

    async def knows(self, key: str) -> bool:
        """Return whether a message of this key was ever queued."""
        async with self._database.reading() as session:
            return await session.scalar(select(Outgoing.id).where(Outgoing.key == key)) is not None

    async def sent(self, claimed: Claimed, channel: str, ts: str) -> None:
        """Record that the message stands in Slack at (`channel`, `ts`) and says revision `claimed.revision`."""
        await self._arrived(claimed, channel, ts, revision=claimed.revision)

    async def adopted(self, claimed: Claimed, channel: str, ts: str) -> None:
        """Record that the earlier attempt had arrived; newer content is sent as an edit next."""
        await self._arrived(claimed, channel, ts, revision=claimed.attempted_revision)

    async def _arrived(self, claimed: Claimed, channel: str, ts: str, *, revision: int) -> None:
        now = utc_now()
        async with self._database.writing() as session:
            row = await session.get_one(Outgoing, claimed.id, with_for_update=True)
            if claimed.posted is None:
                session.add(Message(key=row.key, episode_id=row.episode_id, channel=channel, ts=ts))
            row.sent_revision, row.sent_at = revision, now
            row.attempts, row.error, row.remedy = 0, None, None
            row.state = OutboxState.SENT if row.revision == revision else OutboxState.QUEUED
            row.due_at = now

    async def retry(self, claimed: Claimed) -> None:
        """Record that the attempt in doubt never arrived and that another one begins now."""
        async with self._database.writing() as session:
            row = await session.get_one(Outgoing, claimed.id, with_for_update=True)
            row.attempted_at, row.attempted_revision = utc_now(), claimed.revision

    async def later(self, claimed: Claimed, delay: timedelta, error: str, *, in_doubt: bool) -> None:
        """Try again after `delay`. `in_doubt`: the message may have arrived, so it is looked for first."""
        async with self._database.writing() as session:
            row = await session.get_one(Outgoing, claimed.id, with_for_update=True)
            row.state = OutboxState.SENDING if in_doubt else OutboxState.QUEUED
            row.due_at = utc_now() + delay
            row.error = error

    async def refused(self, claimed: Claimed, delay: timedelta, code: str, remedy: str) -> None:
        """Keep a message that Slack refuses, and try again after `delay` in case somebody has acted."""
        async with self._database.writing() as session:
            row = await session.get_one(Outgoing, claimed.id, with_for_update=True)
            row.state, row.due_at, row.error, row.remedy = OutboxState.REFUSED, utc_now() + delay, code, remedy

    async def dropped(self, claimed: Claimed) -> None:
        """Give up what cannot be sent any more because what it was to show is gone."""
        async with self._database.writing() as session:
            await session.execute(delete(Outgoing).where(col(Outgoing.id) == claimed.id))

    async def lost(self, claimed: Claimed) -> None:
        """Forget where the message stood, because somebody deleted it; it is posted anew."""
        async with self._database.writing() as session:
            await session.execute(delete(Message).where(col(Message.key) == claimed.key))
            row = await session.get_one(Outgoing, claimed.id, with_for_update=True)
            row.state, row.due_at, row.sent_revision = OutboxState.QUEUED, utc_now(), 0

    async def unthreaded(self, claimed: Claimed) -> None:
        """A reply's thread is gone: post our message above it anew and the reply after it; leave a stranger's alone."""
        async with self._database.writing() as session:
            row = await session.get_one(Outgoing, claimed.id, with_for_update=True)
            if row.parent_key is None:
                await session.delete(row)
                return
            await session.execute(delete(Message).where(col(Message.key) == row.parent_key))
            await session.execute(
                update(Outgoing)
                .where(col(Outgoing.key) == row.parent_key)
                .values(state=OutboxState.QUEUED, due_at=utc_now(), sent_revision=0, attempts=0)
            )
            row.state, row.due_at, row.attempted_at, row.attempts = OutboxState.QUEUED, utc_now(), None, 0

    async def resume(self) -> None:
        """Make what was tried before due now. Only for a process that has the database for itself, at its start."""
        async with self._database.writing() as session:
            await session.execute(
                update(Outgoing)
                .where(
                    col(Outgoing.state) != OutboxState.SENT,
                    or_(col(Outgoing.attempted_at).is_not(None), col(Outgoing.sent_revision) > 0),
                )
                .values(due_at=utc_now())
            )

    async def next_due(self) -> datetime | None:
        """Return when the next message is due; None where none waits."""
        async with self._database.reading() as session:
            return await session.scalar(
                select(func.min(Outgoing.due_at)).where(
                    col(Outgoing.state) != OutboxState.SENT,
                    _has_its_thread(),
                )
            )

    async def backlog(self) -> Backlog:
        """Return what waits and what is refused."""
        async with self._database.reading() as session:
            now = utc_now()
            waiting = await session.execute(
                select(func.count(), func.min(Outgoing.queued_at)).where(
                    col(Outgoing.state) != OutboxState.SENT, not_(_held(now)), _has_its_thread()
                )
            )
            count, oldest = waiting.one()
            refused = await session.scalars(select(Outgoing).where(Outgoing.state == OutboxState.REFUSED))
            return Backlog(
                waiting=count,
                lag=max(0.0, (now - oldest).total_seconds()) if oldest else 0.0,
                refused=[Trouble(row.channel, row.error or "", row.remedy or "") for row in refused],
            )
