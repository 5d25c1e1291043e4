"""A worker that dies or hangs fails its own work and no other."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.workers import WorkerCrashedError, Workers, WorkerTimeoutError
from tests.bot import hostile

HERE = Path()


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    workers = Workers(1)
    yield workers
    await workers.close()


async def test_a_crash_is_an_error_and_the_next_work_succeeds(workers: Workers) -> None:
    with pytest.raises(WorkerCrashedError):
        await workers.run(60, hostile.die, HERE)
    assert await workers.run(60, hostile.double, 21) == 42


async def test_what_hangs_is_killed_and_the_next_work_succeeds(workers: Workers) -> None:
    pid = await workers.run(60, os.getpid)
    with pytest.raises(WorkerTimeoutError):
        await workers.run(0.5, hostile.hang, HERE)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert await workers.run(60, hostile.double, 21) == 42


async def test_an_exception_of_the_work_comes_through_and_the_process_stays(workers: Workers) -> None:
    pid = await workers.run(60, os.getpid)
    with pytest.raises(KeyError):
        await workers.run(60, hostile.fail, Path("/a/case"))
    assert await workers.run(60, os.getpid) == pid


async def test_a_preparation_that_fails_says_why() -> None:
    workers = Workers(1, hostile.fail_to_begin)
    await workers.warm_up()
    with pytest.raises(RuntimeError, match="the catalogue is damaged"):
        await workers.run(60, hostile.double, 21)
    await workers.close()


async def test_one_process_does_one_thing_at_a_time() -> None:
    workers = Workers(2)
    pids = await asyncio.gather(*(workers.run(60, os.getpid) for _ in range(6)))
    assert len(set(pids)) <= 2
    await workers.close()


def test_workers_end_when_their_service_is_killed() -> None:
    program = (
        "import asyncio, os, signal\n"
        "from bot.workers import Workers\n"
        "async def main():\n"
        "    print(await Workers(1).run(60, os.getpid), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    # The worker shares the service's standard output, which ends only when both have.
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert int(ended.stdout) > 0
