"""Files of the workspace: uploads in three steps that show only after a while, and downloads with the token."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass, field
from typing import Any

from tests.slack.workspace import BOT_ID, BOT_USER, Answer, Arguments, SlackError, Workspace


@dataclass
class File:
    """One file: its bytes, and where it was shared."""

    id: str
    name: str
    title: str
    content: bytes = b""
    user: str = BOT_USER
    length: int = 0
    received: bool = False
    visible_at: float = float("inf")  # monotonic seconds; shared from then on
    channel: str = ""
    thread_ts: str | None = None
    comment: str = ""
    blocks: list[Any] = field(default_factory=list)
    ts: str = ""


class Files:
    """`delay` is how long a completed upload stays invisible, in seconds; with `swallow` it never appears at all."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.url = ""
        self.files: dict[str, File] = {}
        self.delay = 0.05
        self.swallow = False
        self._numbers = itertools.count(1)

    def shared(self, channel: str, thread_ts: str | None = None) -> list[File]:
        """Return what stands in a channel or thread by now, oldest first."""
        self.settle()
        return [
            file for file in self.files.values() if file.ts and (file.channel, file.thread_ts) == (channel, thread_ts)
        ]

    def create(self, name: str, content: bytes, user: str) -> File:
        """Let a person have a file."""
        file = File(f"F0TEST{next(self._numbers):04d}", name, name, content, user, len(content), received=True)
        self.files[file.id] = file
        return file

    def upload_address(self, arguments: Arguments) -> Answer:
        name, length = arguments.get("filename", ""), int(arguments.get("length") or 0)
        if not name or length <= 0:
            raise SlackError("invalid_arguments")
        file = File(f"F0TEST{next(self._numbers):04d}", name, name, length=length)
        self.files[file.id] = file
        return {"upload_url": f"{self.url}/upload/{file.id}", "file_id": file.id}

    def receive(self, file_id: str, content: bytes) -> bool:
        """Take the bytes of an upload; False where they are not those that were announced."""
        file = self.files.get(file_id)
        if file is None or file.received or len(content) != file.length:
            return False
        file.content, file.received = content, True
        return True

    def complete(self, arguments: Arguments) -> Answer:
        files = arguments.get("files") or []
        files = json.loads(files) if isinstance(files, str) else files
        channel_id = arguments.get("channel_id", "")
        if channel_id:
            channel = self.workspace.channel(channel_id)
            if channel.archived or not channel.member:
                raise SlackError("not_in_channel")
        for given in files:
            file = self.files.get(given.get("id", ""))
            if file is None or not file.received or file.channel:
                raise SlackError("file_not_found")
            file.title = given.get("title") or file.name
            file.channel, file.thread_ts = channel_id, arguments.get("thread_ts") or None
            file.comment = arguments.get("initial_comment", "")
            if channel_id and not self.swallow:
                file.visible_at = time.monotonic() + self.delay
        return {"files": [{"id": given["id"], "title": given.get("title", "")} for given in files]}

    def info(self, arguments: Arguments) -> Answer:
        self.settle()
        file = self.files.get(arguments.get("file", ""))
        if file is None:
            raise SlackError("file_not_found")
        return {"file": self.described(file)}

    def settle(self) -> None:
        """Let what has waited long enough appear as messages."""
        for file in self.files.values():
            if not file.ts and file.visible_at <= time.monotonic():
                channel = self.workspace.channel(file.channel)
                file.ts = self.workspace.stamp()
                message = {"type": "message", "user": BOT_USER, "bot_id": BOT_ID, "ts": file.ts, "text": file.comment}
                self.workspace.place(channel, {**message, "files": [self.described(file)]}, file.thread_ts)

    def described(self, file: File) -> dict[str, Any]:
        """Return the file as Slack describes it."""
        shares: dict[str, Any] = {}
        if file.ts:
            kind = "private" if self.workspace.channel(file.channel).private else "public"
            where = {"ts": file.ts} | ({"thread_ts": file.thread_ts} if file.thread_ts else {})
            shares = {kind: {file.channel: [where]}}
        return {
            "id": file.id,
            "name": file.name,
            "title": file.title,
            "user": file.user,
            "size": len(file.content),
            "mimetype": "text/plain",
            "filetype": "text",
            "mode": "snippet",
            "url_private_download": f"{self.url}/files/{file.id}/{file.name}",
            "shares": shares,
        }
