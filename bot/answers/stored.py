"""Incidents of the database as matters to ask about, and who may ask about which.

An incident is told of in the channels of its episode, and nowhere else. In a direct message a person is told of their own
jobs only, those that the scheduler's user they are known as has started. What may not be told of here does not exist here.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from bot.answers.logs import StoredLogs
from bot.answers.matter import Care, EarlierRun, Matter
from knowledge.causes import load_causes
from knowledge.diagnosis import Diagnosis
from knowledge.dossier import Dossier
from knowledge.job import JobFacts
from storage.blobs import BlobStore
from storage.episodes import EpisodeView
from storage.history import Histories
from storage.incidents import IncidentView
from storage.past import OpenEpisode, SeenBefore
from storage.repository import Repository
from storage.types import utc_now

RECENT = timedelta(hours=24)
"""A failure that is not older is meant where somebody names none."""

OWN_RECENT = timedelta(days=7)
"""The same for a person's own jobs in a direct message."""

_JOB = re.compile(r"(?<![\w/])(?:#|job[ #]?)?(?P<id>\d{3,}(?:[_+]\d+)?|[0-9a-f]{32}|[A-Za-z][\w./-]*-[\w./-]+)(?![\w])")
_PLACE = re.compile(r"/archives/(?P<channel>[A-Z0-9]+)/p(?P<seconds>\d{10})(?P<micros>\d{6})")
_INCIDENT = re.compile(r"/incidents/(?P<id>[0-9a-f]{32})(?![0-9a-f])")
_MOST_NAMES = 8
_SEEN = 200  # failures of a person that are looked through

Users = Callable[[str], Awaitable[Sequence[str]]]
"""The scheduler's users that a person in Slack is known as."""


async def nobody(person: str) -> Sequence[str]:  # noqa: ARG001
    """No person is known as anybody."""
    return ()


@dataclass(frozen=True, slots=True)
class Found:
    """A matter, and the episode that it belongs to."""

    episode_id: str
    matter: Matter
    title: str


@dataclass(frozen=True)
class Finder:
    """Finds the incident that a question is about, among those that may be told of where it was asked."""

    repository: Repository
    histories: Histories
    blobs: BlobStore
    users: Users = nobody

    def around(self, channel: str, person: str) -> Around:
        """What is open where a question was asked."""
        return Around(self, channel, person)

    async def in_thread(self, channel: str, thread: str, person: str) -> Found | None:
        """The incident in whose thread somebody wrote."""
        episode_id = await self.repository.episodes.at(channel, thread)
        return await self._found(episode_id, channel, person) if episode_id else None

    async def meant(self, text: str, channel: str, person: str) -> Found | None:
        """The incident that a text names by a link or its job's id; else the newest failure, if it is recent."""
        named = await self.named(text, channel, person)
        if named is not None:
            return named
        if _is_direct(channel):
            for user in await self.users(person):
                for failure in (await self.histories.past(user=user, limit=1)).failures:
                    if failure.episode_id and failure.at > utc_now() - OWN_RECENT:
                        return await self._found(failure.episode_id, channel, person, failure.incident_id)
            return None
        newest = await self.repository.episodes.unresolved([channel], limit=1)
        if newest and newest[0].last_at > utc_now() - RECENT:
            return await self._found(newest[0].id, channel, person)
        return None

    async def named(self, text: str, channel: str, person: str) -> Found | None:
        """The incident that a text names by a link, or by its job's id."""
        if place := _PLACE.search(text):
            if place["channel"] != channel:
                return None
            return await self.in_thread(channel, f"{place['seconds']}.{place['micros']}", person)
        if link := _INCIDENT.search(text):
            return await self._of_incident(link["id"], channel, person)
        for told in list(_JOB.finditer(text))[:_MOST_NAMES]:
            if found := await self._of_job(told["id"], channel, person):
                return found
        return None

    async def newest(self, channel: str, person: str, limit: int = 20) -> list[tuple[str, str]]:
        """The last failures that may be told of here: (episode, title)."""
        if _is_direct(channel):
            failures = [
                failure
                for user in await self.users(person)
                for failure in (await self.histories.past(user=user, limit=limit)).failures
            ]
        else:
            failures = (await self.histories.past(channel=channel, limit=limit)).failures
        titles = {
            failure.episode_id: f"{failure.name or 'job'} {failure.job_id}: {_title(failure.cause)}"
            for failure in reversed(failures)
            if failure.episode_id
        }
        return list(titles.items())[::-1]

    async def of_episode(self, episode_id: str, channel: str, person: str) -> Found | None:
        """The incident that leads an episode."""
        return await self._found(episode_id, channel, person)

    async def _of_job(self, job_id: str, channel: str, person: str) -> Found | None:
        if not _is_direct(channel):
            episode = await self.histories.named(job_id, channel)
            return await self._found(episode.id, channel, person, job_id=job_id) if episode else None
        for user in await self.users(person):
            for failure in (await self.histories.past(user=user, limit=_SEEN)).failures:
                if failure.job_id == job_id and failure.episode_id:
                    return await self._found(failure.episode_id, channel, person, failure.incident_id)
        return None

    async def _of_incident(self, incident_id: str, channel: str, person: str) -> Found | None:
        try:
            view = await self.repository.incidents.view(incident_id)
        except LookupError:
            return None
        episode_id = view.incident.episode_id
        return await self._found(episode_id, channel, person, incident_id) if episode_id else None

    async def _found(
        self, episode_id: str, channel: str, person: str, incident_id: str | None = None, job_id: str | None = None
    ) -> Found | None:
        """The one way to a matter: whatever was named, it is checked here whether it may be told of."""
        try:
            episode = await self.repository.episodes.view(episode_id)
            member = await self.histories.member(episode_id, job_id) if job_id else None
            wanted = incident_id or member or episode.episode.lead_id
            view = episode.lead if wanted == episode.lead.incident.id else await self.repository.incidents.view(wanted)
        except LookupError:
            return None
        if view.diagnosis is None or not await self._may_be_told(episode, view, channel, person):
            return None
        matter = Matter(
            Diagnosis.model_validate(view.diagnosis.document),
            Dossier.model_validate(view.diagnosis.dossier or {}),
            JobFacts.model_validate(view.job),
            StoredLogs(view, self.blobs),
            Remembered(self, episode, view, channel, person),
        )
        return Found(episode_id, matter, f"{view.job.get('name') or 'job'} ({view.incident.job_id})")

    async def _may_be_told(self, episode: EpisodeView, view: IncidentView, channel: str, person: str) -> bool:
        if view.incident.episode_id != episode.episode.id:
            return False
        if _is_direct(channel):
            return bool(view.incident.owner) and view.incident.owner in await self.users(person)
        return channel in episode.episode.channels


