"""A `Poster` without Slack: shows each message in the terminal and keeps a record, one JSON line an action."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from bot.slack.contract import Posted, Refused, SlackMessage
from bot.slack.terminal import as_text


class ConsolePoster:
    """Behaves as `SlackPoster` does, with a file as the channel: what is in `record` was posted."""

    def __init__(self, record: Path, stream: TextIO | None = None) -> None:
        self._record = record
        self._stream = stream if stream is not None else sys.stdout
        record.parent.mkdir(parents=True, exist_ok=True)
        if record.exists() and not record.read_bytes().endswith(b"\n"):  # a crash cut the last line off
            with record.open("a", encoding="utf-8") as torn:
                torn.write("\n")

    async def post(self, channel: str, message: SlackMessage, key: str) -> Posted:
        """Record the message, then show it."""
        posted = Posted(channel=channel, ts=f"{time.time_ns() / 1e9:.6f}")
        self._write("post", posted, message, key)
        return posted

    async def update(self, channel: str, ts: str, message: SlackMessage) -> None:
        """Record and show the message again. Raises Refused if none was posted at `ts`."""
        posted = Posted(channel=channel, ts=ts)
        key = next((line["key"] for line in self._posts() if _at(line) == posted), None)
        if key is None:
            raise Refused("message_not_found", f"nothing was posted at {ts} in {channel}; post it anew")
        self._write("update", posted, message, key)

    async def find(self, channel: str, key: str, since: datetime) -> Posted | None:
        """Look in the record, which outlives the process."""
        for line in self._posts():
            if line["channel"] == channel and line["key"] == key and float(line["ts"]) >= since.timestamp() - 1:
                return _at(line)
        return None

    def _posts(self) -> Iterator[dict[str, Any]]:
        if self._record.exists():
            for line in self._record.read_text(encoding="utf-8").split("\n"):
                action = _parsed(line)
                if action.get("action") == "post":
                    yield action

    def _write(self, action: str, posted: Posted, message: SlackMessage, key: str) -> None:
        line = {
            "action": action,
            "channel": posted.channel,
            "ts": posted.ts,
            "key": key,
            "text": message.text,
            "blocks": message.blocks,
            "colour": message.colour,
        }
        with self._record.open("a", encoding="utf-8") as record:
            record.write(json.dumps(line) + "\n")
        self._show(message, edited=action == "update")

    def _show(self, message: SlackMessage, *, edited: bool) -> None:
        coloured = self._stream.isatty() and "NO_COLOR" not in os.environ
        width = min(100, shutil.get_terminal_size((100, 24)).columns)
        shown = as_text(message, width=width, coloured=coloured)
        text = f"\n{'(edited)' + chr(10) if edited else ''}{shown}\n\n"
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()


def _at(line: dict[str, Any]) -> Posted:
    return Posted(channel=line["channel"], ts=line["ts"])


def _parsed(line: str) -> dict[str, Any]:
    """A line cut off by a crash counts as not written."""
    try:
        parsed = json.loads(line)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
