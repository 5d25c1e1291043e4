"""`firstfault demo`: a real failed job through the real hook and service, with this terminal in Slack's place."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bot.demo
import hooks

RECORDING = Path(bot.demo.__file__).parent / "recording"
HOOK = Path(hooks.__file__).parent / "slurm" / "firstfault-hook"
PATIENCE = 120  # seconds for any one step, on a busy machine

INTRODUCTION = """\
Firstfault demo. A real job, recorded as it failed: 8 ranks on 2 nodes train a small language model until one of
them dies. torchrun on gpu-n03 names rank 0 as the root cause, torchrun on gpu-n04 names rank 5.
"""


class DemoError(Exception):
    """Something on the way to the message broke; the text says what."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where this demo's service lives, and what may speak with it."""

    folder: Path
    port: int
    token: str

    @property
    def url(self) -> str:
        """The service's own address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> Path:
        """The settings file, with which the same service can be started again."""
        return self.folder / "firstfault.toml"

    @property
    def log(self) -> Path:
        """The service's log."""
        return self.folder / "service.log"

    def get(self, path: str) -> Any:
        """Return the JSON at `path`. Raises OSError while nobody answers, urllib.error.HTTPError on a refusal."""
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self.token}"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
            return json.loads(answer.read() or "null")


def run() -> int:
    """Play the demo; return 0 when the message was shown. On a terminal the service then runs on until Ctrl-C."""
    _say(INTRODUCTION)
    stage = _set_up()
    try:
        with _service(stage) as service:
            _say(f"The service runs on {stage.url}, on SQLite in {stage.folder}")
            incident = _replay(stage)
            _say("The hook has read the job's logs, cut and redacted them, and reported them. The channel shows:")
            _wait(stage, service, lambda: bool(stage.get(f"/v1/incidents/{incident}").get("messages")), "a message")
            if sys.stdin.isatty() and sys.stdout.isatty():
                _say(f"{_address(stage, incident)}\nThe service runs on until you press Ctrl-C.")
                service.wait()
        _say(f"The service has stopped; its data stays. {_comeback(stage)}\n\n{_address(stage, incident)}")
    except KeyboardInterrupt:
        _say(f"\nThe service has stopped; its data stays. {_comeback(stage)}")
    except DemoError as error:
        print(f"firstfault demo: {error}\nThe service's log is {stage.log}", file=sys.stderr)
        return 1
    return 0


def _set_up() -> Stage:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    stage = Stage(Path(tempfile.mkdtemp(prefix="firstfault-demo-")), port, f"demo-{secrets.token_urlsafe(18)}")
    stage.settings.write_text(
        f'data_dir = "{stage.folder}"\n'
        f'public_url = "{stage.url}"\n'
        f'listen = {{ host = "127.0.0.1", port = {port} }}\n'
        f'clusters = {{ demo = {{ token = "{stage.token}" }} }}\n'
        'slack = { mode = "console" }\n'
        "pipeline = { first_post_seconds = 0, quiet_seconds = 0 }\n",
        encoding="utf-8",
    )
    hook_settings = stage.folder / "hook.conf"
    hook_settings.touch(mode=0o600)
    hook_settings.write_text(
        f"[hook]\nurl = {stage.url}\ntoken = {stage.token}\nspool = {stage.folder / 'spool'}\n", encoding="utf-8"
    )
    stage.settings.chmod(0o600)
    return stage


@contextmanager
def _service(stage: Stage) -> Iterator[subprocess.Popen[bytes]]:
    """Run `firstfault serve` until the block ends. It writes its messages to our standard output by itself."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTFAULT_")}
    command = [sys.executable, "-m", "bot.cli", "serve", "--config", str(stage.settings)]
    with (
        stage.log.open("wb") as log,
        subprocess.Popen(command, env=clean, stdin=subprocess.DEVNULL, stderr=log) as service,
    ):
        try:
            _wait(stage, service, lambda: stage.get("/readyz") is not None, "the service")
            yield service
        finally:
            service.terminate()
            try:
                service.wait(timeout=15)
            except subprocess.TimeoutExpired:
                service.kill()


def _wait(stage: Stage, service: subprocess.Popen[bytes], done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if service.poll() is not None:
            last = stage.log.read_text(encoding="utf-8", errors="replace").strip().split("\n")[-1]
            raise DemoError(f"the service ended with status {service.returncode}: {last}")
        try:
            if done():
                return
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise DemoError(f"the service refused {error.url}: {error.code} {error.reason}") from error
        except OSError:
            pass  # not listening yet
        time.sleep(0.05)
    raise DemoError(f"waited {PATIENCE} s for {what} in vain")


def _replay(stage: Stage) -> str:
    """Hand the recording to the hook, and return the incident's id."""
    command = [sys.executable, "-I", str(HOOK), "--config", str(stage.folder / "hook.conf"), "--replay", str(RECORDING)]
    hook = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    words = hook.stdout.split()
    if hook.returncode or len(words) < 2:
        raise DemoError(f"the hook could not report: {hook.stderr.strip() or hook.stdout.strip()}")
    return words[1]


def _address(stage: Stage, incident: str) -> str:
    address = f"{stage.url}/v1/incidents/{incident}"
    header = shlex.quote(f"Authorization: Bearer {stage.token}")
    return f"The incident as JSON:\n  curl -H {header} {address}"


def _comeback(stage: Stage) -> str:
    here = Path(sys.argv[0])
    program = here.name if shutil.which(here.name) else os.path.relpath(here)
    return f"Start it again with\n  {shlex.join([program, 'serve', '--config', str(stage.settings)])}"


def _say(text: str) -> None:
    print(text, flush=True)
