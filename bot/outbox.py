"""Sends what the outbox holds: each message once, at each channel's pace, whatever Slack or this process do."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from sqlalchemy.exc import SQLAlchemyError

from bot.metrics import Metrics
from bot.settings import Outbox as OutboxSettings
from bot.slack.api import THREAD_GONE
from bot.slack.contract import Posted, Poster, PosterError, RateLimited, Refused, SlackMessage, Unreachable
from bot.telling.late import punctual
from bot.telling.sharing import shared_file
from bot.wake import Wake
from storage.blobs import BlobStore
from storage.outbox import Claimed, Outbox
from storage.tables import OutgoingKind
from storage.types import utc_now

_LEASE = timedelta(seconds=120)  # far longer than any call of Slack takes
_PAUSE = 5.0  # seconds after the database failed
_GONE = {"message_not_found", "cant_update_message"}

log = structlog.get_logger(__name__)


@dataclass
class Sender:
    """The one loop that talks to Slack.

    A post whose answer was lost, by a crash or on the network, is in doubt: the message is looked for by its key and
    adopted where it stands. Only when it has not appeared for `settle_seconds` is it posted again.
    """

    outbox: Outbox
    poster: Poster
    settings: OutboxSettings
    metrics: Metrics
    wake: Wake
    blobs: BlobStore
    _free_at: dict[str, float] = field(default_factory=dict)  # monotonic seconds, by channel
    _stopping: bool = False

    async def run(self) -> None:
        """Send until `stop`; a failing database is logged and tried again."""
        while not self._stopping:
            try:
                busy = self._busy()
                claimed = await self.outbox.claim(_LEASE, besides=list(busy))
                if claimed is not None:
                    await self.handle(claimed)
                else:
                    await self.wake.wait_until(await self._next(busy))
            except SQLAlchemyError as error:
                log.error("outbox stumbled", error=str(error))
                await asyncio.sleep(_PAUSE)

    def stop(self) -> None:
        """Let `run` end after the message in hand."""
        self._stopping = True
        self.wake.call()

    async def handle(self, claimed: Claimed) -> None:
        """Send one claimed message, or record why not and when to try again."""
        if claimed.posted is not None:
            await self._edit(claimed, claimed.posted.channel, claimed.posted.ts)
        elif not claimed.in_doubt or await self._never_arrived(claimed):
            await self._post(claimed)

    async def _post(self, claimed: Claimed) -> None:
        try:
            posted = await self._sent(claimed)
        except FileNotFoundError:
            log.warning("a log is gone before it was shared", channel=claimed.channel, key=claimed.key)
            await self.outbox.dropped(claimed)
        except PosterError as error:
            if isinstance(error, Refused) and error.code == THREAD_GONE:
                log.warning("the message above a reply is gone", channel=claimed.channel, key=claimed.key)
                await self.outbox.unthreaded(claimed)
            else:
                await self._failed(claimed, error, in_doubt=isinstance(error, Unreachable))
        else:
            await self.outbox.sent(claimed, posted.channel, posted.ts)
            self._done(claimed, _action(claimed), posted.ts)

    async def _sent(self, claimed: Claimed) -> Posted:
        if claimed.kind is OutgoingKind.FILE:
            file = await shared_file(claimed.content, self.blobs)
            return await self.poster.upload(claimed.channel, claimed.thread or "", file)
        message = punctual(_message(claimed), claimed, self.settings.late_seconds)
        return await self.poster.post(claimed.channel, message, claimed.key, claimed.thread)

    async def _edit(self, claimed: Claimed, channel: str, ts: str) -> None:
        if claimed.kind is OutgoingKind.FILE:  # a file is shared once, as it was then
            await self.outbox.sent(claimed, channel, ts)
            return
        try:
            await self.poster.update(channel, ts, _message(claimed))
        except PosterError as error:
            if isinstance(error, Refused) and error.code in _GONE:
                log.warning("message is gone, posting it anew", channel=channel, key=claimed.key, code=error.code)
                await self.outbox.lost(claimed)
            else:
                await self._failed(claimed, error, in_doubt=False)
        else:
            await self.outbox.sent(claimed, channel, ts)
            self._done(claimed, "edit", ts)

    async def _never_arrived(self, claimed: Claimed) -> bool:
        """Return whether an earlier post is known not to stand in the channel; otherwise deal with it."""
        try:
            if claimed.kind is OutgoingKind.FILE:
                found = await self.poster.find_file(claimed.channel, claimed.thread or "", claimed.content["name"])
            else:
                found = await self.poster.find(claimed.channel, claimed.key, claimed.attempted_at, claimed.thread)
        except Refused as error:
            # A message too many is better than none.
            log.warning(
                "cannot look for a message that may have arrived, posting it perhaps once more",
                channel=claimed.channel,
                code=error.code,
                remedy=error.remedy,
            )
            found = None
        except PosterError as error:
            await self._failed(claimed, error, in_doubt=True)
            return False
        if found is not None:
            await self.outbox.adopted(claimed, found.channel, found.ts)
            self._done(claimed, "adopt", found.ts)
            return False
        settled = claimed.attempted_at + timedelta(seconds=self.settings.settle_seconds)
        if utc_now() < settled:
            await self.outbox.later(claimed, settled - utc_now(), "in doubt", in_doubt=True)
            return False
        await self.outbox.retry(claimed)
        return True

    async def _failed(self, claimed: Claimed, error: PosterError, *, in_doubt: bool) -> None:
        code = error.code if isinstance(error, Refused) else type(error).__name__
        self.metrics.send_failures.labels(code).inc()
        if isinstance(error, Refused):
            wait = timedelta(seconds=self.settings.refused_wait_seconds)
            log.error(
                "Slack refuses a message",
                channel=claimed.channel,
                code=error.code,
                remedy=error.remedy,
                incident_message=claimed.key,
            )
            await self.outbox.refused(claimed, wait, error.code, error.remedy)
            return
        if isinstance(error, RateLimited):
            seconds = error.retry_after
            self._free_at[claimed.channel] = time.monotonic() + seconds
        else:
            seconds = min(self.settings.longest_wait_seconds, 2.0 ** min(claimed.attempts - 1, 20))
            seconds *= random.uniform(0.75, 1.0)  # noqa: S311
        log.warning("message not sent yet", channel=claimed.channel, reason=str(error), again_in=round(seconds, 1))
        await self.outbox.later(claimed, timedelta(seconds=seconds), code, in_doubt=in_doubt)

    def _done(self, claimed: Claimed, action: str, ts: str) -> None:
        self._free_at[claimed.channel] = time.monotonic() + self.settings.channel_interval_seconds
        self.metrics.sent.labels(action).inc()
        log.info("message sent", action=action, channel=claimed.channel, ts=ts, incident_message=claimed.key)

    def _busy(self) -> dict[str, float]:
        """Return the channels in which nothing may be sent yet, with the seconds that are left."""
        now = time.monotonic()
        self._free_at = {channel: at for channel, at in self._free_at.items() if at > now}
        return {channel: at - now for channel, at in self._free_at.items()}

    async def _next(self, busy: dict[str, float]) -> datetime | None:
        if busy:
            return utc_now() + timedelta(seconds=min(busy.values()))
        return await self.outbox.next_due()


def _action(claimed: Claimed) -> str:
    if claimed.kind is OutgoingKind.FILE:
        return "share"
    return "post" if claimed.thread is None else "reply"


def _message(claimed: Claimed) -> SlackMessage:
    return SlackMessage(**claimed.content)
