"""Work that goes wrong in a worker process."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def die(_folder: Path) -> str:
    """As the kernel ends a process that takes too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def die_the_first_time(folder: Path) -> str:
    """Dies once; the second time it says what the real work says."""
    from bot.pipeline.work import diagnose_folder

    mark = folder.parents[1] / "died"  # beside the folder of this try
    if not mark.exists():
        mark.touch()
        return die(folder)
    return diagnose_folder(folder)


def hang(_folder: Path) -> str:
    """As a regular expression without end."""
    time.sleep(600)
    return ""


def fail(folder: Path) -> str:
    """As a fault in our own code."""
    raise KeyError(folder.name)


def fail_to_begin() -> None:
    """As a broken installation."""
    raise RuntimeError("the catalogue is damaged")


def double(number: int) -> int:
    return 2 * number
