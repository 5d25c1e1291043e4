"""The kinds of workload that are watched: where each stands in the API, how it ends, and whose pods are which rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hooks.kubernetes.api import Object

Groups = Sequence[tuple[str, int]]
"""Groups of a workload's pods in the order of their ranks, each with how many pods it has."""

INDEX = "batch.kubernetes.io/job-completion-index"
_KUBEFLOW = ("training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index")
_JOBSET = "jobset.sigs.k8s.io/"


@dataclass(frozen=True, slots=True)
class Rules:
    """How a kind says that it ended: conditions that are true, or words in a field of its status."""

    failed: tuple[str, ...] = ()
    well: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()  # suspended, or by a person
    ending: tuple[str, ...] = ()  # it is about to fail: pods go soon
    at: tuple[str, ...] = ("conditions",)  # below status: conditions, or the field that has the word
    reason: tuple[str, ...] = ("reason",)
    message: tuple[str, ...] = ("message",)


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table."""

    group: str
    versions: tuple[str, ...]  # the ones understood, the preferred first
    plural: str
    kind: str
    rules: Rules
    selector: str  # of its pods; {name}, {uid} and {cluster} are filled in
    group_label: str = ""  # a pod's group: its replica type, or its place among several jobs
    index_labels: tuple[str, ...] = ()  # a pod's number in its group; several count like digits
    groups: Callable[[Object], Groups] = lambda _: ()
    no_ranks: tuple[str, ...] = ()  # groups that launch or serve and train nothing
    attempt: tuple[str, ...] = ()  # below status: how often it was started again
    only_labelled: bool = False  # watched only where it bears the label

    def path(self, version: str, namespace: str | None) -> str:
        """The collection's path: of one namespace, or of all."""
        root = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if namespace else f"{root}/{self.plural}"

    def pods(self, item: Object) -> str:
        """The label selector of a workload's pods."""
        metadata = item["metadata"]
        return self.selector.format(
            name=metadata["name"], uid=metadata["uid"], cluster=item.get("status", {}).get("rayClusterName", "")
        )


def inside(item: Any, *path: str) -> Any:
    """What stands at a path of keys; None where something on the way is missing."""
    for key in path:
        item = item.get(key) if isinstance(item, dict) else None
    return item


def _number(value: Any, otherwise: int = 1) -> int:
    return value if isinstance(value, int) and 0 <= value <= 1 << 20 else otherwise


def _job(item: Object) -> Groups:
    return [("", _number(inside(item, "spec", "completions"), _number(inside(item, "spec", "parallelism"))))]


def _jobset(item: Object) -> Groups:
    return [
        (str(job.get("name")), _number(job.get("replicas")) * _number(inside(job, "template", "spec", "parallelism")))
        for job in inside(item, "spec", "replicatedJobs") or ()
    ]


def _replicas(field: str, order: Sequence[str]) -> Callable[[Object], Groups]:
    def groups(item: Object) -> Groups:
        there = inside(item, "spec", field) or {}
        return [(name.lower(), _number(inside(there[name], "replicas"))) for name in order if name in there]

    return groups


def _volcano(item: Object) -> Groups:
    return [(str(task.get("name")), _number(task.get("replicas"))) for task in inside(item, "spec", "tasks") or ()]


def _train_job(item: Object) -> Groups:
    return [("node", _number(inside(item, "spec", "trainer", "numNodes")))]


_KUBEFLOW_RULES = Rules(failed=("Failed",), well=("Succeeded",), stopped=("Suspended",))
_OF_KUBEFLOW = f"{_KUBEFLOW[0].rpartition('/')[0]}/job-name={{name}}"

