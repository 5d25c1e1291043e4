"""Queries about clusters."""

from __future__ import annotations

from enum import StrEnum

from sqlmodel import select

from storage.database import Database
from storage.tables import Cluster


class Provisioned(StrEnum):
    """What `Clusters.provision` did."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


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