@dataclass(frozen=True)
class Around:
    """What is open where a question was asked."""

    finder: Finder
    channel: str
    person: str

    async def others(self) -> Sequence[OpenEpisode]:
        """Return failures that are open in this channel, in a direct message the person's own; the newest first."""
        if not _is_direct(self.channel):
            return (await self.finder.histories.open(self.channel))[::-1]
        users = await self.finder.users(self.person)
        found = await self.finder.histories.open() if users else []
        return [one for one in found[::-1] if one.owner in users]


@dataclass(frozen=True)
class Remembered:
    """What the service remembers round one incident, as far as it may be told of where the question was asked."""

    finder: Finder
    episode: EpisodeView
    view: IncidentView
    channel: str
    person: str

    async def seen(self) -> SeenBefore:
        """Return how often this failure was told of here."""
        fingerprint = self.view.incident.fingerprint
        if not _is_direct(self.channel):
            return await self.finder.histories.seen(fingerprint, self.channel)
        own = [
            failure
            for user in await self.finder.users(self.person)
            for failure in (await self.finder.histories.past(user=user, limit=_SEEN)).failures
            if failure.fingerprint == fingerprint and fingerprint
        ]
        times = sorted(failure.at for failure in own)
        done = [failure.resolution for failure in own if failure.resolution]
        return SeenBefore(
            count=len(own),
            first=times[0] if times else None,
            last=times[-1] if times else None,
            resolution=max(done, key=lambda one: one.at) if done else None,
        )

    async def others(self) -> Sequence[OpenEpisode]:
        """Return other failures that are open here, the newest first."""
        found = await Around(self.finder, self.channel, self.person).others()
        return [one for one in found if one.id != self.episode.episode.id]

    async def care(self) -> Care:
        """Return who takes care of it."""
        episode = self.episode.episode
        return Care(
            owner=self.view.incident.owner,
            state=episode.state,
            acknowledged_by=episode.acknowledged_by,
            assignee=episode.assignee,
            resolved_by=episode.resolved_by,
            resolution=episode.resolution,
            note=episode.note,
            at=episode.resolved_at or episode.acknowledged_at,
        )

    async def earlier(self) -> EarlierRun | None:
        """Return the last run of this job, or of a job of its name, that failed before and may be told of here."""
        own = self.view.incident
        if _is_direct(self.channel):
            past = await self.finder.histories.past(user=own.owner, limit=_SEEN) if own.owner else None
        else:
            past = await self.finder.histories.past(channel=self.channel, limit=_SEEN)
        for failure in past.failures if past else ():
            before = failure.at < own.created_at and failure.incident_id != own.id
            same = failure.job_id == own.job_id or (own.job_name and failure.name == own.job_name)
            if before and same:
                view = await self.finder.repository.incidents.view(failure.incident_id)
                if view.diagnosis is not None and view.diagnosis.dossier:
                    dossier = Dossier.model_validate(view.diagnosis.dossier)
                    title = f"job {failure.job_id}" + (f", attempt {failure.attempt + 1}" if failure.attempt else "")
                    return EarlierRun(title, JobFacts.model_validate(view.job), dossier, _title(failure.cause))
        return None


def _is_direct(channel: str) -> bool:
    """Whether a conversation is one between a person and us."""
    return channel.startswith("D")


def _title(cause: str) -> str:
    known = load_causes().get(cause)
    return known.title if known else cause
