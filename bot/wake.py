"""How one part of the service wakes another that sleeps until its next appointment."""

from __future__ import annotations

import asyncio
from datetime import datetime

from storage.types import utc_now

LONGEST_SLEEP = 5.0
"""Seconds. Another process may have changed the database, and nobody calls from there."""


class Wake:
    """One sleeper and many callers; a call before the sleep counts."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def call(self) -> None:
        """Wake the sleeper, now or when it next goes to sleep."""
        self._event.set()

    async def wait_until(self, moment: datetime | None) -> None:
        """Sleep until `moment` (aware), a call, or LONGEST_SLEEP seconds, whichever is first."""
        left = LONGEST_SLEEP if moment is None else (moment - utc_now()).total_seconds()
        try:
            async with asyncio.timeout(min(max(left, 0.0), LONGEST_SLEEP)):
                await self._event.wait()
        except TimeoutError:
            return
        self._event.clear()
