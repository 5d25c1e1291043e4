"""`firstfault cluster`: who may report."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import make_url

from bot.intake.auth import hashed, new_token
from bot.settings import Settings, SettingsInvalidError, load
from storage.clusters import Clusters, Standing
from storage.database import Database
from storage.repository import Repository

T = TypeVar("T")


def add(name: str, config: Path | None = None, *, renew: bool = False) -> int:
    """Create cluster `name` and print its token, which is shown this once; `renew` replaces the token of an old one.

    Exit status: 0 done, 1 the name is taken or has its token from the settings, 2 a setting or the name is wrong. The service
    may run meanwhile.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        _tell("a cluster's name needs letters, digits, '.', '_' or '-'")
        return 2

    async def made(clusters: Clusters) -> str | None:
        if not renew and any(each.name == name and each.may_report for each in await clusters.standing()):
            return None
        token = new_token()
        await clusters.provision(name, hashed(token))
        return token

    settings = _settings(config)
    if settings is None:
        return 2
    if name in settings.clusters:  # the service puts the settings' token back when it starts
        _tell(f"{name} has its token from the settings (clusters.{name}); change it there and restart the service")
        return 1
    token = _with_clusters(settings, made)
    if token is None:
        _tell(f"there is a cluster {name!r} already; --renew gives it a new token")
        return 1
    print(token)
    _tell(f"{name} may report to the service whose database is {database_of(settings)}")
    return 0


def show(config: Path | None = None) -> int:
    """List the clusters. Exit status: 0 done, 2 a setting is wrong. The service may run meanwhile."""
    settings = _settings(config)
    if settings is None:
        return 2
    standing = _with_clusters(settings, Clusters.standing) if _is_made(settings) else []
    _tell(_looked_into(settings))
    missing = sorted(set(settings.clusters) - {each.name for each in standing})
    if not standing and not missing:
        print("no cluster may report; `firstfault cluster add NAME` makes a token for one")
        return 0
    rows = [("NAME", "TOKEN", "SINCE", "INCIDENTS", "LAST"), *(_row(each, settings) for each in standing)]
    rows += [(name, "from the settings", "when the service starts", "0", "-") for name in missing]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _row(each: Standing, settings: Settings) -> tuple[str, str, str, str, str]:
    token = "from the settings" if each.name in settings.clusters else "yes" if each.may_report else "removed"
    last = f"{each.last:%Y-%m-%d %H:%M} UTC" if each.last else "-"
    return each.name, token, f"{each.created_at:%Y-%m-%d}", str(each.incidents), last


def remove(name: str, config: Path | None = None) -> int:
    """Take the token of cluster `name` away; its incidents stay.

    Exit status: 0 done, 1 there is no such cluster or the settings give it a token, 2 a setting is wrong. The service may
    run meanwhile, and takes nothing from the cluster from then on.
    """
    settings = _settings(config)
    if settings is None:
        return 2
    if name in settings.clusters:
        _tell(f"take clusters.{name} out of the settings first, and restart the service")
        return 1
    if not _is_made(settings) or not _with_clusters(settings, lambda clusters: clusters.withdraw(name)):
        _tell(f"no cluster {name!r} may report; `firstfault cluster list` lists them")
        _tell(_looked_into(settings))
        return 1
    print(f"{name} can report no more; its incidents stay")
    return 0


def _settings(config: Path | None) -> Settings | None:
    try:
        return load(config, for_slack=False)
    except SettingsInvalidError as error:
        for line in str(error).splitlines():
            _tell(line)
        return None


def _tell(line: str) -> None:
    """Say it beside what is printed for programs."""
    print(f"firstfault: {line}", file=sys.stderr)


def database_of(settings: Settings) -> str:
    """Where the clusters are kept, without the password in a URL."""
    return make_url(settings.database).render_as_string(hide_password=True)


def _looked_into(settings: Settings) -> str:
    return f"the database is {database_of(settings)}{'' if _is_made(settings) else ', which is not made yet'}"


def _is_made(settings: Settings) -> bool:
    """Whether there is a database to look into: one that is elsewhere, or a file."""
    file = Database(settings.database).file
    return file is None or file.exists()


def _with_clusters(settings: Settings, work: Callable[[Clusters], Awaitable[T]]) -> T:
    async def done() -> T:
        database = Database(settings.database)
        try:
            await database.migrate()
            return await work(Repository(database).clusters)
        finally:
            await database.close()

    return asyncio.run(done())
