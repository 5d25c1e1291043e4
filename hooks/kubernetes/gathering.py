"""Brings in what a report needs before it goes: pods' logs, events, the conditions of nodes."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager

from hooks.kubernetes.api import Api, ApiError, Object
from hooks.kubernetes.kinds import inside
from hooks.kubernetes.logs import PodLogs, ends_of, fetch, wanted_of

log = logging.getLogger(__name__)

AT_ONCE = 8
"""Requests for logs at a time."""
_MOST_NODES = 256
_EVENT_SECONDS = 60.0  # for all events of a namespace, of which there may be very many


class Gatherer:
    """Holds the logs of pods that ended until they are told, of no more than about `memory_bytes`.

    Where that is too little, what can be had again goes first: the logs of pods that are still there.
    """

    def __init__(
        self, api: Api, pod_bytes: int, memory_bytes: int, is_gone: Callable[[str], bool] = lambda _: False
    ) -> None:
        self._api = api
        self._pod_bytes = pod_bytes
        self._memory_bytes = memory_bytes
        self._is_gone = is_gone
        self._held: dict[str, PodLogs] = {}  # by the pod's uid, the oldest first
        self._room = _Room(AT_ONCE)
        self._busy: dict[str, asyncio.Lock] = {}

    @property
    def held_bytes(self) -> int:
        """Bytes of packed logs in memory."""
        return sum(got.size for got in self._held.values())

    async def logs(self, pod: Object, budget: int | None = None, urgent: bool = False) -> PodLogs:
        """Return a pod's logs, fetched now unless nothing was added since they were fetched last.

        What is `urgent`, since a report waits for it, goes before what is fetched in case that it is needed.
        """
        uid = str(pod["metadata"]["uid"])
        async with self._room.place(urgent), self._busy.setdefault(uid, asyncio.Lock()):
            before = self._held.get(uid)
            if before and before.closed and before.ends == ends_of(pod):
                return before
            if self._is_gone(uid):  # another may have its name by now
                return before or PodLogs(missing={(name, run): "the pod is gone" for name, run, _ in wanted_of(pod)})
            got = await fetch(self._api, pod, budget or self._pod_bytes, before)
            for (container, run), why in got.missing.items():
                log.info("%s: log of %s, run %d: %s", pod["metadata"]["name"], container, run, why)
            if before:
                got = got.and_before(before)
            self._held.pop(uid, None)
            self._held[uid] = got
        self._make_room()
        return got

    def held(self, uid: str) -> PodLogs | None:
        """What was fetched of a pod before it went."""
        return self._held.get(uid)

    def drop(self, uids: Iterable[str]) -> None:
        """Let go of what was told, or will never be."""
        for uid in uids:
            self._held.pop(uid, None)
            if (lock := self._busy.get(uid)) and not lock.locked():
                del self._busy[uid]

    async def events(self, namespace: str, names: set[tuple[str, str]]) -> list[Object]:
        """Return the events about objects, given by kind and name, of a namespace; none where they may not be read."""
        return await self._events(namespace, {}, names)

    async def node_events(self, nodes: Sequence[str]) -> list[Object]:
        """Return the events about nodes; they stand in the namespace `default`."""
        query = {"fieldSelector": "involvedObject.kind=Node"}
        return await self._events("default", query, {("Node", node) for node in nodes}) if nodes else []

    async def _events(self, namespace: str, query: Mapping[str, str], names: set[tuple[str, str]]) -> list[Object]:
        found: list[Object] = []
        try:
            async with (
                asyncio.timeout(_EVENT_SECONDS),
                aclosing(self._api.pages(f"/api/v1/namespaces/{namespace}/events", query)) as pages,
            ):
                async for page in pages:
                    found.extend(event for event in page.items if _about(event) in names)
        except (ApiError, TimeoutError) as error:
            log.warning("events of %s: %s", namespace, error or "they did not come in time")
        return found

    async def nodes(self, names: Sequence[str]) -> tuple[list[Object], list[str]]:
        """Return nodes by name, those that are there and may be read, and the names of those that are no more."""
        lost = []

        async def one(name: str) -> Object | None:
            async with self._room.place(urgent=True):
                try:
                    return await self._api.get(f"/api/v1/nodes/{name}")
                except ApiError as error:
                    log.debug("node %s: %s", name, error)
                    if error.status == 404:
                        lost.append(name)
                    return None

        found = await asyncio.gather(*(one(name) for name in names[:_MOST_NODES]))
        return [node for node in found if node], sorted(lost)

    def _make_room(self) -> None:
        size = self.held_bytes
        if size <= self._memory_bytes:
            return
        log.warning("memory for logs is full (--memory-bytes): some are dropped")
        for uid in sorted(self._held, key=self._is_gone):  # in the order of being fetched
            if size <= self._memory_bytes:
                break
            size -= self._held.pop(uid).size


class _Room:
    """So many at a time; who is urgent waits before who is not, else in the order of coming."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._count = 0
        self._waiting: list[tuple[bool, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def place(self, urgent: bool) -> AsyncIterator[None]:
        if self._free:
            self._free -= 1
        else:
            self._count += 1
            turn = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (not urgent, self._count, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_on()
                raise
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def _about(event: Object) -> tuple[str, str]:
    return str(inside(event, "involvedObject", "kind")), str(inside(event, "involvedObject", "name"))
