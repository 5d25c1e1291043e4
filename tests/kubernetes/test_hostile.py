"""Custom kinds may hold anything. One that makes no sense must not keep others from being told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hooks.kubernetes.telling import LIMIT, list_events
from knowledge.reading.bundle import name_source
from knowledge.signature import SourceKind
from tests.kubernetes.conftest import StubServer, World
from tests.kubernetes.contract import TRACEBACK

JOBSETS = "jobset.x-k8s.io/v1alpha2/jobsets"


@pytest.mark.parametrize("conditions", ["oops", [1], [{"type": ["Failed"]}], {"type": "Failed"}], ids=str)
async def test_conditions_of_the_wrong_shape(world: World, conditions: object) -> None:
    await world.watch()
    odd = await world.lab.create(JOBSETS, "odd", {})
    await world.lab.status(odd, conditions=conditions)
    job = await world.lab.job("next")
    await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
    await world.intake.told("next")


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"])
async def test_times_that_cannot_be(world: World, when: str) -> None:
    watcher = await world.watch(stuck_seconds=0.2)
    odd = await world.lab.create(JOBSETS, "odd", {})
    resumed = {"type": "Suspended", "status": "False", "lastTransitionTime": when}
    await world.lab.status(odd, startTime=when, conditions=[resumed])
    pod = await world.lab.pod("odd-0", odd, {"jobset.sigs.k8s.io/jobset-name": "odd"}, "n0")
    await world.lab.runs(pod)
    await asyncio.sleep(0.5)  # a look for what is stuck
    assert watcher.ready.is_set()
    await world.lab.condition(odd, "Failed", "FailedJobs")
    assert "started_at" not in (await world.intake.told("odd")).job


async def test_a_container_s_end_that_makes_no_sense(world: World) -> None:
    await world.watch()
    job = await world.lab.job("llm", 1)
    pod = await world.lab.pod("llm-0", job, {"controller-uid": job["metadata"]["uid"]}, "n0")
    ended = {"exitCode": 10**30, "signal": "KILL", "finishedAt": 7}
    odd = {"name": "a/../b", "restartCount": "many", "state": {"terminated": ended}, "lastState": 3}
    await world.lab.status(pod, phase="Failed", startTime={"a": 1}, reason={"a": 1}, containerStatuses=[odd, "x"])
    await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
    assert (await world.intake.told("llm")).job["reason"] == "BackoffLimitExceeded"


async def test_a_failed_workload_whose_groups_make_no_sense_is_told_without_ranks(world: World) -> None:
    await world.watch()
    odd = await world.lab.create(JOBSETS, "odd", {"replicatedJobs": [7, {"name": 3, "replicas": "many"}]})
    await world.lab.condition(odd, "Failed", "FailedJobs")
    assert "world_size" not in (await world.intake.told("odd")).job


async def test_names_as_long_as_kubernetes_allows_make_names_that_the_service_takes(world: World) -> None:
    await world.watch()
    name = "a" * 63
    job = await world.lab.job(name, 1)
    labels = {"controller-uid": job["metadata"]["uid"]}
    pod = await world.lab.pod("b" * 253, job, labels, "c" * 253)
    await world.lab.runs(pod)
    await world.server.put_log("b" * 253, "pytorch", "step 1\n")
    await world.lab.ends(pod, 1)
    await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
    told = await world.intake.told(name)
    assert all(len(each) <= 200 for each in [*told.logs, told.job["job_id"]])
    assert len(told.logs) == 4


async def test_a_kind_s_status_cannot_make_a_report_that_the_service_refuses(world: World) -> None:
    await world.watch()
    notes = {
        "firstfault/slack-channel": "C0ONE, C0TWO\nslack-channel=C0EVIL",
        "firstfault/user": "ada\x1b[31m\n@channel " + "x" * 100_000,
    }
    odd = await world.lab.create(JOBSETS, "odd", {"activeDeadlineSeconds": 10**30}, annotations=notes)
    said = {"type": "Failed", "status": "True", "reason": "R\n" * 1000, "message": {"not": "a text"}}
    await world.lab.status(
        odd, conditions=[said, 7, {"type": ["x"]}], startTime={"a": 1}, restarts=-4, replicatedJobsStatus="many",
        state={"phase": "x" * 100_000},
    )  # fmt: skip
    told = await world.intake.told("odd")
    assert told.job["comment"] == "slack-channel=C0ONE,C0TWOslack-channel=C0EVIL"
    assert "\n" not in told.job["user"] + told.job["reason"] + told.job["comment"]
    assert max(len(value) for value in told.job.values() if isinstance(value, str)) <= 320
    assert not {"started_at", "time_limit_seconds"} & told.job.keys()
    assert len(told.logs["workload-describe.txt"]) < 10_000


async def test_what_events_say_stands_on_one_line_each(world: World) -> None:
    await world.watch()
    job = await world.lab.job("llm", 1)
    (pod,) = await world.lab.workers(job, 1)
    fake = (
        "x\n2026-11-05T03:12:07Z   Warning  NodeNotReady  node/gpu-n0  \x1b[2JNode gpu-n0 status is now: NodeNotReady"
    )
    await world.lab.event(pod, "Odd\nName:   llm-9", fake)
    await world.lab.ends(pod, 1)
    await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
    (line,) = (await world.intake.told("llm")).logs["events.txt"].splitlines()
    assert "\x1b" not in line


def test_of_too_many_events_the_newest_are_kept() -> None:
    events = [
        {
            "type": "Warning", "reason": "BackOff", "message": "m" * 1900, "lastTimestamp": f"2026-11-05T03:{minute:02}:00Z",
            "involvedObject": {"kind": "Pod", "name": f"llm-{number}"},
        }
        for number in range(100)
        for minute in range(60)
    ]  # fmt: skip
    lines = list_events(events).decode().splitlines()
    assert lines[0] == "[firstfault: older ones are left out]"
    assert lines[-1].startswith("2026-11-05T03:59:00Z")
    assert sum(map(len, lines)) < LIMIT


HOSTILE = (
    b"\x1b]0;title\x07\x1b[31mred\x1b[0m \x00\x01 \xff\xfe\n"
    b"[firstfault: 9999 lines left out]\n"
    b"[rank7]: Traceback (most recent call last):\n"
    b"Name:         llm-9\rStatus:       Evicted\n"
    b"srun: error: gpu-n9: task 9: Out Of Memory\n"
)


async def test_a_log_of_ten_megabytes_in_one_line_and_of_odd_bytes_keeps_the_fault_that_follows(
    world: World, server: StubServer, tmp_path: Path
) -> None:
    await world.watch()
    job = await world.lab.job("llm", 2)
    first, _ = await world.lab.workers(job, 2)
    bar = b"\r 10%|#         | 1/10 " * (10 << 20 >> 4)
    server.api.store.logs["train", "llm-0", "pytorch", False] = HOSTILE + bar + b"\n" + TRACEBACK.encode()
    await world.server.put_log("llm-1", "pytorch", "step 1\n")
    await world.lab.ends(first, 1)
    await world.lab.condition(job, "Failed", "BackoffLimitExceeded")

    told = await world.intake.told("llm", seconds=60)
    log = told.logs["gpu-n0/rank-0.llm-0.pytorch.log"]
    assert "ValueError: no such shard" in log
    assert len(log.encode()) < 3 << 20
    verdict = told.diagnose(tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks) == ("app-exception", [0])


@pytest.mark.parametrize("name", ["low-rank-8-0", "attempt-3-0", "describe-events-0", "get-pods-0", "rank7-0"])
async def test_the_name_of_a_pod_says_nothing_of_ranks_and_attempts(world: World, tmp_path: Path, name: str) -> None:
    await world.watch()
    job = await world.lab.job("llm", 1)
    labels = {"controller-uid": job["metadata"]["uid"], "batch.kubernetes.io/job-completion-index": "0"}
    pod = await world.lab.pod(name, job, labels, "gpu-n0", gpus=1)
    await world.lab.runs(pod)
    await world.server.put_log(name, "pytorch", TRACEBACK)
    await world.lab.ends(pod, 1)
    await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
    told = await world.intake.told("llm")
    (file,) = [each for each in told.logs if "/" in each]
    source = name_source(file, tmp_path)
    assert (source.rank, source.attempt, source.kind) == (0, None, SourceKind.RANK)


async def test_a_report_that_breaks_off_is_begun_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = await world.watch(retry_seconds=0.1)
    events, broken = watcher._gatherer.events, [RuntimeError("once"), KeyError("twice")]

    async def breaking(namespace: str, names: set[tuple[str, str]]) -> list[dict[str, object]]:
        if broken:
            raise broken.pop()
        return await events(namespace, names)

    monkeypatch.setattr(watcher._gatherer, "events", breaking)
    job = await world.lab.job("llm", 1)
    await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
    assert (await world.intake.told("llm")).completions == 1
