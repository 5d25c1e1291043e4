"""Where the command begins. A plain `firstfault diagnose PATH…` goes straight to work: its user waits, with a job down.

Everything else, and whatever is unusual about the arguments, is for the framework that knows all options and their help.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence


def app() -> None:
    """Run what the command line asks for, and leave with its exit status."""
    words = sys.argv[1:]
    if not plain_diagnosis(words):
        from bot.cli.main import app

        app(prog_name="firstfault")
        return
    gc.disable()  # a process that ends after one diagnosis leaves few cycles, and would look for them all the time
    from pathlib import Path

    from bot.cli.diagnose import run

    try:
        status = run([Path(word) for word in words[1:] if word != "--json"], as_json="--json" in words)
    except KeyboardInterrupt:
        sys.exit(130)
    gc.freeze()  # nor does the interpreter need to take everything apart on its way out
    sys.exit(int(status))


def plain_diagnosis(words: Sequence[str]) -> bool:
    """Whether arguments are `diagnose`, paths, and at most `--json`."""
    given = [word for word in words[1:] if word != "--json"]
    return words[:1] == ["diagnose"] and bool(given) and all(word == "-" or word[:1] not in ("", "-") for word in given)
