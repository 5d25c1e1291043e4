"""The answers as the service runs them: real database, real outbox, real worker, and a strict Slack."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bot.answers import command
from bot.answers import slack as answers
from bot.answers.answerer import Answerer
from bot.answers.command import Asking
from bot.answers.slack import Listening
from bot.answers.stored import Finder
from bot.answers.uploads import Uploads
from bot.metrics import Metrics
from bot.outbox import Sender
from bot.settings import Outbox
from bot.slack.app import build_app
from bot.slack.commands import Commands
from bot.slack.connection import SocketConnection
from bot.slack.contract import SlackMessage
from bot.slack.poster import SlackPoster, web_client
from bot.wake import Wake
from bot.workers import Workers
from knowledge import examine
from storage.blobs import BlobStore
from storage.database import Database
from storage.diagnoses import Verdict
from storage.folding import Placing, Reach
from storage.history import Histories
from storage.incidents import Key, ReceivedLog, ReporterRole, Room, Told
from storage.outbox import Draft
from storage.repository import Repository
from tests.slack.conftest import slack
from tests.slack.fake import FakeSlack
from tests.slack.patience import until
from tests.slack.workspace import APP_TOKEN, BOT_TOKEN, BOT_USER, CHANNEL
from tests.storage.conftest import NOW, database, key, migrated, repository

__all__ = ["database", "key", "migrated", "repository", "slack"]

CASES = Path(__file__).parents[1] / "cases"


@dataclass
class Desk:
    """What a test needs: people's Slack, incidents that are told of in it, and the answers."""

    slack: FakeSlack
    repository: Repository
    key: Key
    blobs: BlobStore
    listening: Listening
    wake: Wake
    users: dict[str, tuple[str, ...]]

    async def fails(
        self, case: str, job_id: str = "48213", channels: tuple[str, ...] = (CHANNEL,), **facts: Any
    ) -> str:
        """Let a job fail as in a case; return the ts of its message, the same in every channel it is told of."""
        folder = CASES / case
        diagnosis, dossier = await asyncio.to_thread(examine, [folder])
        told = Told("gpu-n01", ReporterRole.NODE, {"user": "alice", "name": "llama", **facts})
        incident_id = await self.repository.incidents.open(replace(self.key, job_id=job_id), told, NOW)
        for path in sorted((folder / "logs").rglob("*")):
            if path.is_file():
                name, data = path.relative_to(folder / "logs").as_posix(), path.read_bytes()
                blob = await asyncio.to_thread(self.blobs.write, incident_id, data)
                log = ReceivedLog(name, name, len(data), blob)
                await self.repository.incidents.add_log(incident_id, log, Room(1000, 1 << 30), NOW)
        view = await self.repository.incidents.view(incident_id)
        verdict = Verdict(
            diagnosis.outcome,
            diagnosis.cause.id,
            diagnosis.fingerprint,
            diagnosis.model_dump(mode="json", by_alias=True),
            dossier=dossier.model_dump(mode="json", by_alias=True),
            initiating=tuple(diagnosis.initiating.hosts),
        )
        await self.repository.diagnoses.store(
            incident_id, view.incident.revision, verdict, Placing(channels, Reach.OWNER), NOW
        )
        episode = (await self.repository.incidents.view(incident_id)).incident.episode_id
        content = asdict(SlackMessage("it failed", [], "#c62828"))
        for channel in channels:
            await self.repository.outbox.queue(Draft(f"{episode}/{channel}", channel, content), episode)
        self.wake.call()
        await until(lambda: all(self._parent(channel, f"{episode}/{channel}") for channel in channels))
        ts = str(self._parent(channels[0], f"{episode}/{channels[0]}"))
        await until(lambda: self.repository.episodes.at(channels[0], ts))
        return ts

    def _parent(self, channel: str, key: str) -> str | None:
        for message in self.slack.workspace.messages(channel):
            if message.get("metadata", {}).get("event_payload", {}).get("key") == key:
                return str(message["ts"])
        return None

    async def drops(self, name: str, content: bytes, text: str = "") -> str:
        """Let somebody drop a file with a mention; return the ts of the message. `file_shared` is not subscribed to."""
        file = self.slack.files.create(name, content, "U0ALICE")
        described = [self.slack.files.described(file)]
        words = f"<@{BOT_USER}> {text}".strip()
        said = await self.slack._say(words, CHANNEL, None, "U0ALICE", 0, mention=True, files=described)
        return str(said["ts"])

    def answers(self, ts: str, channel: str = CHANNEL) -> list[str]:
        """What we have written in a thread, each as one text."""
        replies = self.slack.workspace.thread(ts, channel)
        return [words(reply) for reply in replies if reply.get("bot_id")]

    async def answer(self, ts: str, channel: str = CHANNEL, count: int = 1) -> str:
        """Wait for our `count`-th answer in a thread."""
        found: list[str] = await until(lambda: (told := self.answers(ts, channel)) and len(told) >= count and told)
        return found[count - 1]

    async def settles(self) -> None:
        """Wait until nothing waits to be sent and nobody is being answered."""

        async def idle() -> bool:
            return not self.listening._busy and not (await self.repository.outbox.backlog()).waiting

        await asyncio.sleep(0.15)
        await until(idle)


def words(message: dict[str, Any]) -> str:
    """All text of a message's blocks."""
    found: list[str] = []

    def collect(part: Any) -> None:
        if isinstance(part, dict):
            if isinstance(part.get("text"), str):
                found.append(part["text"])
            if part.get("type") == "user":
                found.append(f"@{part['user_id']}")
            for value in part.values():
                collect(value)
        elif isinstance(part, list):
            for value in part:
                collect(value)

    collect(message.get("blocks", []))
    collect([attachment.get("blocks", []) for attachment in message.get("attachments", [])])
    return " ".join(" ".join(found).split())


@pytest.fixture
async def desk(
    slack: FakeSlack, database: Database, repository: Repository, key: Key, tmp_path: Path
) -> AsyncIterator[Desk]:
    """Everything running."""
    blobs, wake = BlobStore(tmp_path / "blobs"), Wake()
    client = web_client(BOT_TOKEN, slack.base_url)
    known: dict[str, tuple[str, ...]] = {}

    async def users(person: str) -> tuple[str, ...]:
        return known.get(person, ())

    workers = Workers(1)
    (tmp_path / "work").mkdir()
    finder = Finder(repository, Histories(database), blobs, users)
    uploads = Uploads(client, workers, tmp_path / "work", max_bytes=1 << 20)
    listening = Listening(finder, Answerer(), repository.outbox, uploads, wake.call)
    commands = Commands()
    app = build_app(client, commands)
    answers.register(app, listening)
    command.register(app, commands, Asking(finder, Answerer(), uploads, client))
    settings = Outbox(channel_interval_seconds=0, settle_seconds=0.1)
    sender = Sender(repository.outbox, SlackPoster(client), settings, Metrics(), wake, blobs)
    sending = asyncio.create_task(sender.run())
    connection = SocketConnection(app, APP_TOKEN, ping_interval_seconds=0.5)
    await connection.start()

    async def connected() -> bool:
        return (await connection.state()).connected

    await until(connected)
    yield Desk(slack, repository, key, blobs, listening, wake, known)
    await connection.stop()
    sender.stop()
    await sending
    await workers.close()
    shutil.rmtree(tmp_path / "work", ignore_errors=True)
