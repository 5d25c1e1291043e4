"""`firstfault cluster`: who may report."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from bot.intake.auth import hashed, new_token
from bot.settings import Settings, SettingsInvalidError, load
from storage.database import Database
from storage.repository import Repository


def add(name: str, config: Path | None = None, *, renew: bool = False) -> int:
    """Create cluster `name` and print its token, which is shown this once; `renew` replaces the token of an old one.

    Exit status: 0 done, 1 the name is taken, 2 a setting or the name is wrong. The service may run meanwhile.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        print("firstfault: a cluster's name needs letters, digits, '.', '_' or '-'", file=sys.stderr)
        return 2
    try:
        token = asyncio.run(_add(load(config, for_slack=False), name, renew=renew))
    except SettingsInvalidError as error:
        for line in str(error).splitlines():
            print(f"firstfault: {line}", file=sys.stderr)
        return 2
    if token is None:
        print(f"firstfault: there is a cluster {name!r} already; --renew gives it a new token", file=sys.stderr)
        return 1
    print(token)
    return 0


async def _add(settings: Settings, name: str, *, renew: bool) -> str | None:
    database = Database(settings.database)
    try:
        await database.migrate()
        clusters = Repository(database).clusters
        if not renew and await clusters.by_name(name) is not None:
            return None
        token = new_token()
        await clusters.provision(name, hashed(token))
        return token
    finally:
        await database.close()
