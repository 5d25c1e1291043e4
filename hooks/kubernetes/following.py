"""List, then watch: every change of one collection, once, whatever the server does meanwhile."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from hooks.kubernetes.api import Api, ApiError, Object
from hooks.kubernetes.kinds import inside, number
from hooks.kubernetes.nesting import loads

log = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds
_ABSENT_PAUSE = 300.0  # seconds after which a collection that is not there, or not ours to read, is tried again
_REFUSAL_PATIENCE = 60.0  # seconds for which what was readable may be refused before it counts as unreadable
_HASTY = 1.0  # seconds; a server that ends a watch sooner is not asked again at once


@dataclass(frozen=True, slots=True)
class Change:
    """One object as it is now. Of one that is `gone`, no more than the metadata may be known."""

    item: Object
    gone: bool = False


@dataclass
class Collection:
    """All objects of one kind, followed. `path` is the collection's, such as /apis/batch/v1/jobs."""

    api: Api
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    watch_seconds: int = 120  # after which the server ends a watch, and we go on
    absent_pause: float = _ABSENT_PAUSE
    first_pause: float = _FIRST_PAUSE
    listed: asyncio.Event = field(default_factory=asyncio.Event)  # once the first list is through, or refused
    on_access: Callable[[ApiError | None], None] = lambda _: None  # told when it is refused, and when it is read
    refusal_patience: float = _REFUSAL_PATIENCE
    relists: int = 0
    _was_read: bool = False
    _refused_since: float | None = None
    _known: dict[str, Object] = field(default_factory=dict)  # by uid
    _version: str = ""

    async def changes(self) -> AsyncGenerator[Change, None]:
        """Yield changes for ever: first all that exists, then what happens. Ends by cancellation alone."""
        failures = 0
        while True:
            began = time.monotonic()
            try:
                if not self._version:
                    async with aclosing(self._list()) as found:
                        async for change in found:
                            yield change
                    self._refused_since = None
                    self._was_read = True
                    self.on_access(None)
                    self.listed.set()
                async with aclosing(self._watch()) as seen:
                    async for change in seen:
                        failures = 0
                        yield change
                if time.monotonic() - began < _HASTY:
                    await asyncio.sleep(self.first_pause)
                failures = 0
            except ApiError as error:
                if error.expired:
                    log.info("%s: what happened since is no longer kept; listing anew", self.path)
                    self._version = ""
                    if time.monotonic() - began < _HASTY:
                        await asyncio.sleep(self.first_pause)
                    continue
                failures += 1
                await asyncio.sleep(self._pause(error, failures))

    def _pause(self, error: ApiError, failures: int) -> float:
        longest = _LONGEST_PAUSE
        level = logging.WARNING
        if error.refused:
            longest = self.absent_pause
            self._note_refusal(error)
            level = logging.WARNING if failures == 1 else logging.DEBUG
        pause: float = min(longest, self.first_pause * 2 ** min(failures - 1, 10))
        pause *= random.uniform(0.5, 1.0)  # noqa: S311 - many watchers must not come back in step
        log.log(level, "%s: %s; going on in %.1f s", self.path, error, pause)
        return pause

    def _note_refusal(self, error: ApiError) -> None:
        """A server that starts refuses for a moment, too: what was read before is not given up at once."""
        now = time.monotonic()
        self._refused_since = self._refused_since or now
        if not self._was_read or now - self._refused_since > self.refusal_patience:
            self.on_access(error)
        self._version = ""
        self.listed.set()  # nobody need wait for it

    async def _list(self) -> AsyncGenerator[Change, None]:
        """Compare what is there with what was known: a watch that lost its place misses nothing but the way."""
        items, version = await self.api.list(self.path, self.query)
        self.relists += 1
        there = {uid: item for item in items if (uid := _uid(item))}
        for uid in self._known.keys() - there.keys():
            yield Change(self._known.pop(uid), gone=True)
        for item in there.values():
            if self._is_news(item):
                yield Change(item)
        self._version = version

    async def _watch(self) -> AsyncGenerator[Change, None]:
        query = {
            **self.query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(self.watch_seconds),
        }
        lines = self.api.lines(self.path, query, idle_seconds=self.watch_seconds + 30)
        async with aclosing(lines):
            async for line in lines:
                if line.strip():
                    change = self._read(line)
                    if change:
                        yield change

    def _read(self, line: bytes) -> Change | None:
        try:
            event = loads(line)
            kind, item = event["type"], event["object"]
            if not isinstance(item, dict):
                raise TypeError("an object was expected")
        except (ValueError, KeyError, TypeError) as error:
            self._version = ""  # from here it would come again
            raise ApiError(0, f"{self.path}: an event of the watch cannot be read") from error
        if kind == "ERROR":
            raise ApiError(number(item.get("code"), 0), str(item.get("message") or "the watch failed"))
        version = _version(item)
        change = None
        if kind == "DELETED":
            self._known.pop(_uid(item), None)
            change = Change(item, gone=True)
        elif kind in ("ADDED", "MODIFIED") and self._is_news(item):
            change = Change(item)
        self._version = version or self._version
        return change

    def _is_news(self, item: Object) -> bool:
        known = self._known.get(_uid(item))
        if not _uid(item):
            return False
        if known is not None and _version(known) == _version(item):
            return False
        # Who wrote which field is half of an object's size and nothing to us.
        item["metadata"].pop("managedFields", None)
        self._known[_uid(item)] = _card(item)
        return True


def _card(item: Object) -> Object:
    """What is kept of an object to compare it: a large cluster has many."""
    metadata = item["metadata"]
    return {"metadata": {key: metadata.get(key) for key in ("uid", "namespace", "name", "resourceVersion")}}


def _uid(item: Object) -> str:
    return str(inside(item, "metadata", "uid") or "")


def _version(item: Object) -> str:
    return str(inside(item, "metadata", "resourceVersion") or "")
