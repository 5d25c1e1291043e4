"""Sharing a file in a thread: announced, sent, completed, and believed only once it shows."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.api import answered
from bot.slack.contract import Posted, RateLimited, Refused, SlackFile, Unreachable

VISIBLE_SECONDS = 5.0  # how long to wait for a file that Slack has accepted
FIRST_LOOK_SECONDS = 0.1


async def share(client: AsyncWebClient, channel: str, thread: str, file: SlackFile, visible_seconds: float) -> Posted:
    """Share `file` and return its id as `ts`. After Unreachable it may still show: look for it before trying again."""
    content = (file.text or "(empty)").encode("utf-8", "replace")
    announced = await answered(client.files_getUploadURLExternal(filename=file.name, length=len(content)))
    file_id = str(announced["file_id"])
    await _send(client, str(announced["upload_url"]), content)
    await answered(
        client.files_completeUploadExternal(
            files=[{"id": file_id, "title": file.title}], channel_id=channel, thread_ts=thread
        )
    )
    await _shown(client, channel, file_id, visible_seconds)
    return Posted(channel=channel, ts=file_id)


async def _send(client: AsyncWebClient, address: str, content: bytes) -> None:
    timeout = aiohttp.ClientTimeout(total=client.timeout)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(address, data=content, proxy=client.proxy, ssl=client.ssl or True) as reply,
        ):
            if reply.status != 200:
                raise Unreachable(f"Slack took no file: HTTP {reply.status}")
    except TimeoutError as error:
        raise Unreachable("Slack did not take the file in time") from error
    except aiohttp.ClientError as error:
        raise Unreachable(f"Slack cannot be reached: {error or type(error).__name__}") from error


async def _shown(client: AsyncWebClient, channel: str, file_id: str, seconds: float) -> None:
    """Wait until the file stands in the channel. Without the scope to look, Slack's word is taken for it."""
    deadline, pause = time.monotonic() + seconds, FIRST_LOOK_SECONDS
    while True:
        try:
            found = (await answered(client.files_info(file=file_id))).get("file") or {}
        except Refused:
            return
        except (RateLimited, Unreachable):
            found = {}
        if channel in _places(found):
            return
        if time.monotonic() + pause > deadline:
            raise Unreachable(f"Slack accepted the file {file_id}, but it does not show after {seconds:g} s")
        await asyncio.sleep(pause)
        pause = min(1.0, pause * 2)


def _places(file: dict[str, Any]) -> set[str]:
    shares = file.get("shares") or {}
    return {channel for kind in ("public", "private") for channel in shares.get(kind) or {}}
