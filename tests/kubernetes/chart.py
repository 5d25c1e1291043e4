"""The chart on a real API server: created as Helm would, and what an account may do then."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.kubernetes.real import RealServer

ROOT = Path(__file__).parents[2]
Document = dict[str, Any]
RELEASE = "night-watch"
WATCHER = f"{RELEASE}-firstfault-watcher"
"""The name of the watcher's account, Deployment and Lease."""
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_OLDER = {"policy/v1": "policy/v1beta1"}
"""Groups whose version is newer than this server's, with the older one of the same shape."""
_AT_ONCE = 8


def render(helm: Path, namespace: str, values: str = "") -> list[Document]:
    """What `helm install` would create in a namespace. Fails the test when Helm does."""
    command = [str(helm), "template", RELEASE, str(ROOT / "helm" / "firstfault"), "--namespace", namespace]
    done = subprocess.run([*command, "--set", values], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


async def apply(server: RealServer, documents: Iterable[Document], namespace: str) -> list[Document]:
    """Create everything and return it as it was stored. Fails the test when the server takes something otherwise than it was written."""
    await _namespace(server, namespace)
    stored = []
    for document in documents:
        version = _OLDER.get(str(document["apiVersion"])) or str(document["apiVersion"])
        there: str = document["metadata"].get("namespace", namespace)
        await _namespace(server, there)
        path = await _collection(server, version, document["kind"], there)
        status, answer = await server.call("POST", path, {**document, "apiVersion": version})
        assert status == 201, f"{document['kind']} {document['metadata']['name']}: {answer}"
        # An old server drops what it does not know, without a word.
        assert not (lost := list(_lost({**document, "apiVersion": version}, answer))), f"{document['kind']}: {lost}"
        stored.append(answer)
    return stored


async def rules(server: RealServer, token: str, namespace: str) -> set[str]:
    """What the server says that a token allows in a namespace, each as `list jobs.batch`."""
    spec = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    status, answer = await server.call("POST", path, spec, token)
    assert status == 201, answer
    assert not answer["status"]["incomplete"]
    return {
        _written(verb, group, resource, name)
        for rule in answer["status"]["resourceRules"]
        for verb in rule["verbs"]
        for group in rule.get("apiGroups") or [""]
        for resource in rule.get("resources") or ()
        for name in rule.get("resourceNames") or [""]
    }


async def allowed(server: RealServer, token: str, namespace: str) -> set[str]:
    """The same, asked one by one, of everything that the server serves and of what makes others' rights one's own."""
    asked = [(verb, *what) for what in await _resources(server) for verb in VERBS]
    asked += [("impersonate", "", what) for what in ("users", "groups", "serviceaccounts")]
    asked += [(verb, "rbac.authorization.k8s.io", "clusterroles") for verb in ("bind", "escalate")]
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def may(verb: str, group: str, resource: str) -> bool:
            plural, _, part = resource.partition("/")
            attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": plural, "subresource": part}
            review = {
                "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            }  # fmt: skip
            url = f"{server.url}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
            async with gate, session.post(url, json=review, ssl=False) as answer:
                assert answer.status == 201, await answer.text()
                return bool((await answer.json())["status"]["allowed"])

        answers = await asyncio.gather(*(may(*what) for what in asked))
    return {_written(*what) for what, yes in zip(asked, answers, strict=True) if yes}


def _written(verb: str, group: str, resource: str, name: str = "") -> str:
    plural, slash, part = resource.partition("/")
    return f"{verb} {plural}{'.' if group else ''}{group}{slash}{part} {name}".rstrip()


async def _resources(server: RealServer) -> list[tuple[str, str]]:
    """Every resource and subresource that is served, with its group."""
    roots = ["/api/v1"]
    _, groups = await server.call("GET", "/apis")
    roots += [f"/apis/{version['groupVersion']}" for group in groups["groups"] for version in group["versions"]]
    found = set()
    for root in roots:
        _, listed = await server.call("GET", root)
        group = root.split("/")[2] if root.startswith("/apis/") else ""
        found |= {(group, each["name"]) for each in listed["resources"]}
    return sorted(found)


async def _namespace(server: RealServer, name: str) -> None:
    status, answer = await server.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert status in (201, 409), answer


async def _collection(server: RealServer, version: str, kind: str, namespace: str) -> str:
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    status, listed = await server.call("GET", root)
    assert status == 200, f"{kind}: no {version} here"
    row = next(each for each in listed["resources"] if each["kind"] == kind and "/" not in each["name"])
    return f"{root}/namespaces/{namespace}/{row['name']}" if row["namespaced"] else f"{root}/{row['name']}"


def _lost(sent: Any, stored: Any, path: str = "") -> Iterable[str]:
    """What was sent and is not stored so."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key, value in sent.items():
            if value not in (None, "", [], {}, False) or key in stored:
                yield from _lost(value, stored.get(key), f"{path}.{key}")
    elif isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        for place, (one, other) in enumerate(zip(sent, stored, strict=True)):
            yield from _lost(one, other, f"{path}[{place}]")
    elif sent != stored:
        yield f"{path}: {sent!r} became {stored!r}"
