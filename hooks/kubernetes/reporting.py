"""Tells the service of one failed workload: what is at hand first, then its logs, those of the first to fail first."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Callable, Sequence
from typing import Any

from hooks.kubernetes.cluster import Cluster, Workload, speaking
from hooks.kubernetes.ending import Ending
from hooks.kubernetes.figures import Figures
from hooks.kubernetes.gathering import AT_ONCE, Gatherer
from hooks.kubernetes.logs import PodLogs
from hooks.kubernetes.naming import Naming, not_collected
from hooks.kubernetes.ranks import Seat, Seating, held, names_apart, replaced, seat
from hooks.kubernetes.report import facts, in_order_of_failing, was_taken
from hooks.kubernetes.service import RefusedError, Service
from hooks.kubernetes.settings import Settings
from hooks.kubernetes.telling import describe_nodes, describe_pods, describe_workload, list_events, quote_log

log = logging.getLogger(__name__)

_FIRST = 4  # pods, in the order of failing, that are told of before the others
_LONG = 16  # pods, in that order, whose logs are kept at full length
_MANY = 4 * _FIRST  # pods from which the service is not to wait for the last before it says something
_NAMED = ("uid", "namespace", "name")
_PACKING = 4  # so much smaller are logs when they are packed, at least


class Reporter:
    """Reads the cluster as it is known, fetches the rest, and sends it."""

    def __init__(
        self, service: Service, settings: Settings, cluster: Cluster, gatherer: Gatherer, figures: Figures
    ) -> None:
        self.service = service
        self.settings = settings
        self.cluster = cluster
        self.gatherer = gatherer
        self.figures = figures

    async def tell(self, workload: Workload, ending: Ending, attempt: int) -> None:
        """Tell of a workload's end, unless the service knows all of it. Raises RefusedError."""
        first = told_of(workload, attempt, ending, self.seating(workload))
        state = first.pop("state")  # comes with the completion: by it one sees what was told in full
        incident = await self.service.open(first)
        if await self.service.is_told(incident, state):
            log.info("%s was told before", workload.title)
            return
        await asyncio.sleep(self.settings.settle_seconds)
        report = _Report(self, workload, ending, attempt, incident)
        await report.send()
        log.info("%s is told: %d pods, incident %s", workload.title, len(report.seating.seats), incident)

    def seating(self, workload: Workload) -> Seating:
        """The pods of its present attempt, in their places; none where they make no sense."""
        try:
            return seat(workload.kind, workload.item, self.cluster.pods_of(workload))
        except Exception:
            log.exception("%s: cannot place its pods; it is told without them", workload.title)
            return Seating([], None, None, [])


def told_of(workload: Workload, attempt: int, ending: Ending, seating: Seating) -> dict[str, Any]:
    """The job's facts; only what it is and how it ended, where the others make no sense."""
    try:
        return facts(workload, attempt, ending, seating)
    except Exception:
        log.exception("%s: cannot read all of its facts", workload.title)
        bare = Workload(workload.kind, {"metadata": {key: workload.item["metadata"][key] for key in _NAMED}})
        return facts(bare, attempt, ending, Seating([], None, None, []))


