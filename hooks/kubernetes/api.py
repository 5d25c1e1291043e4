"""The Kubernetes API, as far as the watcher needs it: plain requests, with the library's credentials."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp

from hooks.kubernetes.nesting import loads

if TYPE_CHECKING:
    from pathlib import Path

Object = dict[str, Any]
"""An object of the API, as its JSON."""

_SECONDS = 30.0
_PAGE = 500  # objects a request
_PIECE = 64 << 10  # bytes of a stream at a time
LONGEST = 16 << 20
"""Bytes of one watch event at most; no object of the API is larger than a few MiB."""


class ApiError(Exception):
    """The API said no, or could not be reached. `status` is 0 where there was no answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}" if status else reason)
        self.status = status

    @property
    def expired(self) -> bool:
        """Whether the resource version asked for is no longer kept."""
        return self.status == 410

    @property
    def refused(self) -> bool:
        """Whether the watcher may not do this, or this is not there: asking again and again is of no use."""
        return self.status in (403, 404, 405)


class Page(NamedTuple):
    """Some objects of a collection, and the version of it that they are of."""

    items: Sequence[Object]
    version: str


class Api:
    """One connection pool to one API server. Use `connect`, and close it in the end."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @classmethod
    async def connect(cls, kubeconfig: Path | None = None, context: str | None = None) -> Api:
        """Connect as the pod's service account or, outside a cluster or with `kubeconfig`, as kubectl would.

        Raises ApiError where there are no credentials.
        """
        # The library loads its 600 models with the first import, which only this program should pay for.
        from kubernetes_asyncio import client, config

        configuration = client.Configuration()
        try:
            if kubeconfig is None and context is None:
                try:
                    config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
                except config.ConfigException:
                    await config.load_kube_config(client_configuration=configuration)
            else:
                await config.load_kube_config(
                    config_file=str(kubeconfig) if kubeconfig else None,
                    context=context,
                    client_configuration=configuration,
                )
        except (config.ConfigException, OSError) as error:
            raise ApiError(
                0, f"no way into a cluster: {error}. Run in a pod with a service account, or give --kubeconfig FILE"
            ) from error
        return cls(client.ApiClient(configuration))

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def get(self, path: str, query: Mapping[str, str | int] | None = None) -> Object:
        """Return one object. Raises ApiError."""
        return await self._json("GET", path, query)

    async def send(self, method: str, path: str, body: Object) -> Object:
        """Create (POST) or replace (PUT) an object and return it as stored. Raises ApiError."""
        return await self._json(method, path, None, body)

    async def list(self, path: str, query: Mapping[str, str | int] | None = None) -> tuple[list[Object], str]:
        """Return all objects of a collection and its resource version. Raises ApiError."""
        found: list[Object] = []
        version = ""
        async for page in self.pages(path, query):
            found.extend(page.items)
            version = page.version
        return found, version

    async def pages(self, path: str, query: Mapping[str, str | int] | None = None) -> AsyncGenerator[Page, None]:
        """Yield the objects of a collection page by page. Raises ApiError."""
        asked: dict[str, str | int] = {**(query or {}), "limit": _PAGE}
        while True:
            page = await self.get(path, asked)
            metadata = page.get("metadata") or {}
            yield Page(page.get("items") or (), str(metadata.get("resourceVersion", "")))
            if not metadata.get("continue"):
                return
            asked["continue"] = metadata["continue"]

    async def lines(
        self, path: str, query: Mapping[str, str | int], idle_seconds: float = _SECONDS
    ) -> AsyncGenerator[bytes, None]:
        """Yield the lines of an answer as they come. Raises ApiError, also when it breaks off or is silent too long."""
        rest = b""
        async for piece in self.stream(path, query, idle_seconds):
            rest += piece
            *whole, rest = rest.split(b"\n")
            for line in whole:
                yield line
            if len(rest) > LONGEST:
                raise ApiError(0, f"{path} sent a line of more than {LONGEST} bytes")
        if rest:
            yield rest

    async def stream(
        self, path: str, query: Mapping[str, str | int], idle_seconds: float = _SECONDS
    ) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of an answer as they come. Raises ApiError as `lines` does."""
        try:
            response = await self._request("GET", path, query, None, idle_seconds)
            async with response:
                if response.status >= 400:
                    raise ApiError(response.status, _reason(await response.content.read(_PIECE)))
                async for piece in response.content.iter_chunked(_PIECE):
                    yield piece
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiError(0, f"{path}: {error or type(error).__name__}") from error

    async def _json(
        self, method: str, path: str, query: Mapping[str, str | int] | None, body: Object | None = None
    ) -> Object:
        try:
            response = await self._request(method, path, query, body, _SECONDS)
            async with response:
                content = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiError(0, f"{path}: {error or type(error).__name__}") from error
        if response.status >= 400:
            raise ApiError(response.status, _reason(content))
        try:
            document = loads(content)
        except ValueError as error:
            raise ApiError(0, f"{path}: the answer is not JSON") from error
        if not isinstance(document, dict):
            raise ApiError(0, f"{path}: the answer is no object")
        return document

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None,
        body: Object | None,
        idle_seconds: float,
    ) -> aiohttp.ClientResponse:
        response: aiohttp.ClientResponse = await self._client.call_api(
            path, method, query_params=list((query or {}).items()), body=body,
            header_params={"Accept": "application/json", "Content-Type": "application/json"},
            auth_settings=["BearerToken"], _preload_content=False,
            _request_timeout=aiohttp.ClientTimeout(total=None, connect=10, sock_connect=10, sock_read=idle_seconds),
        )  # fmt: skip
        return response


def _reason(content: bytes) -> str:
    """What a Status object, or any other answer, says of an error."""
    try:
        told = json.loads(content)
        return str(told.get("message") or told.get("reason") or "no reason given")[:500]
    except (ValueError, AttributeError):
        return content[:200].decode("utf-8", "replace").strip() or "no reason given"
