"""`firstfault demo`: the message a person would see, and an incident that can be read again afterwards."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from .conftest import FIRSTFAULT, environment


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo printed."""
    folder = tmp_path_factory.mktemp("demo")
    result = subprocess.run(
        [*FIRSTFAULT, "demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**environment(), "TMPDIR": str(folder)},
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def test_the_message_names_the_rank_that_torchrun_did_not(played: str) -> None:
    message = played.split("The channel shows:")[1]
    assert "minigpt-pretrain failed after 2 m 6 s" in message
    assert "gpu-n04 (rank 5)" in message
    assert "IndexError: index out of range in self" in message
    assert "7 other ranks failed only because of it." in " ".join(message.replace("|", " ").split())


def test_the_message_is_shown_once(played: str) -> None:
    assert played.count("minigpt-pretrain failed") == 1


def test_the_incident_can_be_read_again_with_the_commands_it_printed(played: str) -> None:
    serve = re.search(r"^  (\S+ serve --config .*)$", played, re.MULTILINE)
    curl = re.search(r"^  (curl .*)$", played, re.MULTILINE)
    assert serve
    assert curl
    _, *arguments = shlex.split(serve[1])
    _, _, header, address = shlex.split(curl[1])

    with subprocess.Popen(
        [*FIRSTFAULT, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    ) as service:
        try:
            incident = fetched(address, header)
        finally:
            service.terminate()
    assert incident["job"]["name"] == "minigpt-pretrain"
    assert incident["diagnosis"]["document"]["initiating"] == {"ranks": [5], "hosts": ["gpu-n04"]}
    assert len(incident["messages"]) == 1


def fetched(address: str, header: str) -> Any:
    name, value = header.split(": ")
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(address, headers={name: value}), timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError:
            raise
        except OSError:
            assert time.monotonic() < deadline, "the service did not come back"
            time.sleep(0.1)


def test_its_settings_and_token_are_nobody_else_s_to_read(played: str) -> None:
    settings = re.search(r"--config (\S+)", played)
    assert settings
    folder = Path(settings[1]).parent
    assert {path.name: path.stat().st_mode & 0o077 for path in (folder, folder / "firstfault.toml", folder / "hook.conf")} == {
        folder.name: 0,
        "firstfault.toml": 0,
        "hook.conf": 0,
    }  # fmt: skip
