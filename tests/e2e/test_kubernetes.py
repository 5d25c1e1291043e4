"""The watcher on a real API server: the contract that the stub keeps, the controller of Jobs, and the chart's rights."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.helm.conftest import helm
from tests.kubernetes.conftest import World, kubeconfig_of, world
from tests.kubernetes.contract import TestFailures, TestLease, TestNoFailure, TestTrouble
from tests.kubernetes.lab import NAMESPACE, TOKEN
from tests.kubernetes.real import RealServer, missing

__all__ = ["TestFailures", "TestLease", "TestNoFailure", "TestTrouble", "helm", "world"]

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]
CHART = Path(__file__).parents[2] / "helm" / "firstfault"
WATCHER = "test-watcher-token"
ACCOUNT = "system:serviceaccount:default:night-watch-firstfault-watcher"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """One API server for all tests here."""
    real = RealServer(tmp_path_factory.mktemp("kubernetes"), {WATCHER: ACCOUNT})
    try:
        asyncio.run(real.start())
        yield real
    finally:
        real.stop()


@pytest.fixture
async def server(running: RealServer) -> RealServer:
    """The API server, without what other tests left."""
    await running.clear()
    return running


async def test_the_rendered_chart_is_accepted_and_lets_the_watcher_do_its_work_and_nothing_else(
    server: RealServer, world: World, helm: Path, tmp_path: Path
) -> None:
    await _apply(server, helm)
    for method, path, allowed in (
        ("GET", "/api/v1/pods", True),
        ("GET", "/apis/batch/v1/jobs?watch=true&timeoutSeconds=1", True),
        ("GET", "/apis/jobset.x-k8s.io/v1alpha2/jobsets", True),
        ("GET", "/apis/kubeflow.org/v1/pytorchjobs", True),
        ("GET", "/api/v1/nodes/gpu-n0", True),
        ("GET", "/api/v1/events", True),
        ("GET", "/api/v1/secrets", False),
        ("GET", "/api/v1/configmaps", False),
        ("GET", "/api/v1/nodes", False),
        ("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/x", False),
        ("DELETE", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/x", False),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/x/exec?command=sh", False),
        ("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases", False),
    ):
        status, _ = await _status(server, method, path)
        assert (status != 403) is allowed, f"{method} {path}: {status}"

    world.kubeconfig = tmp_path / "watcher.kubeconfig"
    world.kubeconfig.write_text(yaml.safe_dump(kubeconfig_of(server.url, WATCHER)))
    await world.watch()
    job = await world.lab.job("allowed", 1)
    (pod,) = await world.lab.workers(job, 1)
    await server.put_log("allowed-0", "pytorch", "ValueError: no such shard\n")
    await world.lab.ends(pod, 1)
    await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
    told = await world.intake.told("allowed", seconds=40)
    assert "no such shard" in told.logs["gpu-n0/rank-0.allowed-0.pytorch.log"]
    assert "Ready" in told.logs["nodes-describe.txt"]


async def test_a_job_that_its_own_controller_gives_up_is_told(server: RealServer, world: World) -> None:
    await server.start_controllers(world.kubeconfig)
    await world.watch()
    await world.lab.job("real", 1, {"backoffLimit": 0})
    pod = await _pod_of(world, "real")
    await world.lab.ends({**pod, "apiVersion": "v1", "kind": "Pod"}, 137, "OOMKilled")

    told = await world.intake.told("real", seconds=60)
    assert told.job.items() >= {"state": "Failed", "reason": "OOMKilled", "exit_code": 137}.items()
    assert "SuccessfulCreate" in told.logs["events.txt"]


async def _pod_of(world: World, job: str) -> dict[str, object]:
    async with asyncio.timeout(60):
        while True:
            path = f"/api/v1/namespaces/{NAMESPACE}/pods"
            found = (await world.lab.call("GET", path, labelSelector=f"job-name={job}"))["items"]
            if found:
                return dict(found[0])
            await asyncio.sleep(0.2)


async def _status(server: RealServer, method: str, path: str) -> tuple[int, object]:
    try:
        return await server.call(method, path, token=WATCHER)
    except json.JSONDecodeError:  # a watch answers with one document a line
        return 200, None


async def _apply(server: RealServer, helm: Path) -> None:
    """Create all that the chart renders and this old server knows."""
    command = [str(helm), "template", "night-watch", str(CHART)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True, timeout=60)
    for document in filter(None, yaml.safe_load_all(done.stdout)):
        place = _PLACES.get((document["apiVersion"], document["kind"]))
        if place is None:
            continue
        if "{namespace}" in place:
            place = place.format(namespace=document["metadata"].get("namespace", "default"))
        status, answer = await server.call("POST", place, document, token=TOKEN)
        assert status in (201, 409), f"{document['kind']} {document['metadata']['name']}: {answer}"


_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_PLACES = {
    ("v1", "ServiceAccount"): "/api/v1/namespaces/{namespace}/serviceaccounts",
    ("v1", "Service"): "/api/v1/namespaces/{namespace}/services",
    ("v1", "ConfigMap"): "/api/v1/namespaces/{namespace}/configmaps",
    ("v1", "PersistentVolumeClaim"): "/api/v1/namespaces/{namespace}/persistentvolumeclaims",
    ("v1", "Pod"): "/api/v1/namespaces/{namespace}/pods",
    ("apps/v1", "Deployment"): "/apis/apps/v1/namespaces/{namespace}/deployments",
    ("networking.k8s.io/v1", "NetworkPolicy"): "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies",
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): f"{_RBAC}/clusterroles",
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): f"{_RBAC}/clusterrolebindings",
    ("rbac.authorization.k8s.io/v1", "Role"): f"{_RBAC}/namespaces/{{namespace}}/roles",
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): f"{_RBAC}/namespaces/{{namespace}}/rolebindings",
}
"""Where things are created. A PodDisruptionBudget of policy/v1 is newer than this server."""
