"""The kinds of workload that are watched: where each stands in the API, how it ends, and whose pods are which rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hooks.kubernetes.api import Object

Groups = Sequence[tuple[str, int]]
"""Groups of a workload's pods in the order of their ranks, each with how many pods it has."""

INDEX = "batch.kubernetes.io/job-completion-index"
_KUBEFLOW = "training.kubeflow.org/"
_OF_KUBEFLOW = f"{_KUBEFLOW}job-name={{name}}"
_KUBEFLOW_GROUPS = (f"{_KUBEFLOW}replica-type", f"{_KUBEFLOW}job-role")
_JOBSET = "jobset.sigs.k8s.io/"
_RESTARTS = f"{_JOBSET}restart-attempt"


@dataclass(frozen=True, slots=True)
class Rules:
    """How a kind says that it ended: conditions that are true, or words in a field of its status."""

    failed: tuple[str, ...] = ()
    well: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()  # suspended, or by a person
    ending: tuple[str, ...] = ()  # it is about to fail: pods go soon
    again: tuple[str, ...] = ()  # it will be tried again, whatever else is said
    aborted: tuple[str, ...] = ()  # failed where its status counts failed pods, else stopped
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
    selector: str  # of its pods, where their owners do not tell; {name}, {uid} and {cluster} are filled in
    group_labels: tuple[str, ...] = ()  # a pod's group: its replica type, or its place among several jobs
    index_labels: tuple[str, ...] = ()  # a pod's number in its group; several count like digits
    groups: Callable[[Object], Groups] = lambda _: ()
    no_ranks: tuple[str, ...] = ()  # groups that launch or serve and train nothing
    launching: tuple[str, ...] = ("launcher",)  # groups of such pods that print what pods elsewhere say
    attempt: tuple[str, ...] = ()  # below status: how often it was started again
    attempt_label: str = ""  # the same on a pod, as it was when the pod was made
    slots: tuple[str, ...] = ()  # below spec: ranks of a pod
    numbered_by_name: bool = False  # a pod's name ends in its number, whatever its label counts from
    only_labelled: bool = False  # told only where it bears the label, and at its first failed pod

    def path(self, version: str, namespace: str | None) -> str:
        """The collection's path: of one namespace, or of all."""
        root = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if namespace else f"{root}/{self.plural}"

    def pods(self, item: Object) -> str:
        """The label selector of a workload's pods."""
        metadata = item["metadata"]
        return self.selector.format(
            name=metadata["name"], uid=metadata["uid"], cluster=inside(item, "status", "rayClusterName") or ""
        )

    def quiet(self, item: Object) -> tuple[str, ...]:
        """Groups of a workload that train nothing."""
        return () if inside(item, "spec", "runLauncherAsWorker") is True else self.no_ranks

    @property
    def called(self) -> tuple[str, str]:
        """Group and name, as the API and references to owners give them."""
        return self.group, "Job" if self.kind == "VolcanoJob" else self.kind


def inside(item: Any, *path: str) -> Any:
    """What stands at a path of keys; None where something on the way is missing."""
    for key in path:
        item = item.get(key) if isinstance(item, dict) else None
    return item


def conditions_of(item: Object) -> list[Object]:
    """The conditions in an object's status; nothing where it holds something else."""
    found = inside(item, "status", "conditions")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def number(value: Any, otherwise: int = 1) -> int:
    """A count as a spec or a status gives it; `otherwise` where it is none."""
    return value if isinstance(value, int) and 0 <= value <= 1 << 20 else otherwise


def _job(item: Object) -> Groups:
    return [("", number(inside(item, "spec", "completions"), number(inside(item, "spec", "parallelism"))))]


def _jobset(item: Object) -> Groups:
    return [
        (str(job.get("name")), number(job.get("replicas")) * number(inside(job, "template", "spec", "parallelism")))
        for job in inside(item, "spec", "replicatedJobs") or ()
    ]


def _replicas(field: str, order: Sequence[str]) -> Callable[[Object], Groups]:
    def groups(item: Object) -> Groups:
        there = inside(item, "spec", field) or {}
        return [(name.lower(), number(inside(there[name], "replicas"))) for name in order if name in there]

    return groups


def _mpi(item: Object) -> Groups:
    launcher = [("launcher", 1)] if inside(item, "spec", "runLauncherAsWorker") is True else []
    return [*launcher, *_replicas("mpiReplicaSpecs", ("Worker",))(item)]


def _volcano(item: Object) -> Groups:
    return [(str(task.get("name")), number(task.get("replicas"))) for task in inside(item, "spec", "tasks") or ()]


def _train_job(item: Object) -> Groups:
    return [("node", number(inside(item, "spec", "trainer", "numNodes")))]


