"""The wire, spoken to the running service."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import zstandard

from bot.server import running
from bot.settings import Limits, Settings
from tests.bot.conftest import FAILED_RANK_0, OTHER_TOKEN, Client, opening, settings_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

JOBS = itertools.count(1)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return settings_in(tmp_path_factory.mktemp("intake"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(settings: Settings) -> AsyncIterator[Client]:
    """A client of one service that the tests of this file share; each has incidents of its own."""
    async with running(settings) as service, aiohttp.ClientSession() as session:
        yield Client(session, service.url)


@pytest_asyncio.fixture(loop_scope="module")
async def incident_id(client: Client) -> str:
    """A new incident, opened by gpu-n01."""
    return await client.open(f"job-{next(JOBS)}")


def code(answer: Any) -> str:
    """The error's code; every error also says what to do."""
    assert answer["error"]["message"]
    assert answer["error"]["hint"]
    return str(answer["error"]["code"])


async def test_the_whole_road_of_a_report(client: Client) -> None:
    status, answer = await client.ask("POST", "/v1/incidents", json=opening(expected_reporters=2))
    assert status == 202
    incident_id = answer["id"]
    assert answer["url"] == f"/v1/incidents/{incident_id}"
    status, answer = await client.put(incident_id, "n1/rank-2.err", FAILED_RANK_0)
    assert (status, answer["bytes"]) == (202, len(FAILED_RANK_0))
    await client.complete(incident_id, exit_code=1)
    incident = await client.incident(incident_id)
    assert incident["key"] == {"cluster": "alps", "scheduler": "slurm", "job_id": "48213", "attempt": 0}
    assert incident["job"]["exit_code"] == 1
    assert [(report["reporter"], report["role"]) for report in incident["reports"]] == [("gpu-n01", "node")]
    assert [log["name"] for log in incident["logs"]] == ["n1/rank-2.err"]


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer ", "Bearer wrong", "Basic YTpi"])
async def test_without_a_clusters_token_nothing_is_told(client: Client, header: str | None) -> None:
    headers = {"Authorization": header} if header else {}
    async with aiohttp.request("POST", client.url + "/v1/incidents", json=opening(), headers=headers) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert code(await answer.json()) in {"no-token", "unknown-token"}


async def test_a_token_that_is_no_text_is_refused_like_any_other(client: Client) -> None:
    address = client.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(address[0], int(address[1]))
    writer.write(b"GET /v1/incidents/aa HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\nConnection: close\r\n\r\n")
    assert b" 401 " in await reader.readline()
    writer.close()


async def test_one_cluster_does_not_see_anothers_incidents(client: Client, incident_id: str) -> None:
    path = f"/v1/incidents/{incident_id}"
    body = {"reporter": "x", "role": "node"}
    for method, tail, more in (
        ("GET", "", {}),
        ("PUT", "/logs/a", {"data": b"x"}),
        ("POST", "/complete", {"json": body}),
    ):
        status, answer = await client.ask(method, path + tail, token=OTHER_TOKEN, **more)
        assert (status, code(answer)) == (404, "no-incident")
    status, answer = await client.ask("POST", "/v1/incidents", token=OTHER_TOKEN, json=opening())
    assert (status, answer["id"] != incident_id) == (202, True)


async def test_everything_may_come_twice(client: Client) -> None:
    for _ in range(2):
        incident_id = await client.report("twice")
    incident = await client.incident(incident_id, lambda it: it["diagnosis"])
    assert len(incident["reports"]) == len(incident["logs"]) == 1


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "identity"])
async def test_logs_may_come_compressed(client: Client, incident_id: str, encoding: str) -> None:
    packed = {"gzip": gzip.compress(FAILED_RANK_0), "zstd": zstandard.compress(FAILED_RANK_0)}
    status, answer = await client.ask(
        "PUT",
        f"/v1/incidents/{incident_id}/logs/r0.log",
        data=packed.get(encoding, FAILED_RANK_0),
        headers={"Content-Encoding": encoding},
    )
    assert (status, answer["bytes"]) == (202, len(FAILED_RANK_0))


async def test_an_unknown_encoding_is_refused(client: Client, incident_id: str) -> None:
    status, answer = await client.ask(
        "PUT", f"/v1/incidents/{incident_id}/logs/r0.log", data=b"x", headers={"Content-Encoding": "br"}
    )
    assert (status, code(answer)) == (415, "unknown-encoding")


async def test_a_damaged_log_is_refused_and_leaves_nothing(
    client: Client, incident_id: str, settings: Settings
) -> None:
    status, answer = await client.ask(
        "PUT",
        f"/v1/incidents/{incident_id}/logs/r0.log",
        data=gzip.compress(FAILED_RANK_0)[:-5],
        headers={"Content-Encoding": "gzip"},
    )
    assert (status, code(answer)) == (400, "bad-body")
    assert (await client.incident(incident_id))["logs"] == []
    assert blobs(settings, incident_id) == []


