"""Is this machine fit: settings, disk, database, catalogue, port. Nothing is changed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from bot.doctor.finding import Finding, fail, ok, warn
from bot.routing.router import Router
from bot.settings import Settings, SettingsInvalidError, SlackMode
from bot.slack.app import EVENTS_PATH
from bot.slack.escape import literal
from knowledge.catalogue import CatalogueError, load_catalogue
from storage.database import Database

LITTLE_SPACE, NO_SPACE = 2 << 30, 256 << 20
"""Bytes that should be free for logs, and below which the service soon stops."""

_TIMEOUT = aiohttp.ClientTimeout(total=5)


async def examine_machine(settings: Settings) -> list[Finding]:
    """Return what is right and wrong here; a service that runs beside is asked how it is."""
    findings = [*routes(settings), *_tokens(settings), *await asyncio.to_thread(disk, settings.data_dir)]
    findings.append(await _database(settings))
    findings.append(await asyncio.to_thread(_catalogue))
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        findings += await _service(session, settings)
        findings += await _public(session, settings)
    return findings


def routes(settings: Settings) -> Iterator[Finding]:
    """Check the rules among themselves."""
    odd = Router(settings).warnings()
    for warning in odd:
        yield warn("routes", warning, "put it before the other, or let that one continue")
    if not odd:
        count = len(settings.routes)
        rules = f"{count} route{'s' if count != 1 else ''}" if count else "no routes"
        yield ok("routes", f"{rules}; the default channel is {settings.slack.channel}")


def _tokens(settings: Settings) -> Iterator[Finding]:
    for name, cluster in settings.clusters.items():
        try:
            cluster.read()
        except SettingsInvalidError as error:
            yield fail(f"cluster {name}", str(error), "give the service a file it can read, with one token in it")


def disk(folder: Path) -> list[Finding]:
    """Check that logs can be kept in `folder`, and how many. Blocks."""
    place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    blobs = folder / "blobs"
    try:
        with tempfile.TemporaryFile(dir=blobs if blobs.is_dir() else place) as file:
            file.write(b"doctor")
            file.flush()
            os.fsync(file.fileno())
        free = shutil.disk_usage(place).free
    except OSError as error:
        remedy = f"let the user {os.geteuid()} write there, or set data_dir to another folder"
        return [fail("logs", f"{place} cannot be written: {error.strerror}", remedy)]
    room = f"{free / (1 << 30):.1f} GiB are free in {place}"
    if free < NO_SPACE:
        return [fail("logs", room, "make room: reports are refused when the disk is full")]
    if free < LITTLE_SPACE:
        return [warn("logs", room, "make room before it is full")]
    return [ok("logs", room if folder.is_dir() else f"{room}; data_dir is made at the first start")]


async def _database(settings: Settings) -> Finding:
    try:
        database = Database(settings.database)
    except (SQLAlchemyError, ImportError, ValueError) as error:
        return _unusable(settings, error)
    try:
        if database.file is not None and not await asyncio.to_thread(database.file.exists):
            return ok("database", f"{database.file} is made at the first start")
        if await database.is_current():
            return ok("database", "it can be reached, and its tables are those of this version")
        return warn("database", "its tables are those of another version", "start the service: it migrates them")
    except (SQLAlchemyError, OSError) as error:
        return _unusable(settings, error)
    finally:
        await database.close()


def _unusable(settings: Settings, error: Exception) -> Finding:
    """Say why the database cannot be used, without the password in its URL."""
    reason = str(getattr(error, "orig", None) or error).splitlines()[0]
    try:
        where = make_url(settings.database).render_as_string(hide_password=True)
    except ArgumentError:
        where, reason = "database_url", "it is no URL"
    remedy = "check database_url, and that the database runs"
    return fail("database", literal(f"{where} cannot be used: {reason}", 300), remedy)


def _catalogue() -> Finding:
    try:
        return ok("catalogue", f"{len(load_catalogue().entries)} failure messages are known")
    except (CatalogueError, OSError, ValueError) as error:
        return fail("catalogue", literal(str(error), 300), "install Firstfault again")


async def _service(session: aiohttp.ClientSession, settings: Settings) -> list[Finding]:
    """Say whether the port is free, or whose it is."""
    host, port = settings.listen.host, settings.listen.port
    if not port:
        return [ok("port", "the service takes any free one")]
    local = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    status, health = await _asked(session, f"http://{f'[{local}]' if ':' in local else local}:{port}/readyz")
    if isinstance(health, dict) and isinstance(health.get("parts"), dict):
        ill = [f"{part}: {said}" for part, said in health["parts"].items() if said != "ok"]
        if status == 200 and not ill:
            return [ok("service", f"it runs on port {port} and is fit")]
        remedy = "see the other findings, and the service's log"
        said = literal("; ".join(ill), 500)
        return [warn("service", f"it runs on port {port}: {said}", remedy)]
    if _is_free(host, port):
        return [ok("port", f"{host}:{port} is free; no service runs")]
    return [fail("port", f"{host}:{port} is taken by another program, or cannot be used", "set listen.port or stop it")]


def _is_free(host: str, port: int) -> bool:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError:
        return False
    return True


async def _public(session: aiohttp.ClientSession, settings: Settings) -> list[Finding]:
    calls = settings.slack.mode is SlackMode.HTTP
    if settings.public_url is None:
        lost = "messages link to no page" + (", and whether Slack can reach the service is not known" if calls else "")
        return [warn("public_url", f"it is not set: {lost}", "set it to the service's address")]
    address = str(settings.public_url).rstrip("/")
    remedy = "start the service, or correct public_url or the proxy before it"
    status, health = await _asked(session, f"{address}/healthz")
    if status == 200 and isinstance(health, dict) and health.get("ok") is True:
        findings = [ok("public_url", f"{address} leads to the service")]
    else:
        said = f"HTTP {status}" if status else "no answer"
        findings = [warn("public_url", f"{address} does not lead to the service from here: {said}", remedy)]
    if calls:
        findings.append(await _events(session, f"{address}{EVENTS_PATH}"))
    return findings


async def _events(session: aiohttp.ClientSession, address: str) -> Finding:
    """Knock unsigned where Slack calls: being turned away is the right answer."""
    try:
        async with session.post(address, data={}, allow_redirects=False) as response:
            status = response.status
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        said = f"no answer ({type(error).__name__})"
    else:
        if status == 401:
            return ok("events address", f"{address} takes only what Slack has signed")
        said = f"HTTP {status}"
    remedy = f"let the proxy pass POST {EVENTS_PATH} on unchanged; the manifest must name this address"
    return warn("events address", f"{address} cannot be called from here: {said}", remedy)


async def _asked(session: aiohttp.ClientSession, address: str) -> tuple[int, Any]:
    """Return status and JSON of an answer, (0, None) where there is none."""
    try:
        async with session.get(address, allow_redirects=False) as response:
            return response.status, json.loads(await response.content.read(1 << 20))
    except ValueError:
        return response.status, None
    except (aiohttp.ClientError, OSError, TimeoutError):
        return 0, None
