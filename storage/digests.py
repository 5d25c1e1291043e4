"""Queries of the digest: queue each once, and know where Slack refused one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select

from storage.database import Database
from storage.outbox import Draft, queue
from storage.tables import OutboxState, Outgoing

PREFIX = "digest/"


class Digests:
    """Digests in the outbox. Their rows say for ever which weeks have been told."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def is_queued(self, key: str) -> bool:
        """Return whether the digest `key` was queued, by this service or another replica."""
        async with self._database.reading() as session:
            return await session.scalar(select(Outgoing.id).where(Outgoing.key == key)) is not None

    async def queue_once(self, draft: Draft) -> bool:
        """Queue a digest unless it was queued before; return whether this call did it."""
        try:
            async with self._database.writing() as session:
                if await session.scalar(select(Outgoing.id).where(Outgoing.key == draft.key)) is not None:
                    return False
                await queue(session, None, draft)
        except IntegrityError:  # another replica was faster
            return False
        return True

    async def refused(self, codes: frozenset[str]) -> dict[str, dict[str, Any]]:
        """Return what the digests say, by key, that Slack refuses with one of `codes`."""
        async with self._database.reading() as session:
            found = await session.execute(
                select(Outgoing.key, Outgoing.content).where(
                    col(Outgoing.key).startswith(PREFIX),
                    Outgoing.state == OutboxState.REFUSED,
                    col(Outgoing.error).in_(codes),
                )
            )
            return dict(found.all())

    async def requeue(self, draft: Draft) -> None:
        """Give a refused digest other words."""
        async with self._database.writing() as session:
            await queue(session, None, draft)

    async def newest(self, channel: str, since: datetime) -> list[dict[str, Any]]:
        """Return what the digests of `channel` queued after `since` say, newest first."""
        async with self._database.reading() as session:
            found = await session.scalars(
                select(Outgoing.content)
                .where(
                    col(Outgoing.key).startswith(f"{PREFIX}{channel}/", autoescape=True), Outgoing.queued_at >= since
                )
                .order_by(col(Outgoing.id).desc())
            )
            return list(found)
