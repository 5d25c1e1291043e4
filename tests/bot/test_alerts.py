"""Alertmanager's webhook, spoken to the running service."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from bot.server import running
from bot.settings import Limits
from tests.bot.conftest import OTHER_TOKEN, Client, settings_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "/v1/webhooks/alertmanager"
JOBS = itertools.count(4000)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    settings = settings_in(tmp_path_factory.mktemp("alerts"))
    async with running(settings) as service, aiohttp.ClientSession() as session:
        yield Client(session, service.url)


@pytest.fixture
def job() -> str:
    return str(next(JOBS))


def alert(labels: dict[str, str], starts: str = "2026-11-30T08:05:38.123Z", **more: Any) -> dict[str, Any]:
    """One alert as Alertmanager writes it."""
    return {
        "status": "firing",
        "labels": {"alertname": "JobFailed", **labels},
        "annotations": {},
        "startsAt": starts,
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus.example.com/graph",
        "fingerprint": "c0ffee5eed15900d",
        **more,
    }


def notification(*alerts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "version": "4",
        "groupKey": '{}:{alertname="JobFailed"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "firstfault",
        "groupLabels": {"alertname": "JobFailed"},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager.example.com",
        "alerts": list(alerts),
        **more,
    }


async def told(client: Client, *alerts: dict[str, Any]) -> list[str]:
    """The ids of the incidents that the alerts make."""
    status, answer = await client.ask("POST", PATH, json=notification(*alerts))
    assert status == 202, answer
    return [each["id"] for each in answer["incidents"]]


async def test_an_alert_on_a_job_is_diagnosed_like_any_other_report(client: Client, job: str) -> None:
    labels = {"job_id": job, "user": "alice", "queue": "gpu", "node": "a1, a2", "exit_code": "1", "scheduler": "LSF"}
    texts = {"summary": "the job failed", "log": "step 3\nRuntimeError: CUDA error: device-side assert triggered\n"}
    (incident_id,) = await told(client, alert(labels, annotations=texts))
    incident = await client.incident(incident_id, lambda it: it["diagnosis"])
    assert incident["key"] == {"cluster": "alps", "scheduler": "lsf", "job_id": job, "attempt": 0}
    facts = incident["job"]
    assert (facts["user"], facts["partition"], facts["nodes"], facts["exit_code"]) == ("alice", "gpu", ["a1", "a2"], 1)
    assert (facts["state"], facts["reason"]) == ("FAILED", "JobFailed")
    assert facts["ended_at"].startswith("2026-11-30T08:05:38")
    assert [log["name"] for log in incident["logs"]] == ["c0ffee5eed15900d/alert.log"]
    assert incident["diagnosis"]["document"]["outcome"] == "failed"
    assert "device-side assert" in str(incident["diagnosis"]["document"])


async def test_what_is_sent_again_is_the_same_incident(client: Client, job: str) -> None:
    first = await told(client, alert({"job_id": job}))
    assert await told(client, alert({"job_id": job})) == first
    assert len((await client.incident(first[0]))["reports"]) == 1


async def test_what_fires_anew_is_the_next_attempt(client: Client, job: str) -> None:
    early, late = alert({"job_id": job}), alert({"job_id": job}, starts="2026-11-30T10:00:00+01:00")
    (first,), (second,) = await told(client, early), await told(client, late)
    assert first != second
    assert (await client.incident(second))["key"]["attempt"] == 1
    assert await told(client, early, late) == [first, second]


async def test_an_older_firing_that_comes_later_is_not_the_later_attempt(client: Client, job: str) -> None:
    nine, ten, eight, half_past = [
        await told(client, alert({"job_id": job}, starts=f"2026-11-30T{at}:00Z"))
        for at in ("09:00", "10:00", "08:00", "09:30")
    ]
    assert eight == nine == half_past != ten
    assert await told(client, alert({"job_id": job}, starts="2026-11-30T10:00:00Z")) == ten


@pytest.mark.parametrize("named", ["job_id", "job_name"])
async def test_one_instant_in_two_notations_is_one_firing(client: Client, job: str, named: str) -> None:
    first, second = (
        alert({named: f"z{job}"}, starts=at) for at in ("2026-11-30T08:05:38Z", "2026-11-30T09:05:38+01:00")
    )
    assert await told(client, first) == await told(client, second)


@pytest.mark.parametrize("named", ["job_id", "job_name"])
@pytest.mark.parametrize("starts", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00Z"])
async def test_a_time_that_cannot_be_is_left_out(client: Client, job: str, starts: str, named: str) -> None:
    (incident_id,) = await told(client, alert({named: f"t{job}"}, starts=starts))
    incident = await client.incident(incident_id, lambda it: it["diagnosis"])
    assert incident["diagnosis"]["error"] is None
    assert incident["job"].get("ended_at") is None


async def test_a_fact_that_cannot_be_read_costs_itself_alone(client: Client, job: str) -> None:
    labels = {"job_id": job, "exit_code": "bad", "signal": "sigkill", "world_size": "9" * 5000, "user": "alice"}
    (incident_id,) = await told(client, alert(labels))
    facts = (await client.incident(incident_id))["job"]
    assert (facts["signal"], facts["user"]) == (9, "alice")
    assert not {"exit_code", "world_size"} & facts.keys()
    assert [each.split(":")[0] for each in facts["unread"]] == [
        "the alert's label exit_code",
        "the alert's label world_size",
    ]


@pytest.mark.parametrize(
    "labels", [{"\ud800": "x", "job_id": "q"}, {"job_id": "\ud800"}, {"a\0b": "x", "job_id": "q"}], ids=ascii
)
async def test_half_a_character_is_replaced(client: Client, labels: dict[str, str]) -> None:
    assert await told(client, alert(labels, fingerprint=""))


async def test_another_alert_tells_more_of_the_same_failure(client: Client, job: str) -> None:
    (first,) = await told(client, alert({"job_id": job}))
    assert await told(client, alert({"job_id": job, "alertname": "RankHung"}, fingerprint="f00d")) == [first]
    assert len((await client.incident(first))["reports"]) == 2


async def test_a_label_says_which_attempt_it_was(client: Client, job: str) -> None:
    (incident_id,) = await told(client, alert({"jobId": job, "restart-count": "3"}))
    assert (await client.incident(incident_id))["key"]["attempt"] == 3


async def test_a_name_alone_is_another_failure_each_time(client: Client) -> None:
    named = {"job_name": "nightly", "namespace": "research"}
    (first,), (second,) = [await told(client, alert(named, starts=f"2026-11-{day}T08:00:00Z")) for day in (29, 30)]
    assert first != second
    assert (await client.incident(first))["key"]["job_id"] == "nightly@2026-11-29T08:00:00"


async def test_an_alert_without_a_fingerprint_is_known_by_its_labels(client: Client, job: str) -> None:
    first = await told(client, alert({"job_id": job, "user": "bob"}, fingerprint=""))
    assert await told(client, alert({"user": "bob", "job_id": job}, fingerprint="")) == first


@pytest.mark.parametrize("odd", ["a/b", "x" * 65, 7.5, None, ["f00d"]])
async def test_a_fingerprint_that_is_none_costs_no_failure(client: Client, job: str, odd: Any) -> None:
    (first,) = await told(client, alert({"job_id": job}, fingerprint=odd))
    assert await told(client, alert({"job_id": job}, fingerprint=odd)) == [first]
    assert len((await client.incident(first))["reports"]) == 1


@pytest.mark.parametrize("odd", [{}, {"fingerprint": "a/b"}, {"startsAt": "today"}, {"labels": ["job_id"]}], ids=str)
async def test_what_is_resolved_is_passed_over_whatever_it_says(client: Client, job: str, odd: Any) -> None:
    assert await told(client, {**alert({"job_id": job}, status="resolved"), **odd}) == []


@pytest.mark.parametrize(("retry", "attempt"), [("true", 0), ("False", 0), ("on-failure", 0), ("2", 2)])
async def test_a_retry_counts_where_it_is_a_number(client: Client, job: str, retry: str, attempt: int) -> None:
    (incident_id,) = await told(client, alert({"job_id": job, "retry": retry}))
    assert (await client.incident(incident_id))["key"]["attempt"] == attempt


async def test_nodes_may_be_a_host_list(client: Client, job: str) -> None:
    (incident_id,) = await told(client, alert({"job_id": job, "nodes": "gpu-[01-03,07], login\tgpu-[09-10]"}))
    nodes = (await client.incident(incident_id))["job"]["nodes"]
    assert nodes == ["gpu-01", "gpu-02", "gpu-03", "gpu-07", "login", "gpu-09", "gpu-10"]


async def test_a_host_list_without_end_is_cut(client: Client, job: str) -> None:
    (incident_id,) = await told(client, alert({"job_id": job, "nodes": "n[1-9999999]x[1-9999999]," * 20_000}))
    assert len((await client.incident(incident_id))["job"]["nodes"]) == 10_000


async def test_of_a_notification_each_alert_counts_for_itself(client: Client, job: str) -> None:
    alerts = (alert({"job_id": job}), alert({"instance": "a1:9100"}, fingerprint="beef"))
    status, answer = await client.ask("POST", PATH, json=notification(*alerts))
    assert (status, len(answer["incidents"])) == (202, 1)
    why = "it names no job: give it a label job_id or job_name"
    assert answer["refused"] == [{"alert": 1, "fingerprint": "beef", "why": why}]


@pytest.mark.parametrize(
    ("malformed", "why"),
    [
        ({"startsAt": "today"}, "startsAt: Input should be a valid datetime"),
        ({"labels": ["job_id"]}, "labels: Input should be a valid dictionary"),
        ({"labels": {"job_id": {"a": 1}}}, "labels.job_id: Input should be a valid string"),
        ({"status": "broken"}, "status: Input should be 'firing' or 'resolved'"),
    ],
)
async def test_a_malformed_alert_costs_no_other(client: Client, job: str, malformed: Any, why: str) -> None:
    bad = {**alert({"job_id": "x"}, fingerprint="bad"), **malformed}
    first, last = alert({"job_id": f"a{job}"}), alert({"job_id": f"b{job}"}, fingerprint="fine")
    whole = notification(first, bad, last)
    status, answer = await client.ask("POST", PATH, json=whole)
    assert (status, len(answer["incidents"])) == (202, 2)
    ((place, named, said),) = [(each["alert"], each["fingerprint"], each["why"]) for each in answer["refused"]]
    assert (place, named) == (1, "bad")
    assert said.startswith(why)
    assert (await client.ask("POST", PATH, json=whole))[1] == answer


@pytest.mark.parametrize("given", ["text", 7, None, [], {}, {"named": "x", "why": "y"}])
async def test_what_is_no_alert_costs_no_other(client: Client, job: str, given: Any) -> None:
    status, answer = await client.ask("POST", PATH, json=notification(given, alert({"job_id": job})))
    assert (status, len(answer["incidents"])) == (202, 1)
    assert [(each["alert"], each["fingerprint"]) for each in answer["refused"]] == [(0, "")]


async def test_the_first_thousand_alerts_are_looked_at(client: Client, job: str) -> None:
    over = alert({"status": "resolved"}, status="resolved")
    status, answer = await client.ask(
        "POST", PATH, json=notification(alert({"job_id": job}), *[over] * 999, alert({"job_id": f"x{job}"}))
    )
    assert (status, len(answer["incidents"])) == (202, 1)
    assert [each["alert"] for each in answer["refused"]] == [1000]


async def test_what_the_service_failed_at_is_asked_for_again_and_nothing_is_taken_twice(tmp_path: Path) -> None:
    texts = {"summary": "RuntimeError: CUDA error: device-side assert triggered"}
    whole = notification(alert({"job_id": "1"}), alert({"job_id": "2"}, annotations=texts), alert({"job_id": "3"}))
    async with running(settings_in(tmp_path)) as service, aiohttp.ClientSession() as session:
        client = Client(session, service.url)
        blobs = (tmp_path / "blobs").rename(tmp_path / "away")
        (tmp_path / "blobs").touch()
        assert (await client.ask("POST", PATH, json=whole))[0] == 503
        (tmp_path / "blobs").unlink()
        blobs.rename(tmp_path / "blobs")
        again = [await told(client, *whole["alerts"]) for _ in range(2)]
        assert again[0] == again[1]
        incidents = [await client.incident(each, lambda it: it["diagnosis"]) for each in again[0]]
        assert [(each["key"]["job_id"], each["key"]["attempt"]) for each in incidents] == [("1", 0), ("2", 0), ("3", 0)]
        assert [len(each["reports"]) for each in incidents] == [1, 1, 1]
        assert "device-side assert" in str(incidents[1]["diagnosis"])


async def test_a_text_for_which_there_is_no_room_costs_no_alert(tmp_path: Path) -> None:
    texts = {"summary": "it failed"}
    async with running(settings_in(tmp_path, limits=Limits(logs=1))) as service, aiohttp.ClientSession() as session:
        client = Client(session, service.url)
        alerts = [alert({"job_id": "1"}, fingerprint=each, annotations=texts) for each in ("a", "b")]
        (first, second) = await told(client, *alerts)
        assert first == second
        incident = await client.incident(first)
        assert (len(incident["logs"]), [bool(each["completed_at"]) for each in incident["reports"]]) == (
            1,
            [True, True],
        )


async def test_one_cluster_does_not_hear_anothers_alerts(client: Client, job: str) -> None:
    ours = await told(client, alert({"job_id": job}))
    status, answer = await client.ask("POST", PATH, token=OTHER_TOKEN, json=notification(alert({"job_id": job})))
    assert status == 202
    assert [each["id"] for each in answer["incidents"]] != ours


async def test_secrets_in_an_alert_are_redacted(client: Client, job: str) -> None:
    texts = {"description": "login with password=hunter22 failed"}
    (incident_id,) = await told(client, alert({"job_id": job, "reason": "token hf_" + "a1" * 17}, annotations=texts))
    incident = await client.incident(incident_id, lambda it: it["diagnosis"])
    assert "hunter22" not in str(incident)
    assert "[redacted:hf-token" in incident["job"]["reason"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "valid dictionary"),
        ({"version": "3", "alerts": []}, "version: Input should be '4'"),
        ({"version": "4"}, "alerts: Field required"),
        (notification({**alert({"job_id": "1"}), "startsAt": "today"}), "startsAt: "),
        (notification({**alert({"job_id": "1"}), "startsAt": "2026-11-30T08:00:00"}), "startsAt: "),
        (notification({**alert({"job_id": "1"}), "labels": ["job_id"]}), "labels: "),
        (notification(alert({"job_id": "1"}, status="broken")), "status: "),
        (notification(alert({"instance": "a1"})), "it names no job"),
        (notification(alert({"job_id": "1", "attempt": "second"})), "its label attempt"),
        (notification(alert({"job_id": "1", "attempt": str(2**63)})), "its label attempt"),
        (notification(alert({"job_id": "1", "attempt": "-1"})), "its label attempt"),
        (notification(alert({"job_id": "1", "scheduler": "two words"})), "its label scheduler"),
        (notification(alert({"job_id": "1" * 201})), "its label job_id"),
    ],
)
async def test_what_is_wrong_is_named(client: Client, body: Any, said: str) -> None:
    status, answer = await client.ask("POST", PATH, json=body)
    assert status == 400
    assert said in answer["error"]["message"]
    assert answer["error"]["hint"]


async def test_it_needs_a_clusters_token(client: Client) -> None:
    assert (await client.ask("POST", PATH, token=None, json=notification()))[0] == 401
