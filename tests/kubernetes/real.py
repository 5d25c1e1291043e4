"""A real API server on loopback: etcd, kube-apiserver and, where asked for, the controller of Jobs."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

from tests.kubernetes.controllers import INSTALLED
from tests.kubernetes.lab import NAMESPACE, TOKEN, collection

ROOT = Path(__file__).parents[2]
BINARIES = ROOT / ".cache" / "kube-apiserver-1.20.2"
NODES = ("gpu-n0", "gpu-n1", "gpu-n2", "gpu-n3")
CUSTOM = {**INSTALLED, ("monitoring.coreos.com", "v1", "servicemonitors"): "ServiceMonitor"}
"""Kinds that are installed beside the built-in ones."""
_BUILT_IN = ("batch/v1/jobs", "v1/pods", "v1/events", "coordination.k8s.io/v1/leases")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """One API server for all tests of a module."""
    if not (BINARIES / "kube-apiserver").exists() or shutil.which("etcd") is None or shutil.which("openssl") is None:
        pytest.fail("no Kubernetes API server here: `make test-kubernetes` builds one")
    real = RealServer(tmp_path_factory.mktemp("kubernetes"))
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


class RealServer:
    """One API server, its etcd and the kubelets of its nodes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = _free_ports(5)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: dict[tuple[str, str, bool], str] = {}
        self._kubelet: ThreadingHTTPServer | None = None
        (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"https://127.0.0.1:{self._ports[0]}"

    @property
    def _etcd(self) -> str:
        return f"http://127.0.0.1:{self._ports[1]}"

    async def start(self) -> None:
        """Start everything, and have the kinds and nodes of the tests. Fails the test when it does not come up."""
        self._make_keys()
        peers = f"http://127.0.0.1:{self._ports[2]}"
        self._run(
            "etcd", "etcd", f"--data-dir={self._folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=error",
            f"--listen-client-urls={self._etcd}", f"--advertise-client-urls={self._etcd}",
            f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        )  # fmt: skip
        await self.revive()
        self._start_kubelet()
        await self._furnish()

    def stop(self) -> None:
        """End everything."""
        for process in reversed(self._processes.values()):
            process.kill()
            process.wait()
        if self._kubelet:
            self._kubelet.shutdown()
            self._kubelet.server_close()

    async def kill(self) -> None:
        """Kill the API server; etcd stays."""
        process = self._processes.pop("kube-apiserver")
        process.kill()
        process.wait()

    async def revive(self) -> None:
        """Start the API server and wait until it is ready."""
        keys = self._folder / "keys"
        self._run(
            "kube-apiserver", str(BINARIES / "kube-apiserver"), f"--etcd-servers={self._etcd}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={self._ports[0]}",
            f"--cert-dir={self._folder / 'certificates'}", f"--token-auth-file={self._folder / 'tokens.csv'}",
            "--authorization-mode=RBAC", "--service-account-issuer=https://kubernetes.default",
            f"--service-account-signing-key-file={keys / 'sa.key'}", f"--service-account-key-file={keys / 'sa.pub'}",
            "--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount",
            # Without its cache, a compaction of etcd takes the history away as it would after hours.
            "--watch-cache=false", "--endpoint-reconciler-type=none",
        )  # fmt: skip
        async with aiohttp.ClientSession() as session, asyncio.timeout(120):
            while not await self._is_ready(session):
                assert self._processes["kube-apiserver"].poll() is None, self.log()
                await asyncio.sleep(0.2)

    @asynccontextmanager
    async def controllers(self, kubeconfig: Path) -> AsyncIterator[None]:
        """Meanwhile, the controller runs that makes the pods of Jobs and judges them."""
        self._run(
            "kube-controller-manager", str(BINARIES / "kube-controller-manager"), f"--kubeconfig={kubeconfig}",
            "--controllers=job", "--leader-elect=false", "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[3]}", "--port=0",
        )  # fmt: skip
        try:
            yield
        finally:
            process = self._processes.pop("kube-controller-manager")
            process.kill()
            process.wait()

    async def put_log(self, pod: str, container: str, text: str, previous: bool = False) -> None:
        """Have the pod's kubelet answer with this log."""
        self._logs[pod, container, previous] = text

    async def compact(self) -> None:
        """Have etcd forget all history."""
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{self._etcd}/v3/kv/range", json={"key": "YQ=="}) as answer:
                revision = (await answer.json(content_type=None))["header"]["revision"]
            body = {"revision": revision, "physical": True}
            async with session.post(f"{self._etcd}/v3/kv/compaction", json=body) as answer:
                assert answer.status == 200, await answer.text()

    async def clear(self) -> None:
        """Remove what a test left behind."""
        self._logs.clear()
        for place in [f"{group}/{version}/{plural}" for group, version, plural in CUSTOM] + [*_BUILT_IN]:
            await self.call("DELETE", f"{collection(place)}?gracePeriodSeconds=0&propagationPolicy=Background")

    async def call(self, method: str, path: str, body: Any = None, token: str = TOKEN) -> tuple[int, Any]:
        """Ask, as whoever the token is; return the status and the answer."""
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.url + path, json=body, headers=headers, ssl=False) as answer,
        ):
            told = await answer.text()
            return answer.status, json.loads(told) if told.startswith("{") else told

    async def token_of(self, namespace: str, account: str) -> str:
        """A token of a service account, as its pods are given."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        status, answer = await self.call("POST", path, body)
        assert status == 201, answer
        return str(answer["status"]["token"])

    def log(self) -> str:
        """The end of what the API server said."""
        return (self._folder / "kube-apiserver.log").read_text("utf-8", "replace")[-3000:]

    async def _is_ready(self, session: aiohttp.ClientSession) -> bool:
        try:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with session.get(f"{self.url}/readyz", headers=headers, ssl=False) as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    def _run(self, name: str, *command: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)

    def _make_keys(self) -> None:
        keys = self._folder / "keys"
        keys.mkdir()
        for command in (
            ["openssl", "genrsa", "-out", "sa.key", "2048"],
            ["openssl", "rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub"],
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=kubelet",
             "-keyout", "kubelet.key", "-out", "kubelet.crt"],
        ):  # fmt: skip
            subprocess.run(command, cwd=keys, check=True, capture_output=True)

    def _start_kubelet(self) -> None:
        keys = self._folder / "keys"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys / "kubelet.crt", keys / "kubelet.key")
        self._kubelet = ThreadingHTTPServer(("127.0.0.1", self._ports[4]), _kubelet_of(self._logs))
        self._kubelet.socket = context.wrap_socket(self._kubelet.socket, server_side=True)
        threading.Thread(target=self._kubelet.serve_forever, daemon=True).start()

    async def _furnish(self) -> None:
        await self._created("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name in NODES:
            status = {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self._ports[4]}},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            }
            await self._created("/api/v1/nodes", {"metadata": {"name": name}, "status": status})
        kinds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for (group, version, plural), kind in CUSTOM.items():
            await self._created(kinds, _kind(group, version, plural, kind))
        async with asyncio.timeout(120):
            for group, version, plural in CUSTOM:
                while (await self.call("GET", collection(f"{group}/{version}/{plural}")))[0] != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.2)

    async def _created(self, path: str, body: Any) -> None:
        status, answer = await self.call("POST", path, body)
        assert status == 201, answer


def _kubelet_of(logs: Mapping[tuple[str, str, bool], str]) -> type[BaseHTTPRequestHandler]:
    """A kubelet that answers with the logs of containers, which is all that the API server asks of it here."""

    class Kubelet(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            *_, pod, container = url.path.split("/")
            found = logs.get((pod, container, parse_qs(url.query).get("previous") == ["true"]))
            stamp = "2026-11-05T03:12:07.123456789Z " if "timestamps" in url.query else ""
            lines = (found or "no such container\n").splitlines(keepends=True)
            body = "".join(stamp + line for line in lines).encode()
            self.send_response(200 if found is not None else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Kubelet


def _kind(group: str, version: str, plural: str, kind: str) -> dict[str, Any]:
    """A custom kind of which everything is allowed. Groups under k8s.io must say that they are not reviewed."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
            ],
        },
    }  # fmt: skip


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
