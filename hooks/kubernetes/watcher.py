"""Watches workloads and their pods, and has the service told of each that failed, once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from hooks.kubernetes.api import Api, ApiError, Object
from hooks.kubernetes.cluster import Cluster, Workload
from hooks.kubernetes.ending import Ending, deactivation_of, deleted_at, disruption, ending_of, is_labelled, time_of
from hooks.kubernetes.figures import Figures
from hooks.kubernetes.following import Change, Collection
from hooks.kubernetes.gathering import Gatherer
from hooks.kubernetes.kinds import KINDS, Kind, inside
from hooks.kubernetes.logs import ends_of
from hooks.kubernetes.report import first_crash
from hooks.kubernetes.reporting import Reporter
from hooks.kubernetes.service import RefusedError, Service
from hooks.kubernetes.settings import Settings
from hooks.kubernetes.stuck import looping, may_be_stuck, stuck

log = logging.getLogger(__name__)

_LONGEST_PAUSE = 300.0  # seconds before a report that breaks off again and again is begun anew
REPORT_ON = "firstfault/report-on"
"""The annotation by which a workload asks to be told of at its first failed pod: "first-pod"."""


class Watcher:
    """One run of watching. A new one begins from what the cluster still has; the service knows what was told."""

    def __init__(self, api: Api, service: Service, settings: Settings, figures: Figures | None = None) -> None:
        self._api = api
        self._settings = settings
        self._figures = figures or Figures()
        self._cluster = Cluster()
        self._gatherer = Gatherer(api, settings.pod_bytes, settings.memory_bytes, self._cluster.is_gone)
        self._reporter = Reporter(service, settings, self._cluster, self._gatherer, self._figures)
        self._told: set[tuple[str, int, str]] = set()  # uid, attempt and state
        self._stopped: set[str] = set()  # uids of what was seen to be deleted before it ended
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
            version = None if kind.kind in self._followed else await self._version_of(kind)
            if version:
                query = {"labelSelector": "firstfault/watch"} if kind.kind == "Pod" else {}
                self._followed[kind.kind] = []
                for namespace in self._namespaces():
                    collection = Collection(
                        self._api, kind.path(version, namespace), query, watch_seconds=self._settings.watch_seconds
                    )
                    collection.on_access = self._access(kind, namespace)
                    self._followed[kind.kind].append(collection)
                    group.create_task(self._follow(kind, collection))

    async def _version_of(self, kind: Kind) -> str | None:
        for version in kind.versions:
            path = f"/apis/{kind.group}/{version}" if kind.group else f"/api/{version}"
            failures = 0
            while True:
                try:
                    served = await self._api.get(path)
                except ApiError as error:
                    if error.refused:
                        break
                    failures += 1
                    log.warning("%s: %s", path, error)
                    await asyncio.sleep(min(30, 2**failures))
                    continue
                if any(inside(each, "name") == kind.plural for each in served.get("resources") or ()):
                    return version
                break
        return None

    def _namespaces(self) -> tuple[str | None, ...]:
        return self._settings.namespaces or (None,)

    def _collection(self, root: str, plural: str, namespace: str | None) -> Collection:
        path = f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
        return Collection(self._api, path, watch_seconds=self._settings.watch_seconds)

    def _access(self, kind: Kind, namespace: str | None) -> Any:
        where = namespace or "all namespaces"

        def note(error: ApiError | None) -> None:
            allowed = error is None
            if not self._cluster.may_read(kind, namespace, allowed):
                return
            self._figures.unreadable.labels(kind.kind, namespace or "").set(0 if allowed else 1)
            if allowed:
                log.info("%s can be read in %s", kind.kind, where)
                return
            log.warning(
                "%s cannot be read in %s (%s): what it owns is told without it, at the first failure. "
                "Allow list and watch on %s.%s, or remove them from the cluster",
                kind.kind, where, error, kind.plural, kind.group,
            )  # fmt: skip
            self._look_again()

        return note

    def _look_again(self) -> None:
        """What was left to an owner that cannot be read after all is judged by itself."""
        for workload in list(self._cluster.workloads.values()):
            if not workload.unread and not self._cluster.is_gone(workload.uid):
                with _surviving(workload.item):
                    self._judge(workload)
        for pod in list(self._cluster.pods.values()):
            with _surviving(pod):
                self._look_at(None, pod)

    async def _follow(self, kind: Kind, collection: Collection) -> None:
        async for change in collection.changes():
            with _surviving(change.item):
                self._take(kind, change)

    def _take(self, kind: Kind, change: Change) -> None:
        uid = str(change.item["metadata"]["uid"])
        if "status" in change.item or not change.gone:
            workload = Workload(kind, {"status": {}, **change.item})
            self._cluster.put(workload)
            self._judge(workload, change.gone)
        if change.gone:
            self._cluster.forget_later(uid)

    def _judge(self, workload: Workload, gone: bool = False) -> None:
        top = self._cluster.top_of(workload.item)
        if top is None:
            return
        if top.uid != workload.uid and not top.unread:
            deactivation = deactivation_of(workload.item) if workload.kind.kind == "Workload" else None
            if deactivation and not gone:
                self._tell_soon(top, deactivation)
            return
        ending = ending_of(workload.kind, workload.item)
        if (
            (ending is None or ending.outcome == "stopped")
            and deleted_at(workload.item)
            and not disruption(workload.item)
        ):
            self._stopped.add(workload.uid)
        if ending and ending.outcome == "failed" and workload.uid not in self._stopped:
            self._tell_soon(top, ending)
        elif ending and ending.outcome == "ending":
            for pod in self._cluster.pods_of(workload):
                self._start(self._fetch(pod))
        elif ending and ending.outcome == "well" and top.uid == workload.uid:
            self._gatherer.drop(str(pod["metadata"]["uid"]) for pod in self._cluster.pods_of(workload))

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
        workload = self._cluster.top_of(pod)
        if workload is None:
            return
        crash = first_crash([pod])
        ended_badly = crash is not None and ends_of(pod) - (ends_of(before) if before else frozenset())
        leaving = deleted_at(pod) is not None and (before is None or deleted_at(before) is None)
        leaving = leaving and inside(pod, "status", "phase") == "Running" and not self._cluster.is_gone(workload.uid)
        if ended_badly or (leaving and deleted_at(workload.item) is None):
            self._start(self._fetch(pod))
        failed = inside(pod, "status", "phase") == "Failed" or (ended_badly and crash and not crash.aside)
        if failed and self._is_told_by_pod(workload) and (deleted_at(pod) is None or disruption(pod)):
            reason = inside(pod, "status", "reason") or (crash.reason if crash else "") or "PodFailed"
            when = time_of(crash.finished) if crash else None
            self._tell_soon(workload, Ending("failed", str(reason), "", when or datetime.now(UTC)))

    def _is_told_by_pod(self, workload: Workload) -> bool:
        """Whether a workload is told at its first failed pod: it asks for it, or has no word of its own."""
        asked = inside(workload.item, "metadata", "annotations", REPORT_ON) == "first-pod"
        if workload.kind.only_labelled:
            return workload.kind.kind != "Pod" and is_labelled(workload.item)
        return asked or self._settings.first_pod or workload.unread

    async def _fetch(self, pod: Object) -> None:
        await self._gatherer.logs(pod)
        self._figures.held.set(self._gatherer.held_bytes)

    async def _sweep(self) -> None:
        """Look now and then for pods that cannot start, and forget what is long gone."""
        limit = self._settings.stuck_seconds
        while True:
            await asyncio.sleep(min(30.0, limit / 2) if limit else 30.0)
            with _surviving({}):
                self._gatherer.drop(self._cluster.expire())
            self._told = {key for key in self._told if key[0] in self._cluster.workloads}
            self._stopped &= self._cluster.workloads.keys()
            for workload in list(self._cluster.workloads.values()) if limit else ():
                with _surviving(workload.item):
                    await self._see_whether_stuck(workload, limit)

    async def _see_whether_stuck(self, workload: Workload, limit: float) -> None:
        gone = self._cluster.is_gone(workload.uid) or deleted_at(workload.item) is not None
        asked = not workload.kind.only_labelled or is_labelled(workload.item)
        if gone or not asked or ending_of(workload.kind, workload.item):
            return
        top = self._cluster.top_of(workload.item)
        if top is None or top.uid != workload.uid:
            return
        pods = self._cluster.pods_of(workload)
        there = [pod for pod in pods if not self._cluster.is_gone(pod["metadata"]["uid"])]
        waiting = [pod for pod in there if may_be_stuck(pod, limit)]
        if waiting and (workload.uid, self._cluster.attempt_of(workload), "Pending") not in self._told:
            # Only what has a node has volumes to wait for: thousands may wait for a node, and events are many.
            names = {("Pod", str(pod["metadata"]["name"])) for pod in waiting if inside(pod, "spec", "nodeName")}
            events = await self._gatherer.events(workload.namespace, names) if names else []
            found = looping(waiting, limit) or stuck(there, events, limit)
            if found:
                self._tell_soon(workload, found)

    def _tell_soon(self, workload: Workload, ending: Ending) -> None:
        state = "Pending" if ending.outcome == "ending" else "Failed"
        attempt = self._cluster.attempt_of(workload)
        key = (workload.uid, attempt, state)
        old = ending.at and (datetime.now(UTC) - ending.at).total_seconds() > self._settings.max_age_seconds
        if key not in self._told and not old:
            self._told.add(key)
            log.info("%s failed: %s", workload.title, ending.reason or "no reason given")
            self._start(self._tell(workload, ending, attempt))

    async def _tell(self, workload: Workload, ending: Ending, attempt: int) -> None:
        self._figures.waiting.inc()
        try:
            await self.ready.wait()  # until then its pods may be unknown
            await self._tell_until_told(workload, ending, attempt)
            self._figures.told.labels(workload.kind.kind).inc()
        except RefusedError as error:
            self._figures.refused.inc()
            log.error("%s: the service does not take the report: %s", workload.title, error)
        finally:
            self._figures.waiting.dec()

    async def _tell_until_told(self, workload: Workload, ending: Ending, attempt: int) -> None:
        """Begin anew whenever a report breaks off, for whatever reason. Raises RefusedError."""
        pause = self._settings.retry_seconds
        while True:
            try:
                return await self._reporter.tell(workload, ending, attempt)
            except RefusedError:
                raise
            except Exception:
                log.exception("%s: the report broke off; trying again in %.0f s", workload.title, pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a task of the watcher broke off", exc_info=error)


@contextmanager
def _surviving(item: Object) -> Iterator[None]:
    """Custom kinds may hold anything: one that nobody can read must not keep the others from being watched."""
    try:
        yield
    except Exception:
        log.exception("cannot read %s/%s", inside(item, "metadata", "namespace"), inside(item, "metadata", "name"))
