"""Waiting for what happens elsewhere, without guessing how long it takes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def until(look: Callable[[], Any], seconds: float = 10) -> Any:
    """Return the first true answer of `look`, which may be async. Raises TimeoutError when there is none in time."""
    async with asyncio.timeout(seconds):
        while True:
            answer = look()
            found = await answer if inspect.isawaitable(answer) else answer
            if found:
                return found
            await asyncio.sleep(0.02)
