"""Programs that a rehearsal needs, and `firstfault serve` among them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TOKEN = "test-token-of-rehearsal-not-a-secret"


@contextmanager
def serving(folder: Path, **slack: str) -> Iterator[str]:
    """`firstfault serve` on SQLite with its default pace, and Slack as it is set up; the address, once it is ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config, log = folder / "firstfault.toml", folder / "service.log"
    config.write_text(
        f'data_dir = "{folder}/data"\n'
        f'listen = {{ host = "127.0.0.1", port = {port} }}\n'
        f'clusters = {{ rehearsal = {{ token = "{TOKEN}" }} }}\n'
        f"slack = {{ {', '.join(f'{name} = {json.dumps(value)}' for name, value in slack.items())} }}\n",
        "utf-8",
    )
    with program(log, "bot.cli", "serve", "--config", str(config)) as service:
        until = time.monotonic() + 60
        while not _ready(f"http://127.0.0.1:{port}/readyz"):
            stuck = service.poll() is not None or time.monotonic() > until
            assert not stuck, log.read_text("utf-8")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"


@contextmanager
def program(log: Path, module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A module that runs until the block ends, without settings of ours from outside."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTFAULT_")}
    with log.open("wb") as out:
        command = [sys.executable, "-m", module, *arguments]
        process = subprocess.Popen(command, env=clean, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(json.load(answer)["ok"])
    except (OSError, ValueError):
        return False
