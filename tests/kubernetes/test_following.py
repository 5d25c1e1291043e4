"""List, then watch: nothing twice, nothing missed, and no server is hammered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from hooks.kubernetes.api import Api, ApiError
from hooks.kubernetes.following import Collection
from tests.kubernetes.conftest import StubServer, World

JOBS = "/apis/batch/v1/namespaces/train/jobs"


class Follower:
    """What a collection tells, as words."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.told: list[str] = []
        self._task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        async for change in self.collection.changes():
            name = change.item["metadata"]["name"]
            self.told.append(f"-{name}" if change.gone else name)

    async def until(self, *words: str) -> None:
        """Wait until exactly this was told."""
        async with asyncio.timeout(20):
            while self.told != list(words):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """End."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
async def follower(world: World) -> AsyncIterator[Follower]:
    api = await Api.connect(world.kubeconfig)
    made = Follower(Collection(api, JOBS, watch_seconds=2, first_pause=0.05))
    yield made
    await made.stop()
    await api.close()


async def test_each_change_is_told_once_across_watches_that_end(world: World, follower: Follower) -> None:
    await follower.until()
    await world.lab.job("a")
    await follower.until("a")
    await asyncio.sleep(3)  # the server has ended the watch, and a new one goes on
    job = await world.lab.job("b")
    await world.lab.delete(job)
    await follower.until("a", "b", "-b")
    assert follower.collection.relists == 1


async def test_after_a_compaction_only_what_differs_is_told(
    world: World, follower: Follower, server: StubServer
) -> None:
    for name in ("same", "kept", "gone"):
        await world.lab.job(name)
    await follower.until("same", "kept", "gone")
    await server.kill()
    store, place = server.api.store, ("batch", "v1", "jobs")
    store.write(place, "DELETED", store.objects[place]["train", "gone"])
    store.write(place, "MODIFIED", store.objects[place]["train", "kept"])
    store.write(place, "ADDED", {"metadata": {"name": "new", "namespace": "train", "uid": "new"}})
    await server.compact()
    await server.revive()
    async with asyncio.timeout(20):
        while len(follower.told) < 6:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert sorted(follower.told[3:]) == ["-gone", "kept", "new"]
    assert follower.collection.relists == 2


async def test_many_objects_are_listed_page_by_page(world: World, server: StubServer) -> None:
    for number in range(501):
        place = ("batch", "v1", "jobs")
        item = {"metadata": {"name": f"job-{number}", "namespace": "train", "uid": str(number)}}
        server.api.store.write(place, "ADDED", item)
    api = await Api.connect(world.kubeconfig)
    found, version = await api.list(JOBS)
    await api.close()
    assert len({item["metadata"]["name"] for item in found}) == 501
    assert version == str(server.api.store.version)


async def test_a_collection_that_is_not_there_is_asked_for_less_and_less_often(
    world: World, server: StubServer
) -> None:
    api = await Api.connect(world.kubeconfig)
    missing = Follower(Collection(api, "/apis/ray.io/v1/rayjobs", first_pause=0.2))
    await asyncio.sleep(2)
    await missing.stop()
    await api.close()
    assert 1 <= server.api.requests.count("GET /apis/ray.io/v1/rayjobs") <= 8
    assert missing.collection.listed.is_set()


async def test_a_bookmark_is_where_the_next_watch_begins(world: World, follower: Follower, server: StubServer) -> None:
    await world.lab.job("a")
    await follower.until("a")
    for number in range(3):  # changes elsewhere, of which this collection sees no more than the version
        await world.lab.pod(f"pod-{number}", None, {})
    await asyncio.sleep(0.3)
    await server.compact()
    await asyncio.sleep(2.5)  # the watch was ended, and another began
    await world.lab.job("b")
    await follower.until("a", "b")
    assert follower.collection.relists == 1


async def test_a_list_that_expires_between_two_pages_is_begun_anew(world: World, server: StubServer) -> None:
    for number in range(501):
        item = {"metadata": {"name": f"job-{number}", "namespace": "train", "uid": str(number)}}
        server.api.store.write(("batch", "v1", "jobs"), "ADDED", item)
    server.api.store.expiring_pages = 2
    api = await Api.connect(world.kubeconfig)
    follower = Follower(Collection(api, JOBS, first_pause=0.05))
    async with asyncio.timeout(20):
        while len(follower.told) < 501:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await follower.stop()
    await api.close()
    assert len(set(follower.told)) == len(follower.told) == 501


async def test_an_event_that_cannot_be_read_is_passed_over_by_listing_anew(
    world: World, follower: Follower, server: StubServer
) -> None:
    await follower.collection.listed.wait()
    server.api.store.garbage = 1
    await world.lab.job("a")
    await follower.until("a")
    assert follower.collection.relists == 2


async def test_a_server_that_keeps_failing_is_asked_less_and_less_often_and_never_in_step(
    world: World, server: StubServer
) -> None:
    await server.kill()
    api = await Api.connect(world.kubeconfig)
    followers = [Follower(Collection(api, JOBS, first_pause=0.1)) for _ in range(2)]
    pauses = [
        [each.collection._pause(ApiError(0, "gone"), failures) for failures in range(1, 12)] for each in followers
    ]
    for found in pauses:
        assert all(0.05 * 2**number <= pause <= 0.1 * 2**number for number, pause in enumerate(found[:8]))
        assert max(found) <= 30
    assert pauses[0] != pauses[1]
    for each in followers:
        await each.stop()
    await api.close()
