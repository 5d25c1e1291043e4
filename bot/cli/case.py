"""`firstfault case export`: an incident as a case for an accuracy suite."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from bot.casefile.export import write_case
from bot.settings import Settings, SettingsInvalidError, load
from storage.blobs import BlobStore
from storage.database import Database
from storage.repository import Repository


def export(named: str, into: Path | None, config: Path | None = None) -> int:
    """Write the incident `named`, by its id or its job's, as a folder; return the exit status.

    Exit status: 0 written, 1 there is no such incident or it cannot be written, 2 a setting is wrong. The service may
    run meanwhile.
    """
    try:
        folder, judged = asyncio.run(_export(load(config, for_slack=False), named, into))
    except SettingsInvalidError as error:
        for line in str(error).splitlines():
            print(f"firstfault: {line}", file=sys.stderr)
        return 2
    except FileExistsError as error:
        print(f"firstfault: {error.filename} exists already; name another folder with --into", file=sys.stderr)
        return 1
    except (LookupError, SQLAlchemyError, OSError) as error:
        print(f"firstfault: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    print(folder)
    doubt = "" if judged else " Nobody has judged the verdict, so truth.json says what was diagnosed: correct it."
    print(
        "Names of hosts, users, the job, home folders and addresses were replaced and secrets redacted before. Read it "
        f"through before you give it away: other words of your site may be left.{doubt}",
        file=sys.stderr,
    )
    return 0


async def _export(settings: Settings, named: str, into: Path | None) -> tuple[Path, bool]:
    database = Database(settings.database)
    if database.file is not None and not database.file.is_file():
        raise LookupError(f"there is no database at {database.file}; is data_dir right?")
    try:
        repository = Repository(database)
        found = await repository.incidents.named(named)
        if found is None:
            raise LookupError(f"there is no incident or job {named!r}")
        view = await repository.incidents.view(found)
        actions = await repository.actions.of(view.incident.episode_id) if view.incident.episode_id else []
        about = [action for action in actions if action.incident_id in (None, found)]
        folder = into or Path(f"case-{found[:8]}")
        return folder, await write_case(view, about, BlobStore(settings.data_dir / "blobs"), folder)
    finally:
        await database.close()
