"""A small API server that keeps the promises of the real one's list and watch. The same tests run on both."""

from __future__ import annotations

import asyncio
import copy
import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

Object = dict[str, Any]
Place = tuple[str, str, str]  # group, version, plural

ADMIN = "test-admin-token"
"""The token of who may do everything."""
_PIECE = 256 << 10
_NOT_NAMESPACED = {"nodes", "customresourcedefinitions"}
_BUILT_IN: dict[Place, str] = {
    ("", "v1", "pods"): "Pod",
    ("", "v1", "events"): "Event",
    ("", "v1", "nodes"): "Node",
    ("", "v1", "namespaces"): "Namespace",
    ("batch", "v1", "jobs"): "Job",
    ("coordination.k8s.io", "v1", "leases"): "Lease",
}


def merge(into: Any, patch: Any) -> Any:
    """Apply a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(into) if isinstance(into, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


@dataclass
class Store:
    """What etcd would hold: the objects, and the history of changes since the last compaction."""

    kinds: dict[Place, str] = field(default_factory=lambda: dict(_BUILT_IN))
    objects: dict[Place, dict[tuple[str, str], Object]] = field(default_factory=dict)
    history: list[tuple[int, Place, str, Object]] = field(default_factory=list)
    logs: dict[tuple[str, str, str, bool], bytes] = field(default_factory=dict)
    breaks: dict[str, int] = field(default_factory=dict)  # pod → bytes after which the connection breaks
    expiring_pages: int = 0  # so many second pages are refused
    garbage: int = 0  # so many events are sent as something else
    forbidden: set[Place] = field(default_factory=set)
    version: int = 100
    compacted: int = 0

    def write(self, place: Place, what: str, item: Object) -> Object:
        """Store a change under the next version."""
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        key = (item["metadata"].get("namespace", ""), item["metadata"]["name"])
        if what == "DELETED":
            self.objects[place].pop(key, None)
        else:
            self.objects.setdefault(place, {})[key] = item
        self.history.append((self.version, place, what, copy.deepcopy(item)))
        return item

    def compact(self) -> None:
        """Forget the history, as etcd does every few minutes."""
        self.history.clear()
        self.compacted = self.version


class StubApi:
    """Serves a Store on loopback. `stop` breaks every connection, `start` goes on at the same port."""

    def __init__(self) -> None:
        self.store = Store()
        self.port = 0
        self.logs_read: list[str] = []  # the pods, in the order of being asked for
        self.open_for_logs = asyncio.Event()  # while it is not set, kubelets are waited for
        self.open_for_logs.set()
        self.most_logs_at_once = self._logs_at_once = 0
        self._cache: dict[tuple[int, int, bool], bytes] = {}
        self.requests: list[str] = []  # "GET /api/v1/pods?watch"
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Begin to serve."""
        app = web.Application(client_max_size=8 << 20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    async def stop(self) -> None:
        """Die."""
        if self._runner:
            for connection in list(self._runner.server.connections if self._runner.server else ()):
                if connection.transport:
                    connection.transport.abort()
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}" + ("?watch" if "watch" in request.query else ""))
        parts = request.path.strip("/").split("/")
        if parts[0] == "api" and len(parts) >= 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) >= 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return _status(404, "NotFound", "no such path")
        if not rest:
            return self._resources(group, version)
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        place = (group, version, rest[0])
        if place not in self.store.kinds:
            return _status(404, "NotFound", "the server could not find the requested resource")
        if place in self.store.forbidden and not request.headers.get("Authorization", "").endswith(ADMIN):
            return _status(403, "Forbidden", f"{place[2]} is forbidden: User cannot list resource in API group {group}")
        if len(rest) == 1:
            return await self._collection(request, place, namespace)
        if len(rest) == 3 and rest[2] == "log":
            return await self._log(request, namespace, rest[1])
        return await self._one(request, place, namespace, rest[1])

    def _resources(self, group: str, version: str) -> web.Response:
        found = [
            {"name": place[2], "kind": kind, "namespaced": place[2] not in _NOT_NAMESPACED}
            for place, kind in self.store.kinds.items()
            if place[:2] == (group, version)
        ]
        if not found:
            return _status(404, "NotFound", "the server could not find the requested resource")
        return web.json_response({"kind": "APIResourceList", "resources": found})

    async def _collection(self, request: web.Request, place: Place, namespace: str) -> web.StreamResponse:
        if request.method == "POST":
            return await self._create(request, place, namespace)
        if request.query.get("watch") in ("true", "1", "True"):
            return await self._watch(request, place, namespace)
        found = [
            item for item in self.store.objects.get(place, {}).values() if _selected(item, namespace, request.query)
        ]
        start, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or 0)
        if start and self.store.expiring_pages:
            self.store.expiring_pages -= 1
            return _status(410, "Expired", "The provided continue parameter is too old")
        page = found[start : start + limit] if limit else found
        metadata = {"resourceVersion": str(self.store.version)}
        if limit and start + limit < len(found):
            metadata["continue"] = str(start + limit)
        return web.json_response({"kind": f"{self.store.kinds[place]}List", "metadata": metadata, "items": page})

    async def _create(self, request: web.Request, place: Place, namespace: str) -> web.Response:
        item = await request.json()
        metadata = item.setdefault("metadata", {})
        key = (namespace, metadata["name"])
        if key in self.store.objects.get(place, {}):
            return _status(409, "AlreadyExists", f"{metadata['name']} already exists")
        group, version, _ = place
        item.update(apiVersion=f"{group}/{version}" if group else version, kind=self.store.kinds[place])
        metadata.update(uid=str(uuid.uuid4()), creationTimestamp=_now(), namespace=namespace)
        if place[2] not in ("events", "leases", "nodes"):
            item.pop("status", None)
        if place == ("", "v1", "pods"):
            item["status"] = {"phase": "Pending"}
        stored = self.store.write(place, "ADDED", item)
        self._tell()
        return web.json_response(stored, status=201)

    async def _one(self, request: web.Request, place: Place, namespace: str, name: str) -> web.Response:
        known = self.store.objects.get(place, {}).get((namespace, name))
        if known is None:
            return _status(404, "NotFound", f"{name} not found")
        if request.method == "GET":
            return web.json_response(known)
        item = copy.deepcopy(known)
        if request.method == "DELETE":
            return self._delete(request, place, item)
        body = await request.json()
        if request.method == "PATCH":
            item = merge(item, body)
        else:
            if body["metadata"].get("resourceVersion") not in (None, known["metadata"]["resourceVersion"]):
                return _status(409, "Conflict", "the object has been modified; please apply your changes")
            item = {**body, "metadata": {**known["metadata"], **body["metadata"]}}
        let_go = known["metadata"].get("finalizers") and not item["metadata"].get("finalizers")
        gone = let_go and "deletionTimestamp" in item["metadata"]
        stored = self.store.write(place, "DELETED" if gone else "MODIFIED", item)
        self._tell()
        return web.json_response(stored)

    def _delete(self, request: web.Request, place: Place, item: Object) -> web.Response:
        grace = int(request.query.get("gracePeriodSeconds", 30 if place[2] == "pods" else 0))
        if item["metadata"].get("finalizers") or (grace and item.get("spec", {}).get("nodeName")):
            item["metadata"].update(deletionTimestamp=_now(grace), deletionGracePeriodSeconds=grace)
            stored = self.store.write(place, "MODIFIED", item)
        else:
            stored = self.store.write(place, "DELETED", item)
        self._tell()
        return web.json_response(stored)

    async def _log(self, request: web.Request, namespace: str, pod: str) -> web.StreamResponse:
        query = request.query
        previous = query.get("previous") == "true"
        text = self.store.logs.get((namespace, pod, query.get("container", ""), previous))
        if text is None or (namespace, pod) not in self.store.objects.get(("", "v1", "pods"), {}):
            return _status(400, "BadRequest", f'container "{query.get("container")}" in pod "{pod}" is not available')
        self.logs_read.append(pod)
        self._logs_at_once += 1
        self.most_logs_at_once = max(self.most_logs_at_once, self._logs_at_once)
        try:
            await self.open_for_logs.wait()
            response = web.StreamResponse(headers={"Content-Type": "text/plain"})
            await response.prepare(request)
            body = self._stamped(text, int(query.get("tailLines") or 1 << 30), query.get("timestamps") == "true")
            for start in range(0, len(body), _PIECE):
                if start >= self.store.breaks.get(pod, len(body)):
                    assert request.transport is not None
                    request.transport.abort()  # the pod is gone, or its node
                    break
                await response.write(body[start : start + _PIECE])
            return response
        finally:
            self._logs_at_once -= 1

    def _stamped(self, text: bytes, lines: int, timestamps: bool) -> bytes:
        key = (id(text), lines, timestamps)
        if key not in self._cache:
            stamp = b"2026-11-05T03:12:07.123456789Z " if timestamps else b""
            body = b"".join(stamp + line for line in text.splitlines(keepends=True)[-lines:])
            if len(text) < _PIECE:
                return body
            self._cache[key] = body
        return self._cache[key]

    async def _watch(self, request: web.Request, place: Place, namespace: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        since = int(request.query.get("resourceVersion") or 0)
        deadline = asyncio.get_running_loop().time() + float(request.query.get("timeoutSeconds") or 300)
        if since < self.store.compacted:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": f"too old resource version: {since}"}
            await _event(response, "ERROR", gone)
            return response
        while True:
            changed = self._changed
            for version, where, what, item in list(self.store.history):
                if version > since and where == place and _selected(item, namespace, request.query):
                    if self.store.garbage:
                        self.store.garbage -= 1
                        await response.write(b'{"type": "MODIFIED", "obj\n')
                        continue
                    await _event(response, what, item)
            since = self.store.version
            if request.query.get("allowWatchBookmarks") == "true":
                mark = {"kind": self.store.kinds[place], "metadata": {"resourceVersion": str(since)}}
                await _event(response, "BOOKMARK", mark)
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return response
            try:
                async with asyncio.timeout(left):
                    await changed.wait()
            except TimeoutError:
                return response

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


async def _event(response: web.StreamResponse, what: str, item: Object) -> None:
    await response.write(json.dumps({"type": what, "object": item}).encode() + b"\n")


def _selected(item: Object, namespace: str, query: Any) -> bool:
    metadata = item["metadata"]
    if namespace and metadata.get("namespace") != namespace:
        return False
    labels = metadata.get("labels") or {}
    for term in filter(None, query.get("labelSelector", "").split(",")):
        key, equals, value = term.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    for term in filter(None, query.get("fieldSelector", "").split(",")):
        path, _, value = term.partition("=")
        found: Any = item
        for key in path.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        if found != value:
            return False
    return True


def _status(code: int, reason: str, message: str) -> web.Response:
    document = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(document, status=code)


def _now(later: int = 0) -> str:
    moment = datetime.fromtimestamp(datetime.now(UTC).timestamp() + later, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
