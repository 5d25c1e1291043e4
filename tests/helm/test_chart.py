"""The chart renders what Kubernetes accepts, and a pod that may do little."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from bot.settings import load
from hooks.kubernetes.kinds import KINDS
from hooks.kubernetes.settings import parse
from tests.helm.readme import readme

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "firstfault"
Rendered = list[dict[str, Any]]
EVERYTHING = (
    "persistence.existingClaim=old,service.type=LoadBalancer,imagePullSecrets[0].name=pull,ingress.enabled=true,"
    "ingress.tlsSecret=tls,ingress.className=web,serviceMonitor.enabled=true,serviceMonitor.labels.team=ml,"
    "bot.extraEnv[0].name=A,bot.extraEnv[0].value=b,bot.nodeSelector.pool=cpu,bot.tolerations[0].key=cpu,"
    "bot.podAnnotations.a=b,watcher.replicas=2,watcher.extraEnv[0].name=A,watcher.extraEnv[0].value=b,"
    "watcher.nodeSelector.pool=cpu,watcher.podAnnotations.a=b,watcher.firstPod=true,serviceAccount.annotations.a=b"
)
MATRIX = {
    "defaults": "",
    "everything set": EVERYTHING,
    "no watcher": "watcher.enabled=false",
    "only the watcher": "bot.enabled=false,watcher.service=https://firstfault.example.com",
    "some namespaces": "watcher.namespaces={train,research}",
    "some namespaces and no nodes": "watcher.namespaces={train},watcher.readNodes=false",
    "a database elsewhere": (
        "bot.extraEnv[0].name=FIRSTFAULT_DATABASE_URL,bot.extraEnv[0].valueFrom.secretKeyRef.name=database,"
        "bot.extraEnv[0].valueFrom.secretKeyRef.key=url"
    ),
    "a way in from outside": "ingress.enabled=true",
    "names of its own": "nameOverride=faults,fullnameOverride=first-faults",
    "nothing around it": "networkPolicy.enabled=false,podDisruptionBudget.enabled=false",
}


def render(helm: Path, *arguments: str) -> Rendered:
    command = [str(helm), "template", "night-watch", str(CHART), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    return [document for document in yaml.safe_load_all(result.stdout) if document]


def only(documents: Rendered, kind: str, component: str = "") -> dict[str, Any]:
    """The one document of a kind, of the bot unless another component is named."""
    name = "night-watch-firstfault" + (f"-{component}" if component else "")
    (found,) = [each for each in documents if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def test_helm_finds_nothing_to_complain_about(helm: Path) -> None:
    result = subprocess.run(
        [str(helm), "lint", "--strict", str(CHART)], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("kubernetes", ["1.25", "1.30", "1.34"])
@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX.keys())
def test_every_document_fits_the_schema_of(helm: Path, kubernetes: str, values: str) -> None:
    documents = render(helm, *(("--set", values) if values else ()))
    assert {document["kind"] for document in documents} >= {"Deployment", "Service", "ServiceAccount", "Pod"}
    for document in documents:
        if document["kind"] != "ServiceMonitor":  # its operator's own kind
            kubernetes_validate.validate(document, kubernetes, strict=True)


def _pods(documents: Rendered) -> list[dict[str, Any]]:
    pods = [each["spec"]["template"]["spec"] for each in documents if each["kind"] == "Deployment"]
    return pods + [each["spec"] for each in documents if each["kind"] == "Pod"]


def test_no_pod_can_do_more_than_its_work(helm: Path) -> None:
    pods = _pods(render(helm))
    assert len(pods) == 3
    for pod in pods:
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_only_the_watcher_has_a_token_of_the_cluster(helm: Path) -> None:
    documents = render(helm)
    tokens = [pod.get("automountServiceAccountToken", True) for pod in _pods(documents)]
    assert tokens.count(True) == 1
    assert only(documents, "ServiceAccount")["automountServiceAccountToken"] is False
    deployment = only(documents, "Deployment", "watcher")
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "night-watch-firstfault-watcher"


def test_the_watcher_writes_nothing_but_its_lease(helm: Path) -> None:
    documents = render(helm)
    rules = [rule for each in documents if each["kind"] in ("Role", "ClusterRole") for rule in each["rules"]]
    writing = [rule for rule in rules if not set(rule["verbs"]) <= {"get", "list", "watch"}]
    assert {resource for rule in writing for resource in rule["resources"]} == {"leases"}
    assert not [rule for rule in rules if "*" in rule["verbs"] + rule["resources"] + rule["apiGroups"]]
    assert not [rule for rule in rules if "secrets" in rule["resources"]]


def test_the_watcher_may_read_every_kind_it_knows(helm: Path) -> None:
    role = next(each for each in render(helm) if each["kind"] == "ClusterRole")
    allowed = {
        (group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if {"list", "watch"} <= set(rule["verbs"])
    }
    assert {(kind.group, kind.plural) for kind in KINDS} <= allowed


def test_with_namespaces_named_there_are_no_rights_elsewhere(helm: Path) -> None:
    documents = render(helm, "--set", MATRIX["some namespaces and no nodes"])
    assert not [each for each in documents if each["kind"].startswith("ClusterRole")]
    roles = {each["metadata"].get("namespace") for each in documents if each["kind"] == "Role"}
    assert roles == {"train", None}  # None: the lease, in the release's own


def test_the_service_does_not_send_reports_to_the_watcher(helm: Path) -> None:
    documents = render(helm)
    selector = only(documents, "Service")["spec"]["selector"]
    watcher = only(documents, "Deployment", "watcher")["spec"]["template"]["metadata"]["labels"]
    assert not selector.items() <= watcher.items()


def test_the_watcher_understands_the_environment_it_is_given(helm: Path) -> None:
    documents = render(helm, "--set", "watcher.namespaces={train,research},watcher.firstPod=true")
    (container,) = only(documents, "Deployment", "watcher")["spec"]["template"]["spec"]["containers"]
    environment = {entry["name"]: entry.get("value", "filled-in") for entry in container["env"]}
    settings = parse([], environment)
    assert settings.service == "http://night-watch-firstfault:80"
    assert settings.namespaces == ("train", "research")
    assert settings.lease == ("default", "night-watch-firstfault-watcher")
    assert settings.listen == ("0.0.0.0", container["ports"][0]["containerPort"])
    assert settings.first_pod


def test_the_watcher_may_write_the_lease_it_is_told_to_hold(helm: Path) -> None:
    role = only(render(helm), "Role", "watcher-lease")
    assert role["rules"][0]["resourceNames"] == ["night-watch-firstfault-watcher"]


@pytest.mark.parametrize(
    ("service", "port"),
    [
        ("https://ff.example.com:9443", 9443),
        ("https://ff.example.com:9443/ff", 9443),
        ("http://[fd00::1]:8080", 8080),
        ("http://ff.example.com", 80),
        ("https://ff.example.com", 443),
    ],
)
def test_the_watcher_is_let_out_to_the_service_elsewhere(helm: Path, service: str, port: int) -> None:
    documents = render(helm, "--set", f"bot.enabled=false,watcher.service={service}")
    allowed = [each["port"] for each in only(documents, "NetworkPolicy", "watcher")["spec"]["egress"][1]["ports"]]
    assert set(allowed) == {443, 6443, 8642, port}
    assert len(allowed) == len(set(allowed))


def test_the_notes_say_to_which_ports_the_watcher_is_let_out(helm: Path) -> None:
    told = notes(helm, "--set", "networkPolicy.watcherPorts={8443,8642}")
    assert "lets it out to the ports 8443, 8642." in told
    assert "networkPolicy.watcherPorts" in told
    assert "network policy" not in notes(helm, "--set", "networkPolicy.enabled=false")
    assert "network policy" not in notes(helm, "--set", "watcher.enabled=false")


def test_every_way_to_install_makes_the_namespace_first() -> None:
    blocks = (ROOT / "docs/kubernetes.md").read_text("utf-8").split("```")[1::2]
    installing = [block for block in blocks if "helm install" in block]
    assert len(installing) == 2
    for block in installing:
        assert 0 <= block.find("kubectl create namespace firstfault") < block.index("--namespace firstfault")


def test_the_readme_tells_of_every_value() -> None:
    assert (CHART / "README.md").read_text("utf-8") == readme(), "python -m tests.helm.readme writes it"


def test_sqlite_never_has_two_writers(helm: Path) -> None:
    deployment = only(render(helm), "Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}


def test_the_service_reaches_the_pod_on_the_port_it_listens_on(helm: Path) -> None:
    documents = render(helm)
    pod = only(documents, "Deployment")["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    (port,) = container["ports"]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}

    assert only(documents, "Service")["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert only(documents, "Service")["spec"]["ports"][0]["targetPort"] == port["name"]
    assert environment["FIRSTFAULT_LISTEN__PORT"] == str(port["containerPort"])
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": port["name"]}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz/intake", "port": port["name"]}


def test_changed_settings_start_a_new_pod(helm: Path) -> None:
    def checksum(*arguments: str) -> str:
        deployment = only(render(helm, *arguments), "Deployment")
        return str(deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"])

    assert checksum() == checksum()
    assert checksum() != checksum("--set-string", "config=[slack]")


def test_the_settings_arrive_as_valid_toml(helm: Path) -> None:
    settings = tomllib.loads(only(render(helm), "ConfigMap")["data"]["firstfault.toml"])
    assert settings["slack"]["mode"] == "socket"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("imagee.tag=1", "imagee"),
        ("persistence.size=lots", "size"),
        ("existingSecret=", "existingSecret"),
        ("watcher.replicas=0", "replicas"),
        ("bot.enabled=false", "bot"),
    ],
)
def test_a_wrong_value_is_named(helm: Path, wrong: str, named: str) -> None:
    command = [str(helm), "template", "x", str(CHART), "--set", wrong]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode != 0
    assert named in result.stderr


def notes(helm: Path, *arguments: str) -> str:
    command = [str(helm), "install", "night-watch", str(CHART), "--dry-run=client", "--namespace", "ff", *arguments]
    env = {**os.environ, "KUBECONFIG": os.devnull}
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout.partition("NOTES:\n")[2]


def test_only_where_the_service_is_a_token_may_be_invented(helm: Path) -> None:
    assert "openssl rand" in notes(helm)
    told = notes(helm, "--set", MATRIX["only the watcher"])
    assert "openssl" not in told
    assert "firstfault cluster add NAME" in told
    assert 'FIRSTFAULT_CLUSTERS__KUBERNETES__TOKEN="$(cat token)"' in told


def test_the_smallest_settings_of_the_page_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/kubernetes.md").read_text("utf-8")
    (smallest,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "firstfault.toml").write_text(smallest)
    monkeypatch.chdir(tmp_path)
    for name, value in re.findall(r"--from-literal=(FIRSTFAULT_(?:SLACK|CLUSTERS)\w+)=(xox|xapp|\")", page):
        monkeypatch.setenv(name, f"{value}-test-not-a-token" if value != '"' else "kubernetes-test-not-a-token")
    settings = load(tmp_path / "firstfault.toml")
    assert settings.slack.channel == "C0123456789"
    assert set(settings.clusters) == {"kubernetes"}


def test_the_chart_has_the_project_s_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == project["version"]
