"""Which failures people see as one: attempts and tasks of a job, the same failure again, and storms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import func, or_, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from storage.tables import Episode, EpisodeState, Incident, IncidentNode, Mute
from storage.types import utc_now

FAILED = "failed"


class Reach(StrEnum):
    """How far a cause reaches, and so with whose failures it may be told together."""

    OWNER = "owner"  # code, data, settings: the same person's jobs
    NODE = "node"  # a machine: jobs that name the same node
    SITE = "site"  # a network, a file server, the scheduler: everybody's jobs


@dataclass(frozen=True, slots=True)
class Folding:
    """How long failures are told together.

    `window`: the same failure, since its episode began. `family`: attempts and tasks of one job, since the last of them.
    `storm_jobs` jobs with one cause within `storm`, and it is a storm.
    """

    window: timedelta = timedelta(hours=24)
    family: timedelta = timedelta(days=7)
    storm: timedelta = timedelta(minutes=10)
    storm_jobs: int = 5


@dataclass(frozen=True, slots=True)
class Placing:
    """Where an incident is told, in which of the channels not before a moment, and with whose failures it may be folded.

    `urgent_from` jobs told as one are told at once; None: however many they are, they wait.
    """

    channels: tuple[str, ...]
    reach: Reach = Reach.OWNER
    holds: Mapping[str, datetime] = field(default_factory=dict)
    urgent_from: int | None = None
    folding: Folding = Folding()


async def place(session: AsyncSession, incident: Incident, placing: Placing) -> None:
    """Join a diagnosed incident to its episode, or begin one, within the caller's transaction."""
    episode = await session.get(Episode, incident.episode_id, with_for_update=True) if incident.episode_id else None
    if incident.outcome != FAILED:
        if episode is not None:
            await _lead_by_a_failure(session, episode)
            touch(episode)
        else:
            await _recovered(session, incident)
        return
    if episode is not None and await _leaves(session, episode, incident):
        touch(episode)
        incident.episode_id = episode = None
        await session.flush()
    if episode is None:
        episode = await _matching(session, incident, placing)
        if episode is None:
            episode = await _begun(session, incident, placing)
        incident.episode_id = episode.id
        episode.last_at = utc_now()
        await _succeed(session, episode, incident)
    if episode.lead_id == incident.id:
        episode.fingerprint, episode.cause = incident.fingerprint, incident.cause
    touch(episode)
    await session.flush()
    if placing.reach is not Reach.OWNER:
        await _gather_storm(session, incident, placing)
    await _hurry(session, incident, placing)


async def _leaves(session: AsyncSession, episode: Episode, incident: Incident) -> bool:
    """Whether a failure that is told with those of others turned out to be of another cause: nobody would hear of it."""
    if incident.id == episode.lead_id or incident.cause == episode.cause:
        return False
    of_the_job = await session.scalar(
        select(Incident.id)
        .where(Incident.episode_id == episode.id, Incident.family == incident.family, Incident.id != incident.id)
        .limit(1)
    )
    return of_the_job is None


async def _hurry(session: AsyncSession, incident: Incident, placing: Placing) -> None:
    """What need not wait for one of an episode's failures, or for so many of them, waits no longer."""
    episode = await session.get_one(Episode, incident.episode_id)
    if not episode.holds:
        return
    jobs = await session.scalar(
        select(func.count(func.distinct(Incident.family))).where(
            Incident.episode_id == episode.id, Incident.outcome == FAILED
        )
    )
    storm = placing.urgent_from is not None and (jobs or 0) >= placing.urgent_from
    still = {} if storm else {name: until for name, until in episode.holds.items() if name in placing.holds}
    if still != episode.holds:
        episode.holds = still
        touch(episode)


def touch(episode: Episode) -> None:
    """Note that what is told about an episode has changed."""
    episode.revision += 1
    episode.due_at = utc_now()


async def muted(
    session: AsyncSession, fingerprint: str, channels: Sequence[str], at: datetime | None = None
) -> dict[str, Mute]:
    """Return the mutes of a failure that hold now, or that held `at` a time, by channel."""
    if not fingerprint:
        return {}
    now = at or utc_now()
    found = await session.scalars(
        select(Mute)
        .where(
            Mute.fingerprint == fingerprint,
            col(Mute.channel).in_(channels),
            or_(col(Mute.ended_at).is_(None), col(Mute.ended_at) > now),
            Mute.at <= now,
            Mute.until > now,
        )
        .order_by(col(Mute.id))
    )
    return {mute.channel: mute for mute in found}


async def _matching(session: AsyncSession, incident: Incident, placing: Placing) -> Episode | None:
    return await _of_the_job(session, incident, placing) or await _of_the_failure(session, incident, placing)


async def _of_the_job(session: AsyncSession, incident: Incident, placing: Placing) -> Episode | None:
    since = utc_now() - placing.folding.family
    found = await session.scalars(
        select(Episode)
        .join(Incident, col(Incident.episode_id) == Episode.id)
        .where(Incident.family == incident.family, Incident.id != incident.id, Episode.last_at >= since)
        .order_by(col(Episode.last_at).desc())
        .limit(20)
    )
    return next((episode for episode in found if _takes(episode, placing)), None)


