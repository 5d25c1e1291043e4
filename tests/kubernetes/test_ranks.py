"""Which pod holds which ranks."""

from __future__ import annotations

from typing import Any

import pytest

from hooks.kubernetes.kinds import KINDS, Kind
from hooks.kubernetes.ranks import ranks_in, seat

BY_NAME = {kind.kind: kind for kind in KINDS}
INDEX = "batch.kubernetes.io/job-completion-index"


def pod(name: str, labels: dict[str, str], node: str = "", **container: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "main", **container}]},
    }


def workload(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "llm", "namespace": "train", "uid": "u"}, "spec": spec}


def numbers(kind: Kind, item: dict[str, Any], pods: list[dict[str, Any]]) -> dict[str, int | None]:
    return {each.name: each.number for each in seat(kind, item, pods).seats}


def test_an_indexed_job_counts_by_completion_index_also_when_a_pod_is_missing() -> None:
    pods = [pod(f"llm-{index}", {INDEX: str(index)}) for index in (3, 0)]
    assert numbers(BY_NAME["Job"], workload(completions=4), pods) == {"llm-0": 0, "llm-3": 3}


def test_a_job_without_indices_has_no_ranks_among_several_pods() -> None:
    found = seat(BY_NAME["Job"], workload(completions=2), [pod("llm-a", {}), pod("llm-b", {})])
    assert [each.number for each in found.seats] == [None, None]
    assert found.world_size is None


def test_a_jobset_counts_replicated_jobs_in_their_order_then_jobs_then_completions() -> None:
    spec = {
        "replicatedJobs": [
            {"name": "leader", "replicas": 1, "template": {"spec": {"parallelism": 1}}},
            {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 2}}},
        ]
    }
    prefix = "jobset.sigs.k8s.io/"
    pods = [
        pod(f"w-{job}-{index}", {f"{prefix}replicatedjob-name": "workers", f"{prefix}job-index": job, INDEX: index})
        for job in "10"
        for index in "10"
    ]
    pods.append(pod("l", {f"{prefix}replicatedjob-name": "leader", f"{prefix}job-index": "0", INDEX: "0"}))
    expected = {"l": 0, "w-0-0": 1, "w-0-1": 2, "w-1-0": 3, "w-1-1": 4}
    assert numbers(BY_NAME["JobSet"], workload(**spec), pods) == expected


def test_an_mpi_launcher_is_no_rank() -> None:
    label = "training.kubeflow.org/replica-type"
    pods = [
        pod("llm-launcher", {label: "launcher"}),
        pod("llm-worker-1", {label: "worker", "training.kubeflow.org/replica-index": "1"}),
    ]
    spec = {"mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}}
    assert numbers(BY_NAME["MPIJob"], workload(**spec), pods) == {"llm-launcher": None, "llm-worker-1": 1}


def test_a_volcano_task_without_an_index_label_counts_by_its_pod_s_name() -> None:
    pods = [pod(f"llm-worker-{index}", {"volcano.sh/task-spec": "worker"}) for index in range(2)]
    spec = {"tasks": [{"name": "worker", "replicas": 2}]}
    assert numbers(BY_NAME["VolcanoJob"], workload(**spec), pods) == {"llm-worker-0": 0, "llm-worker-1": 1}


def test_a_bare_pod_is_believed_what_its_environment_says() -> None:
    found = pod("p", {}, env=[{"name": "RANK", "value": "5"}])
    assert numbers(BY_NAME["Pod"], found, [found]) == {"p": 5}


@pytest.mark.parametrize(
    ("container", "ranks"),
    [
        ({}, 1),
        ({"resources": {"limits": {"nvidia.com/gpu": "8"}}}, 8),
        ({"resources": {"limits": {"cpu": "96", "memory": "1Ti"}}}, 1),
        (
            {
                "command": ["torchrun", "--nproc-per-node=4", "train.py"],
                "resources": {"limits": {"nvidia.com/gpu": "8"}},
            },
            4,
        ),
        ({"args": ["torchrun --nnodes 2 --nproc_per_node 2 train.py"]}, 2),
        ({"env": [{"name": "PET_NPROC_PER_NODE", "value": "8"}]}, 8),
        ({"env": [{"name": "PET_NPROC_PER_NODE", "value": "gpu"}], "resources": {"limits": {"amd.com/gpu": 4}}}, 4),
        ({"command": ["torchrun", "--nproc-per-node=999999999"]}, 1),
    ],
)
def test_a_pod_holds_as_many_ranks_as_its_command_or_its_accelerators_say(
    container: dict[str, Any], ranks: int
) -> None:
    assert ranks_in(pod("p", {}, **container)) == ranks


def test_world_size_and_nodes_follow_the_ranks() -> None:
    gpus = {"resources": {"limits": {"nvidia.com/gpu": "4"}}}
    pods = [pod(f"llm-{index}", {INDEX: str(index)}, node, **gpus) for index, node in ((1, "n-a"), (0, "n-b"))]
    found = seat(BY_NAME["Job"], workload(completions=2), pods)
    assert (found.world_size, found.ranks_per_node, found.nodes) == (8, 4, ["n-b", "n-a"])


def test_two_pods_on_one_node_are_counted_together() -> None:
    pods = [pod(f"llm-{index}", {INDEX: str(index)}, "n-a") for index in range(2)]
    found = seat(BY_NAME["Job"], workload(completions=2), pods)
    assert (found.world_size, found.ranks_per_node, found.nodes) == (2, 2, ["n-a"])


@pytest.mark.parametrize("label", ["-1", "one", "99999999999", ""])
def test_labels_that_are_no_numbers_are_not_believed(label: str) -> None:
    pods = [pod("llm-a", {INDEX: label}), pod("llm-b", {INDEX: label})]
    assert set(numbers(BY_NAME["Job"], workload(completions=2), pods).values()) == {None}
