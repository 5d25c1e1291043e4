"""Watcher and service together: what one sends, the other takes, understands and remembers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from bot.server import running
from hooks.kubernetes.service import RefusedError, Service
from hooks.kubernetes.settings import Settings
from tests.bot.conftest import TOKEN, Client, settings_in
from tests.kubernetes.conftest import World
from tests.kubernetes.contract import TRACEBACK
from tests.kubernetes.stub import StubApi


async def test_a_failed_job_is_diagnosed_and_after_a_restart_not_told_again(world: World, tmp_path: Path) -> None:
    async with running(settings_in(tmp_path / "data")) as service, aiohttp.ClientSession() as session:
        await world.watch(service=service.url, token=TOKEN)
        job = await world.lab.job("llm", 2)
        _, second = await world.lab.workers(job, 2)
        await world.server.put_log("llm-0", "pytorch", "step 1\n")
        await world.server.put_log("llm-1", "pytorch", "step 1\n" + TRACEBACK)
        await world.lab.ends(second, 1)
        await world.lab.condition(job, "Failed", "BackoffLimitExceeded")

        client = Client(session, service.url)
        me = {"scheduler": "kubernetes", "reporter": "firstfault-watcher", "role": "node"}
        incident_id = await client.open(f"train/llm:{job['metadata']['uid'][:8]}", **me)
        before = await client.incident(incident_id, _diagnosed_in_full)
        document = before["diagnosis"]["document"]
        assert (document["cause"]["id"], document["initiating"]["ranks"]) == ("app-exception", [1])
        assert document["initiating"]["hosts"] == ["gpu-n1"]
        assert len(before["reports"]) == 1

        await world.stop()
        await world.watch(service=service.url, token=TOKEN)
        await asyncio.sleep(1.5)
        after = await client.incident(incident_id)
        assert after["diagnosis"]["version"] == before["diagnosis"]["version"]
        assert after["reports"] == before["reports"]


async def test_of_a_large_job_the_service_hears_before_the_last_log_is_in(world: World, tmp_path: Path) -> None:
    async with running(settings_in(tmp_path / "data")) as service, aiohttp.ClientSession() as session:
        await world.watch(service=service.url, token=TOKEN)
        job = await world.lab.job("llm", 18)
        pods = await world.lab.workers(job, 18)
        for rank in range(18):
            await world.server.put_log(f"llm-{rank}", "pytorch", TRACEBACK if rank == 7 else "step 1\n")
        await world.lab.ends(pods[7], 1)
        await world.lab.condition(job, "Failed", "BackoffLimitExceeded")

        client = Client(session, service.url)
        me = {"scheduler": "kubernetes", "reporter": "firstfault-watcher", "role": "node"}
        incident_id = await client.open(f"train/llm:{job['metadata']['uid'][:8]}", **me)
        incident = await client.incident(incident_id, _diagnosed_in_full)
        assert {report["role"] for report in incident["reports"]} == {"controller", "node"}
        document = incident["diagnosis"]["document"]
        assert (document["cause"]["id"], document["initiating"]["ranks"]) == ("app-exception", [7])
        assert len(incident["logs"]) >= 18


def _diagnosed_in_full(incident: Any) -> bool:
    told = all(report["completed_at"] for report in incident["reports"])
    return bool(told and incident["diagnosis"] and incident["diagnosis"]["document"]["initiating"]["ranks"])


class Answers:
    """A service that answers with these statuses or documents, one after the other, and then takes everything."""

    def __init__(self, *statuses: int | dict[str, str]) -> None:
        self.left = list(statuses)
        self.tokens: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.tokens.append(request.headers["Authorization"])
        status = self.left.pop(0) if self.left else 202
        if isinstance(status, dict):
            return web.json_response(status)
        error = {"error": {"code": "x", "message": "it is too large", "hint": "send less"}}
        return web.json_response({"id": "1"} if status == 202 else error, status=status)


async def _asked(answers: Answers, token: Any = lambda: "t") -> str:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answers.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    service = Service(f"http://127.0.0.1:{port}", token, first_pause=0.01)
    try:
        return await service.open({"job_id": "train/llm:1", "attempt": 0})
    finally:
        await service.close()
        await runner.cleanup()


@pytest.mark.parametrize("status", [500, 502, 503, 429, 404])
async def test_what_may_pass_is_tried_again(status: int) -> None:
    answers = Answers(status, status)
    assert await _asked(answers) == "1"
    assert len(answers.tokens) == 3


async def test_a_wrong_token_is_tried_again_with_the_token_as_it_is_then() -> None:
    tokens = iter(("old", "new"))
    answers = Answers(401)
    assert await _asked(answers, lambda: next(tokens)) == "1"
    assert answers.tokens == ["Bearer old", "Bearer new"]


@pytest.mark.parametrize("answer", [{}, {"status": "ok"}])
async def test_an_answer_that_is_not_the_service_s_is_no_answer(answer: dict[str, str]) -> None:
    answers = Answers(answer)
    assert await _asked(answers) == "1"
    assert len(answers.tokens) == 2


async def test_a_token_that_is_away_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "token"
    answers = Answers()
    settings = Settings(service="http://127.0.0.1", token_file=path)
    asked = asyncio.create_task(_asked(answers, settings.read_token))
    await asyncio.sleep(0.1)
    assert not asked.done()
    path.write_text("new")
    assert await asked == "1"
    assert answers.tokens == ["Bearer new"]


async def test_what_the_service_will_never_take_is_sent_once_and_its_hint_is_kept() -> None:
    answers = Answers(413)
    with pytest.raises(RefusedError, match="send less"):
        await _asked(answers)
    assert len(answers.tokens) == 1


async def test_the_stub_dies_and_comes_back_at_the_same_place() -> None:
    stub = StubApi()
    await stub.start()
    port = stub.port
    await stub.stop()
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://127.0.0.1:{port}/api/v1")
        await stub.start()
        async with session.get(f"http://127.0.0.1:{port}/api/v1") as answer:
            assert answer.status == 200
    await stub.stop()
