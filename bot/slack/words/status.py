"""`/diagnose status`: what is open here, for how long, and with whom; and how the service is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from bot.digest import phrases
from bot.slack.commands import Answer, Invocation
from bot.slack.contract import Posted
from bot.slack.escape import link as linked
from bot.slack.escape import mrkdwn, person
from bot.slack.words import lines
from storage.history import Histories
from storage.past import OpenEpisode
from storage.types import utc_now

Link = Callable[[Posted], str | None]


def status(histories: Histories, link: Link, health: Callable[[], Awaitable[str]]) -> Answer:
    """Return the answer to the word."""

    async def answer(asked: Invocation) -> str:
        opened = await histories.open(asked.channel)
        now = utc_now()
        count = phrases.counted(len(opened), "failure")
        head = [f"{count} {'is' if len(opened) == 1 else 'are'} open here." if opened else "Nothing is open here."]
        shown = [f"• {_line(episode, asked.channel, link, now)}" for episode in opened]
        return lines.fitted(head, shown, [f"Firstfault: {mrkdwn(await health(), 300)}"])

    return answer


def _line(episode: OpenEpisode, channel: str, link: Link, now: datetime) -> str:
    times = f" ({phrases.times(episode.count)})" if episode.count > 1 else ""
    place = next((Posted(*place) for place in episode.messages if place[0] == channel), None)
    address = link(place) if place else None
    parts = [
        f"{lines.job(episode)}: {lines.cause(episode.cause)}{times}",
        f"open for {phrases.duration(now - episode.opened_at)}",
        _with_whom(episode),
        f"owner {mrkdwn(episode.owner, 60)}" if episode.owner else "",
        linked(address, "message") if address else "",
    ]
    return " · ".join(part for part in parts if part)


def _with_whom(episode: OpenEpisode) -> str:
    if episode.assignee:
        return f"assigned to {person(episode.assignee)}"
    if episode.acknowledged_by:
        return f"acknowledged by {person(episode.acknowledged_by)}"
    return "nobody has it"
