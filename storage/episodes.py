"""Queries of the herald: episodes about which there is something to tell, and all that is told about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import case, func, or_, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer
from sqlmodel import col, select

from storage.database import Database
from storage.folding import FAILED, muted
from storage.incidents import IncidentView, view
from storage.leases import claim_due
from storage.outbox import Draft, queue
from storage.scope import told_in
from storage.tables import (
    Action,
    ActionKind,
    Episode,
    EpisodeState,
    Incident,
    IncidentNode,
    Message,
    Mute,
    Part,
    StoredDiagnosis,
)
from storage.types import utc_now

PACE = timedelta(seconds=1)
"""An episode is told no more often: in a storm, hundreds of changes come at once, and a channel takes one edit a second."""

MAX_MEMBERS = 100
MAX_VERSIONS = 20


@dataclass(frozen=True, slots=True)
class Seen:
    """How often a failure was seen, this time included: when first, when last before this episode, on which nodes."""

    count: int = 1
    first: datetime | None = None
    last_before: datetime | None = None
    nodes: tuple[str, ...] = ()  # those that began it, most frequent first


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """One episode with everything that is told about it. `members` are at most MAX_MEMBERS, the newest first."""

    episode: Episode
    lead: IncidentView
    versions: list[StoredDiagnosis]  # of the lead, oldest first, without their dossiers
    members: list[Incident]
    member_count: int
    nodes: dict[str, list[str]]  # by incident, those that began it
    actions: list[Action]
    mutes: dict[str, Mute]  # by channel, those that hold
    unwanted: dict[str, Mute]  # by channel, those that held when it last happened
    seen: dict[str, Seen]  # by channel
    previous: Episode | None = None
    resolver: str | None = None  # the name of the person who resolved `previous`
    elsewhere: dict[str, Message] = field(default_factory=dict)  # messages of `previous`, or of the storm, by channel


class Episodes:
    """Episodes as the herald and people see them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, lease: timedelta) -> EpisodeView | None:
        """Take the episode that has been due longest, for `lease`; None where none is due."""
        async with self._database.writing() as session:
            claimed = await claim_due(session, Episode, lease)
            return None if claimed is None else await episode_view(session, claimed)

    async def next_due(self) -> datetime | None:
        """Return when the next episode is due and free; None where none waits."""
        async with self._database.reading() as session:
            later = case((col(Episode.lease_until) > Episode.due_at, Episode.lease_until), else_=col(Episode.due_at))
            found: datetime | None = await session.scalar(
                select(func.min(later)).where(col(Episode.due_at).is_not(None))
            )
            return found

    async def told(self, episode_id: str, revision: int, drafts: Sequence[Draft], again_at: datetime | None) -> None:
        """Queue what tells `revision`; what changed meanwhile, or falls due at `again_at`, comes after PACE."""
        async with self._database.writing() as session:
            episode = await session.get(Episode, episode_id, with_for_update=True)
            if episode is None:
                raise LookupError(episode_id)
            for draft in drafts:
                await queue(session, episode_id, draft)
            episode.told_revision = max(episode.told_revision, revision)
            episode.lease_until = utc_now() + PACE
            if episode.revision == revision:
                episode.due_at = again_at

    async def release_all(self) -> None:
        """End all claims. Only for a process that has the database for itself."""
        async with self._database.writing() as session:
            await session.execute(update(Episode).values(lease_until=None))

    async def view(self, episode_id: str) -> EpisodeView:
        """Return everything about an episode. Raises LookupError where there is none."""
        async with self._database.reading() as session:
            return await episode_view(session, episode_id)

    async def at(self, channel: str, ts: str) -> str | None:
        """Return the episode that a message of ours at (`channel`, `ts`) is about, or None."""
        async with self._database.reading() as session:
            return await session.scalar(
                select(Message.episode_id).where(Message.channel == channel, Message.ts == ts).limit(1)
            )

    async def unresolved(self, channels: Sequence[str] | None = None, limit: int = 100) -> list[Episode]:
        """Return episodes that are not resolved, newest first: those told in one of `channels`, or all."""
        async with self._database.reading() as session:
            found = await session.scalars(
                select(Episode)
                .where(Episode.state != EpisodeState.RESOLVED, col(Episode.merged_id).is_(None))
                .order_by(col(Episode.last_at).desc())
                .limit(2000)
            )
            wanted = [episode for episode in found if channels is None or set(channels) & set(episode.channels)]
            return wanted[:limit]


