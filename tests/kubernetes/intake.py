"""The service's side of the wire, which remembers what it was sent."""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from knowledge import Diagnosis, diagnose
from knowledge.job import JobFacts

TOKEN = "test-token-of-a-cluster-not-a-secret"


@dataclass
class Incident:
    """What was told of one job's attempt."""

    job: dict[str, Any]
    logs: dict[str, str] = field(default_factory=dict)
    completions: int = 0
    in_part: list[str] = field(default_factory=list)  # the logs that were there when it was told in part

    def diagnose(self, folder: Path) -> Diagnosis:
        """What the service would make of it."""
        for name, text in self.logs.items():
            path = folder / "logs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        (folder / "job.json").write_text(json.dumps(self.job), "utf-8")
        return diagnose([folder])


class Intake:
    """Answers as docs/architecture.md says."""

    def __init__(self) -> None:
        self.incidents: dict[str, Incident] = {}
        self.packed_bytes = 0
        self.open_for_logs = asyncio.Event()  # while it is not set, logs are waited for in vain
        self.open_for_logs.set()
        self.logs_asked = 0
        self.failing = 0  # so many requests are answered with 500
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Begin to serve on loopback."""
        app = web.Application(client_max_size=64 << 20)
        one = "/v1/incidents/{id}"
        app.add_routes(
            [
                web.post("/v1/incidents", self._open),
                web.get(one, self._show),
                web.put(one + "/logs/{name:.+}", self._log),
                web.post(one + "/complete", self._complete),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[union-attr]

    async def stop(self) -> None:
        """End."""
        if self._runner:
            await self._runner.cleanup()

    async def told(
        self, name: str, seconds: float = 20, attempt: int = 0, state: str | None = None, uid: str = ""
    ) -> Incident:
        """The incident of a job by its name, once it is complete. Fails the test after `seconds`."""
        until = asyncio.get_running_loop().time() + seconds
        while True:
            for each in self.incidents.values():
                known = each.job.get("name") == name and each.job.get("attempt") == attempt
                known = known and each.job["job_id"].endswith(uid[:8])
                if known and each.completions and state in (None, each.job.get("state")):
                    return each
            assert asyncio.get_running_loop().time() < until, f"nothing was told of {name}: {self.incidents}"
            await asyncio.sleep(0.02)

    def names(self) -> list[str]:
        """The jobs that were told of."""
        return [each.job["name"] for each in self.incidents.values()]

    def _check(self, request: web.Request) -> None:
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        if self.failing:
            self.failing -= 1
            raise web.HTTPInternalServerError

    async def _open(self, request: web.Request) -> web.Response:
        self._check(request)
        body = await request.json()
        JobFacts.model_validate(body["job"])
        assert (body["schema"], body["scheduler"], body["role"]) == (1, "kubernetes", "node")
        key = f"{body['job_id']}/{body['attempt']}".replace("/", "-").replace(":", "-")
        self.incidents.setdefault(key, Incident(body["job"])).job.update(body["job"])
        return web.json_response({"id": key, "url": f"/v1/incidents/{key}"}, status=202)

    async def _show(self, request: web.Request) -> web.Response:
        self._check(request)
        found = self.incidents[request.match_info["id"]]
        reports = [{"reporter": "x", "role": "node", "completed_at": "now" if found.completions else None}]
        # What is told here is what was stored, state included.
        return web.json_response({"id": request.match_info["id"], "job": found.job, "reports": reports})

    async def _log(self, request: web.Request) -> web.Response:
        self._check(request)
        self.logs_asked += 1
        await self.open_for_logs.wait()
        content = await request.read()  # the server has unpacked it
        self.packed_bytes += request.content_length or 0
        packed = content[:2] == b"\x1f\x8b"
        text = (gzip.decompress(content) if packed else content).decode("utf-8", "replace")
        self.incidents[request.match_info["id"]].logs[request.match_info["name"]] = text
        return web.json_response({"sha256": "", "bytes": len(text)}, status=202)

    async def _complete(self, request: web.Request) -> web.Response:
        self._check(request)
        body = await request.json()
        found = self.incidents[request.match_info["id"]]
        JobFacts.model_validate(body["job"])
        found.job.update(body["job"])
        if body["role"] == "node":
            found.completions += 1
        else:
            found.in_part = list(found.logs)
        return web.json_response({"id": request.match_info["id"]}, status=202)
