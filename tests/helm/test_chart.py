"""The chart renders what Kubernetes accepts, and a pod that may do little."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "firstfault"
Rendered = list[dict[str, Any]]


def render(helm: Path, *arguments: str) -> Rendered:
    command = [str(helm), "template", "night-watch", str(CHART), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    return [document for document in yaml.safe_load_all(result.stdout) if document]


def only(documents: Rendered, kind: str) -> dict[str, Any]:
    (found,) = [document for document in documents if document["kind"] == kind]
    return found


def test_helm_finds_nothing_to_complain_about(helm: Path) -> None:
    result = subprocess.run(
        [str(helm), "lint", "--strict", str(CHART)], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("kubernetes", ["1.25", "1.30", "1.34"])
@pytest.mark.parametrize(
    "arguments",
    [(), ("--set", "persistence.existingClaim=old,service.type=LoadBalancer,imagePullSecrets[0].name=pull")],
    ids=["defaults", "everything set"],
)
def test_every_document_fits_the_schema_of(helm: Path, kubernetes: str, arguments: tuple[str, ...]) -> None:
    documents = render(helm, *arguments)
    assert {document["kind"] for document in documents} >= {"ConfigMap", "Deployment", "Service", "ServiceAccount"}
    for document in documents:
        kubernetes_validate.validate(document, kubernetes, strict=True)


def test_the_pod_can_do_nothing_but_serve(helm: Path) -> None:
    documents = render(helm)
    deployment = only(documents, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert only(documents, "ServiceAccount")["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]


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
    [("imagee.tag=1", "imagee"), ("persistence.size=lots", "size"), ("existingSecret=", "existingSecret")],
)
def test_a_wrong_value_is_named(helm: Path, wrong: str, named: str) -> None:
    command = [str(helm), "template", "x", str(CHART), "--set", wrong]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode != 0
    assert named in result.stderr


def test_the_chart_has_the_project_s_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == project["version"]