@pytest.mark.parametrize(
    "name",
    [
        "..%2f..%2fetc%2fpasswd",
        "%2fetc%2fpasswd",
        "a%2f..%2f..%2fb",
        "a//b",
        "a%2f.%2fb",
        "%2e%2e",
        "a%00b",
        "a%0ab",
        "a%5c..%5cb",
        "x" * 201,
    ],
)
async def test_a_name_that_is_no_plain_relative_path_is_refused(
    client: Client, incident_id: str, settings: Settings, name: str
) -> None:
    # A client library would tidy the path before it sends it; an attacker's does not.
    status = await asyncio.to_thread(put_raw, client.url, f"/v1/incidents/{incident_id}/logs/{name}")
    assert status in (400, 404)
    assert blobs(settings, incident_id) == []


async def test_names_in_other_scripts_are_fine(client: Client, incident_id: str) -> None:
    status, _ = await client.put(incident_id, "n1/ранг 2.err", b"x\n")
    assert status == 202
    assert (await client.incident(incident_id))["logs"][0]["name"] == "n1/ранг 2.err"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{", "JSON"),
        (b"[" * 100_000, "JSON"),
        (b"[]", "Opening"),
        (b'{"schema": 2}', "schema"),
        (b'{"schema": 1}', "scheduler"),
        (b'{"schema": 1, "scheduler": "slurm", "job_id": "1", "reporter": "n", "role": "boss"}', "role"),
        (
            b'{"schema": 1, "scheduler": "slurm", "job_id": "1", "attempt": -1, "reporter": "n", "role": "node"}',
            "attempt",
        ),
        (b'{"schema": 1, "scheduler": "slurm", "job_id": "1\\n", "reporter": "n", "role": "node"}', "job_id"),
    ],
)
async def test_a_wrong_body_is_answered_with_what_is_wrong(client: Client, body: bytes, named: str) -> None:
    status, answer = await client.ask("POST", "/v1/incidents", data=body)
    assert status == 400
    code(answer)
    assert named in answer["error"]["message"] + answer["error"]["hint"]


async def test_characters_that_no_database_keeps_are_dropped(client: Client) -> None:
    body = json.dumps(opening(job_id="odd", reporter="gpu\0-n01", job={"name": "a\0b\ud800c"}))
    status, answer = await client.ask("POST", "/v1/incidents", data=body)
    assert status == 202
    incident = await client.incident(answer["id"])
    assert incident["job"]["name"] == "ab?c"
    assert incident["reports"][0]["reporter"] == "gpu-n01"


async def test_an_unknown_route_is_a_json_error_too(client: Client) -> None:
    status, answer = await client.ask("GET", "/v2/incidents")
    assert (status, code(answer)) == (404, "not-found")
    status, answer = await client.ask("DELETE", "/v1/incidents")
    assert (status, code(answer)) == (405, "method-not-allowed")


SMALL = Limits(json_bytes=1000, log_bytes=2000, incident_bytes=3000, logs=2, upload_seconds=1)


async def test_every_limit_names_itself(tmp_path: Path) -> None:
    async with running(settings_in(tmp_path, limits=SMALL)) as service, aiohttp.ClientSession() as session:
        client = Client(session, service.url)
        status, answer = await client.ask("POST", "/v1/incidents", json=opening(job={"comment": "x" * 1000}))
        assert (status, code(answer)) == (413, "too-large")
        assert "limits.json_bytes is 1000" in answer["error"]["message"]

        incident_id = await client.open()
        status, answer = await client.put(incident_id, "bomb", bytes(10_000_000))
        assert status == 413
        assert "limits.log_bytes is 2000" in answer["error"]["message"]

        assert (await client.put(incident_id, "a", b"x" * 2000))[0] == 202
        status, answer = await client.put(incident_id, "b", b"x" * 1001)
        assert status == 413
        assert "limits.incident_bytes is 3000" in answer["error"]["message"]

        assert (await client.put(incident_id, "b", b"x"))[0] == 202
        status, answer = await client.put(incident_id, "c", b"x")
        assert status == 413
        assert "limits.logs is 2" in answer["error"]["message"]
        assert len(blobs(settings_in(tmp_path), incident_id)) == 2


async def test_a_body_that_never_ends_is_given_up(tmp_path: Path) -> None:
    async with running(settings_in(tmp_path, limits=SMALL)) as service, aiohttp.ClientSession() as session:
        client = Client(session, service.url)
        incident_id = await client.open()
        headers = {"Content-Length": "100"}
        path = f"/v1/incidents/{incident_id}/logs/a"
        assert await asyncio.to_thread(put_raw, service.url, path, b"begun", headers) == 408


async def test_what_was_answered_with_202_is_there_after_a_restart(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    async with running(settings) as service, aiohttp.ClientSession() as session:
        incident_id = await Client(session, service.url).open(job={"name": "pretrain"})
    async with running(settings) as service, aiohttp.ClientSession() as session:
        incident = await Client(session, service.url).incident(incident_id)
        assert incident["job"]["name"] == "pretrain"


def blobs(settings: Settings, incident_id: str) -> list[Path]:
    return [path for path in (settings.data_dir / "blobs" / incident_id).rglob("*") if path.is_file()]


def put_raw(url: str, path: str, body: bytes = b"x", headers: dict[str, str] | None = None) -> int:
    """PUT with the path exactly as given; return the status."""
    from tests.bot.conftest import TOKEN

    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
    connection.request("PUT", path, body, {"Authorization": f"Bearer {TOKEN}", **(headers or {})})
    status = connection.getresponse().status
    connection.close()
    return status
