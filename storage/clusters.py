"""Queries about clusters."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import func
from sqlmodel import col, select

from storage.database import Database
from storage.tables import Cluster, Incident

_WITHDRAWN = "-"
"""What the hash of a withdrawn token begins with: no token has such a hash."""


class Provisioned(StrEnum):
    """What `Clusters.provision` did."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Standing:
    """A cluster, whether it may report, and what it has reported."""

    name: str
    may_report: bool
    created_at: datetime
    incidents: int
    last: datetime | None


class Clusters:
    """Who may report. Tokens are never stored, only their hashes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def provision(self, name: str, token_hash: str) -> Provisioned:
        """Create cluster `name`, or give it a new token.

        Raises:
            sqlalchemy.exc.IntegrityError: another cluster has this token.
        """
        async with self._database.writing() as session:
            cluster = (await session.scalars(select(Cluster).where(Cluster.name == name))).one_or_none()
            if cluster is None:
                session.add(Cluster(name=name, token_hash=token_hash))
                return Provisioned.CREATED
            if cluster.token_hash == token_hash:
                return Provisioned.UNCHANGED
            cluster.token_hash = token_hash
            return Provisioned.CHANGED

    async def by_name(self, name: str) -> Cluster | None:
        """Return cluster `name`, if there is one."""
        async with self._database.reading() as session:
            return (await session.scalars(select(Cluster).where(Cluster.name == name))).one_or_none()

    async def by_token_hash(self, token_hash: str) -> Cluster | None:
        """Return the cluster whose token has this hash, if there is one."""
        async with self._database.reading() as session:
            return (await session.scalars(select(Cluster).where(Cluster.token_hash == token_hash))).one_or_none()

    async def standing(self) -> list[Standing]:
        """Return all clusters by name."""
        counted = select(Cluster, func.count(col(Incident.id)), func.max(col(Incident.created_at)))
        async with self._database.reading() as session:
            rows = await session.execute(
                counted.outerjoin(Incident, col(Incident.cluster_id) == Cluster.id)
                .group_by(col(Cluster.id))
                .order_by(Cluster.name)
            )
            return [
                Standing(each.name, not each.token_hash.startswith(_WITHDRAWN), each.created_at, count, last)
                for each, count, last in rows
            ]

    async def withdraw(self, name: str) -> bool:
        """Take the cluster's token away, and the cluster too where it has no incidents; whether there was a token."""
        async with self._database.writing() as session:
            cluster = (await session.scalars(select(Cluster).where(Cluster.name == name))).one_or_none()
            if cluster is None or cluster.token_hash.startswith(_WITHDRAWN):
                return False
            if await session.scalar(select(Incident.id).where(Incident.cluster_id == cluster.id).limit(1)) is None:
                await session.delete(cluster)
            else:
                cluster.token_hash = _WITHDRAWN + secrets.token_hex(31)
            return True
