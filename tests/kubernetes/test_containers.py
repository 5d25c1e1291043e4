"""How containers ended is a fact, whether or not they left a log: whose it was, with which code, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from knowledge import Diagnosis
from tests.kubernetes.conftest import StubServer, World
from tests.kubernetes.contract import TRACEBACK
from tests.kubernetes.controllers import INSTALLED, Made
from tests.kubernetes.lab import Object, container, now
from tests.kubernetes.shapes import JOB


@pytest.fixture(autouse=True)
def _installed(server: StubServer) -> None:
    server.api.store.kinds.update(INSTALLED)


def ended(code: int, name: str = "pytorch", reason: str = "", seconds: int = 0, **more: Any) -> Object:
    """The status of a container that ended, so many seconds from now."""
    state = {
        "exitCode": code, "reason": reason or ("Error" if code else "Completed"), "startedAt": now(-60),
        "finishedAt": now(seconds), "containerID": f"x://{name}",
    }  # fmt: skip
    return {**container({"terminated": state}), "name": name, **more}


async def begun(world: World, logs: Mapping[int, str] | None = None) -> Made:
    """Two ranks on two nodes; `logs` are what they wrote."""
    await world.watch()
    made = await Made(world.lab, JOB, "llm").begin()
    for place, text in (logs or {}).items():
        await world.server.put_log(made.pods[place]["metadata"]["name"], "pytorch", text)
    return made


async def diagnosed(world: World, made: Made, folder: Path) -> Diagnosis:
    await made.says(JOB.failed)
    return (await world.intake.told("llm")).diagnose(folder)


async def stopped_before_start(world: World, pod: Object, init: Object) -> None:
    waiting = container({"waiting": {"reason": "PodInitializing"}})
    await world.lab.status(pod, phase="Failed", initContainerStatuses=[init], containerStatuses=[waiting])


@pytest.mark.parametrize(
    ("code", "reason", "cause", "words"),
    [
        (3, "Error", "init-failed", "exit code 3"),
        (127, "Error", "launch-failed", "exit code 127"),
        (137, "OOMKilled", "host-oom", "signal 9 (SIGKILL) (OOMKilled)"),
        (128, "StartError", "pod-config", "exit code 128 (StartError)"),
    ],
)
async def test_an_init_container_without_a_log_is_named_with_its_code_and_what_that_means(
    world: World, tmp_path: Path, code: int, reason: str, cause: str, words: str
) -> None:
    made = await begun(world)
    await stopped_before_start(world, made.pods[1], ended(code, "check-gpu", reason))
    verdict = await diagnosed(world, made, tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks, verdict.initiating.hosts[:1]) == (cause, [1], ["gpu-n1"])
    assert f"Init container check-gpu of pod {made.pods[1]['metadata']['name']} ended with {words};" in (
        verdict.cause.summary
    )
    assert any("Exit Code:" in line.text for line in verdict.evidence)


async def test_the_same_init_container_that_fails_everywhere_is_nobodys(world: World, tmp_path: Path) -> None:
    made = await begun(world)
    for pod in made.pods:
        await stopped_before_start(world, pod, ended(3, "fetch-data"))
    verdict = await diagnosed(world, made, tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks, verdict.initiating.hosts) == ("init-failed", [], [])
    assert "all 2 pods" in verdict.cause.summary


async def test_an_init_container_is_quoted_in_words_that_nobody_knows(world: World, tmp_path: Path) -> None:
    made = await begun(world)
    name = made.pods[1]["metadata"]["name"]
    await world.server.put_log(name, "check-lease", "looking for the licence\nno seat left at licence desk 4\n")
    await stopped_before_start(world, made.pods[1], ended(3, "check-lease"))
    verdict = await diagnosed(world, made, tmp_path)
    assert verdict.cause.id == "init-failed"
    assert any("no seat left at licence desk 4" in line.text for line in verdict.evidence)
    assert not verdict.missing


async def test_a_sidecar_among_the_init_containers_explains_nothing(world: World, tmp_path: Path) -> None:
    made = await begun(world, {0: "step 1\n", 1: TRACEBACK})
    native = {"name": "log-agent", "image": "agent:1", "restartPolicy": "Always"}
    await world.lab.call(
        "PATCH", f"/api/v1/namespaces/train/pods/{made.pods[1]['metadata']['name']}",
        {"spec": {"initContainers": [native]}},
    )  # fmt: skip
    await world.lab.status(
        made.pods[1], phase="Failed", initContainerStatuses=[ended(137, "log-agent", seconds=2)],
        containerStatuses=[ended(1)],
    )  # fmt: skip
    verdict = await diagnosed(world, made, tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks) == ("app-exception", [1])
    assert "init-failed" not in [each.cause for each in verdict.alternatives]


@pytest.mark.parametrize(("code", "cause"), [(139, "segfault"), (135, "bus-error"), (3, "silent-exit")])
async def test_the_code_of_a_rank_s_container_is_the_rank_s(
    world: World, tmp_path: Path, code: int, cause: str
) -> None:
    made = await begun(world)
    await world.lab.status(made.pods[0], phase="Failed", containerStatuses=[ended(1, seconds=4)])
    await world.lab.status(made.pods[1], phase="Failed", containerStatuses=[ended(code)])
    verdict = await diagnosed(world, made, tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks, verdict.initiating.hosts) == (cause, [1], ["gpu-n1"])
    name = made.pods[1]["metadata"]["name"]
    assert verdict.missing == [f"What pod {name} said: `kubectl logs {name}`, while it is there."]


async def test_the_code_of_a_container_beside_the_one_that_trains_is_nobodys(world: World, tmp_path: Path) -> None:
    made = await begun(world, {0: "step 1\n", 1: TRACEBACK})
    await beside(world, made.pods[0])
    await world.lab.status(
        made.pods[0], phase="Failed", containerStatuses=[ended(139, "a-proxy"), ended(0, seconds=1)]
    )  # fmt: skip
    await world.lab.status(made.pods[1], phase="Failed", containerStatuses=[ended(1)])
    verdict = await diagnosed(world, made, tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks) == ("app-exception", [1])


async def beside(world: World, pod: Object) -> None:
    """A second container stands in the pod's spec, behind the one that trains."""
    spec = {"containers": [pod["spec"]["containers"][0], {"name": "a-proxy", "image": "proxy:1"}]}
    await world.lab.call("PATCH", f"/api/v1/namespaces/train/pods/{pod['metadata']['name']}", {"spec": spec})