class _Report:
    """One report on its way."""

    def __init__(self, by: Reporter, workload: Workload, ending: Ending, attempt: int, incident: str) -> None:
        self._by, self._workload, self._ending, self._attempt, self._incident = by, workload, ending, attempt, incident
        self.seating = by.seating(workload)
        earlier = seat(workload.kind, workload.item, by.cluster.earlier_pods_of(workload)).seats
        self._earlier = [each for each in earlier if by.gatherer.held(each.uid)]
        self._naming = Naming([*earlier, *self.seating.seats])
        self._fetched: dict[str, PodLogs] = {}
        self._left = by.settings.job_bytes
        self._left_out: list[str] = []

    async def send(self) -> None:
        """Send everything, and say that it was."""
        await self._send_texts()
        queue = in_order_of_failing(self.seating.seats)
        many = len(queue) > _MANY
        await self._send_logs(queue[:_FIRST], self._by.settings.pod_bytes)
        if many:
            await self._by.service.complete(self._incident, self._facts(), in_part=True)
        await self._send_logs(queue[_FIRST:_LONG], self._by.settings.pod_bytes)
        await self._send_logs(queue[_LONG:], self._least_of(len(queue)))
        for each in self._earlier:
            await self._send_log(each, self._by.gatherer.held(each.uid) or PodLogs())
        missing = not_collected([*queue, *self._earlier], self._fetched, self._left_out)
        if missing:
            await self._put("not-collected.txt", gzip.compress(missing))
        await self._by.service.complete(self._incident, self._facts())

    def _facts(self) -> dict[str, object]:
        return told_of(self._workload, self._attempt, self._ending, self.seating)

    def _least_of(self, pods: int) -> int:
        """Bytes of logs that are kept of each of many pods."""
        settings = self._by.settings
        return min(settings.pod_bytes, max(64 << 10, _PACKING * settings.job_bytes // max(1, pods)))

    async def _send_texts(self) -> None:
        cluster, gatherer, workload, seats = self._by.cluster, self._by.gatherer, self._workload, self.seating.seats
        family, pods = cluster.family(workload), [each.pod for each in in_order_of_failing(seats)]
        names = {(each.kind.called[1], each.name) for each in family}
        names |= {("Pod", str(pod["metadata"]["name"])) for pod in pods}
        nodes = list(dict.fromkeys([*self.seating.nodes, *(each.node for each in seats if each.node)]))
        events = await gatherer.events(workload.namespace, names) + await gatherer.node_events(nodes)
        found, gone = await gatherer.nodes(nodes)
        took = {each.node for each in seats if was_taken(each.pod, cluster.is_gone(each.uid))}
        spoken = [(each.kind.called[1], each.item) for each in speaking(family)]
        texts: dict[str, Callable[[], bytes]] = {
            "events.txt": lambda: list_events(events, names_apart(seats)),
            "pods-describe.txt": lambda: describe_pods(pods, held(seats), replaced(seats), names_apart(seats)),
            "nodes-describe.txt": lambda: describe_nodes(found, gone, took),
            "workload-describe.txt": lambda: describe_workload(spoken),
            "launcher.message.log": lambda: quote_log(spoken),
        }
        for name, write in texts.items():
            try:
                text = write()
            except Exception:  # a kind may hold anything
                log.exception("%s: cannot write %s", self._workload.title, name)
                continue
            if text:
                await self._put(name, gzip.compress(text))

    async def _send_logs(self, seats: Sequence[Seat], budget: int) -> None:
        """Fetch and send the logs of pods, several at a time, in this order; what was sent is let go of."""
        waiting = iter(seats)

        async def work() -> None:
            for each in waiting:
                try:
                    await self._send_log(each, await self._by.gatherer.logs(each.pod, budget, urgent=True))
                except Exception:  # its status may hold anything
                    log.exception("%s: cannot send the logs of %s", self._workload.title, each.name)
                    self._fetched[each.uid] = PodLogs(missing={("of any name", 0): "its status cannot be read"})

        tasks = [asyncio.create_task(work()) for _ in range(min(AT_ONCE, len(seats)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _send_log(self, seat: Seat, got: PodLogs) -> None:
        self._fetched[seat.uid] = PodLogs(missing=got.missing)
        for name, packed in self._naming.files(seat, got):
            self._left -= len(packed)
            if self._left < 0:
                self._left_out.append(seat.name)
                log.warning("%s: more logs than --job-bytes; those of %s are left out", self._workload.title, seat.name)
                break
            await self._put(name, packed)
        self._by.gatherer.drop([seat.uid])
        self._by.figures.held.set(self._by.gatherer.held_bytes)

    async def _put(self, name: str, packed: bytes) -> None:
        try:
            await self._by.service.send_log(self._incident, name, packed)
        except RefusedError as error:
            self._by.figures.refused.inc()
            log.warning("the service does not take %s: %s", name, error)
