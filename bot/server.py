"""The service put together: settings in, everything running; a signal, and everything ends in order."""

from __future__ import annotations

import asyncio
import fcntl
import secrets
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import structlog
from sqlalchemy.exc import IntegrityError

from bot import logging
from bot.desk import Archive, Bells, open_desk
from bot.health import Health
from bot.intake.auth import hashed
from bot.intake.routes import Intake
from bot.metrics import Metrics
from bot.outbox import Sender
from bot.pipeline.loop import Pipeline
from bot.pipeline.work import prepare
from bot.settings import CannotStartError, Settings, SettingsInvalidError
from bot.telling.herald import Herald
from bot.telling.placing import placing
from bot.wake import Wake
from bot.web import build, serve
from bot.workers import Workers
from storage.blobs import BlobStore
from storage.clusters import Provisioned
from storage.database import Database
from storage.repository import Repository

DRAIN_SECONDS = 12.0
"""How long a message in hand may take at the end: a little longer than a call of Slack."""

log = structlog.get_logger(__name__)


def run(settings: Settings) -> int:
    """Run the service until SIGTERM or SIGINT; return the exit status.

    Raises:
        SettingsInvalidError: a cluster's token cannot be used.
        CannotStartError: the data folder belongs to another service, or the port is taken.
    """
    logging.configure(settings.logging)
    return asyncio.run(_run(settings))


async def _run(settings: Settings) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(settings) as service:
        log.info("service started", url=service.url, slack=settings.slack.mode.value, data=str(settings.data_dir))
        waiting = asyncio.create_task(stop.wait(), name="signal")
        await asyncio.wait([waiting, *service.tasks], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        for task in service.tasks:
            if task.done() and not stop.is_set():
                log.error("a part of the service ended", part=task.get_name(), error=repr(task.exception()))
                return 1
        log.info("service stops")
    return 0


class Service:
    """What runs. `url` is where it listens."""

    def __init__(self, url: str, tasks: list[asyncio.Task[None]], database: Database, repository: Repository) -> None:
        self.url = url
        self.tasks = tasks
        self.database = database
        self.repository = repository


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Service]:
    """Run the service for as long as the block lasts; then end it in order, messages in hand first.

    Raises:
        SettingsInvalidError: a cluster's token cannot be used.
        CannotStartError: the data folder belongs to another service, or the port is taken.
    """
    async with AsyncExitStack() as stack:
        folder = _prepared(settings.data_dir)
        database = await stack.enter_async_context(_database(settings, folder))
        repository = Repository(database)
        await _provision(settings, repository)
        blobs = BlobStore(folder / "blobs")
        metrics, due, news, mail = Metrics(), Wake(), Wake(), Wake()
        takers, readers = Workers(settings.limits.upload_workers), Workers(settings.pipeline.workers, prepare)
        for workers in (takers, readers):
            stack.push_async_callback(workers.close)
            warming = asyncio.create_task(workers.warm_up())
            stack.callback(warming.cancel)

        def changed() -> None:
            news.call()
            due.call()

        async def fitness() -> str:
            return await health.in_a_line()

        work = _emptied(folder / "work")
        archive = Archive(database, repository, blobs, readers, work)
        desk = open_desk(settings, folder, archive, Bells(changed, mail.call), fitness)
        stack.push_async_callback(desk.close)
        sender = Sender(repository.outbox, desk.poster, settings.outbox, metrics, mail, blobs)

        def told() -> None:
            mail.call()
            desk.told()

        herald = Herald(
            repository=repository,
            link=desk.poster.link,
            wake=news,
            said=told,
            owner=desk.owner,
        )
        pipeline = Pipeline(
            repository=repository,
            blobs=blobs,
            folder=work,
            workers=readers,
            slots=settings.pipeline.workers,
            timeout=settings.pipeline.timeout_seconds,
            pace=settings.pipeline.pace,
            placing=placing(settings),
            metrics=metrics,
            wake=due,
            placed=news.call,
        )
        intake = Intake(
            repository=repository,
            blobs=blobs,
            blob_folder=folder / "blobs",
            workers=takers,
            limits=settings.limits,
            pace=settings.pipeline.pace,
            salt=_salt(folder),
            metrics=metrics,
            changed=due.call,
            uploads=asyncio.Semaphore(settings.limits.uploads_at_once),
        )
        health = Health(database, repository, metrics, desk.connection)
        health.described = [*intake.operations(), *health.operations(), *desk.operations]
        if desk.connection is not None:
            await desk.connection.start()
        health.tasks = [
            asyncio.create_task(pipeline.run(), name="pipeline"),
            asyncio.create_task(herald.run(), name="herald"),
            asyncio.create_task(desk.digests.run(), name="digest"),
            asyncio.create_task(sender.run(), name="outbox"),
        ]
        stack.push_async_callback(_end, health.tasks, sender)
        listen = settings.listen
        try:
            runner, url = await serve(build(health.described, metrics), listen.host, listen.port)
        except OSError as error:
            raise CannotStartError(f"cannot listen on {listen.host}:{listen.port}: {error.strerror}") from error
        stack.push_async_callback(runner.cleanup)
        yield Service(url, health.tasks, database, repository)


async def _end(tasks: list[asyncio.Task[None]], sender: Sender) -> None:
    *others, outbox = tasks
    sender.stop()
    for task in others:
        task.cancel()
    await asyncio.wait(others)
    _, late = await asyncio.wait([outbox], timeout=DRAIN_SECONDS)
    for task in late:
        task.cancel()
        await asyncio.wait([task])


def _prepared(folder: Path) -> Path:
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / "blobs").mkdir(exist_ok=True)
    except OSError as error:
        raise CannotStartError(f"cannot use data_dir {folder}: {error.strerror}") from error
    return folder


@asynccontextmanager
async def _database(settings: Settings, folder: Path) -> AsyncIterator[Database]:
    database = Database(settings.database)
    try:
        if not database.is_sqlite:
            await database.migrate()
            yield database
            return
        with _alone(folder / "service.lock"):
            await database.migrate()
            repository = Repository(database)
            await repository.diagnoses.release_all()
            await repository.episodes.release_all()
            await repository.outbox.resume()
            yield database
    finally:
        await database.close()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CannotStartError(f"another service runs on {path.parent}; stop it or set data_dir") from error
        yield


async def _provision(settings: Settings, repository: Repository) -> None:
    for name, given in settings.clusters.items():
        try:
            done = await repository.clusters.provision(name, hashed(given.read()))
        except SettingsInvalidError as error:
            raise SettingsInvalidError(f"clusters.{name}: {error}") from error
        except IntegrityError as error:
            raise SettingsInvalidError(f"clusters.{name}: another cluster has the same token") from error
        if done is not Provisioned.UNCHANGED:
            log.info("cluster provisioned", cluster=name, token=done.value)


def _salt(folder: Path) -> bytes:
    """Return this service's own salt for the placeholders of redacted secrets."""
    path = folder / "redaction-salt"
    if not path.exists():
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:  # readable by its owner alone
            file.write(secrets.token_bytes(32))
        Path(file.name).rename(path)
    return path.read_bytes()


def _emptied(folder: Path) -> Path:
    """Return the folder without what a killed service left in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder
