"""The chart on a real API server: all of it is taken, and the watcher's own token lets it do its work and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hooks.kubernetes import main
from hooks.kubernetes.kinds import KINDS
from hooks.kubernetes.settings import parse
from tests.helm.conftest import helm
from tests.helm.test_chart import MATRIX
from tests.kubernetes.chart import WATCHER, Document, allowed, apply, render, rules
from tests.kubernetes.conftest import World, kubeconfig_of, world
from tests.kubernetes.intake import TOKEN
from tests.kubernetes.lab import NAMESPACE
from tests.kubernetes.real import CUSTOM, RealServer, running, server

__all__ = ["helm", "running", "server", "world"]

pytestmark = pytest.mark.kubernetes

WATCHING = {"list pods", "watch pods", "get pods/log", "list events"} | {
    f"{verb} {kind.plural}" + (f".{kind.group}" if kind.group else "") for kind in KINDS for verb in ("list", "watch")
}
NODES = {"get nodes"}
LEASE = {
    "create leases.coordination.k8s.io",
    f"get leases.coordination.k8s.io {WATCHER}",
    f"update leases.coordination.k8s.io {WATCHER}",
}
SCOPES = {
    "all": ("", {NAMESPACE: WATCHING | NODES, "elsewhere": WATCHING | NODES, "default": WATCHING | NODES}),
    "some": (
        f"watcher.namespaces={{{NAMESPACE}}}",
        {NAMESPACE: WATCHING | NODES, "elsewhere": NODES, "default": NODES | {"list events"}},
    ),
    "few": (
        f"watcher.namespaces={{{NAMESPACE}}},watcher.readNodes=false",
        {NAMESPACE: WATCHING, "elsewhere": set[str](), "default": set[str]()},
    ),
}
"""What the watcher may do: by the release's namespace, the chart's values and its rights in each namespace."""
FORBIDDEN = (
    ("GET", "/api/v1/secrets"),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/firstfault"),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps"),
    ("GET", "/api/v1/nodes"),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/pods"),
    ("PATCH", f"/api/v1/namespaces/{NAMESPACE}/pods/x"),
    ("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/x"),
    ("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods"),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/x/exec?command=sh"),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/x/exec?command=sh"),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/x/eviction"),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/events"),
    ("PATCH", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/x/status"),
    ("DELETE", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/x"),
    ("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"),
    ("POST", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"),
    ("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/view"),
)


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX.keys())
async def test_the_server_takes_the_chart_as_it_is_written(
    server: RealServer, helm: Path, values: str, request: pytest.FixtureRequest
) -> None:
    namespace = request.node.callspec.id.replace(" ", "-")
    stored = await apply(server, render(helm, namespace, values), namespace)
    assert {each["kind"] for each in stored} >= {"Deployment", "Service", "ServiceAccount"}


@pytest.mark.parametrize("scope", SCOPES)
async def test_the_watcher_can_do_its_work_with_its_own_token(
    server: RealServer, world: World, helm: Path, tmp_path: Path, scope: str
) -> None:
    documents, token = await _install(server, helm, scope)
    async with _watching(world, documents, token, tmp_path):
        job = await world.lab.job("allowed", 1)
        (pod,) = await world.lab.workers(job, 1)
        await server.put_log("allowed-0", "pytorch", "ValueError: no such shard\n")
        await world.lab.ends(pod, 1)
        await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
        told = await world.intake.told("allowed", seconds=40)
        held = await world.lab.call("GET", f"/apis/coordination.k8s.io/v1/namespaces/{scope}/leases/{WATCHER}")

    assert "no such shard" in told.logs["gpu-n0/rank-0.allowed-0.pytorch.log"]
    assert ("Ready" in told.logs.get("nodes-describe.txt", "")) is (scope != "few")
    assert held["spec"]["holderIdentity"] == "the-pod-s-name"


@pytest.mark.parametrize("scope", SCOPES)
async def test_the_watcher_may_do_nothing_else(server: RealServer, helm: Path, scope: str) -> None:
    _, token = await _install(server, helm, scope)
    plain = await server.token_of(scope, "night-watch-firstfault")  # the service's, which may do what everybody may
    _, rights = SCOPES[scope]
    for namespace, expected in {**rights, scope: rights["elsewhere"] | LEASE}.items():
        anybody = await rules(server, plain, namespace)
        assert await rules(server, token, namespace) - anybody == expected, namespace
    for method, path in FORBIDDEN:
        status, answer = await server.call(method, path, {} if method != "GET" else None, token)
        assert (status, answer["reason"]) == (403, "Forbidden"), f"{method} {path}"


async def test_asked_right_by_right_the_server_says_the_same(server: RealServer, helm: Path) -> None:
    _, token = await _install(server, helm, "all")
    plain = await server.token_of("all", "night-watch-firstfault")
    found = await allowed(server, token, NAMESPACE) - await allowed(server, plain, NAMESPACE)
    served = {f"{plural}.{group}" for group, _, plural in CUSTOM} | {
        "jobs.batch",
        "pods",
        "pods/log",
        "events",
        "nodes",
    }
    assert found == {right for right in WATCHING | NODES if right.partition(" ")[2] in served}


async def _install(server: RealServer, helm: Path, scope: str) -> tuple[list[Document], str]:
    """Have the chart in a namespace of the scope's name; return it and the token of the watcher's account there."""
    documents = render(helm, scope, SCOPES[scope][0])
    status, _ = await server.call("GET", f"/api/v1/namespaces/{scope}/serviceaccounts/{WATCHER}")
    if status == 404:
        await apply(server, documents, scope)
    return documents, await server.token_of(scope, WATCHER)


@asynccontextmanager
async def _watching(world: World, documents: list[Document], token: str, folder: Path) -> AsyncIterator[None]:
    """The watcher as the chart's Deployment starts it, but for where its service and the API server are."""
    (deployment,) = [each for each in documents if (each["kind"], each["metadata"]["name"]) == ("Deployment", WATCHER)]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {entry["name"]: entry.get("value", "") for entry in container["env"]}
    environment |= {
        "FIRSTFAULT_WATCHER_SERVICE": world.intake.url, "FIRSTFAULT_WATCHER_TOKEN": TOKEN,
        "FIRSTFAULT_WATCHER_IDENTITY": "the-pod-s-name",
    }  # fmt: skip
    kubeconfig = folder / "watcher.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(kubeconfig_of(world.server.url, token)))
    settings = replace(parse([], environment), kubeconfig=kubeconfig, listen=None)
    task = asyncio.create_task(main.watch(settings))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
