"""`firstfault-watcher` as it is started."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import aiohttp
import pytest

from hooks.kubernetes.settings import SettingError, parse
from tests.kubernetes.conftest import World
from tests.kubernetes.intake import TOKEN


async def test_it_tells_answers_and_stops_when_it_is_told_to(world: World, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hooks.kubernetes.main", "--service", world.intake.url,
        "--token-file", str(tmp_path / "token"), "--kubeconfig", str(world.kubeconfig),
        "--listen", f"127.0.0.1:{port}", "--lease", "train/watcher", "--stuck-seconds", "0",
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        job = await world.lab.job("llm")
        await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
        await world.intake.told("llm", seconds=60)
        async with aiohttp.ClientSession() as session:
            answers = {}
            for path in ("healthz", "readyz", "metrics"):
                async with session.get(f"http://127.0.0.1:{port}/{path}") as answer:
                    answers[path] = answer.status, await answer.text()
    finally:
        process.terminate()
        _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert (answers["healthz"][0], answers["readyz"][0]) == (200, 200)
    assert 'firstfault_watcher_reports_total{kind="Job"} 1.0' in answers["metrics"][1]
    assert b"Traceback" not in errors


async def test_without_a_way_into_a_cluster_it_says_what_to_do(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hooks.kubernetes.main", "--service", "http://127.0.0.1:9",
        "--kubeconfig", str(tmp_path / "none"), env={"FIRSTFAULT_WATCHER_TOKEN": "x", "PATH": ""},
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, errors = await process.communicate()
    assert process.returncode == 1
    assert b"--kubeconfig" in errors
    assert b"Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        ([], {}, "--service"),
        (["--service", "firstfault:80"], {}, "--service"),
        (["--service", "http://firstfault"], {}, "token"),
        (["--service", "http://x", "--lease", "watcher"], {"FIRSTFAULT_WATCHER_TOKEN": "t"}, "NAMESPACE/NAME"),
        (["--service", "http://x", "--pod-bytes", "many"], {"FIRSTFAULT_WATCHER_TOKEN": "t"}, "--pod-bytes"),
        (["--service", "http://x", "--listen", "8643"], {"FIRSTFAULT_WATCHER_TOKEN": "t"}, "HOST:PORT"),
    ],
)
def test_a_wrong_setting_is_named(arguments: list[str], environment: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        parse(arguments, environment)


def test_the_token_is_read_anew_for_it_may_be_renewed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    settings = parse(["--service", "http://x", "--token-file", str(tmp_path / "token")], {})
    assert settings.read_token() == "old"
    (tmp_path / "token").write_text("new\n")
    assert settings.read_token() == "new"
