"""What people do with an episode. Each click counts once, however often it arrives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from storage.database import Database
from storage.folding import muted, touch
from storage.tables import Action, ActionKind, Episode, EpisodeState, Incident, Mute
from storage.types import utc_now


@dataclass(frozen=True, slots=True)
class Click:
    """Who did something with which episode, and where. `key` is Slack's own mark of it, no two clicks share one."""

    key: str
    episode_id: str
    user: str
    user_name: str
    channel: str


class Done(StrEnum):
    """What became of a click."""

    DONE = "done"
    AGAIN = "again"  # it had arrived before
    NOTHING = "nothing"  # the episode was so already


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a click, and the episode as it is now."""

    done: Done
    episode: Episode


class Actions:
    """Every method stores one click and what follows from it, all or nothing. Raises LookupError without the episode."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def acknowledge(self, click: Click) -> Outcome:
        """Note that somebody looks after it. Nothing for an episode that is acknowledged or resolved."""
        async with self._database.writing() as session:
            episode, known = await _begin(session, click)
            if known or episode.state != EpisodeState.OPEN:
                return _unchanged(episode, known)
            episode.state, episode.acknowledged_by, episode.acknowledged_at = (
                EpisodeState.ACKNOWLEDGED,
                click.user,
                utc_now(),
            )
            return _done(session, click, episode, ActionKind.ACKNOWLEDGE)

    async def assign(self, click: Click, assignee: str | None) -> Outcome:
        """Give it to a person, by Slack's id; None takes it from whoever has it."""
        async with self._database.writing() as session:
            episode, known = await _begin(session, click)
            if known or episode.assignee == assignee:
                return _unchanged(episode, known)
            episode.assignee = assignee
            return _done(session, click, episode, ActionKind.ASSIGN, assignee=assignee)

    async def resolve(self, click: Click, resolution: str, note: str = "") -> Outcome:
        """Close it, with the reason. Resolving again changes reason and note."""
        async with self._database.writing() as session:
            episode, known = await _begin(session, click)
            if known or (episode.state == EpisodeState.RESOLVED and episode.resolution == resolution and not note):
                return _unchanged(episode, known)
            episode.state, episode.resolved_by, episode.resolved_at = EpisodeState.RESOLVED, click.user, utc_now()
            episode.resolution, episode.note = resolution, note or None
            return _done(session, click, episode, ActionKind.RESOLVE, resolution=resolution, note=note)

    async def reopen(self, click: Click) -> Outcome:
        """Open a resolved episode again."""
        async with self._database.writing() as session:
            episode, known = await _begin(session, click)
            if known or episode.state != EpisodeState.RESOLVED:
                return _unchanged(episode, known)
            episode.state = EpisodeState.ACKNOWLEDGED if episode.acknowledged_by else EpisodeState.OPEN
            episode.resolved_by = episode.resolved_at = episode.resolution = episode.note = None
            return _done(session, click, episode, ActionKind.REOPEN)

    async def mute(self, click: Click, duration: timedelta) -> Outcome:
        """Post no new message about this failure in the click's channel for `duration`; a new mute replaces the old."""
        async with self._database.writing() as session:
            episode, known = await _begin(session, click)
            if known or not episode.fingerprint:
                return _unchanged(episode, known)
            await _end_mutes(session, episode, click.channel)
            until = utc_now() + duration
            session.add(Mute(fingerprint=episode.fingerprint, channel=click.channel, user=click.user, until=until))
            return _done(session, click, episode, ActionKind.MUTE, until=until.isoformat(), channel=click.channel)

    async def unmute(self, click: Click) -> Outcome:
        """End the mute of this failure in the click's channel."""
        async with self._database.writing() as session:
            episode, known = await _begin(session, click)
            if known or not await _end_mutes(session, episode, click.channel):
                return _unchanged(episode, known)
            return _done(session, click, episode, ActionKind.UNMUTE, channel=click.channel)

    async def rediagnose(self, click: Click) -> Outcome:
        """Have the leading incident diagnosed again from the evidence that is stored."""
        async with self._database.writing() as session:
            episode, known = await _begin(session, click)
            lead = await session.get(Incident, episode.lead_id, with_for_update=True)
            if known or lead is None:
                return _unchanged(episode, known)
            lead.due_at = utc_now()
            return _done(session, click, episode, ActionKind.REDIAGNOSE)

    async def judge(self, click: Click, *, right: bool, correction: dict[str, Any] | None = None) -> Outcome:
        """Keep a person's judgement of the verdict; `correction` says what would have been right."""
        async with self._database.writing() as session:
            episode, known = await _begin(session, click)
            if known:
                return _unchanged(episode, known)
            return _done(session, click, episode, ActionKind.RIGHT if right else ActionKind.WRONG, **(correction or {}))

    async def of(self, episode_id: str) -> list[Action]:
        """Return what was done, oldest first."""
        async with self._database.reading() as session:
            return list(
                await session.scalars(select(Action).where(Action.episode_id == episode_id).order_by(col(Action.id)))
            )


async def _begin(session: AsyncSession, click: Click) -> tuple[Episode, bool]:
    """Return the episode, locked, and whether the click is known already. A storm answers for what it took over."""
    episode = await session.get(Episode, click.episode_id, with_for_update=True)
    while episode is not None and episode.merged_id is not None:
        episode = await session.get(Episode, episode.merged_id, with_for_update=True)
    if episode is None:
        raise LookupError(click.episode_id)
    known = await session.scalar(select(Action.id).where(Action.key == click.key))
    return episode, known is not None


def _unchanged(episode: Episode, known: bool) -> Outcome:
    return Outcome(Done.AGAIN if known else Done.NOTHING, episode)


def _done(session: AsyncSession, click: Click, episode: Episode, kind: ActionKind, **detail: Any) -> Outcome:
    session.add(
        Action(
            key=click.key,
            episode_id=episode.id,
            incident_id=episode.lead_id,
            kind=kind,
            user=click.user,
            user_name=click.user_name[:100],
            detail=detail,
        )
    )
    touch(episode)
    return Outcome(Done.DONE, episode)


async def _end_mutes(session: AsyncSession, episode: Episode, channel: str) -> bool:
    holding = await muted(session, episode.fingerprint, [channel])
    for mute in holding.values():
        mute.ended_at = utc_now()
    return bool(holding)
