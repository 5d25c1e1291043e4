"""The command as a person runs it: a process of its own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.cli.demo import RECORDING

FIRSTFAULT = [sys.executable, "-m", "bot.cli"]
Run = Callable[..., subprocess.CompletedProcess[str]]


def environment() -> dict[str, str]:
    """Ours, without what would change how the command behaves."""
    steering = ("FIRSTFAULT_", "NO_COLOR", "TERM", "COLUMNS")
    return {name: value for name, value in os.environ.items() if not name.startswith(steering)}


def on_a_terminal(*arguments: str, **extra: str) -> str:
    """What the command writes to a terminal."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [*FIRSTFAULT, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        env={**environment(), "TERM": "xterm", **extra},
    ):
        os.close(follower)
        written = b""
        try:
            while chunk := os.read(leader, 65_536):
                written += chunk
        except OSError:  # Linux: the other end is closed
            pass
    os.close(leader)
    return written.decode()


@pytest.fixture
def firstfault() -> Run:
    """Run `firstfault` with arguments; text in, text out."""

    def run(*arguments: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [*FIRSTFAULT, *map(str, arguments)]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=120, check=False, env=environment()
        )

    return run


@pytest.fixture
def recording() -> Path:
    """The job of the demo: rank 5 of 8 fails, 2 nodes."""
    return RECORDING
