"""A stored log as a file for Slack."""

from __future__ import annotations

from typing import Any

from bot.slack.contract import SlackFile
from storage.blobs import BlobStore

MAX_BYTES = 4 << 20
"""Of a longer log its end is shared: what it died of stands there."""


async def shared_file(content: dict[str, Any], blobs: BlobStore) -> SlackFile:
    """Return the file that `content` describes: its text, or the blob it is in. Raises FileNotFoundError."""
    if "text" in content:
        return SlackFile(content["name"], content["title"], content["text"])
    tail, size = await blobs.tail(content["blob"], MAX_BYTES)
    text = tail.decode("utf-8", "replace")
    if size > MAX_BYTES:
        text = f"[the last {MAX_BYTES >> 20} MiB of {size:,} bytes]\n{text}"
    return SlackFile(content["name"], content["title"], text)
