"""`firstfault-hook --check` against the service itself: "ok" means that the service knows the token."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.server import running
from tests.bot.conftest import TOKEN, settings_in
from tests.cluster.hooks import HOOK
from tests.hooks.conftest import stand_in
from tests.hooks.intake import Intake


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service that runs in a thread of its own."""
    addresses: list[str] = []
    up = threading.Event()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with running(settings_in(tmp_path_factory.mktemp("data"))) as found:
            addresses.append(found.url)
            up.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert up.wait(30)
    yield addresses[0]
    loop.call_soon_threadsafe(over.set)
    thread.join(30)
    loop.close()


def check(folder: Path, url: str, token: str = TOKEN) -> str:
    """What `--check` says of the service."""
    stand_in(folder, "#!/bin/sh\necho Slurmctld at head is UP\n")
    config = folder / "hook.conf"
    config.touch(mode=0o600)
    config.write_text(
        f"[hook]\nurl = {url}\ntoken = {token}\nspool = {folder}/spool\nslurm_bin = {folder}\ntimeout = 5\n"
    )
    command = [sys.executable, str(HOOK), "--config", str(config), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    (line,) = [line for line in done.stdout.splitlines() if f" service {url}" in line]
    assert done.returncode == int(line.startswith("WRONG")), done.stdout
    return line


def test_a_token_that_the_service_knows_is_good(tmp_path: Path, service: str) -> None:
    assert check(tmp_path, service) == f"ok    service {service} answers and takes the token"


def test_a_token_that_the_service_does_not_know_is_wrong(tmp_path: Path, service: str) -> None:
    line = check(tmp_path, service, "hook-test-of-another-service")
    assert line.startswith(f"WRONG service {service}: HTTP 401 unknown-token")


def test_a_path_below_which_there_is_no_intake_is_wrong(tmp_path: Path, service: str) -> None:
    assert check(tmp_path, service + "/other").startswith("WRONG")


def test_a_server_that_is_no_firstfault_is_wrong(tmp_path: Path, intake: Intake) -> None:
    intake.in_between = (200, {})
    assert check(tmp_path, intake.url).endswith("what answers there is no Firstfault")
    intake.in_between = (404, {})
    assert check(tmp_path, intake.url).startswith("WRONG")


def test_https_to_the_service_itself_is_explained(tmp_path: Path, service: str) -> None:
    line = check(tmp_path, service.replace("http:", "https:"))
    assert line.startswith("WRONG")
    assert line.endswith("what listens there speaks plain HTTP, as the service does: TLS is the proxy's")
