"""`firstfault serve`: the service in the foreground."""

from __future__ import annotations

import sys
from pathlib import Path

from bot.server import CannotStartError
from bot.server import run as run_service
from bot.settings import SettingsInvalidError, load


def run(config: Path | None = None) -> int:
    """Run the service with the settings of the environment and the file `config`; return the exit status.

    Exit status: 0 ended by a signal, 1 could not start or broke, 2 a setting is wrong.
    """
    try:
        return run_service(load(config))
    except SettingsInvalidError as error:
        for line in str(error).splitlines():
            print(f"firstfault: {line}", file=sys.stderr)
        return 2
    except CannotStartError as error:
        print(f"firstfault: {error}", file=sys.stderr)
        return 1