async def episode_view(session: AsyncSession, episode_id: str) -> EpisodeView:
    """Return everything about an episode as `session` sees it. Raises LookupError where there is none."""
    episode = await session.get(Episode, episode_id, populate_existing=True)
    if episode is None:
        raise LookupError(episode_id)
    of_it = (
        col(Incident.episode_id) == episode_id,
        or_(col(Incident.outcome) == FAILED, col(Incident.id) == episode.lead_id),
    )
    found = await session.scalars(
        select(Incident).where(*of_it).order_by(col(Incident.created_at).desc(), col(Incident.id)).limit(MAX_MEMBERS)
    )
    members = list(found)
    count = await session.scalar(select(func.count()).where(*of_it))
    actions = await session.scalars(select(Action).where(Action.episode_id == episode_id).order_by(col(Action.id)))
    previous = await session.get(Episode, episode.previous_id) if episode.previous_id else None
    other = episode.merged_id or episode.previous_id
    return EpisodeView(
        episode=episode,
        lead=await view(session, episode.lead_id),
        versions=await _versions(session, episode.lead_id),
        members=members,
        member_count=count or 0,
        nodes=await _nodes(session, [member.id for member in members]),
        actions=list(actions),
        mutes=await muted(session, episode.fingerprint, episode.channels),
        unwanted=await muted(session, episode.fingerprint, episode.channels, episode.last_at),
        seen={channel: await _seen(session, episode, channel) for channel in episode.channels},
        previous=previous,
        resolver=await _resolver(session, previous.id) if previous else None,
        elsewhere=await _parents(session, other, episode.channels) if other else {},
    )


async def _versions(session: AsyncSession, incident_id: str) -> list[StoredDiagnosis]:
    found = await session.scalars(
        select(StoredDiagnosis)
        .where(StoredDiagnosis.incident_id == incident_id)
        .order_by(col(StoredDiagnosis.version).desc())
        .limit(MAX_VERSIONS)
        .options(defer(cast("Any", StoredDiagnosis.dossier)))
    )
    return list(found)[::-1]


async def _nodes(session: AsyncSession, incidents: Sequence[str]) -> dict[str, list[str]]:
    found = await session.execute(
        select(IncidentNode.incident_id, IncidentNode.host)
        .where(col(IncidentNode.incident_id).in_(incidents), IncidentNode.part == Part.INITIATING)
        .order_by(col(IncidentNode.id))
    )
    nodes: dict[str, list[str]] = {}
    for incident_id, host in found:
        nodes.setdefault(incident_id, []).append(host)
    return nodes


async def _seen(session: AsyncSession, episode: Episode, channel: str) -> Seen:
    """Return what `channel` was told of this failure; what others were told alone does not show up in it."""
    if not episode.fingerprint or episode.cause == "unknown":
        return Seen()
    same = (
        col(Incident.fingerprint) == episode.fingerprint,
        col(Incident.outcome) == FAILED,
        told_in(channel),
    )
    counted = select(func.count(), func.min(Incident.created_at)).select_from(Incident).join(Episode)
    count, first = (await session.execute(counted.where(*same))).one()
    before = select(func.max(Incident.created_at)).select_from(Incident).join(Episode)
    last = await session.scalar(
        before.where(*same, Incident.created_at < episode.opened_at, Incident.episode_id != episode.id)
    )
    hosts = await session.execute(
        select(IncidentNode.host)
        .select_from(Incident)
        .join(Episode)
        .join(IncidentNode, col(IncidentNode.incident_id) == Incident.id)
        .where(*same, IncidentNode.part == Part.INITIATING)
        .group_by(IncidentNode.host)
        .order_by(func.count().desc(), IncidentNode.host)
        .limit(5)
    )
    return Seen(max(1, count), first, last, tuple(hosts.scalars()))


async def _resolver(session: AsyncSession, episode_id: str) -> str | None:
    return await session.scalar(
        select(Action.user_name)
        .where(Action.episode_id == episode_id, Action.kind == ActionKind.RESOLVE)
        .order_by(col(Action.id).desc())
        .limit(1)
    )


async def _parents(session: AsyncSession, episode_id: str, channels: Sequence[str]) -> dict[str, Message]:
    keys = {f"{episode_id}/{channel}": channel for channel in channels}
    found = await session.scalars(select(Message).where(col(Message.key).in_(keys)))
    return {keys[message.key]: message for message in found}
