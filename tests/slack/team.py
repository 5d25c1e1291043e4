"""An episode with its message in a channel of the fake Slack, the app that listens, and the people who click."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from slack_bolt.async_app import AsyncApp

from bot.slack.actions import register
from bot.slack.app import EVENTS_PATH, build_app, events_handler
from bot.slack.commands import Commands
from bot.slack.connection import SocketConnection
from bot.slack.contract import SlackMessage
from bot.slack.poster import SlackPoster, web_client
from bot.telling.drafts import drafts
from bot.telling.status import Surroundings
from storage.diagnoses import Verdict
from storage.folding import Placing
from storage.incidents import Key, Pace, ReporterRole, Told
from storage.repository import Repository
from storage.tables import Action, Episode
from tests.slack import samples
from tests.slack.fake import FakeSlack
from tests.slack.patience import until
from tests.slack.workspace import APP_TOKEN, BOT_TOKEN, CHANNEL, SIGNING_SECRET
from tests.storage.conftest import database, key, migrated, repository

__all__ = ["Team", "app", "changes", "database", "episode_id", "key", "migrated", "over_http", "repository", "team"]

NOW = Pace(first=timedelta(0), quiet=timedelta(0), patience=timedelta(0))


@dataclass
class Team:
    """An episode that is told in a channel, and the people who click there."""

    slack: FakeSlack
    repository: Repository
    poster: SlackPoster
    episode_id: str
    changes: list[float] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)  # ts by key

    @property
    def ts(self) -> str:
        """Where the episode's message stands."""
        return self.told[f"{self.episode_id}/{CHANNEL}"]

    @property
    def message(self) -> dict[str, Any]:
        """The episode's message as it stands in the channel."""
        return next(message for message in self.slack.workspace.messages() if message["ts"] == self.ts)

    async def tell(self) -> None:
        """Post or edit everything, as the herald and the outbox do together."""
        view = await self.repository.episodes.view(self.episode_id)
        for draft in drafts(view, Surroundings(self.poster.link, "U0ALICE")):
            if "blocks" not in draft.content:
                continue
            message = SlackMessage(**draft.content)
            if draft.key in self.told:
                await self.poster.update(CHANNEL, self.told[draft.key], message)
            else:
                thread = self.told[draft.parent_key] if draft.parent_key else None
                self.told[draft.key] = (await self.poster.post(CHANNEL, message, draft.key, thread)).ts

    async def actions(self) -> list[Action]:
        return await self.repository.actions.of(self.episode_id)

    async def stored(self, count: int = 1) -> list[Action]:
        """Wait until so many actions are stored."""

        async def enough() -> list[Action]:
            found = await self.actions()
            return found if len(found) >= count else []

        found: list[Action] = await until(enough)
        assert len(found) == count
        return found

    async def episode(self) -> Episode:
        return (await self.repository.episodes.view(self.episode_id)).episode

    def offered(self) -> list[str]:
        """What can be clicked now."""
        blocks = [*self.message["blocks"], *self.message["attachments"][0]["blocks"]]
        return [each["action_id"] for block in blocks if block["type"] == "actions" for each in block["elements"]]


@pytest.fixture
async def episode_id(repository: Repository, key: Key) -> str:
    """The lost GPU, diagnosed and placed."""
    job, diagnosis, _ = samples.gpu_lost()
    told = Told("gpu-n01", ReporterRole.NODE, job.model_dump(mode="json"))
    incident_id = await repository.incidents.open(key, told, NOW)
    revision = (await repository.incidents.view(incident_id)).incident.revision
    document = diagnosis.model_dump(mode="json", by_alias=True)
    verdict = Verdict("failed", diagnosis.cause.id, diagnosis.fingerprint, document, initiating=("gpu-n17",))
    await repository.diagnoses.store(incident_id, revision, verdict, Placing((CHANNEL,)), NOW)
    episode = (await repository.incidents.view(incident_id)).incident.episode_id
    assert episode is not None
    return episode


@pytest.fixture
def changes() -> list[float]:
    """When somebody was told that something changed."""
    return []


@pytest.fixture
def app(slack: FakeSlack, repository: Repository, changes: list[float]) -> AsyncApp:
    """The Bolt app with all buttons and modals."""
    app = build_app(web_client(BOT_TOKEN, slack.base_url), Commands(), SIGNING_SECRET)
    register(app, repository, lambda: changes.append(time.monotonic()))
    return app


@pytest.fixture
async def team(
    slack: FakeSlack, app: AsyncApp, repository: Repository, episode_id: str, changes: list[float]
) -> AsyncIterator[Team]:
    """The message stands in the channel and the app listens over Socket Mode."""
    socket = SocketConnection(app, APP_TOKEN)
    await socket.start()
    await until(lambda: slack.sockets)
    team = Team(slack, repository, SlackPoster(web_client(BOT_TOKEN, slack.base_url)), episode_id, changes)
    await team.tell()
    yield team
    await socket.stop()


@pytest.fixture
async def over_http(team: Team, app: AsyncApp) -> AsyncIterator[Team]:
    """The same, but Slack sends signed requests."""
    service = web.Application()
    service.router.add_post(EVENTS_PATH, events_handler(app, SIGNING_SECRET))
    runner = web.AppRunner(service)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    team.slack.http_address = f"http://127.0.0.1:{runner.addresses[0][1]}{EVENTS_PATH}"
    yield team
    await runner.cleanup()
