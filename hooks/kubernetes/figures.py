"""The watcher's health and figures, over HTTP."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest


class Figures:
    """What Prometheus sees, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.told = Counter(
            "firstfault_watcher_reports", "Failed workloads told to the service", ["kind"], registry=self.registry
        )
        self.refused = Counter(
            "firstfault_watcher_refused", "Reports or logs that the service did not take", registry=self.registry
        )
        self.waiting = Gauge("firstfault_watcher_waiting", "Failed workloads still being told", registry=self.registry)
        self.held = Gauge("firstfault_watcher_held_bytes", "Packed logs held in memory", registry=self.registry)
        self.unreadable = Gauge(
            "firstfault_watcher_unreadable", "Kinds that may not be read", ["kind", "namespace"], registry=self.registry
        )
        self.leads = Gauge("firstfault_watcher_leads", "Whether this replica does the work", registry=self.registry)


async def serve(figures: Figures, ready: Callable[[], bool], host: str, port: int) -> web.AppRunner:
    """Answer /healthz, /readyz and /metrics until the runner is cleaned up. Raises OSError where the port is taken."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        return (
            web.Response(text="ok\n") if ready() else web.Response(status=503, text="the cluster is not listed yet\n")
        )

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(figures.registry), headers={"Content-Type": "text/plain; version=0.0.4"}
        )

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner
