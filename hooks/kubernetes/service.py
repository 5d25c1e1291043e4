"""The service's HTTP interface, as a reporter uses it."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp

from hooks.kubernetes.settings import SettingError

log = logging.getLogger(__name__)

REPORTER = "firstfault-watcher"
"""Replicas take over from each other, so all of them are one reporter."""
ROLE = "node"
"""One reporter sends the logs of all nodes: when it is through, there is nothing to wait for."""
_IN_PART = "controller"
"""Its report says that there is something to go by, and more to come."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds
_SECONDS = 120.0


T = TypeVar("T")


class RefusedError(Exception):
    """The service will not take this, however often it is sent."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}")
        self.status = status


class Service:
    """Sends to the service until it has answered. `token` is read anew for each request, for tokens may be renewed."""

    def __init__(self, url: str, token: Callable[[], str], first_pause: float = _FIRST_PAUSE) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._first_pause = first_pause
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session:
            await self._session.close()

    async def open(self, job: Mapping[str, Any]) -> str:
        """Begin to report a failed job, and return the incident's id. Raises RefusedError."""
        document = {
            "schema": 1, "scheduler": "kubernetes", "job_id": job["job_id"], "attempt": job["attempt"],
            "reporter": REPORTER, "role": ROLE, "job": job, "expected_reporters": 1,
        }  # fmt: skip
        return await self._until_answered("POST", "/v1/incidents", lambda told: str(told["id"]), _body(document))

    async def is_told(self, incident: str, state: str) -> bool:
        """Whether all of this was sent before, perhaps by another watcher. Raises RefusedError."""

        def read(seen: dict[str, Any]) -> bool:
            complete = any(report["completed_at"] for report in seen["reports"] if report["role"] == ROLE)
            return complete and seen["job"].get("state") == state

        return await self._until_answered("GET", f"/v1/incidents/{incident}", read)

    async def send_log(self, incident: str, name: str, packed: bytes) -> None:
        """Send one log, packed with gzip. Raises RefusedError."""
        path = f"/v1/incidents/{incident}/logs/{quote(name)}"
        await self._until_answered("PUT", path, lambda told: told["sha256"], packed, {"Content-Encoding": "gzip"})

    async def complete(self, incident: str, job: Mapping[str, Any], in_part: bool = False) -> None:
        """Say that all was sent or, `in_part`, what is worth reading before the rest. Raises RefusedError."""
        document = {"reporter": REPORTER, "role": _IN_PART if in_part else ROLE, "job": job}
        path = f"/v1/incidents/{incident}/complete"
        await self._until_answered("POST", path, lambda told: told["id"], _body(document))

    async def _until_answered(
        self,
        method: str,
        path: str,
        read: Callable[[dict[str, Any]], T],
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """Ask until `read` finds in the answer what the service answers with: a proxy may answer in its place."""
        failures = 0
        while True:
            try:
                answer = await self._once(method, path, body, headers or {})
                try:
                    return read(answer)
                except (AttributeError, KeyError, TypeError) as error:
                    raise ValueError("the answer lacks what the service tells; is this its address?") from error
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError, RecursionError, SettingError) as error:
                failures += 1
                longest = min(_LONGEST_PAUSE, self._first_pause * 2 ** min(failures - 1, 10))
                pause = longest * random.uniform(0.5, 1.0)  # noqa: S311
                log.warning("service: %s %s: %s; trying again in %.0f s", method, path, error or type(error), pause)
                await asyncio.sleep(pause)

    async def _once(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> dict[str, Any]:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS, connect=10))
        sent = {"Authorization": f"Bearer {self._token()}", "Content-Type": "application/json", **headers}
        async with self._session.request(method, self._url + path, data=body, headers=sent) as response:
            content = await response.read()
            # A wrong token is put right by a person, and 404 may be a proxy's while the service moves.
            if response.status >= 500 or response.status in (401, 403, 404, 408, 429):
                raise ConnectionError(f"{response.status} {_hint(content)}")
            if response.status >= 400:
                raise RefusedError(response.status, _hint(content))
            answer = json.loads(content)
            if not isinstance(answer, dict):
                raise ValueError("the answer is no object; is this the service's address?")
            return answer


def _body(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document).encode()


def _hint(content: bytes) -> str:
    try:
        told = json.loads(content)["error"]
        return f"{told['message']} ({told['hint']})"
    except (ValueError, KeyError, TypeError):
        return content[:200].decode("utf-8", "replace").strip()
