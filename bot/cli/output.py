"""Standard output of the commands: how wide, whether coloured, and what happens when the reader leaves."""

from __future__ import annotations

import os
import shutil
import sys


def width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return shutil.get_terminal_size().columns


def coloured() -> bool:
    """Whether colours are welcome: on a terminal that can, and nobody has said NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def write(text: str) -> None:
    """Write bytes, so that no locale is too poor for a log line, and stay quiet when the reader has had enough."""
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Python would complain again when it flushes on the way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
