"""Ray says where something happened by an address, or not at all: pods and nodes tell which host that is."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge import Diagnosis
from tests.kubernetes.conftest import StubServer, World
from tests.kubernetes.contract import TRACEBACK
from tests.kubernetes.controllers import INSTALLED, Made
from tests.kubernetes.shapes import RAY_JOB
from tests.kubernetes.test_containers import ended

HEAD, WORKER, SUBMITTER = range(3)
ADDRESS = "192.0.2.{}"
DIED = (
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
    "unexpectedly exits with a connection error code 2. End of file.\n"
)


@pytest.fixture(autouse=True)
def _installed(server: StubServer) -> None:
    server.api.store.kinds.update(INSTALLED)


async def begun(world: World) -> Made:
    """A head on gpu-n0, a worker on gpu-n1, and what submits on gpu-n2, each with an address of its own."""
    await world.watch()
    made = await Made(world.lab, RAY_JOB, "llm").begin()
    for place, pod in enumerate(made.pods):
        await world.lab.status(pod, podIP=ADDRESS.format(place))
    return made


async def prints(world: World, made: Made, place: int, text: str) -> None:
    await world.server.put_log(made.pods[place]["metadata"]["name"], "pytorch", text)


async def diagnosed(world: World, made: Made, folder: Path) -> Diagnosis:
    await world.lab.status(made.pods[SUBMITTER], phase="Failed", containerStatuses=[ended(1, seconds=1)])
    await made.says(RAY_JOB.failed)
    return (await world.intake.told("llm")).diagnose(folder)


def by_worker(text: str, address: str) -> str:
    return "".join(f"(RayTrainWorker pid=512, ip={address}) {line}\n" for line in text.splitlines())


async def test_the_address_before_a_line_is_that_of_a_pod_on_a_node(world: World, tmp_path: Path) -> None:
    made = await begun(world)
    await prints(world, made, SUBMITTER, "step 1\n" + by_worker(TRACEBACK, ADDRESS.format(WORKER)))
    verdict = await diagnosed(world, made, tmp_path)
    assert (verdict.cause.id, verdict.initiating.hosts[0]) == ("app-exception", "gpu-n1")


async def test_a_rank_that_is_known_by_its_address_has_the_node_for_a_host(world: World, tmp_path: Path) -> None:
    made = await begun(world)
    introduced = f"(TrainController pid=9) - (ip={ADDRESS.format(WORKER)}, pid=512) world_rank=0, local_rank=0\n"
    await prints(world, made, SUBMITTER, introduced + by_worker(TRACEBACK, ADDRESS.format(WORKER)))
    verdict = await diagnosed(world, made, tmp_path)
    assert (verdict.cause.id, verdict.initiating.ranks, verdict.initiating.hosts[0]) == ("app-exception", [0], "gpu-n1")


async def test_what_a_worker_pod_wrote_itself_happened_on_its_node(world: World, tmp_path: Path) -> None:
    made = await begun(world)
    await prints(world, made, WORKER, TRACEBACK)
    verdict = await diagnosed(world, made, tmp_path)
    assert (verdict.cause.id, verdict.initiating.hosts) == ("app-exception", ["gpu-n1"])


@pytest.mark.parametrize("place", [HEAD, SUBMITTER])
async def test_where_the_driver_runs_is_not_where_it_failed(world: World, tmp_path: Path, place: int) -> None:
    made = await begun(world)
    await prints(world, made, place, TRACEBACK)
    verdict = await diagnosed(world, made, tmp_path)
    assert (verdict.cause.id, verdict.initiating.hosts) == ("app-exception", [])


async def test_a_worker_pod_that_was_killed_for_its_memory_is_where_the_actor_died(
    world: World, tmp_path: Path
) -> None:
    made = await begun(world)
    await prints(world, made, SUBMITTER, DIED)
    await world.lab.status(made.pods[WORKER], phase="Failed", containerStatuses=[ended(137, reason="OOMKilled")])
    verdict = await diagnosed(world, made, tmp_path)
    assert (verdict.cause.id, verdict.initiating.hosts[0]) == ("host-oom", "gpu-n1")


@pytest.mark.parametrize("code", [137, 139, 1])
async def test_the_only_worker_pod_that_ended_badly_is_where_the_actor_died(
    world: World, tmp_path: Path, code: int
) -> None:
    made = await begun(world)
    await prints(world, made, SUBMITTER, DIED)
    await world.lab.status(made.pods[WORKER], phase="Failed", containerStatuses=[ended(code, seconds=-20)])
    verdict = await diagnosed(world, made, tmp_path)
    assert verdict.initiating.hosts[:1] == ["gpu-n1"], verdict


async def test_a_node_that_ray_found_dead_is_named_as_kubernetes_does(world: World, tmp_path: Path) -> None:
    made = await begun(world)
    dead = (
        f"The node with node id: ab12 and address: {ADDRESS.format(WORKER)} and node name: {ADDRESS.format(WORKER)} has "
        "been marked dead because the detector has missed too many heartbeats from it.\n"
    )
    await prints(world, made, SUBMITTER, dead)
    verdict = await diagnosed(world, made, tmp_path)
    assert (verdict.cause.id, verdict.initiating.hosts[0]) == ("node-failure", "gpu-n1")


async def test_ray_kills_for_memory_on_the_node_under_an_address(world: World, tmp_path: Path) -> None:
    made = await begun(world)
    killed = (
        f"ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
        f"Memory on the node (IP: {ADDRESS.format(WORKER)}, ID: 7a1e40) where the task (actor ID: 9d61, name=uZWorkerDict_0:3, "
        "pid=512, memory used=118.42GB) was running was 956.31GB / 1006.82GB (0.949833), which exceeds the memory usage "
        "threshold of 0.95.\n"
    )
    await prints(world, made, SUBMITTER, killed)
    verdict = await diagnosed(world, made, tmp_path)
    assert (verdict.cause.id, verdict.initiating.hosts[0]) == ("host-oom", "gpu-n1")


async def test_the_log_that_a_ray_job_quotes_is_read_where_there_is_no_other(world: World, tmp_path: Path) -> None:
    made = await begun(world)
    quoted = f"Job entrypoint command failed with exit code 1, last available logs:\n{TRACEBACK}"
    await made.says({**RAY_JOB.failed, "message": quoted})
    told = await world.intake.told("llm")
    assert told.logs["launcher.message.log"].splitlines()[1:] == [line.rstrip() for line in TRACEBACK.splitlines()]
    verdict = told.diagnose(tmp_path)
    assert (verdict.cause.id, verdict.initiating.hosts) == ("app-exception", [])
