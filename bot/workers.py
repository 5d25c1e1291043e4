"""Worker processes: what is slow or may crash runs there, never on the event loop."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

_WARM_UP_SECONDS = 60.0

P = ParamSpec("P")
T = TypeVar("T")


class WorkerCrashedError(Exception):
    """The process died under the work: killed, out of memory, or a fault in native code."""


class WorkerTimeoutError(Exception):
    """The work took too long and was killed."""


class Workers:
    """A few warm processes, one piece of work each. One that dies or hangs is replaced and takes no other with it.

    `prepare` runs in each process before its first work, which it fails where it raises. It and all work must be
    picklable functions.
    """

    def __init__(self, count: int, prepare: Callable[[], None] | None = None) -> None:
        self._prepare = prepare
        self._workers = [_Worker(prepare) for _ in range(count)]
        self._idle: asyncio.LifoQueue[_Worker] = asyncio.LifoQueue()
        for worker in self._workers:
            self._idle.put_nowait(worker)

    async def run(self, timeout: float, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:  # noqa: ASYNC109
        """Return what `work` returns, waiting at most `timeout` seconds once a process is free.

        Raises:
            WorkerCrashedError, WorkerTimeoutError: see there.
            Exception: whatever `work` raises.
        """
        worker = await self._idle.get()
        try:
            return await worker.run(timeout, work, *args, **kwargs)
        finally:
            self._idle.put_nowait(worker)

    async def warm_up(self) -> None:
        """Start one process now, so that the first work need not wait; the others start when there is much to do."""
        with suppress(Exception):  # the first work will say what is wrong
            await self.run(_WARM_UP_SECONDS, os.getpid)

    async def close(self) -> None:
        """End all processes, working or not."""
        for worker in self._workers:
            await worker.close()


class _Worker:
    def __init__(self, prepare: Callable[[], None] | None) -> None:
        self._prepare = prepare
        self._executor: ProcessPoolExecutor | None = None
        self._pid = 0
        self._prepared = False

    async def run(
        self,
        timeout: float,  # noqa: ASYNC109
        work: Callable[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                executor = await self._started()
                return await loop.run_in_executor(executor, partial(work, *args, **kwargs))
        except BrokenProcessPool as error:
            await self.close()
            raise WorkerCrashedError("the worker process died") from error
        except TimeoutError as error:
            await self.close()
            raise WorkerTimeoutError(f"no result within {timeout:g} s") from error
        except asyncio.CancelledError:
            await self.close()
            raise

    async def _started(self) -> ProcessPoolExecutor:
        if self._executor is None:
            self._executor = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_begin)
            loop = asyncio.get_running_loop()
            self._pid = await loop.run_in_executor(self._executor, os.getpid)
            self._prepared = False
        if not self._prepared and self._prepare is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._prepare)
        self._prepared = True
        return self._executor

    async def close(self) -> None:
        executor, self._executor = self._executor, None
        if executor is None:
            return
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        self._pid = 0
        await asyncio.to_thread(executor.shutdown, wait=True, cancel_futures=True)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker waits on a pipe that it holds open itself, so it would outlive a killed service."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
