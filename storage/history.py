"""What happened before: how often a failure was seen, what a node, a user or a cause did, and the numbers of a period.

Whoever asks in a channel sees what was told in that channel, and nothing else; None is the terminal and sees all.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, func, or_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from storage.database import Database
from storage.folding import FAILED
from storage.past import UNKNOWN, Failure, OpenEpisode, Past, Period, Resolution, SeenBefore, Span
from storage.scope import told_in
from storage.tables import (
    Action,
    ActionKind,
    Cluster,
    Episode,
    EpisodeState,
    Incident,
    IncidentNode,
    Message,
    Mute,
    Part,
)
from storage.types import utc_now

Rows = Any  # a query; the types of its columns are lost in joins

MAX_FAILURES = 50_000  # of one period
MAX_OPEN = 100  # of one period
FALSE_ALARM = "false alarm"


class Histories:
    """Questions about the past."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def seen(self, fingerprint: str, channel: str | None = None) -> SeenBefore:
        """Return how often `fingerprint` was seen, and how it was resolved the last time."""
        if not fingerprint:
            return SeenBefore()
        same = and_(col(Incident.fingerprint) == fingerprint, _failed(channel))
        async with self._database.reading() as session:
            counts = select(func.count(), func.min(Incident.created_at), func.max(Incident.created_at))
            count, first, last = (await session.execute(_joined(counts).where(same))).one()
            nodes = await session.scalars(
                _joined(select(IncidentNode.host))
                .join(IncidentNode, col(IncidentNode.incident_id) == Incident.id)
                .where(same, IncidentNode.part == Part.INITIATING)
                .group_by(IncidentNode.host)
                .order_by(func.count().desc(), IncidentNode.host)
                .limit(5)
            )
            resolved = await session.scalar(
                select(Episode)
                .where(Episode.fingerprint == fingerprint, col(Episode.resolved_at).is_not(None), told_in(channel))
                .order_by(col(Episode.resolved_at).desc())
                .limit(1)
            )
            return SeenBefore(count, first, last, tuple(nodes), _resolution(resolved))

    async def past(
        self,
        *,
        node: str | None = None,
        user: str | None = None,
        causes: Sequence[str] | None = None,
        channel: str | None = None,
        limit: int = 20,
    ) -> Past:
        """Return the newest failures that `node` began or is suspected of, of a scheduler's `user`, of one of `causes`."""
        wanted = [_failed(channel)]
        if node is not None:
            named = select(IncidentNode.incident_id).where(func.lower(IncidentNode.host) == node.lower())
            wanted.append(col(Incident.id).in_(named))
        if user is not None:
            wanted.append(func.lower(Incident.owner) == user.lower())
        if causes is not None:
            wanted.append(col(Incident.cause).in_(causes))
        async with self._database.reading() as session:
            count = await session.scalar(_joined(select(func.count())).where(*wanted))
            newest = _rows().where(*wanted).order_by(col(Incident.created_at).desc(), col(Incident.id)).limit(limit)
            return Past(count or 0, await _failures(session, newest))

    async def period(self, span: Span, channel: str | None = None) -> Period:
        """Return what is counted of a span; what is open is open now."""
        start, end = span.start, span.end
        async with self._database.reading() as session:
            first_seen = await session.execute(
                _joined(select(Incident.fingerprint, func.min(Incident.created_at)))
                .where(_failed(channel), col(Incident.fingerprint).in_(_kinds(start, end)), Incident.fingerprint != "")
                .group_by(Incident.fingerprint)
            )
            answered = await session.execute(
                select(Episode.opened_at, Episode.acknowledged_at).where(
                    *_between(Episode.acknowledged_at, start, end), *_standing(channel)
                )
            )
            resolved = await session.execute(
                select(Episode.opened_at, Episode.resolved_at, Episode.resolution).where(
                    *_between(Episode.resolved_at, start, end), *_standing(channel)
                )
            )
            wrong = await session.scalar(
                select(func.count(func.distinct(Action.episode_id)))
                .join(Episode, col(Episode.id) == Action.episode_id)
                .where(Action.kind == ActionKind.WRONG, *_between(Action.at, start, end), told_in(channel))
            )
            closed = list(resolved)
            open_now = await _open(session, channel, MAX_OPEN)
            return Period(
                span=span,
                failures=await _heard_of(session, start, end, channel),
                before=await _heard_of(session, span.before_start, span.before_end, channel),
                first_seen=dict(first_seen.all()),
                until_acknowledged=[done - opened for opened, done in answered if done is not None],
                until_resolved=[done - opened for opened, done, _ in closed if done is not None],
                judged_wrong=wrong or 0,
                false_alarms=sum(1 for *_, how in closed if _is_false_alarm(how)),
                open=open_now[:MAX_OPEN],
                open_count=len(open_now),
            )

    async def open(self, channel: str | None = None, limit: int = 100) -> list[OpenEpisode]:
        """Return what is not resolved, oldest first."""
        async with self._database.reading() as session:
            return (await _open(session, channel, limit))[:limit]

    async def acted_on(self, user: str) -> set[str]:
        """Return the ids of the episodes with which a person (Slack's id) has done something."""
        async with self._database.reading() as session:
            return set(await session.scalars(select(Action.episode_id).where(Action.user == user).distinct()))

    async def mutes(self, channel: str) -> list[tuple[Mute, str]]:
        """Return the mutes that hold in a channel, each with the cause of the failure it silences."""
        async with self._database.reading() as session:
            holding = await session.scalars(
                select(Mute)
                .where(Mute.channel == channel, col(Mute.ended_at).is_(None), Mute.until > utc_now())
                .order_by(col(Mute.until))
            )
            return [(mute, await _cause(session, mute.fingerprint)) for mute in holding]

    async def named(self, text: str, channel: str) -> Episode | None:
        """Return the newest episode of `channel` that `text` names: a fingerprint (or 6 digits of it) or a job's id."""
        of_job = select(Incident.episode_id).where(Incident.job_id == text)
        names = or_(col(Episode.id).in_(of_job), col(Episode.fingerprint) == text)
        if len(text) >= 6:
            names = or_(names, col(Episode.fingerprint).startswith(text, autoescape=True))
        async with self._database.reading() as session:
            return await session.scalar(
                select(Episode).where(names, *_standing(channel)).order_by(col(Episode.last_at).desc()).limit(1)
            )

    async def member(self, episode_id: str, job_id: str) -> str | None:
        """Return the last failed attempt of a job among an episode's incidents, or None."""
        async with self._database.reading() as session:
            return await session.scalar(
                select(Incident.id)
                .where(Incident.episode_id == episode_id, Incident.job_id == job_id, Incident.outcome == FAILED)
                .order_by(col(Incident.attempt).desc())
                .limit(1)
            )

    async def begun(self) -> datetime | None:
        """Return when this service was first set up: when its first cluster became known. None: it never was."""
        async with self._database.reading() as session:
            return await session.scalar(select(func.min(Cluster.created_at)))


