"""Probes tell which part is not fit, and the service describes itself truly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from openapi_spec_validator import OpenAPIV31SpecValidator
from prometheus_client.parser import text_string_to_metric_families

from bot.intake.openapi import plain_path
from bot.server import running
from bot.settings import CannotStartError, SettingsInvalidError, Slack, SlackMode
from bot.web import build
from tests.bot.conftest import TOKEN, Client, settings_in
from tests.slack.fake import FakeSlack
from tests.slack.workspace import APP_TOKEN, BOT_TOKEN, CHANNEL, SIGNING_SECRET


def in_slack(slack: FakeSlack, mode: SlackMode, channel: str = CHANNEL) -> Slack:
    return Slack.model_validate(
        {
            "mode": mode,
            "channel": channel,
            "bot_token": BOT_TOKEN,
            "app_token": APP_TOKEN,
            "signing_secret": SIGNING_SECRET,
            "api_url": slack.base_url,
        }
    )


async def test_a_service_that_is_fit_says_so_of_every_part(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    async with running(settings_in(tmp_path)) as service:
        client = Client(session, service.url)
        assert await client.ask("GET", "/healthz", token=None) == (200, {"ok": True, "parts": {}})
        parts = {"database": "ok", "pipeline": "ok", "herald": "ok", "digest": "ok", "outbox": "ok"}
        assert await client.ask("GET", "/readyz", token=None) == (200, {"ok": True, "parts": parts})


async def test_a_database_of_another_version_is_not_ready(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    async with running(settings_in(tmp_path)) as service:
        client = Client(session, service.url)
        await service.database.downgrade("base")
        for path in ("/readyz", "/readyz/intake"):
            status, answer = await client.ask("GET", path, token=None)
            assert (status, answer["parts"]["database"]) == (503, "not migrated to this version")
        assert (await client.ask("GET", "/healthz", token=None))[0] == 200


async def test_a_part_that_ended_is_not_ready(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    async with running(settings_in(tmp_path)) as service:
        service.tasks[0].cancel()
        status, answer = await Client(session, service.url).ask("GET", "/readyz", token=None)
        assert (status, answer["parts"]["pipeline"]) == (503, "stopped")


async def test_without_slack_the_service_is_not_ready_but_takes_reports(
    tmp_path: Path, session: aiohttp.ClientSession, slack: FakeSlack
) -> None:
    slack.fail("apps.connections.open", "error-before")
    async with running(settings_in(tmp_path, slack=in_slack(slack, SlackMode.SOCKET))) as service:
        client = Client(session, service.url)
        status, answer = await client.ask("GET", "/readyz", token=None)
        assert (status, answer["ok"]) == (503, False)
        assert answer["parts"]["slack"] != "ok"
        assert (await client.ask("GET", "/readyz/intake", token=None))[0] == 200
        async for status, _ in asking(client, "/readyz"):
            if status == 200:
                break
        assert (await metrics(client))["firstfault_slack_connected"] == 1


async def test_a_message_that_slack_refuses_shows_with_its_remedy(
    tmp_path: Path, session: aiohttp.ClientSession, slack: FakeSlack
) -> None:
    settings = settings_in(tmp_path, slack=in_slack(slack, SlackMode.HTTP, "C0ELSEWHERE"))
    async with running(settings) as service:
        client = Client(session, service.url)
        await client.report()
        async for _, answer in asking(client, "/readyz"):
            if "refused" in answer["parts"]["outbox"]:
                break
        assert "C0ELSEWHERE: not_in_channel; invite the app" in answer["parts"]["outbox"]
        figures = await metrics(client)
        assert figures["firstfault_outbox_refused"] == 1
        assert figures['firstfault_outbox_failures_total{code="not_in_channel"}'] == 1


async def test_figures_count_what_happened(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    async with running(settings_in(tmp_path)) as service:
        client = Client(session, service.url)
        incident_id = await client.report()
        await client.incident(incident_id, lambda it: it["messages"])
        await client.ask("POST", "/v1/incidents", token="wrong")
        async with asyncio.timeout(30):
            while (figures := await metrics(client))["firstfault_outbox_waiting"]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert figures['firstfault_intake_requests_total{route="/v1/incidents",status="202"}'] == 1
    assert figures['firstfault_intake_requests_total{route="/v1/incidents",status="401"}'] == 1
    assert figures['firstfault_diagnoses_total{outcome="failed"}'] >= 1
    assert figures["firstfault_diagnosis_seconds_count"] >= 1
    assert figures['firstfault_outbox_sent_total{action="post"}'] == 1
    assert figures["firstfault_outbox_waiting"] == 0
    assert figures["firstfault_outbox_lag_seconds"] == 0


@pytest.mark.parametrize("mode", [SlackMode.CONSOLE, SlackMode.HTTP])
async def test_the_openapi_document_is_valid_and_holds_every_route(
    tmp_path: Path, session: aiohttp.ClientSession, slack: FakeSlack, mode: SlackMode, routes: list[web.Application]
) -> None:
    slack_settings = Slack(mode=mode) if mode is SlackMode.CONSOLE else in_slack(slack, mode)
    async with running(settings_in(tmp_path, slack=slack_settings)) as service:
        status, document = await Client(session, service.url).ask("GET", "/openapi.json", token=None)
    assert status == 200
    OpenAPIV31SpecValidator(document).validate()
    routed = {
        (route.method.lower(), plain_path(route.resource.canonical))
        for route in routes[0].router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    described = {(method, path) for path, methods in document["paths"].items() for method in methods}
    assert described == routed
    assert len(routed) >= 9


@pytest.fixture
def routes(monkeypatch: pytest.MonkeyPatch) -> list[web.Application]:
    """The applications that are built, to look into their routers."""
    built: list[web.Application] = []

    def remember(*arguments: Any) -> web.Application:
        built.append(build(*arguments))
        return built[-1]

    monkeypatch.setattr("bot.server.build", remember)
    return built


async def test_slack_over_http_must_be_signed(tmp_path: Path, session: aiohttp.ClientSession, slack: FakeSlack) -> None:
    async with running(settings_in(tmp_path, slack=in_slack(slack, SlackMode.HTTP))) as service:
        status, _ = await Client(session, service.url).ask(
            "POST", "/slack/events", token=None, data="command=%2Fdiagnose"
        )
        assert status == 401


async def test_two_services_do_not_share_a_folder(tmp_path: Path) -> None:
    async with running(settings_in(tmp_path)):
        with pytest.raises(CannotStartError, match="another service runs on"):
            async with running(settings_in(tmp_path)):
                pass


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async with running(settings_in(tmp_path / "one")) as service:
        port = int(service.url.rpartition(":")[2])
        second = settings_in(tmp_path / "two", listen={"port": port})
        with pytest.raises(CannotStartError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with running(second):
                pass


async def test_two_clusters_cannot_have_one_token(tmp_path: Path) -> None:
    clusters = {"alps": {"token": TOKEN}, "elbe": {"token": TOKEN}}
    with pytest.raises(SettingsInvalidError, match="elbe: another cluster has the same token"):
        async with running(settings_in(tmp_path, clusters=clusters)):
            pass


async def asking(client: Client, path: str) -> AsyncIterator[tuple[int, Any]]:
    """Ask for `path` again and again."""
    async with asyncio.timeout(30):
        while True:
            yield await client.ask("GET", path, token=None)
            await asyncio.sleep(0.05)


async def metrics(client: Client) -> dict[str, float]:
    """Return the figures as Prometheus reads them, by name and labels."""
    _, text = await client.ask("GET", "/metrics", token=None)
    return {
        sample.name + (_labels(sample.labels) if sample.labels else ""): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(labels.items())) + "}"
