"""The loop that takes episodes about which there is something to tell, and queues what their messages should say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog
from sqlalchemy.exc import SQLAlchemyError

from bot.slack.contract import Posted
from bot.telling.drafts import drafts
from bot.telling.status import Surroundings
from bot.wake import Wake
from storage.episodes import EpisodeView
from storage.repository import Repository

_LEASE = timedelta(seconds=60)
_PAUSE = 5.0  # seconds after the database failed

log = structlog.get_logger(__name__)


async def nobody(user: str) -> None:
    """A directory that knows nobody."""


@dataclass(frozen=True)
class Herald:
    """Turns what is known about episodes into messages. `said` is called when there may be something to send.

    `owner` finds a scheduler's user in Slack; what it cannot find is not mentioned.
    """

    repository: Repository
    link: Callable[[Posted], str | None]
    wake: Wake
    said: Callable[[], None]
    owner: Callable[[str], Awaitable[str | None]] = nobody

    async def run(self) -> None:
        """Work until cancelled; a failing database is logged and tried again."""
        while True:
            try:
                view = await self.repository.episodes.claim(_LEASE)
                if view is None:
                    await self.wake.wait_until(await self.repository.episodes.next_due())
                else:
                    await self.tell(view)
            except SQLAlchemyError as error:
                log.error("herald stumbled", error=str(error))
                await asyncio.sleep(_PAUSE)

    async def tell(self, view: EpisodeView) -> None:
        """Queue what tells a claimed episode. One that cannot be rendered stays claimed, and the others go on."""
        episode = view.episode
        try:
            user = view.lead.incident.owner
            around = Surroundings(self.link, await self.owner(user) if user else None)
            told = list(drafts(view, around))
        except Exception:
            log.exception("episode cannot be told", episode=episode.id)
            return
        again = min((mute.until for mute in view.mutes.values()), default=None)
        await self.repository.episodes.told(episode.id, episode.revision, told, again)
        self.said()