def _failed(channel: str | None) -> ColumnElement[bool]:
    failed = col(Incident.outcome) == FAILED
    return failed if channel is None else and_(failed, told_in(channel))


def _joined(query: Rows) -> Rows:
    return query.select_from(Incident).outerjoin(Episode, col(Episode.id) == Incident.episode_id)


def _between(moment: Any, start: datetime, end: datetime) -> tuple[ColumnElement[bool], ...]:
    return moment >= start, moment < end


def _standing(channel: str | None) -> tuple[ColumnElement[bool], ...]:
    """Episodes that no storm took over."""
    return col(Episode.merged_id).is_(None), told_in(channel)


def _kinds(start: datetime, end: datetime) -> Rows:
    return select(Incident.fingerprint).where(*_between(Incident.created_at, start, end))


def _rows() -> Rows:
    return _joined(select(Incident, Cluster.name, Episode)).join(Cluster, col(Cluster.id) == Incident.cluster_id)


async def _heard_of(session: AsyncSession, start: datetime, end: datetime, channel: str | None) -> list[Failure]:
    within = _rows().where(_failed(channel), *_between(Incident.created_at, start, end))
    return await _failures(session, within.order_by(col(Incident.created_at), col(Incident.id)).limit(MAX_FAILURES))


async def _failures(session: AsyncSession, query: Rows) -> list[Failure]:
    rows = list(await session.execute(query))
    hosts = await _hosts(session, [incident.id for incident, *_ in rows])
    return [_failure(row, hosts.get(row[0].id, {})) for row in rows]


