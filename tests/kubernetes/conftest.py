"""A watcher between an API server and a service. Each test that asks for `world` runs on the stub, and where it can be
had on a real API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from hooks.kubernetes.api import Api
from hooks.kubernetes.service import Service
from hooks.kubernetes.settings import Settings
from hooks.kubernetes.watcher import Watcher
from tests.kubernetes.intake import TOKEN, Intake
from tests.kubernetes.lab import TOKEN as ADMIN
from tests.kubernetes.lab import Lab, Server
from tests.kubernetes.stub import StubApi

CUSTOM = {
    ("jobset.x-k8s.io", "v1alpha2", "jobsets"): "JobSet",
    ("kubeflow.org", "v1", "pytorchjobs"): "PyTorchJob",
}
"""Kinds that are installed beside the built-in ones."""


class StubServer:
    """The stub as tests drive it."""

    def __init__(self) -> None:
        self.api = StubApi()
        self.api.store.kinds.update(CUSTOM)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.api.port}"

    async def put_log(self, pod: str, container: str, text: str, previous: bool = False) -> None:
        """Have the pod's kubelet answer with this log."""
        self.api.store.logs["train", pod, container, previous] = text.encode()

    async def compact(self) -> None:
        """Forget all history."""
        self.api.store.compact()

    async def kill(self) -> None:
        """Die at once."""
        await self.api.stop()

    async def revive(self) -> None:
        """Come back with what was stored."""
        await self.api.start()


class World:
    """Everything a test needs: the cluster, the service, and watchers between them."""

    def __init__(self, server: Server, lab: Lab, intake: Intake, kubeconfig: Path) -> None:
        self.server, self.lab, self.intake = server, lab, intake
        self.kubeconfig = kubeconfig
        self._running: list[tuple[asyncio.Task[None], Api, Service]] = []

    def settings(self, **other: Any) -> Settings:
        """Settings that wait for nothing."""
        given: dict[str, Any] = {
            "service": self.intake.url, "token": TOKEN, "kubeconfig": self.kubeconfig, "namespaces": ("train",),
            "settle_seconds": 0.2, "stuck_seconds": 0, "watch_seconds": 5,
        }  # fmt: skip
        return Settings(**{**given, **other})

    async def watch(self, **other: Any) -> Watcher:
        """Start a watcher and wait until it has seen what there is."""
        settings = self.settings(**other)
        api = await Api.connect(settings.kubeconfig)
        service = Service(settings.service, settings.read_token, first_pause=0.05)
        watcher = Watcher(api, service, settings)
        task = asyncio.create_task(watcher.run())
        self._running.append((task, api, service))
        ready = asyncio.create_task(watcher.ready.wait())
        await asyncio.wait((task, ready), timeout=60, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        assert ready.done(), "the watcher has not seen the cluster"
        return watcher

    async def stop(self) -> None:
        """End all watchers, as a pod's end does."""
        for task, api, service in self._running:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await service.close()
            await api.close()
        self._running.clear()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """An API server of the test's own."""
    stub = StubServer()
    await stub.api.start()
    yield stub
    await stub.api.stop()


@pytest.fixture
async def world(server: Server, tmp_path: Path) -> AsyncIterator[World]:
    """A cluster and a service, with no watcher yet."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(kubeconfig_of(server.url, ADMIN)))
    intake = Intake()
    await intake.start()
    async with aiohttp.ClientSession() as session:
        made = World(server, Lab(server, session), intake, kubeconfig)
        yield made
        await made.stop()
    await intake.stop()


def kubeconfig_of(url: str, token: str) -> dict[str, Any]:
    """What kubectl would use to get there."""
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
    }  # fmt: skip
