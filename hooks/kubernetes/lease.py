"""One watcher at a time: the right to work is a Lease, held as long as it is renewed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime

from hooks.kubernetes.api import Api, ApiError, Object

log = logging.getLogger(__name__)


class Lease:
    """A Lease object. Times of others are never compared with our clock, only whether they change."""

    def __init__(self, api: Api, namespace: str, name: str, identity: str, seconds: float = 15.0) -> None:
        self._api = api
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._identity = identity
        self._seconds = seconds
        self._seen: tuple[str, float] = ("", 0.0)  # the version last seen, and when
        self.held = False

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` whenever this one leads, and stop it when the lease is lost. Ends when `work` does, or by cancellation."""
        while True:
            await self._acquire()
            log.info("leading as %s", self._identity)
            working = asyncio.ensure_future(work())
            renewing = asyncio.ensure_future(self._renew())
            try:
                await asyncio.wait((working, renewing), return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    return working.result()
                log.warning("the lease is lost; waiting to lead again")
            finally:
                renewing.cancel()
                working.cancel()
                with suppress(asyncio.CancelledError):
                    await asyncio.gather(renewing, working, return_exceptions=True)
                if self.held:
                    await self._release()

    async def _acquire(self) -> None:
        while True:
            if await self._try():
                self.held = True
                return
            await asyncio.sleep(self._seconds / 5)

    async def _renew(self) -> None:
        """Return when the lease may be another's: well before anybody else may take it."""
        good_until = time.monotonic() + self._seconds * 2 / 3
        while time.monotonic() < good_until:
            await asyncio.sleep(self._seconds / 5)
            asked = time.monotonic()
            try:
                async with asyncio.timeout(self._seconds / 3):
                    outcome = await self._try()
            except TimeoutError:
                continue
            if outcome:
                good_until = asked + self._seconds * 2 / 3
            elif outcome is False:
                break
        self.held = False

    async def _try(self) -> bool | None:
        """Take or renew: True it is ours, False it is another's, None nobody can tell."""
        try:
            try:
                lease = await self._api.get(f"{self._collection}/{self._name}")
            except ApiError as error:
                if error.status != 404:
                    raise
                body = {
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": self._name}, "spec": self._spec(0),
                }  # fmt: skip
                await self._api.send("POST", self._collection, body)
                return True
            spec = lease.get("spec") or {}
            holder = spec.get("holderIdentity") or ""
            if holder not in ("", self._identity) and not self._is_stale(lease):
                return False
            changes = int(spec.get("leaseTransitions") or 0) + (holder != self._identity)
            lease["spec"] = {**spec, **self._spec(changes, spec if holder == self._identity else None)}
            await self._api.send("PUT", f"{self._collection}/{self._name}", lease)
            return True
        except ApiError as error:
            if error.status == 409:
                return None  # somebody wrote at the same time; the next look tells who
            log.warning("lease: %s", error)
            return None

    def _is_stale(self, lease: Object) -> bool:
        version = str(lease["metadata"].get("resourceVersion"))
        now = time.monotonic()
        if version != self._seen[0]:
            self._seen = (version, now)
            return False
        return now - self._seen[1] > float((lease.get("spec") or {}).get("leaseDurationSeconds") or self._seconds)

    def _spec(self, transitions: int, held: Object | None = None) -> Object:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._seconds)),
            "acquireTime": (held or {}).get("acquireTime") or now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def _release(self) -> None:
        """Let another begin at once."""
        self.held = False
        with suppress(ApiError):
            lease = await self._api.get(f"{self._collection}/{self._name}")
            if (lease.get("spec") or {}).get("holderIdentity") == self._identity:
                lease["spec"]["holderIdentity"] = ""
                await self._api.send("PUT", f"{self._collection}/{self._name}", lease)
