"""Many pods with long logs: who failed first comes first, and neither bytes, requests nor memory grow with them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from tests.kubernetes.conftest import StubServer, World
from tests.kubernetes.contract import TRACEBACK
from tests.kubernetes.lab import Object, container, now

PODS = ("", "v1", "pods")
FIRST = 37
FAULT = TRACEBACK.encode()


def steps(size: int) -> bytes:
    """A training log of about so many bytes in which nothing goes wrong, and that does not pack too well."""
    line = "step {0} loss {1} lr 0.0003 grad norm {2} tokens per second {3}\n"
    lines, room = [], size
    for step in range(1 << 20):
        made = line.format(step, step * 7919 % 104729 / 7919, step * 104729 % 7919 / 977, 18000 + step * 31 % 977)
        lines.append(made)
        room -= len(made)
        if room < 0:
            break
    return "".join(lines).encode()


async def gang(world: World, server: StubServer, logs: Mapping[int, bytes], otherwise: bytes, pods: int) -> Object:
    """An indexed Job of many pods, all of which failed, rank 37 half a minute before the others."""
    store = server.api.store
    job = await world.lab.job("llm", pods)
    for rank in range(pods):
        ended = {
            "exitCode": 1, "reason": "Error", "startedAt": now(-600), "containerID": f"x://{rank}",
            "finishedAt": now(-60 if rank == FIRST else -30),
        }  # fmt: skip
        item: Object = {
            "metadata": {
                "name": f"llm-{rank}", "namespace": "train", "uid": f"pod-{rank}", "creationTimestamp": now(-600),
                "labels": {"batch.kubernetes.io/job-completion-index": str(rank)},
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "llm", "uid": job["metadata"]["uid"], "controller": True}
                ],
            },
            "spec": {"nodeName": f"gpu-n{rank}", "containers": [{"name": "pytorch", "image": "train:1"}]},
            "status": {"phase": "Failed", "containerStatuses": [container({"terminated": ended})]},
        }  # fmt: skip
        store.logs["train", f"llm-{rank}", "pytorch", False] = logs.get(rank, otherwise)
        store.write(PODS, "ADDED", item)
    server.api._tell()
    await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
    return job


async def test_of_64_pods_the_first_to_fail_is_read_and_told_first_and_all_bounds_hold(
    world: World, server: StubServer
) -> None:
    log = steps(2 << 20)
    middle = log.index(b"\n", len(log) // 2) + 1
    faulty = log[:middle] + FAULT + log[middle:]
    watcher = await world.watch(pod_bytes=256 << 10, job_bytes=8 << 20)
    await gang(world, server, {FIRST: faulty}, log, pods=64)

    told = await world.intake.told("llm", seconds=120)
    names = [name for name in told.logs if "/" in name]
    first = f"gpu-n{FIRST}/rank-{FIRST}.llm-{FIRST}.pytorch.log"
    assert "ValueError: no such shard" in told.logs[first]
    assert len(names) == 64
    assert all(len(told.logs[name]) < 320 << 10 for name in names)
    assert world.intake.packed_bytes < 8 << 20
    assert server.api.most_logs_at_once <= 8
    assert watcher._gatherer.held_bytes == 0
    assert first in names[:4]
    assert first in told.in_part, "what is known of the first to fail is told before the last log is in"
    assert len(told.in_part) < 32


async def test_where_all_is_too_much_the_first_to_fail_are_sent_and_the_others_named(
    world: World, server: StubServer
) -> None:
    log = steps(1 << 20)
    await world.watch(pod_bytes=1 << 20, job_bytes=2 << 20)
    await gang(world, server, {FIRST: log + FAULT}, log, pods=48)

    told = await world.intake.told("llm", seconds=120)
    names = [name for name in told.logs if "/" in name]
    assert any(name.startswith(f"gpu-n{FIRST}/") for name in names)
    assert world.intake.packed_bytes < (2 << 20) + (256 << 10)
    left_out = told.logs["not-collected.txt"].splitlines()
    assert len(left_out) + len(names) == 48
    assert all("left out" in line for line in left_out)


async def test_what_was_read_before_a_pod_vanished_is_kept_and_what_is_missing_is_said(
    world: World, server: StubServer
) -> None:
    log = FAULT + steps(2 << 20)
    await world.watch(memory_bytes=1)
    server.api.store.breaks["llm-1"] = 1 << 20
    job = await gang(world, server, {1: log}, b"step 1\n", pods=4)
    del server.api.store.logs["train", "llm-2", "pytorch", False]
    assert job

    told = await world.intake.told("llm", seconds=60)
    assert "ValueError: no such shard" in told.logs["gpu-n1/rank-1.llm-1.pytorch.log"]
    assert {"gpu-n0/rank-0.llm-0.pytorch.log", "gpu-n3/rank-3.llm-3.pytorch.log"} <= told.logs.keys()
    first, second = told.logs["not-collected.txt"].splitlines()
    assert first.startswith("pod llm-1, container pytorch, run 0: ")
    assert second.startswith("pod llm-2, container pytorch, run 0: 400")


@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
async def test_pods_that_are_taken_while_they_run_leave_their_logs(
    world: World, server: StubServer, ended: bool
) -> None:
    await world.watch()
    job = await world.lab.job("llm", 2)
    pods = await world.lab.workers(job, 2)
    for pod in pods:
        await world.server.put_log(pod["metadata"]["name"], "pytorch", TRACEBACK)
        if ended:
            await world.lab.ends(pod, 1)
        await world.lab.delete(pod, grace=30)
    await asyncio.sleep(0.7)
    for pod in pods:
        await world.lab.delete(pod)
    await world.lab.condition(job, "Failed", "DeadlineExceeded")
    told = await world.intake.told("llm")
    assert {name for name in told.logs if "/" in name} == {
        "gpu-n0/rank-0.llm-0.pytorch.log", "gpu-n1/rank-1.llm-1.pytorch.log",
    }  # fmt: skip


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "taken"])
async def test_a_pod_that_took_the_name_of_one_that_is_gone_does_not_speak_for_it(world: World, ended: bool) -> None:
    await world.watch()
    job = await world.lab.job("llm", 1)
    (pod,) = await world.lab.workers(job, 1)
    await world.server.put_log("llm-0", "pytorch", TRACEBACK)
    if ended:
        await world.lab.ends(pod, 1)
    else:
        await world.lab.delete(pod, grace=30)
    await asyncio.sleep(0.5)
    await world.lab.delete(pod)
    await world.lab.workers(job, 1)
    await world.server.put_log("llm-0", "pytorch", "the next one\n")
    await asyncio.sleep(1)
    await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
    told = await world.intake.told("llm")
    texts = {name.split("/")[1].split(".")[1]: text for name, text in told.logs.items() if "/" in name}
    assert "ValueError" in texts["attempt-0"]
    assert "the next one" in texts["attempt-1"]
