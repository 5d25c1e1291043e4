"""Rows about which something is to be done: whoever claims one has it alone for a while."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import or_, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from storage.tables import Episode, Incident
from storage.types import utc_now


async def claim_due(
    session: AsyncSession, table: type[Incident] | type[Episode], lease: timedelta, **changes: Any
) -> str | None:
    """Take the row that has been due longest and that nobody has, for `lease`, with further `changes`; return its id.

    None where none is due. Several may claim at once: no row goes to two of them.
    """
    now = utc_now()
    due = (
        select(table.id)
        .where(col(table.due_at) <= now, or_(col(table.lease_until).is_(None), col(table.lease_until) < now))
        .order_by(col(table.due_at))
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    claimed: str | None = await session.scalar(
        update(table)
        .where(col(table.id).in_(due.scalar_subquery()))
        .values(lease_until=now + lease, **changes)
        .returning(col(table.id))
    )
    return claimed