@pytest.mark.parametrize("code", [1, 137])
async def test_a_container_that_fails_once_training_ended_well_is_named(
    world: World, tmp_path: Path, code: int
) -> None:
    made = await begun(world, {0: "step 1\ntraining done\n", 1: "step 1\ntraining done\n"})
    await beside(world, made.pods[1])
    await world.lab.ends(made.pods[0], 0, "Completed")
    await world.lab.status(
        made.pods[1], phase="Failed", containerStatuses=[ended(code, "a-proxy", seconds=5), ended(0)]
    )
    verdict = await diagnosed(world, made, tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks) == ("sidecar-failed", [1])
    assert "a-proxy" in verdict.cause.summary


@pytest.mark.parametrize(("main", "told"), [(1, 1), (143, 143)])
async def test_what_a_container_beside_ends_with_afterwards_is_not_the_job_s_code(
    world: World, main: int, told: int
) -> None:
    made = await begun(world)
    await beside(world, made.pods[1])
    await world.lab.status(
        made.pods[1], phase="Failed", containerStatuses=[ended(137, "a-proxy", seconds=5), ended(main)]
    )
    await made.says(JOB.failed)
    assert (await world.intake.told("llm")).job["exit_code"] == told


async def test_a_pod_that_was_killed_once_its_grace_was_over_is_not_where_it_began(
    world: World, tmp_path: Path
) -> None:
    made = await begun(world)
    await world.lab.status(made.pods[0], phase="Failed", containerStatuses=[ended(137, seconds=30)])
    await world.lab.status(made.pods[1], phase="Failed", containerStatuses=[ended(1)])
    assert (await diagnosed(world, made, tmp_path)).initiating.ranks == [1]


async def test_of_two_that_end_with_one_the_first_began_where_clocks_leave_no_doubt(
    world: World, tmp_path: Path
) -> None:
    made = await begun(world)
    await world.lab.status(made.pods[0], phase="Failed", containerStatuses=[ended(1, seconds=30)])
    await world.lab.status(made.pods[1], phase="Failed", containerStatuses=[ended(1)])
    assert (await diagnosed(world, made, tmp_path)).initiating.ranks == [1]


async def test_of_two_that_end_with_one_together_nobody_is_said_to_have_begun(world: World, tmp_path: Path) -> None:
    made = await begun(world)
    for seconds, pod in enumerate(made.pods):
        await world.lab.status(pod, phase="Failed", containerStatuses=[ended(1, seconds=seconds)])
    verdict = await diagnosed(world, made, tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks) == ("unknown", [])


def earlier(code: int) -> Object:
    """What a container ended with hours ago, before it was begun anew."""
    return {"terminated": {"exitCode": code, "reason": "Error", "startedAt": now(-7200), "finishedAt": now(-7100)}}


async def test_what_an_init_container_got_over_is_not_how_the_job_ended(world: World) -> None:
    made = await begun(world)
    init = {**ended(0, "wait-for-master", reason="Completed"), "restartCount": 1, "lastState": earlier(1)}
    await world.lab.status(
        made.pods[1], phase="Failed", initContainerStatuses=[init], containerStatuses=[ended(137, reason="OOMKilled")]
    )
    await made.says(JOB.failed)
    told = (await world.intake.told("llm")).job
    assert (told["exit_code"], told["reason"]) == (137, "OOMKilled")


async def test_a_restart_of_hours_ago_is_not_how_the_job_ended(world: World) -> None:
    made = await begun(world)
    main = {**ended(137, reason="OOMKilled"), "restartCount": 1, "lastState": earlier(1)}
    await world.lab.status(made.pods[1], phase="Failed", containerStatuses=[main])
    await made.says(JOB.failed)
    told = (await world.intake.told("llm")).job
    assert (told["exit_code"], told["reason"]) == (137, "OOMKilled")