_KUBEFLOW_RULES = Rules(failed=("Failed",), well=("Succeeded",), stopped=("Suspended",))


def _pod_sets(item: Object) -> Groups:
    return [("", sum(number(each.get("count")) for each in inside(item, "spec", "podSets") or ()))]


_KUBEFLOW_RULES = Rules(failed=("Failed",), well=("Succeeded",), stopped=("Suspended",))

KINDS: tuple[Kind, ...] = (
    Kind(
        "trainer.kubeflow.org", ("v1alpha1", "v1"), "trainjobs", "TrainJob",
        Rules(failed=("Failed",), well=("Complete",), stopped=("Suspended",)),
        selector=f"{_JOBSET}jobset-name={{name}}", group_labels=(f"{_JOBSET}replicatedjob-name",),
        index_labels=(f"{_JOBSET}job-index", INDEX), groups=_train_job,
        no_ranks=("launcher", "dataset-initializer", "model-initializer"), attempt_label=_RESTARTS,
        slots=("trainer", "numProcPerNode"),
    ),
    Kind(
        "jobset.x-k8s.io", ("v1alpha2",), "jobsets", "JobSet",
        Rules(failed=("Failed",), well=("Completed",), stopped=("Suspended",)),
        selector=f"{_JOBSET}jobset-name={{name}}", group_labels=(f"{_JOBSET}replicatedjob-name",),
        index_labels=(f"{_JOBSET}job-index", INDEX), groups=_jobset,
        no_ranks=("launcher", "dataset-initializer", "model-initializer"), attempt=("restarts",),
        attempt_label=_RESTARTS,
    ),
    Kind(
        "kubeflow.org", ("v1",), "pytorchjobs", "PyTorchJob", _KUBEFLOW_RULES, _OF_KUBEFLOW,
        group_labels=_KUBEFLOW_GROUPS, index_labels=(f"{_KUBEFLOW}replica-index",),
        groups=_replicas("pytorchReplicaSpecs", ("Master", "Worker")),
    ),
    Kind(
        "kubeflow.org", ("v1", "v2beta1"), "mpijobs", "MPIJob", _KUBEFLOW_RULES, _OF_KUBEFLOW,
        group_labels=_KUBEFLOW_GROUPS, index_labels=(f"{_KUBEFLOW}replica-index",),
        groups=_mpi, no_ranks=("launcher",), slots=("slotsPerWorker",), numbered_by_name=True,
    ),
    Kind(
        "ray.io", ("v1", "v1alpha1"), "rayjobs", "RayJob",
        Rules(
            failed=("FAILED", "Failed", "ValidationFailed"), well=("SUCCEEDED", "Complete"),
            stopped=("STOPPED", "Suspended", "Suspending"), again=("Retrying",),
            at=("jobStatus", "jobDeploymentStatus"),
        ),
        selector="ray.io/cluster={cluster}", group_labels=("ray.io/node-type",), no_ranks=("head", "worker", ""),
        launching=("head", ""),
        attempt=("failed",),
    ),
    Kind(
        "ray.io", ("v1", "v1alpha1"), "rayclusters", "RayCluster", Rules(stopped=("suspended",), at=("state",)),
        selector="ray.io/cluster={name}", group_labels=("ray.io/node-type",), no_ranks=("head", "worker", ""),
        launching=("head", ""),
        only_labelled=True,
    ),
    Kind(
        "batch.volcano.sh", ("v1alpha1",), "jobs", "VolcanoJob",
        Rules(
            failed=("Failed", "Terminated"), well=("Completed",), aborted=("Aborted", "Aborting"), ending=("Terminating",),
            at=("state.phase",), reason=("state", "reason"), message=("state", "message"),
        ),
        selector="volcano.sh/job-name={name}", group_labels=("volcano.sh/task-spec",),
        index_labels=("volcano.sh/task-index",), groups=_volcano, attempt=("retryCount",),
        attempt_label="volcano.sh/job-retry-count",
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
        groups=_pod_sets,
    ),
    Kind(
        "", ("v1",), "pods", "Pod", Rules(failed=("Failed",), well=("Succeeded",), at=("phase",)),
        selector="", only_labelled=True,
    ),
)  # fmt: skip
"""Who owns stands before what is owned: a JobSet's failure is told, its Jobs' are not."""

BY_OWNER: dict[tuple[str, str], Kind] = {kind.called: kind for kind in KINDS}
"""A kind by its group and the name that the API calls it by."""

OTHER = Kind(
    "", (), "", "Workload of pods", Rules(), selector="",
    index_labels=("leaderworkerset.sigs.k8s.io/worker-index", "apps.kubernetes.io/pod-index"),
)  # fmt: skip
"""Whatever else makes pods, where these bear the label."""