KINDS: tuple[Kind, ...] = (
    Kind(
        "trainer.kubeflow.org", ("v1alpha1", "v1"), "trainjobs", "TrainJob",
        Rules(failed=("Failed",), well=("Complete",), stopped=("Suspended",)),
        selector=f"{_JOBSET}jobset-name={{name}}", group_label=f"{_JOBSET}replicatedjob-name",
        index_labels=(f"{_JOBSET}job-index", INDEX), groups=_train_job,
        no_ranks=("launcher", "dataset-initializer", "model-initializer"),
    ),
    Kind(
        "jobset.x-k8s.io", ("v1alpha2",), "jobsets", "JobSet",
        Rules(failed=("Failed",), well=("Completed",), stopped=("Suspended",)),
        selector=f"{_JOBSET}jobset-name={{name}}", group_label=f"{_JOBSET}replicatedjob-name",
        index_labels=(f"{_JOBSET}job-index", INDEX), groups=_jobset,
        no_ranks=("launcher", "dataset-initializer", "model-initializer"), attempt=("restarts",),
    ),
    Kind(
        "kubeflow.org", ("v1",), "pytorchjobs", "PyTorchJob", _KUBEFLOW_RULES, _OF_KUBEFLOW,
        group_label=_KUBEFLOW[0], index_labels=(_KUBEFLOW[1],),
        groups=_replicas("pytorchReplicaSpecs", ("Master", "Worker")),
    ),
    Kind(
        "kubeflow.org", ("v1", "v2beta1"), "mpijobs", "MPIJob", _KUBEFLOW_RULES, _OF_KUBEFLOW,
        group_label=_KUBEFLOW[0], index_labels=(_KUBEFLOW[1],),
        groups=_replicas("mpiReplicaSpecs", ("Worker",)), no_ranks=("launcher",),
    ),
    Kind(
        "ray.io", ("v1", "v1alpha1"), "rayjobs", "RayJob",
        Rules(
            failed=("FAILED", "Failed"), well=("SUCCEEDED", "Complete"), stopped=("STOPPED", "Suspended"),
            at=("jobStatus", "jobDeploymentStatus"),
        ),
        selector="ray.io/cluster={cluster}", group_label="ray.io/node-type", no_ranks=("head", "worker"),
        attempt=("failed",),
    ),
    Kind(
        "batch.volcano.sh", ("v1alpha1",), "jobs", "VolcanoJob",
        Rules(
            failed=("Failed", "Terminated"), well=("Completed",), stopped=("Aborted",), ending=("Terminating",),
            at=("state.phase",), reason=("state", "reason"), message=("state", "message"),
        ),
        selector="volcano.sh/job-name={name}", group_label="volcano.sh/task-spec",
        index_labels=("volcano.sh/task-index",), groups=_volcano, attempt=("retryCount",),
    ),
    Kind(
        "batch", ("v1",), "jobs", "Job",
        Rules(
            failed=("Failed",), well=("Complete", "SuccessCriteriaMet"), stopped=("Suspended",), ending=("FailureTarget",)
        ),
        selector="controller-uid={uid}", index_labels=(INDEX,), groups=_job,
    ),
    Kind(
        "kueue.x-k8s.io", ("v1beta1", "v1beta2"), "workloads", "Workload",
        Rules(failed=("Finished=Failed",), well=("Finished",), stopped=("Evicted",)),
        selector="kueue.x-k8s.io/pod-group-name={name}", index_labels=("kueue.x-k8s.io/pod-group-pod-index",),
    ),
    Kind(
        "", ("v1",), "pods", "Pod", Rules(failed=("Failed",), well=("Succeeded",), at=("phase",)),
        selector="", only_labelled=True,
    ),
)  # fmt: skip
"""Who owns stands before what is owned: a JobSet's failure is told, its Jobs' are not."""

BY_OWNER: dict[tuple[str, str], Kind] = {
    (kind.group, "Job" if kind.kind == "VolcanoJob" else kind.kind): kind for kind in KINDS
}
"""A kind by its group and the name that the API calls it by."""


def attempt_of(kind: Kind, item: Object) -> int:
    """How often a workload was started again, from 0."""
    return _number(inside(item, "status", *kind.attempt), 0) if kind.attempt else 0
