"""The side of the service that faces Slack: where messages go, and what people can do and ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from bot.answers import command
from bot.answers import slack as questions
from bot.answers.answerer import Answerer
from bot.answers.command import Asking
from bot.answers.model import Helper, ModelMissingError, helper_of
from bot.answers.slack import Listening
from bot.answers.stored import Finder
from bot.answers.uploads import Uploads
from bot.digest.task import Digests
from bot.doctor.examine import check_at_start
from bot.intake.openapi import Operation
from bot.settings import CannotStartError, Settings, SlackMode
from bot.slack import actions, home, words
from bot.slack.app import EVENTS_PATH, build_app, events_handler
from bot.slack.commands import Commands
from bot.slack.connection import SocketConnection
from bot.slack.console import ConsolePoster
from bot.slack.contract import Poster, PosterError
from bot.slack.home import Home
from bot.slack.people import people_of
from bot.slack.poster import SlackPoster, web_client
from bot.telling.herald import nobody
from bot.workers import Workers
from storage.blobs import BlobStore
from storage.database import Database
from storage.history import Histories
from storage.repository import Repository


@dataclass
class Desk:
    """What faces Slack. `connection` is None and `operations` are empty where the mode needs none."""

    poster: Poster
    digests: Digests
    connection: SocketConnection | None = None
    operations: list[Operation] = field(default_factory=list)
    owner: Callable[[str], Awaitable[str | None]] = nobody
    home: Home | None = None
    _busy: set[asyncio.Task[object]] = field(default_factory=set)

    def beside(self, work: Awaitable[object]) -> None:
        """Let something small run beside everything else."""
        task = asyncio.ensure_future(work)
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    def told(self) -> None:
        """Note that episodes have changed: people who look at their Home tab see it."""
        if self.home is not None:
            self.beside(self.home.changed())

    async def close(self) -> None:
        """End what runs beside, and the connection."""
        for task in list(self._busy):
            task.cancel()
        if self.connection is not None:
            await self.connection.stop()


@dataclass(frozen=True)
class Archive:
    """What the desk looks things up in. `workers` diagnose what people hand in, in `folder`."""

    database: Database
    repository: Repository
    blobs: BlobStore
    workers: Workers
    folder: Path


@dataclass(frozen=True)
class Bells:
    """Whom the desk wakes: `changed` when people have changed an episode, `queued` when there is something to send."""

    changed: Callable[[], None]
    queued: Callable[[], None]


def open_desk(
    settings: Settings,
    folder: Path,
    archive: Archive,
    bells: Bells,
    health: Callable[[], Awaitable[str]],
) -> Desk:
    """Return the desk of the mode that is set; nothing talks to Slack yet. `health` says in a line how the service is."""
    slack = settings.slack
    if slack.mode is SlackMode.CONSOLE:
        poster = ConsolePoster(folder / "console.jsonl")
        return Desk(poster, _digests(settings, archive.database, bells, poster, native=False))
    client = web_client(slack.bot_token.get_secret_value(), str(slack.api_url))
    online = SlackPoster(client)
    desk = Desk(online, _digests(settings, archive.database, bells, online, native=True))
    secret = slack.signing_secret.get_secret_value()
    commands = _commands(desk, archive, bells, health)
    app = build_app(client, commands, secret)
    _listen(app, commands, desk, client, settings, archive, bells)
    if slack.mode is SlackMode.SOCKET:
        desk.connection = SocketConnection(app, slack.app_token.get_secret_value())
    else:
        form = "application/x-www-form-urlencoded"
        handler = events_handler(app, secret)
        desk.operations = [Operation("POST", EVENTS_PATH, "What Slack sends, signed", handler, None, takes=form)]
    desk.beside(_introduced(online))
    desk.beside(check_at_start(settings, client))
    return desk


async def _introduced(poster: SlackPoster) -> None:
    """Links need to know the workspace; without an answer the first post asks again."""
    with suppress(PosterError):
        await poster.introduce()


def _digests(settings: Settings, database: Database, bells: Bells, poster: Poster, *, native: bool) -> Digests:
    schedules = settings.digest.schedules(settings.slack.channel)
    return Digests(database, schedules, queued=bells.queued, link=poster.link, native=native)


def _commands(desk: Desk, archive: Archive, bells: Bells, health: Callable[[], Awaitable[str]]) -> Commands:
    commands = Commands()
    words.register(
        commands,
        histories=Histories(archive.database),
        actions=archive.repository.actions,
        digests=desk.digests,
        health=health,
        changed=bells.changed,
        link=desk.poster.link,
    )
    return commands


def _listen(
    app: AsyncApp,
    commands: Commands,
    desk: Desk,
    client: AsyncWebClient,
    settings: Settings,
    archive: Archive,
    bells: Bells,
) -> None:
    repository, histories = archive.repository, Histories(archive.database)
    people = people_of(settings.slack, client)
    desk.owner = people.slack_id
    desk.home = Home(client, histories, people.scheduler_users, desk.poster.link)
    finder = Finder(repository, histories, archive.blobs, people.scheduler_users)
    uploads, answerer = Uploads(client, archive.workers, archive.folder), Answerer(_helper(settings))
    actions.register(app, repository, bells.changed)
    home.register(app, desk.home)
    questions.register(app, Listening(finder, answerer, repository.outbox, uploads, bells.queued))
    command.register(app, commands, Asking(finder, answerer, uploads, client))


def _helper(settings: Settings) -> Helper | None:
    try:
        return helper_of(settings.answers.model)
    except ModelMissingError as error:
        raise CannotStartError(str(error)) from error
