"""Watches workloads and their pods, and tells the service of each that failed, once."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from hooks.kubernetes.api import Api, ApiError, Object
from hooks.kubernetes.cluster import Cluster, Workload, kind_names
from hooks.kubernetes.ending import Ending, deleted_at, disruption, ending_of
from hooks.kubernetes.figures import Figures
from hooks.kubernetes.following import Change, Collection
from hooks.kubernetes.gathering import Gatherer
from hooks.kubernetes.kinds import KINDS, Kind, inside
from hooks.kubernetes.logs import ends_of
from hooks.kubernetes.ranks import seat
from hooks.kubernetes.report import facts, first_crash, log_files
from hooks.kubernetes.service import RefusedError, Service
from hooks.kubernetes.settings import Settings
from hooks.kubernetes.stuck import may_be_stuck, stuck
from hooks.kubernetes.telling import describe_nodes, describe_pods, describe_workload, list_events

log = logging.getLogger(__name__)

REPORT_ON = "firstfault/report-on"
"""The annotation by which a workload asks to be told of at its first failed pod: "first-pod"."""


class Watcher:
    """One run of watching. A new one begins from what the cluster still has; the service knows what was told."""

    def __init__(self, api: Api, service: Service, settings: Settings, figures: Figures | None = None) -> None:
        self._api = api
        self._service = service
        self._settings = settings
        self._figures = figures or Figures()
        self._cluster = Cluster()
        self._gatherer = Gatherer(api, settings.pod_bytes, settings.memory_bytes)
        self._told: set[tuple[str, int, str]] = set()  # uid, attempt and state
        self._tasks: set[asyncio.Task[None]] = set()
        self._followed: dict[str, list[Collection]] = {}  # by the kind's name
        self.ready = asyncio.Event()  # once all that exists has been seen

    async def run(self) -> None:
        """Watch for ever. Ends by cancellation, or with the error of a part that broke."""
        try:
            async with asyncio.TaskGroup() as group:
                await self._discover(group)
                # Whose a pod is can be told only once the workloads are known.
                for collection in [each for found in self._followed.values() for each in found]:
                    await collection.listed.wait()
                pods = [self._collection("/api/v1", "pods", namespace) for namespace in self._namespaces()]
                for collection in pods:
                    group.create_task(self._follow_pods(collection))
                for collection in pods:
                    await collection.listed.wait()
                self.ready.set()
                log.info("watching %s", ", ".join(sorted(self._followed)) or "nothing")
                group.create_task(self._sweep())
                while True:
                    await asyncio.sleep(self._settings.rediscover_seconds)
                    await self._discover(group)
        finally:
            self.ready.clear()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _discover(self, group: asyncio.TaskGroup) -> None:
        """Follow the kinds that are installed and not followed yet."""
        for kind in KINDS:
            if kind.kind in self._followed:
                continue
            version = await self._version_of(kind)
            if version:
                self._cluster.kinds.add(kind_names(kind))
                paths = [kind.path(version, namespace) for namespace in self._namespaces()]
                query = {"labelSelector": "firstfault/watch"} if kind.only_labelled else {}
                self._followed[kind.kind] = [
                    Collection(self._api, path, query, watch_seconds=self._settings.watch_seconds) for path in paths
                ]
                for collection in self._followed[kind.kind]:
                    group.create_task(self._follow(kind, collection))

    async def _version_of(self, kind: Kind) -> str | None:
        for version in kind.versions:
            path = f"/apis/{kind.group}/{version}" if kind.group else f"/api/{version}"
            failures = 0
            while True:
                try:
                    served = await self._api.get(path)
                except ApiError as error:
                    if error.status == 404:
                        break
                    failures += 1
                    log.warning("%s: %s", path, error)
                    await asyncio.sleep(min(30, 2**failures))
                    continue
                if any(each.get("name") == kind.plural for each in served.get("resources") or ()):
                    return version
                break
        return None

    def _namespaces(self) -> tuple[str | None, ...]:
        return self._settings.namespaces or (None,)

    def _collection(self, root: str, plural: str, namespace: str | None) -> Collection:
        path = f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
        return Collection(self._api, path, watch_seconds=self._settings.watch_seconds)

    async def _follow(self, kind: Kind, collection: Collection) -> None:
        async for change in collection.changes():
            with _surviving(change.item):
                self._judge(kind, change)

    def _judge(self, kind: Kind, change: Change) -> None:
        if "status" not in change.item and change.gone:
            self._cluster.forget_later(str(change.item["metadata"]["uid"]))
            return
        workload = Workload(kind, change.item)
        self._cluster.put(workload)
        if change.gone:
            self._cluster.forget_later(workload.uid)
        if not self._cluster.is_top(workload.item):
            return
        ending = ending_of(kind, workload.item)
        if ending and ending.outcome == "failed":
            self._tell_soon(workload, ending)
        elif ending and ending.outcome == "ending":
            for pod in self._cluster.pods_of(workload):
                self._start(self._fetch(pod))

    async def _follow_pods(self, collection: Collection) -> None:
        async for change in collection.changes():
            with _surviving(change.item):
                self._take_pod(change)

    def _take_pod(self, change: Change) -> None:
        uid = str(change.item["metadata"]["uid"])
        if not change.gone:
            self._look_at(self._cluster.put_pod(change.item), change.item)
        elif uid in self._cluster.pods:
            self._cluster.forget_later(uid)
            if "status" in change.item:
                self._cluster.put_pod(change.item)

    def _look_at(self, before: Object | None, pod: Object) -> None:
        """Fetch logs while they can be had: when a container ended badly, or when somebody takes the pod away."""
        workload = self._cluster.workload_of(pod)
        if workload is None:
            return
        ended_badly = first_crash([pod]) is not None and ends_of(pod) - (ends_of(before) if before else frozenset())
        leaving = deleted_at(pod) is not None and (before is None or deleted_at(before) is None)
        leaving = leaving and inside(pod, "status", "phase") == "Running" and not self._cluster.is_gone(workload.uid)
        if ended_badly or (leaving and deleted_at(workload.item) is None):
            self._start(self._fetch(pod))
        asked = inside(workload.item, "metadata", "annotations", REPORT_ON) == "first-pod"
        if (asked or self._settings.first_pod) and inside(pod, "status", "phase") == "Failed":
            crash = first_crash([pod])
            if deleted_at(pod) is None or disruption(pod):
                reason = inside(pod, "status", "reason") or (crash.reason if crash else "") or "PodFailed"
                self._tell_soon(workload, Ending("failed", str(reason), "", datetime.now(UTC)))

    async def _fetch(self, pod: Object) -> None:
        await self._gatherer.logs(pod)
        self._figures.held.set(self._gatherer.held_bytes)

    async def _sweep(self) -> None:
        """Look now and then for pods that cannot start, and forget what is long gone."""
        limit = self._settings.stuck_seconds
        while True:
            await asyncio.sleep(min(30.0, limit / 2) if limit else 30.0)
            self._cluster.expire()
            self._told = {key for key in self._told if key[0] in self._cluster.workloads}
            for workload in list(self._cluster.workloads.values()) if limit else ():
                with _surviving(workload.item):
                    await self._see_whether_stuck(workload, limit)

    async def _see_whether_stuck(self, workload: Workload, limit: float) -> None:
        gone = self._cluster.is_gone(workload.uid) or deleted_at(workload.item) is not None
        if gone or not self._cluster.is_top(workload.item) or ending_of(workload.kind, workload.item):
            return
        pods = self._cluster.pods_of(workload)
        waiting = [pod for pod in pods if may_be_stuck(pod) and not self._cluster.is_gone(pod["metadata"]["uid"])]
        if waiting and (workload.uid, workload.attempt, "Pending") not in self._told:
            names = {("Pod", str(pod["metadata"]["name"])) for pod in waiting}
            found = stuck(pods, await self._gatherer.events(workload.namespace, names), limit)
            if found:
                self._tell_soon(workload, found)

    def _tell_soon(self, workload: Workload, ending: Ending) -> None:
        state = "Pending" if ending.outcome == "ending" else "Failed"
        key = (workload.uid, workload.attempt, state)
        old = ending.at and (datetime.now(UTC) - ending.at).total_seconds() > self._settings.max_age_seconds
        if key not in self._told and not old:
            self._told.add(key)
            log.info("%s failed: %s", workload.title, ending.reason or "no reason given")
            self._start(self._tell(workload, ending))

    async def _tell(self, workload: Workload, ending: Ending) -> None:
        self._figures.waiting.inc()
        try:
            await self._deliver(workload, ending)
            self._figures.told.labels(workload.kind.kind).inc()
        except RefusedError as error:
            self._figures.refused.inc()
            log.error("%s: the service does not take the report: %s", workload.title, error)
        finally:
            self._figures.waiting.dec()

    async def _deliver(self, workload: Workload, ending: Ending) -> None:
        await self.ready.wait()  # until then its pods may be unknown
        first = facts(workload, ending, seat(workload.kind, workload.item, self._cluster.pods_of(workload)))
        state = first.pop("state")  # comes with the completion: by it one sees what was told in full
        incident = await self._service.open(first)
        if await self._service.is_told(incident, state):
            log.info("%s was told before", workload.title)
            return
        await asyncio.sleep(self._settings.settle_seconds)
        pods = self._cluster.pods_of(workload)
        seating = seat(workload.kind, workload.item, pods)
        fetching = asyncio.gather(*(self._gatherer.logs(pod) for pod in pods))
        try:  # what is at hand goes first: logs of a dead node take their time to fail
            for name, text in await self._texts(workload, pods, seating.nodes):
                await self._send(incident, name, gzip.compress(text))
            await fetching
        finally:
            fetching.cancel()
        uids = [str(pod["metadata"]["uid"]) for pod in pods]
        fetched = {uid: got for uid in uids if (got := self._gatherer.held(uid))}
        left = self._settings.job_bytes
        for name, packed in log_files(seating, fetched):
            left -= len(packed)
            if left < 0:
                log.warning("%s: more logs than --job-bytes; the rest is left out", workload.title)
                break
            await self._send(incident, name, packed)
        await self._service.complete(incident, facts(workload, ending, seating))
        self._gatherer.drop(uids)
        log.info("%s is told: %d pods, incident %s", workload.title, len(pods), incident)

    async def _send(self, incident: str, name: str, packed: bytes) -> None:
        try:
            await self._service.send_log(incident, name, packed)
        except RefusedError as error:
            self._figures.refused.inc()
            log.warning("the service does not take %s: %s", name, error)

    async def _texts(self, workload: Workload, pods: list[Object], nodes: list[str]) -> list[tuple[str, bytes]]:
        family = self._cluster.family(workload)
        names = {(_called(each), each.name) for each in family} | {
            ("Pod", str(pod["metadata"]["name"])) for pod in pods
        }
        events = await self._gatherer.events(workload.namespace, names) + await self._gatherer.node_events(nodes)
        texts = [
            ("events.txt", list_events(events)),
            ("pods-describe.txt", describe_pods(pods)),
            ("nodes-describe.txt", describe_nodes(await self._gatherer.nodes(nodes))),
            ("workload-describe.txt", describe_workload(_called(workload), [each.item for each in _speaking(family)])),
        ]
        return [(name, text) for name, text in texts if text]

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a report broke off", exc_info=error)


@contextmanager
def _surviving(item: Object) -> Iterator[None]:
    """Custom kinds may hold anything: one that nobody can read must not keep the others from being watched."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, IndexError):
        metadata = item.get("metadata", {})
        log.exception("cannot read %s/%s", metadata.get("namespace"), metadata.get("name"))


def _called(workload: Workload) -> str:
    return kind_names(workload.kind)[1]


def _speaking(family: list[Workload]) -> Iterator[Workload]:
    return (each for each in family if each.kind.kind != "Pod")