def _failure(row: Any, hosts: dict[str, list[str]]) -> Failure:
    incident, cluster, episode = row
    return Failure(
        incident_id=incident.id,
        episode_id=incident.episode_id,
        at=incident.created_at,
        cluster=cluster,
        job_id=incident.job_id,
        name=incident.job_name,
        attempt=incident.attempt,
        owner=incident.owner,
        cause=incident.cause or UNKNOWN,
        fingerprint=incident.fingerprint,
        ranks=incident.ranks,
        started_at=incident.started_at,
        ended_at=incident.ended_at,
        state=episode.state if episode else "",
        resolution=_resolution(episode),
        initiating=tuple(hosts.get(Part.INITIATING, ())),
        suspects=tuple(hosts.get(Part.SUSPECT, ())),
    )


async def _hosts(session: AsyncSession, incidents: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for start in range(0, len(incidents), 500):  # a database takes so many values in one query
        rows = await session.execute(
            select(IncidentNode.incident_id, IncidentNode.part, IncidentNode.host)
            .where(col(IncidentNode.incident_id).in_(incidents[start : start + 500]))
            .order_by(col(IncidentNode.id))
        )
        for incident_id, part, host in rows:
            found.setdefault(incident_id, {}).setdefault(part, []).append(host)
    return found


async def _open(session: AsyncSession, channel: str | None, most: int) -> list[OpenEpisode]:
    """All open episodes, oldest first; messages and people are looked up for `most` of them."""
    counts = (
        select(Incident.episode_id, func.count().label("count")).group_by(col(Incident.episode_id)).subquery("counts")
    )
    rows = list(
        await session.execute(
            select(Episode, Incident, counts.c.count)
            .join(Incident, col(Incident.id) == Episode.lead_id)
            .outerjoin(counts, counts.c.episode_id == Episode.id)
            .where(Episode.state != EpisodeState.RESOLVED, *_standing(channel))
            .order_by(col(Episode.opened_at), col(Episode.id))
        )
    )
    shown = [episode for episode, *_ in rows[:most]]
    places, names = await _places(session, shown), await _names(session, shown)
    return [_opened(episode, lead, count, places, names) for episode, lead, count in rows]


def _opened(
    episode: Episode,
    lead: Incident,
    count: int | None,
    places: dict[str, tuple[str, str]],
    names: dict[str, str],
) -> OpenEpisode:
    keys = [f"{episode.id}/{channel}" for channel in episode.channels]
    return OpenEpisode(
        id=episode.id,
        cause=episode.cause or UNKNOWN,
        fingerprint=episode.fingerprint,
        channels=tuple(episode.channels),
        opened_at=episode.opened_at,
        last_at=episode.last_at,
        acknowledged_by=episode.acknowledged_by,
        assignee=episode.assignee,
        handler=names.get(episode.assignee or episode.acknowledged_by or ""),
        name=lead.job_name,
        job_id=lead.job_id,
        owner=lead.owner,
        count=max(1, count or 0),
        messages=tuple(places[key] for key in keys if key in places),
    )


async def _places(session: AsyncSession, episodes: Sequence[Episode]) -> dict[str, tuple[str, str]]:
    keys = [f"{episode.id}/{channel}" for episode in episodes for channel in episode.channels]
    found = await session.execute(select(Message.key, Message.channel, Message.ts).where(col(Message.key).in_(keys)))
    return {key: (channel, ts) for key, channel, ts in found}


async def _names(session: AsyncSession, episodes: Sequence[Episode]) -> dict[str, str]:
    """What those who handle the episodes were called when they last did something, by Slack's id."""
    people = {person for episode in episodes for person in (episode.assignee, episode.acknowledged_by) if person}
    found = await session.execute(
        select(Action.user, Action.user_name)
        .where(col(Action.user).in_(people), Action.user_name != "")
        .order_by(col(Action.id))
    )
    return dict(found.all())


async def _cause(session: AsyncSession, fingerprint: str) -> str:
    found = await session.scalar(
        select(Episode.cause).where(Episode.fingerprint == fingerprint).order_by(col(Episode.last_at).desc()).limit(1)
    )
    return found or UNKNOWN


def _resolution(episode: Episode | None) -> Resolution | None:
    if episode is None or episode.resolved_at is None:
        return None
    return Resolution(episode.resolution or "", episode.resolved_by or "", episode.resolved_at, episode.note or "")


def _is_false_alarm(resolution: str | None) -> bool:
    return (resolution or "").replace("-", " ").replace("_", " ").casefold() == FALSE_ALARM
