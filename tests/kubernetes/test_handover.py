"""A watcher that stops in the middle of a report: another finishes it, and it is told once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hooks.kubernetes.main import watch
from tests.kubernetes.conftest import World
from tests.kubernetes.contract import TRACEBACK

LEASE = "/apis/coordination.k8s.io/v1/namespaces/train/leases/watcher"


async def half_told(world: World) -> None:
    """A job failed, and its report waits for the service to take the first log."""
    world.intake.open_for_logs.clear()
    job = await world.lab.job("llm", 2)
    for rank, pod in enumerate(await world.lab.workers(job, 2)):
        await world.server.put_log(f"llm-{rank}", "pytorch", TRACEBACK)
        await world.lab.ends(pod, 1)
    await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
    async with asyncio.timeout(20):
        while not world.intake.logs_asked:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_leader_that_loses_its_lease_in_the_middle_of_a_report_has_it_finished_by_the_next(
    world: World,
) -> None:
    replicas = [
        asyncio.create_task(
            watch(world.settings(lease=("train", "watcher"), lease_seconds=3, identity=name, stuck_seconds=0))
        )
        for name in ("a", "b")
    ]
    try:
        await half_told(world)
        holder = (await world.lab.call("GET", LEASE))["spec"]["holderIdentity"]
        other = "b" if holder == "a" else "a"
        await world.lab.call("PATCH", LEASE, {"spec": {"holderIdentity": other}})
        async with asyncio.timeout(20):  # the first lets go of what it was doing
            while world.intake.logs_asked < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        world.intake.open_for_logs.set()
        told = await world.intake.told("llm", seconds=40)
        await asyncio.sleep(1)
        assert told.completions == 1
        assert {name for name in told.logs if "/" in name} == {
            "gpu-n0/rank-0.llm-0.pytorch.log", "gpu-n1/rank-1.llm-1.pytorch.log",
        }  # fmt: skip
        assert world.intake.names() == ["llm"]
    finally:
        for task in replicas:
            task.cancel()
        await asyncio.gather(*replicas, return_exceptions=True)


async def test_a_watcher_that_is_killed_in_the_middle_of_a_report_finishes_it_when_it_is_back(
    world: World, tmp_path: Path
) -> None:
    await world.watch()
    await half_told(world)
    await world.stop()
    world.intake.open_for_logs.set()
    assert world.intake.incidents
    await world.watch()
    told = await world.intake.told("llm")
    assert told.completions == 1
    assert told.diagnose(tmp_path).cause.id == "app-exception"
