"""The Home tab: my failures, and what is open in my channels.

Mine are the failures of my jobs and those assigned to me, wherever they were told. Of others, a person sees what is open
in channels that the person is a member of, as Slack says; where the app may not ask for that, only what the person has
acted on already.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog
from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from bot.digest import phrases
from bot.slack import rich
from bot.slack.api import answered
from bot.slack.contract import Block, Posted, PosterError
from bot.slack.escape import link as linked
from bot.slack.escape import moment, mrkdwn, person
from bot.slack.words import lines
from storage.history import Histories
from storage.past import OpenEpisode
from storage.types import utc_now

REFRESH = "home_refresh"
MAX_MINE = 20
MAX_OTHERS = 40
MAX_CHANNELS = 10
MAX_LOOKED_AT = 500
MAX_LOOKING = 20  # people whose tab is kept fresh
MEMBER_SECONDS = 600.0
SEEN_SECONDS = 900.0
PAGE, MAX_PAGES = 999, 5

Owners = Callable[[str], Awaitable[Sequence[str]]]
"""From a person's Slack id to the scheduler's users that the person is."""

log = structlog.get_logger(__name__)


@dataclass
class Home:
    """Shows people their Home tab. `link` knows the address of a message."""

    client: AsyncWebClient
    histories: Histories
    owners: Owners
    link: Callable[[Posted], str | None]
    clock: Callable[[], float] = time.monotonic
    pause_seconds: float = 2.0  # between two rounds of showing it anew: Slack takes some hundred views a minute
    _channels: OrderedDict[str, tuple[float, frozenset[str] | None]] = field(default_factory=OrderedDict)
    _looking: OrderedDict[str, float] = field(default_factory=OrderedDict)  # who opened it, and when last
    _stale: bool = False
    _refreshing: bool = False

    async def publish(self, user: str) -> None:
        """Show `user` the tab as it is now. Slack's refusal is logged: nobody waits for an answer."""
        self._remember(self._looking, user, self.clock())
        await self._show(user)

    async def changed(self) -> None:
        """Show the tab anew to those who looked at it lately; many calls at once are one."""
        self._stale = True
        if self._refreshing:
            return
        self._refreshing = True
        try:
            while self._stale:
                self._stale = False
                since = self.clock() - SEEN_SECONDS
                lately = [user for user, seen in self._looking.items() if seen >= since]
                for user in lately[-MAX_LOOKING:]:
                    await self._show(user)
                if lately:
                    await asyncio.sleep(self.pause_seconds)
        finally:
            self._refreshing = False

    async def view(self, user: str) -> dict[str, Any]:
        """Return the tab of one person."""
        opened = await self.histories.open(limit=MAX_LOOKED_AT)
        owners, channels = set(await self.owners(user)), await self._channels_of(user)
        acted_on = await self.histories.acted_on(user)
        mine = [episode for episode in opened if episode.assignee == user or episode.owner in owners]
        own = {episode.id for episode in mine}
        others = [
            episode
            for episode in opened
            if episode.id not in own and (episode.id in acted_on or channels & set(episode.channels))
        ]
        now = utc_now()
        blocks = [
            rich.header("My failures"),
            *(self._episodes(mine[:MAX_MINE], now, channels) or [rich.context("None of yours is open.")]),
            *_more(len(mine) - MAX_MINE),
            rich.header("Open in my channels"),
            *(self._by_channel(others[:MAX_OTHERS], channels, now) or [rich.context("Nothing else is open.")]),
            *_more(len(others) - MAX_OTHERS),
            rich.context(f"As of {moment(now)}. Only you see this."),
            {"type": "actions", "elements": [_refresh()]},
        ]
        return {"type": "home", "blocks": blocks}

    async def _show(self, user: str) -> None:
        try:
            await answered(self.client.views_publish(user_id=user, view=await self.view(user)))
        except PosterError as error:
            log.warning("Home tab not shown", user=user, reason=str(error))

    def _by_channel(self, episodes: Iterable[OpenEpisode], channels: frozenset[str], now: datetime) -> list[Block]:
        grouped: dict[str, list[OpenEpisode]] = defaultdict(list)
        for episode in episodes:
            named = next((channel for channel in episode.channels if channel in channels), "")
            grouped[named].append(episode)
        blocks: list[Block] = []
        shown = sorted(grouped.items(), key=lambda each: (not each[0], -len(each[1])))
        for channel, of_it in shown[:MAX_CHANNELS]:
            heading = f"<#{channel}>" if channel else "Where you have acted"
            blocks += [rich.context(heading), *self._episodes(of_it, now, channels)]
        return blocks + _more(sum(len(of_it) for _, of_it in shown[MAX_CHANNELS:]))

    def _episodes(self, episodes: Sequence[OpenEpisode], now: datetime, channels: frozenset[str]) -> list[Block]:
        return [
            {"type": "section", "text": {"type": "mrkdwn", "text": self._line(episode, now, channels)}}
            for episode in episodes
        ]

    def _line(self, episode: OpenEpisode, now: datetime, channels: frozenset[str]) -> str:
        times = f" ({phrases.times(episode.count)})" if episode.count > 1 else ""
        places = sorted(episode.messages, key=lambda place: place[0] not in channels)
        address = self.link(Posted(*places[0])) if places else None
        standing = [
            f"open for {phrases.duration(now - episode.opened_at)}",
            f"assigned to {person(episode.assignee)}" if episode.assignee else "",
            f"acknowledged by {person(episode.acknowledged_by)}" if episode.acknowledged_by else "",
            "" if episode.assignee or episode.acknowledged_by else "nobody has it",
            f"owner {mrkdwn(episode.owner, 60)}" if episode.owner else "",
            linked(address, "message") if address else "",
        ]
        first = f"{lines.job(episode)}: {lines.cause(episode.cause)}{times}"
        return f"{first}\n{' · '.join(part for part in standing if part)}"

    async def _channels_of(self, user: str) -> frozenset[str]:
        """The channels of which the person and the app are members; none where the app may not ask."""
        known = self._channels.get(user)
        if known is None or self.clock() - known[0] > MEMBER_SECONDS:
            known = (self.clock(), await self._ask_channels(user))
            self._remember(self._channels, user, known)
        return known[1] or frozenset()

    async def _ask_channels(self, user: str) -> frozenset[str] | None:
        found: set[str] = set()
        cursor = ""
        try:
            for _ in range(MAX_PAGES):
                page = await answered(
                    self.client.users_conversations(
                        user=user, types="public_channel,private_channel", limit=PAGE, cursor=cursor or None
                    )
                )
                found |= {str(channel["id"]) for channel in page.get("channels", [])}
                cursor = (page.get("response_metadata") or {}).get("next_cursor", "")
                if not cursor:
                    break
        except PosterError as error:
            log.info("a person's channels are not known", user=user, reason=str(error))
            return None
        return frozenset(found)

    def _remember(self, among: OrderedDict[str, Any], user: str, value: Any) -> None:
        among[user] = value
        among.move_to_end(user)
        while len(among) > 1_000:
            among.popitem(last=False)


async def nothing(_event: dict[str, Any]) -> None:
    """Do nothing."""


def register(app: AsyncApp, home: Home, messages: Callable[[dict[str, Any]], Awaitable[None]] = nothing) -> None:
    """Listen to people who open the Home tab, and to its button. `messages` is told of those who open the other tab."""

    async def opened(event: dict[str, Any]) -> None:
        if event.get("tab") == "home":
            await home.publish(str(event["user"]))
        else:
            await messages(event)

    async def refresh(ack: AsyncAck, body: dict[str, Any]) -> None:
        await ack()
        await home.publish(str(body["user"]["id"]))

    app.event("app_home_opened")(opened)
    app.action(REFRESH)(refresh)


def _refresh() -> dict[str, Any]:
    return {"type": "button", "action_id": REFRESH, "text": rich.words("Refresh")}


def _more(hidden: int) -> list[Block]:
    return [rich.context(f"… and {hidden} more.")] if hidden > 0 else []
