"""From an episode as the database has it to what its message in one channel says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bot.slack.contract import Before, IncidentStatus, Member, Posted, State
from storage.episodes import EpisodeView, Seen
from storage.tables import EpisodeState, Incident

_STATES = {
    EpisodeState.OPEN: State.OPEN,
    EpisodeState.ACKNOWLEDGED: State.ACKNOWLEDGED,
    EpisodeState.RESOLVED: State.RESOLVED,
}

Link = Callable[[Posted], str | None]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an episode does not know itself: links to messages, and who people are."""

    link: Link
    owner: str | None  # Slack's id of the lead's owner


def status(view: EpisodeView, channel: str, around: Surroundings) -> IncidentStatus:
    """Return what the message in `channel` knows besides the diagnosis."""
    episode, lead, mute = view.episode, view.lead, view.mutes.get(channel)
    seen = view.seen.get(channel, Seen())
    state = _STATES[EpisodeState(episode.state)]
    if mute is not None and state is not State.RESOLVED:
        state = State.MUTED
    return IncidentStatus(
        state=state,
        reported=lead.nodes_reported,
        expected=lead.incident.expected_reporters,
        occurrences=seen.count,
        first_seen=seen.first or lead.incident.created_at,
        last_seen=seen.last_before,
        nodes=seen.nodes,
        episode_id=episode.id,
        owner=around.owner,
        acknowledged_by=episode.acknowledged_by,
        acknowledged_at=episode.acknowledged_at,
        assignee=episode.assignee,
        resolved_by=episode.resolved_by,
        resolved_at=episode.resolved_at,
        resolution=episode.resolution,
        note=episode.note,
        muted_by=mute.user if mute else None,
        muted_until=mute.until if mute else None,
        recovered_by=episode.recovered_by,
        members=tuple(_member(incident, view.nodes) for incident in view.members),
        member_count=view.member_count,
        before=_before(view, channel, around.link),
    )


def _member(incident: Incident, nodes: Mapping[str, list[str]]) -> Member:
    named = nodes.get(incident.id, [])
    return Member(
        incident_id=incident.id,
        job_id=incident.job_id,
        attempt=incident.attempt,
        name=incident.job_name,
        owner=incident.owner,
        where=", ".join(named[:2]) + (f" and {len(named) - 2} more" if len(named) > 2 else ""),
        ended_at=incident.ended_at or incident.created_at,
    )


def _before(view: EpisodeView, channel: str, link: Link) -> Before | None:
    earlier = view.previous
    if earlier is None:
        return None
    message = view.elsewhere.get(channel) if view.episode.merged_id is None else None
    return Before(
        resolved_by=view.resolver,
        resolved_at=earlier.resolved_at,
        resolution=earlier.resolution,
        note=earlier.note,
        link=link(Posted(message.channel, message.ts)) if message else None,
    )
