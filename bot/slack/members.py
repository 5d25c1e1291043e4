"""The incidents that one message stands for: a line for the attempts of a job, a table for several jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bot.slack import phrases, rich
from bot.slack.contract import Block, IncidentStatus, Member
from bot.slack.escape import literal, mrkdwn

LINE_ATTEMPTS = 6
HEADS = ("Job", "Owner", "Began on", "Ended (UTC)")


def members(status: IncidentStatus, rows: int) -> Block | None:
    """Return the newest of them, at most `rows`, and how many more there are; None for a single one."""
    if status.member_count <= 1 or not status.members:
        return None
    if len({member.job_id for member in status.members}) == 1:
        return rich.context(mrkdwn(_attempts(status), 600))
    return table(status.members, status.member_count, rows)


def table(listed: Sequence[Member], count: int, rows: int) -> Block:
    """Return a table of the first `rows` of `listed`; its last row says how many of `count` are not in it."""
    days = {member.ended_at.date() for member in listed[:rows] if member.ended_at}
    shown = [_row(member, several_days=len(days) > 1) for member in listed[:rows]]
    hidden = count - len(shown)
    return rich.table(HEADS, [*shown, [f"… and {hidden} more", "", "", ""]] if hidden > 0 else shown)


def _row(member: Member, *, several_days: bool) -> list[str]:
    when = _when(member.ended_at, several_days=several_days)
    return [literal(text, 60) for text in (phrases.job_of(member), member.owner, member.where, when)]


def _attempts(status: IncidentStatus) -> str:
    """`Attempts: 3rd 10:40 gpu-n17, 2nd 09:55 gpu-n17`."""
    days = {member.ended_at.date() for member in status.members if member.ended_at}
    shown = []
    for member in status.members[:LINE_ATTEMPTS]:
        when = _when(member.ended_at, several_days=len(days) > 1)
        words = (phrases.ordinal(member.attempt + 1), when and f"at {when} UTC", member.where and f"on {member.where}")
        shown.append(" ".join(word for word in words if word))
    hidden = status.member_count - len(shown)
    return "Attempts: " + ", ".join(shown) + (f" and {hidden} more" if hidden > 0 else "")


def _when(at: datetime | None, *, several_days: bool) -> str:
    if at is None:
        return ""
    return f"{at.day} {at:%b %H:%M}" if several_days else f"{at:%H:%M}"
