"""`firstfault serve`: the service in the foreground."""

from __future__ import annotations

import sys
from pathlib import Path

from bot.settings import CannotStartError, SettingsInvalidError, load


def run(config: Path | None = None) -> int:
    """Run the service with the settings of the environment and the file `config`; return the exit status.

    Exit status: 0 ended by a signal, 1 could not start or broke, 2 a setting is wrong.
    """
    try:
        settings = load(config)
        from bot.server import run as run_service  # takes its time, which a wrong setting need not wait for

        return run_service(settings)
    except SettingsInvalidError as error:
        for line in str(error).splitlines():
            print(f"firstfault: {line}", file=sys.stderr)
        return 2
    except CannotStartError as error:
        print(f"firstfault: {error}", file=sys.stderr)
        return 1
