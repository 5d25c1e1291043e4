"""Which logs of a pod are fetched."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hooks.kubernetes.api import Api
from hooks.kubernetes.gathering import AT_ONCE, Gatherer
from hooks.kubernetes.logs import Run, fetch
from tests.kubernetes.conftest import StubServer, World

ENDED = {
    "exitCode": 1,
    "startedAt": "2026-11-05T03:00:00Z",
    "finishedAt": "2026-11-05T03:12:07Z",
    "containerID": "x://1",
}


@pytest.fixture
async def api(world: World) -> AsyncIterator[Api]:
    made = await Api.connect(world.kubeconfig)
    yield made
    await made.close()


def pod(server: StubServer, status: dict[str, Any], logs: dict[tuple[str, bool], str]) -> dict[str, Any]:
    """A pod that the server knows, with logs by container and whether they are those before a restart."""
    item = {"metadata": {"name": "llm-0", "namespace": "train", "uid": "u"}, "spec": {}, "status": status}
    server.api.store.write(("", "v1", "pods"), "ADDED", item)
    for (container, previous), text in logs.items():
        server.api.store.logs["train", "llm-0", container, previous] = text.encode()
    return item


def texts(logs: dict[Run, bytes]) -> dict[Run, str]:
    return {run: gzip.decompress(packed).decode() for run, packed in logs.items()}


async def test_after_a_restart_the_log_before_it_is_fetched_too(server: StubServer, api: Api) -> None:
    container = {"name": "main", "restartCount": 1, "state": {"running": {}}, "lastState": {"terminated": ENDED}}
    item = pod(server, {"containerStatuses": [container]}, {("main", False): "again\n", ("main", True): "boom\n"})
    got = texts((await fetch(api, item, 1 << 20)).logs)
    assert got.keys() == {("main", 0), ("main", 1)}
    assert got["main", 0].endswith("boom\n")


async def test_an_init_container_counts_only_when_it_failed(server: StubServer, api: Api) -> None:
    status = {
        "initContainerStatuses": [
            {"name": "data", "state": {"terminated": {**ENDED, "exitCode": 0}}},
            {"name": "check", "state": {"terminated": ENDED}},
        ],
        "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}],
    }
    item = pod(server, status, {("data", False): "ok\n", ("check", False): "no GPU\n"})
    assert (await fetch(api, item, 1 << 20)).logs.keys() == {("check", 0)}


async def test_a_log_that_cannot_be_had_is_a_remark(server: StubServer, api: Api) -> None:
    item = pod(server, {"containerStatuses": [{"name": "main", "state": {"terminated": ENDED}}]}, {})
    got = await fetch(api, item, 1 << 20)
    assert got.logs == {}
    assert "400" in got.missing["main", 0]


async def test_a_pod_s_containers_share_its_budget(server: StubServer, api: Api) -> None:
    text = "".join(f"step {step} loss 1.25\n" for step in range(100_000))
    names = ("main", "sidecar")
    statuses = [{"name": name, "state": {"terminated": ENDED}} for name in names]
    item = pod(server, {"containerStatuses": statuses}, {(name, False): text for name in names})
    got = texts((await fetch(api, item, 512 << 10)).logs)
    assert all(len(each) < 300 << 10 for each in got.values())
    assert all(each.endswith("step 99999 loss 1.25\n") for each in got.values())


async def test_what_is_gone_later_is_kept_from_before(server: StubServer, api: Api) -> None:
    item = pod(server, {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}, {("main", False): "boom\n"})
    gatherer = Gatherer(api, 1 << 20, 1 << 20)
    await gatherer.logs(item)
    server.api.store.logs.clear()
    assert texts((await gatherer.logs(item)).logs)["main", 0].endswith("boom\n")


async def test_when_memory_is_full_what_can_be_had_again_goes_before_what_cannot(server: StubServer, api: Api) -> None:
    noise = "".join(f"{number * 7919 % 104729:x}\n" for number in range(20_000))
    running = {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}
    one = await fetch(api, pod(server, running, {("main", False): noise}), 1 << 20)
    gone: set[str] = set()
    gatherer = Gatherer(api, 1 << 20, one.size * 5 // 2, is_gone=gone.__contains__)
    for name in ("there", "gone-first", "gone-later", "there-too"):
        item = pod(server, running, {("main", False): noise})
        item["metadata"]["uid"] = name
        await gatherer.logs(item)
        if name.startswith("gone"):
            gone.add(name)
    held = [name for name in ("there", "gone-first", "gone-later", "there-too") if gatherer.held(name)]
    assert held == ["gone-first", "gone-later"]


async def test_what_a_report_waits_for_is_fetched_before_what_may_be_needed(server: StubServer, api: Api) -> None:
    running = {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}
    items = []
    for number in range(20):
        item = {
            "metadata": {"name": f"llm-{number}", "namespace": "train", "uid": f"u{number}"}, "spec": {}, "status": running,
        }  # fmt: skip
        server.api.store.write(("", "v1", "pods"), "ADDED", item)
        server.api.store.logs["train", f"llm-{number}", "main", False] = b"step 1\n"
        items.append(item)
    server.api.open_for_logs.clear()
    gatherer = Gatherer(api, 1 << 20, 1 << 20)
    in_advance = [asyncio.create_task(gatherer.logs(item)) for item in items[:-1]]
    async with asyncio.timeout(20):
        while len(server.api.logs_read) < AT_ONCE:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    needed = asyncio.create_task(gatherer.logs(items[-1], urgent=True))
    in_advance[10].cancel()  # one that waits for its turn
    await asyncio.sleep(0)
    server.api.open_for_logs.set()
    await asyncio.gather(needed, *in_advance, return_exceptions=True)
    assert "llm-19" in server.api.logs_read[AT_ONCE : 2 * AT_ONCE]
    assert sorted(set(server.api.logs_read)) == sorted({f"llm-{number}" for number in range(20)} - {"llm-10"})
    assert server.api.most_logs_at_once == AT_ONCE


@pytest.mark.parametrize("previous", [False, True])
async def test_a_log_that_begins_after_its_run_had_ended_is_another_s(
    server: StubServer, api: Api, previous: bool
) -> None:
    sooner = {"terminated": {**ENDED, "finishedAt": "2026-11-05T03:12:00Z"}}
    state = {"state": {"waiting": {}}, "lastState": sooner} if previous else {"state": sooner}
    container = {"name": "main", "restartCount": 0, **state}
    item = pod(server, {"containerStatuses": [container]}, {("main", previous): "of a pod that has the name by now\n"})
    got = await fetch(api, item, 1 << 20)
    assert (got.logs, list(got.missing)) == ({}, [("main", 0)])


async def test_what_was_fetched_while_the_container_could_be_started_again_is_fetched_anew_once_it_was(
    server: StubServer, api: Api
) -> None:
    ended = {"name": "main", "restartCount": 0, "state": {"terminated": ENDED}}
    gatherer = Gatherer(api, 1 << 20, 1 << 20)
    item = pod(server, {"phase": "Running", "containerStatuses": [ended]}, {("main", False): "of the second run\n"})
    await gatherer.logs(item)
    again = {"name": "main", "restartCount": 1, "state": {"running": {}}, "lastState": {"terminated": ENDED}}
    item = pod(server, {"phase": "Running", "containerStatuses": [again]}, {("main", True): "of the first run\n"})
    got = texts((await gatherer.logs(item)).logs)
    assert got["main", 0].endswith("of the first run\n")
    assert got["main", 1].endswith("of the second run\n")

    server.api.store.logs.clear()
    assert texts((await gatherer.logs(item)).logs) == got
    third = {**again, "restartCount": 2}
    item = pod(server, {"phase": "Running", "containerStatuses": [third]}, {("main", True): "of the second run\n"})
    assert texts((await gatherer.logs(item)).logs)["main", 0].endswith("of the first run\n")
