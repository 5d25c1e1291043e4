"""The watcher on a real API server: the contract that the stub keeps, and the controller of Jobs."""

from __future__ import annotations

import asyncio

import pytest

from tests.kubernetes.conftest import World, world
from tests.kubernetes.contract import TestFailures, TestLease, TestNoFailure, TestTrouble
from tests.kubernetes.lab import NAMESPACE
from tests.kubernetes.real import RealServer, running, server

__all__ = ["TestFailures", "TestLease", "TestNoFailure", "TestTrouble", "running", "server", "world"]

pytestmark = pytest.mark.kubernetes


async def test_a_job_that_its_own_controller_gives_up_is_told(server: RealServer, world: World) -> None:
    async with server.controllers(world.kubeconfig):
        await world.watch()
        await world.lab.job("real", 1, {"backoffLimit": 0})
        pod = await _pod_of(world, "real")
        await world.lab.ends({**pod, "apiVersion": "v1", "kind": "Pod"}, 137, "OOMKilled")

        told = await world.intake.told("real", seconds=60)
    assert told.job.items() >= {"state": "Failed", "reason": "OOMKilled", "exit_code": 137}.items()
    assert "SuccessfulCreate" in told.logs["events.txt"]


async def _pod_of(world: World, job: str) -> dict[str, object]:
    async with asyncio.timeout(60):
        while True:
            path = f"/api/v1/namespaces/{NAMESPACE}/pods"
            found = (await world.lab.call("GET", path, labelSelector=f"job-name={job}"))["items"]
            if found:
                return dict(found[0])
            await asyncio.sleep(0.2)
