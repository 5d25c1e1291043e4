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

from bot.slack.contract import Posted, Refused, SlackFile, SlackMessage
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

    async def post(self, channel: str, message: SlackMessage, key: str, thread: str | None = None) -> Posted:
        """Record the message, then show it."""
        posted = _now(channel)
        self._write("post", posted, message, key, thread)
        return posted

    async def update(self, channel: str, ts: str, message: SlackMessage) -> None:
        """Record and show the message again. Raises Refused if none was posted at `ts`."""
        posted = Posted(channel=channel, ts=ts)
        found = next((line for line in self._lines("post") if _at(line) == posted), None)
        if found is None:
            raise Refused("message_not_found", f"nothing was posted at {ts} in {channel}; post it anew")
        self._write("update", posted, message, found["key"], found.get("thread"))

    async def find(self, channel: str, key: str, since: datetime, thread: str | None = None) -> Posted | None:
        """Look in the record, which outlives the process."""
        for line in self._lines("post"):
            marked = (line["channel"], line["key"], line.get("thread")) == (channel, key, thread)
            if marked and float(line["ts"]) >= since.timestamp() - 1:
                return _at(line)
        return None

    async def upload(self, channel: str, thread: str, file: SlackFile) -> Posted:
        """Record the file and show that it is there."""
        posted = _now(channel)
        self._record_line(
            "upload", posted, {"thread": thread, "name": file.name, "title": file.title, "text": file.text}
        )
        self._say(f"  ↳ file {file.name} ({len(file.text):,} characters): {file.title}")
        return posted

    async def find_file(self, channel: str, thread: str, name: str) -> Posted | None:
        """Look in the record."""
        for line in self._lines("upload"):
            if (line["channel"], line["thread"], line["name"]) == (channel, thread, name):
                return _at(line)
        return None

    def link(self, posted: Posted) -> str | None:  # noqa: ARG002
        """Nothing in a terminal has an address."""
        return None

    def _lines(self, action: str) -> Iterator[dict[str, Any]]:
        if self._record.exists():
            for text in self._record.read_text(encoding="utf-8").split("\n"):
                line = _parsed(text)
                if line.get("action") == action:
                    yield line

    def _write(self, action: str, posted: Posted, message: SlackMessage, key: str, thread: str | None) -> None:
        content = {"text": message.text, "blocks": message.blocks, "colour": message.colour}
        self._record_line(action, posted, {"key": key, **({"thread": thread} if thread else {}), **content})
        self._show(message, edited=action == "update", reply=thread is not None)

    def _record_line(self, action: str, posted: Posted, content: dict[str, Any]) -> None:
        line = {"action": action, "channel": posted.channel, "ts": posted.ts, **content}
        with self._record.open("a", encoding="utf-8") as record:
            record.write(json.dumps(line) + "\n")

    def _show(self, message: SlackMessage, *, edited: bool, reply: bool) -> None:
        coloured = self._stream.isatty() and "NO_COLOR" not in os.environ
        width = min(100, shutil.get_terminal_size((100, 24)).columns)
        shown = as_text(message, width=width, coloured=coloured)
        if reply:
            shown = "\n".join(f"  {line}" for line in ["↳ in its thread", *shown.split("\n")])
        self._say(f"{'(edited)' + chr(10) if edited else ''}{shown}")

    def _say(self, text: str) -> None:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(f"\n{text}\n\n".encode(encoding, "replace").decode(encoding))
        self._stream.flush()


def _now(channel: str) -> Posted:
    return Posted(channel=channel, ts=f"{time.time_ns() / 1e9:.6f}")


def _at(line: dict[str, Any]) -> Posted:
    return Posted(channel=line["channel"], ts=line["ts"])


def _parsed(line: str) -> dict[str, Any]:
    """A line cut off by a crash counts as not written."""
    try:
        parsed = json.loads(line)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
