"""The service itself, in this process or in one of its own, and a client that speaks the wire."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.settings import ClusterToken, Listen, Outbox, Pipeline, Settings, Slack, SlackMode
from tests.slack.fake import FakeSlack
from tests.slack.workspace import BOT_TOKEN, CHANNEL, SIGNING_SECRET

TOKEN = "test-token-of-alps-not-a-secret"
OTHER_TOKEN = "test-token-of-elbe-not-a-secret"

FAILED_RANK_0 = b"""\
step 41 loss 2.31
Traceback (most recent call last):
  File "/home/alice/train.py", line 88, in <module>
    main()
  File "/home/alice/train.py", line 61, in main
    raise ValueError("bad shard 17")
ValueError: bad shard 17
"""


class Client:
    """Says to the service what a hook says."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url

    async def ask(self, method: str, path: str, token: str | None = TOKEN, **more: Any) -> tuple[int, Any]:
        """Return the status and the JSON of the answer."""
        headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **more.pop("headers", {})}
        async with self._session.request(method, self.url + path, headers=headers, **more) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if answer.content_type == "application/json" else text

    async def open(self, job_id: str = "48213", **more: Any) -> str:
        """Open an incident as node gpu-n01; return its id."""
        status, answer = await self.ask("POST", "/v1/incidents", json=opening(job_id=job_id, **more))
        assert status == 202, answer
        return str(answer["id"])

    async def put(self, incident_id: str, name: str, log: bytes) -> tuple[int, Any]:
        headers = {"Content-Encoding": "gzip"}
        return await self.ask(
            "PUT", f"/v1/incidents/{incident_id}/logs/{name}", data=gzip.compress(log), headers=headers
        )

    async def complete(self, incident_id: str, reporter: str = "gpu-n01", role: str = "node", **job: Any) -> None:
        status, answer = await self.ask(
            "POST", f"/v1/incidents/{incident_id}/complete", json={"reporter": reporter, "role": role, "job": job}
        )
        assert status == 202, answer

    async def report(self, job_id: str = "48213", log: bytes = FAILED_RANK_0, **job: Any) -> str:
        """Report a whole job of one node that failed; return the incident's id."""
        facts = {"name": "pretrain", "user": "alice", "state": "FAILED", "exit_code": 1, "world_size": 1, **job}
        incident_id = await self.open(job_id, job=facts, expected_reporters=1)
        status, answer = await self.put(incident_id, "gpu-n01/rank-0.log", log)
        assert status == 202, answer
        await self.complete(incident_id)
        return incident_id

    async def incident(self, incident_id: str, until: Callable[[Any], object] = bool) -> Any:
        """Return the incident as soon as `until` holds for it."""
        async with asyncio.timeout(60):
            while True:
                _, incident = await self.ask("GET", f"/v1/incidents/{incident_id}")
                if until(incident):
                    return incident
                await asyncio.sleep(0.05)


def opening(**more: Any) -> dict[str, Any]:
    """Return the body of POST /v1/incidents."""
    return {
        "schema": 1,
        "scheduler": "slurm",
        "job_id": "48213",
        "attempt": 0,
        "reporter": "gpu-n01",
        "role": "node",
        **more,
    }


def settings_in(folder: Path, **more: Any) -> Settings:
    """Return settings for a test: two clusters, a console for Slack, no waiting."""
    given: dict[str, Any] = {
        "data_dir": folder,
        "listen": Listen(port=0),
        "clusters": {"alps": ClusterToken(token=TOKEN), "elbe": ClusterToken(token=OTHER_TOKEN)},
        "slack": Slack(mode=SlackMode.CONSOLE),
        "pipeline": Pipeline(first_post_seconds=0, quiet_seconds=0, patience_seconds=600),
        "outbox": Outbox(channel_interval_seconds=0, settle_seconds=0.5),
        **more,
    }
    return Settings(**given)


class ServiceProcess:
    """`firstfault serve` in a process of its own, which can be killed and started again on the same folder."""

    def __init__(self, folder: Path, slack: FakeSlack, session: aiohttp.ClientSession, **pipeline: float) -> None:
        interval = pipeline.pop("channel_interval_seconds", 0)
        self.data = folder / "data"
        self.log = folder / "service.log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.client = Client(session, f"http://127.0.0.1:{port}")
        self._config = folder / "firstfault.toml"
        self._config.write_text(
            f'data_dir = "{self.data}"\n'
            f'listen = {{ host = "127.0.0.1", port = {port} }}\n'
            f'clusters = {{ alps = {{ token = "{TOKEN}" }} }}\n'
            f'slack = {{ mode = "http", channel = "{CHANNEL}", bot_token = "{BOT_TOKEN}", '
            f'signing_secret = "{SIGNING_SECRET}", api_url = "{slack.base_url}" }}\n'
            f"pipeline = {{ {', '.join(f'{name} = {value}' for name, value in pipeline.items())} }}\n"
            f"outbox = {{ channel_interval_seconds = {interval}, settle_seconds = 4 }}\n"
        )
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Return when the service is ready."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTFAULT_")}
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "bot.cli", "serve", "--config", str(self._config), env=clean, stderr=log
            )
        async with asyncio.timeout(60):
            while not await self._ready():
                assert self._process.returncode is None, self.log.read_text()
                await asyncio.sleep(0.05)

    async def _ready(self) -> bool:
        try:
            return (await self.client.ask("GET", "/readyz", token=None))[0] == 200
        except aiohttp.ClientConnectionError:
            return False

    async def end(self, number: signal.Signals) -> int:
        """Send a signal; return the exit status."""
        assert self._process is not None
        self._process.send_signal(number)
        status = await asyncio.wait_for(self._process.wait(), 30)
        self._process = None
        return status

    async def close(self) -> None:
        if self._process is not None:
            await self.end(signal.SIGKILL)


@pytest.fixture
async def start(
    tmp_path: Path, slack: FakeSlack, session: aiohttp.ClientSession
) -> AsyncIterator[Callable[..., Awaitable[ServiceProcess]]]:
    """Return a function that starts the service in a process, with settings of the pipeline."""
    services: list[ServiceProcess] = []

    async def make(**pipeline: float) -> ServiceProcess:
        services.append(ServiceProcess(tmp_path, slack, session, **pipeline))
        await services[-1].start()
        return services[-1]

    yield make
    for service in services:
        await service.close()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    """A strict fake Slack on a free port."""
    async with FakeSlack() as server:
        yield server
