"""A Slack server that others wrote: npm's `emulate`, at a pinned version, on a Node.js that comes from PyPI.

It is installed once into `.cache/`, needs no network afterwards, and stays on 127.0.0.1. It has no Socket Mode, no
slash commands, no rate limit and no check of blocks; for those there is `tests/slack/fake.py`.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.slack.npm import NotInstalledError, install, node

SOURCE = Path(__file__).parent / "emulate"
SIGNING_SECRET = "test-signing-secret"
BOT_TOKEN = "xoxb-test-not-a-token"
PERSON_TOKEN = "xoxp-test-not-a-token"
START_SECONDS = 60


@dataclass(frozen=True)
class Emulator:
    """A running emulator."""

    url: str

    @property
    def base_url(self) -> str:
        """The address for slack_sdk clients."""
        return f"{self.url}/api/"

    async def subscribe(self, address: str) -> None:
        """Have signed events sent to `address`."""
        asked = {"url": address}
        async with aiohttp.ClientSession() as session, session.post(f"{self.url}/_test/subscribe", json=asked) as reply:
            reply.raise_for_status()


@contextmanager
def emulator() -> Iterator[Emulator]:
    """Run the emulator on a free port. Raises NotInstalledError where it cannot be had."""
    installed = install(SOURCE, "slack-emulator")
    shutil.copy(SOURCE / "server.mjs", installed / "server.mjs")
    port = _free_port()
    command = [node(), "server.mjs", json.dumps({"port": port, "secret": SIGNING_SECRET})]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, cwd=installed, stdout=log, stderr=subprocess.STDOUT)
        try:
            if not _listening(port, process):
                log.seek(0)
                raise NotInstalledError(f"the Slack emulator did not start: {log.read().decode()[-500:]}")
            yield Emulator(f"http://127.0.0.1:{port}")
        finally:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _listening(port: int, process: subprocess.Popen[bytes]) -> bool:
    """Wait until somebody listens on `port`; False when the process ends or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return True
    return False
