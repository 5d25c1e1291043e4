"""Where an incident stands: who looks after it, how it ended, what went well afterwards, and how it was before."""

from __future__ import annotations

from datetime import datetime

from bot.slack import phrases
from bot.slack.contract import Before, IncidentStatus, State
from bot.slack.escape import link, moment, mrkdwn, person

MAX_NOTE = 300


def deeds(status: IncidentStatus) -> str:
    """Return in one line of mrkdwn what people have done; empty while nobody has."""
    parts = []
    if status.state is State.RESOLVED:
        parts.append(f"resolved{_by(status.resolved_by, status.resolved_at)}{_how(status.resolution, status.note)}")
    elif status.recovered_by:
        parts.append(f"{mrkdwn(status.recovered_by, 200)} ran to its end")
    if status.acknowledged_by:
        parts.append(f"acknowledged{_by(status.acknowledged_by, status.acknowledged_at)}")
    if status.assignee:
        parts.append(f"assigned to {person(status.assignee)}")
    if status.muted_until is not None:
        by = f" by {person(status.muted_by)}" if status.muted_by else ""
        parts.append(f"muted in this channel{by} until {moment(status.muted_until)}")
    return phrases.capital(" · ".join(parts))


def seen(status: IncidentStatus, now: datetime | None) -> str:
    """Return in one line of mrkdwn how often it was seen, and how it ended last time."""
    if status.before is None:
        return mrkdwn(phrases.recurrence(status, now), 300)
    often = mrkdwn(phrases.capital(phrases.recurrence(status, now)), 300)
    earlier = status.occurrences > status.member_count
    return f"{often}. {_last_time(status.before)}" if earlier else _last_time(status.before)


def _last_time(before: Before) -> str:
    if before.resolution or before.resolved_by:
        by = f" by {mrkdwn(before.resolved_by, 80)}" if before.resolved_by else ""
        said = f"Last time resolved{by}{_how(before.resolution, before.note)}"
    else:
        said = "Last time nobody said how it was resolved"
    return f"{said} · {link(before.link, 'earlier message')}" if before.link else said


def _by(user: str | None, at: datetime | None) -> str:
    return (f" by {person(user)}" if user else "") + (f", {moment(at)}" if at else "")


def _how(resolution: str | None, note: str | None) -> str:
    how = phrases.RESOLUTIONS.get(resolution or "", resolution or "")
    said = mrkdwn(note or "", MAX_NOTE)
    parts = [mrkdwn(how, 60) if how != "other" or not said else "", f"“{said}”" if said else ""]
    shown = ", ".join(part for part in parts if part)
    return f": {shown}" if shown else ""