async def _of_the_failure(session: AsyncSession, incident: Incident, placing: Placing) -> Episode | None:
    """The open episode of the same failure. What nobody understood is never called the same."""
    if not incident.fingerprint or incident.cause in ("", "unknown"):
        return None
    silenced = await muted(session, incident.fingerprint, placing.channels)
    since = utc_now() - placing.folding.window
    query = (
        select(Episode)
        .where(Episode.fingerprint == incident.fingerprint, Episode.state != EpisodeState.RESOLVED)
        .order_by(col(Episode.opened_at).desc())
        .limit(50)
    )
    if not silenced:
        query = query.where(Episode.opened_at >= since)
    for episode in await session.scalars(query):
        if _takes(episode, placing) and await _reaches(session, episode, incident, placing.reach):
            return episode
    return None


def _takes(episode: Episode, placing: Placing) -> bool:
    return (
        episode.merged_id is None
        and episode.state != EpisodeState.RESOLVED
        and tuple(episode.channels) == placing.channels
    )


async def _reaches(session: AsyncSession, episode: Episode, incident: Incident, reach: Reach) -> bool:
    if reach is Reach.SITE:
        return True
    lead = await session.get(Incident, episode.lead_id)
    if lead is None:
        return False
    hosts = await _hosts(session, incident.id)
    if reach is Reach.NODE and hosts:
        return bool(hosts & await _hosts(session, lead.id))
    return lead.owner == incident.owner and lead.cluster_id == incident.cluster_id


async def _hosts(session: AsyncSession, incident_id: str) -> set[str]:
    return set(await session.scalars(select(IncidentNode.host).where(IncidentNode.incident_id == incident_id)))


async def _begun(session: AsyncSession, incident: Incident, placing: Placing) -> Episode:
    earlier = None
    if incident.fingerprint and incident.cause != "unknown":
        found = await session.scalars(
            select(Episode)
            .where(Episode.fingerprint == incident.fingerprint, col(Episode.merged_id).is_(None))
            .order_by(col(Episode.last_at).desc())
            .limit(50)
        )
        for episode in found:
            same = tuple(episode.channels) == placing.channels
            if same and await _reaches(session, episode, incident, placing.reach):
                earlier = episode.id
                break
    episode = Episode(
        fingerprint=incident.fingerprint,
        cause=incident.cause,
        channels=list(placing.channels),
        lead_id=incident.id,
        previous_id=earlier,
        holds={channel: until.isoformat() for channel, until in placing.holds.items()},
    )
    session.add(episode)
    await session.flush()
    return episode


async def _succeed(session: AsyncSession, episode: Episode, incident: Incident) -> None:
    """Let the last attempt of a job lead; among other incidents the first one does."""
    lead = await session.get(Incident, episode.lead_id)
    if lead is None or (
        lead.job_id == incident.job_id and lead.family == incident.family and lead.attempt < incident.attempt
    ):
        episode.lead_id = incident.id
        episode.recovered_by = None


async def _lead_by_a_failure(session: AsyncSession, episode: Episode) -> None:
    """Where the leading incident turned out to be no failure, let the newest failure lead, if there is one."""
    lead = await session.get(Incident, episode.lead_id)
    if lead is not None and lead.outcome == FAILED:
        return
    other = await session.scalar(
        select(Incident)
        .where(Incident.episode_id == episode.id, Incident.outcome == FAILED)
        .order_by(col(Incident.created_at).desc())
        .limit(1)
    )
    if other is not None:
        episode.lead_id, episode.fingerprint, episode.cause = other.id, other.fingerprint, other.cause


async def _recovered(session: AsyncSession, incident: Incident) -> None:
    """Tell the episode of a job that a later attempt of it went well."""
    lead = await session.scalar(
        select(Incident)
        .where(
            Incident.family == incident.family,
            Incident.job_id == incident.job_id,
            Incident.outcome == FAILED,
            Incident.attempt < incident.attempt,
            col(Incident.episode_id).is_not(None),
        )
        .order_by(col(Incident.attempt).desc())
        .limit(1)
    )
    episode = await session.get(Episode, lead.episode_id, with_for_update=True) if lead else None
    if episode is None or episode.recovered_by is not None or episode.lead_id != (lead and lead.id):
        return
    episode.recovered_by = f"attempt {incident.attempt + 1}"
    touch(episode)


async def _gather_storm(session: AsyncSession, incident: Incident, placing: Placing) -> None:
    """Where many jobs failed of one cause at once, let the oldest of their episodes stand for all of them."""
    since = utc_now() - placing.folding.storm
    near = [
        col(Incident.cause) == incident.cause,
        col(Incident.outcome) == FAILED,
        col(Incident.created_at) >= since,
    ]
    if placing.reach is Reach.NODE:
        hosts = await _hosts(session, incident.id)
        on_them = select(IncidentNode.incident_id).where(col(IncidentNode.host).in_(hosts))
        near.append(col(Incident.id).in_(on_them))
    jobs = await session.scalar(
        select(func.count(func.distinct(Incident.family))).where(*near, col(Incident.episode_id).is_not(None))
    )
    if (jobs or 0) < placing.folding.storm_jobs:
        return
    found = await session.scalars(
        select(Episode)
        .where(col(Episode.id).in_(select(Incident.episode_id).where(*near)))
        .order_by(col(Episode.opened_at), col(Episode.id))
        .with_for_update()
    )
    episodes = [episode for episode in found if _takes(episode, placing)]
    if len(episodes) < 2:
        return
    storm, *others = episodes
    for other in others:
        await session.execute(update(Incident).where(col(Incident.episode_id) == other.id).values(episode_id=storm.id))
        other.merged_id = storm.id
        touch(other)
    if incident.episode_id in {other.id for other in others}:
        incident.episode_id = storm.id
    storm.last_at = utc_now()
    touch(storm)
