"""What each kind's workload looks like: what it makes, how its pods are called, and what its status says when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.kubernetes.controllers import NOW, THEN, Labels, Shape, said
from tests.kubernetes.lab import NAMESPACE, Object


def _nothing(_: str) -> Sequence[tuple[str, str, Labels]]:
    return ()


def _job_labels(job: str, uid: str, index: int) -> Labels:
    return {
        "controller-uid": uid, "batch.kubernetes.io/controller-uid": uid, "job-name": job,
        "batch.kubernetes.io/job-name": job, "batch.kubernetes.io/job-completion-index": str(index),
    }  # fmt: skip


JOB = Shape(
    place="batch/v1/jobs",
    spec={"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 0},
    between=_nothing,
    pods=lambda name, job: [
        (f"{name}-{index}-x{index}k2p", 0, _job_labels(name, job["metadata"]["uid"], index)) for index in range(2)
    ],
    running={"active": 2, "ready": 2, "startTime": THEN, "terminating": 0, "uncountedTerminatedPods": {}},
    failed={
        "active": None, "failed": 1, "ready": 0, "terminating": 0,
        "conditions": [
            said("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
            said("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
        ],
    },
    well={
        "active": None, "succeeded": 2, "completedIndexes": "0,1", "completionTime": NOW,
        "conditions": [
            said("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"),
            said("Complete", "CompletionsReached", "Reached expected number of succeeded pods"),
        ],
    },
    stopped={"active": None, "startTime": None, "conditions": [said("Suspended", "JobSuspended", "Job suspended")]},
    world_size=2,
)  # fmt: skip


def _replicated(name: str, workload: str, prefix: str) -> Sequence[tuple[str, str, Labels]]:
    labels = {
        "jobset.sigs.k8s.io/jobset-name": workload, "jobset.sigs.k8s.io/replicatedjob-name": prefix,
        "jobset.sigs.k8s.io/job-index": "0", "jobset.sigs.k8s.io/restart-attempt": "0",
    }  # fmt: skip
    return [("batch/v1/jobs", f"{workload}-{prefix}-0", labels)]


def _of_replicated(name: str, job: Object, prefix: str, maker: int) -> Sequence[tuple[str, int, Labels]]:
    return [
        (
            f"{name}-{prefix}-0-{index}-q7w{index}z", maker,
            {
                **_job_labels(f"{name}-{prefix}-0", job["metadata"]["uid"], index),
                **dict(_replicated(name, name, prefix)[0][2]), "jobset.sigs.k8s.io/job-global-index": "0",
            },
        )
        for index in range(2)
    ]  # fmt: skip


def _jobset_counts(**count: int) -> list[Object]:
    return [{"name": "workers", "active": 0, "failed": 0, "ready": 0, "succeeded": 0, "suspended": 0, **count}]


JOBSET = Shape(
    place="jobset.x-k8s.io/v1alpha2/jobsets",
    spec={"replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": {"parallelism": 2}}}]},
    between=lambda name: _replicated(name, name, "workers"),
    pods=lambda name, job: _of_replicated(name, job, "workers", 1),
    running={"restarts": 0, "replicatedJobsStatus": _jobset_counts(active=1, ready=1)},
    failed={
        "restarts": 0, "terminalState": "Failed", "replicatedJobsStatus": _jobset_counts(failed=1),
        "conditions": [
            said("Failed", "FailedJobs", "jobset failed due to one or more job failures (first failed job: workers-0)")
        ],
    },
    well={
        "restarts": 0, "terminalState": "Completed", "replicatedJobsStatus": _jobset_counts(succeeded=1),
        "conditions": [said("Completed", "AllJobsCompleted", "jobset completed successfully")],
    },
    stopped={
        "restarts": 0, "replicatedJobsStatus": _jobset_counts(suspended=1),
        "conditions": [said("Suspended", "SuspendedJobs", "jobset is suspended")],
    },
    world_size=2,
    reason="FailedJobs",
)  # fmt: skip

TRAIN_JOB = Shape(
    place="trainer.kubeflow.org/v1alpha1/trainjobs",
    spec={"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2, "numProcPerNode": 1}},
    between=lambda name: [("jobset.x-k8s.io/v1alpha2/jobsets", name, {}), *_replicated(name, name, "node")],
    pods=lambda name, job: _of_replicated(name, job, "node", 2),
    running={
        "conditions": [said("Suspended", "Resumed", "TrainJob is resumed", "False", lastTransitionTime=THEN)],
        "jobsStatus": [{"name": "node", "active": 1, "failed": 0, "ready": 1, "succeeded": 0, "suspended": 0}],
    },
    failed={
        "conditions": [
            said("Suspended", "Resumed", "TrainJob is resumed", "False", lastTransitionTime=THEN),
            said("Failed", "FailedJobs", "jobset failed due to one or more job failures (first failed job: node-0)"),
        ]
    },
    well={"conditions": [said("Complete", "AllJobsCompleted", "jobset completed successfully")]},
    stopped={"conditions": [said("Suspended", "Suspended", "TrainJob is suspended")]},
    world_size=2,
    reason="FailedJobs",
)  # fmt: skip


def _kubeflow(kind: str, *conditions: Object, **replicas: Any) -> Object:
    since = {"lastUpdateTime": NOW}
    created = said("Created", f"{kind}Created", f"{kind} llm is created.", **since)
    return {
        "conditions": [created, *({**each, **since} for each in conditions)], "replicaStatuses": replicas,
        "startTime": THEN,
    }  # fmt: skip


PYTORCH_JOB = Shape(
    place="kubeflow.org/v1/pytorchjobs",
    spec={
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "restartPolicy": "Never"}, "Worker": {"replicas": 2, "restartPolicy": "Never"},
        }
    },
    between=_nothing,
    pods=lambda name, _: [
        (
            f"{name}-{role}-{index}", 0,
            {
                "training.kubeflow.org/job-name": name, "training.kubeflow.org/operator-name": "pytorchjob-controller",
                "training.kubeflow.org/replica-type": role, "training.kubeflow.org/replica-index": str(index),
                **({"training.kubeflow.org/job-role": "master"} if role == "master" else {}),
            },
        )
        for role, index in (("master", 0), ("worker", 0), ("worker", 1))
    ],
    running=_kubeflow("PyTorchJob", said("Running", "PyTorchJobRunning"), Master={"active": 1}, Worker={"active": 2}),
    failed=_kubeflow(
        "PyTorchJob", said("Running", "PyTorchJobRunning", status="False"),
        said("Failed", "PyTorchJobFailed", "PyTorchJob llm is failed because 1 Worker replica(s) failed."),
        Master={"active": 1}, Worker={"active": 1, "failed": 1},
    ),
    well={
        **_kubeflow("PyTorchJob", said("Succeeded", "PyTorchJobSucceeded"), Master={"succeeded": 1}),
        "completionTime": NOW,
    },
    stopped=_kubeflow("PyTorchJob", said("Suspended", "PyTorchJobSuspended", "PyTorchJob llm is suspended.")),
    world_size=3,
    rank=2,
    at=2,
    reason="PyTorchJobFailed",
)  # fmt: skip

MPI_JOB = Shape(
    place="kubeflow.org/v2beta1/mpijobs",
    spec={"slotsPerWorker": 1, "mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}},
    between=lambda name: [("batch/v1/jobs", f"{name}-launcher", {})],
    pods=lambda name, launcher: [
        *(
            (
                f"{name}-worker-{index}", 0,
                {
                    "training.kubeflow.org/job-name": name, "training.kubeflow.org/operator-name": "mpi-operator",
                    "training.kubeflow.org/job-role": "worker", "training.kubeflow.org/replica-index": str(index),
                },
            )
            for index in range(2)
        ),
        (
            f"{name}-launcher-zx8q4", 1,
            {
                **_job_labels(f"{name}-launcher", launcher["metadata"]["uid"], 0),
                "training.kubeflow.org/job-name": name, "training.kubeflow.org/operator-name": "mpi-operator",
                "training.kubeflow.org/job-role": "launcher",
            },
        ),
    ],
    running=_kubeflow("MPIJob", said("Running", "MPIJobRunning"), Launcher={"active": 1}, Worker={"active": 2}),
    failed=_kubeflow(
        "MPIJob", said("Running", "MPIJobRunning", status="False"),
        said("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"), Launcher={"failed": 1},
    ),
    well=_kubeflow("MPIJob", said("Succeeded", "MPIJobSucceeded"), Launcher={"succeeded": 1}),
    stopped=_kubeflow("MPIJob", said("Suspended", "MPIJobSuspended", "MPIJob suspended")),
    world_size=2,
)  # fmt: skip


def _ray(job: str, deployment: str, **other: Any) -> Object:
    return {
        "jobId": "llm-8f2kd", "rayClusterName": "llm-ray-x2k4p", "jobStatus": job, "jobDeploymentStatus": deployment,
        "dashboardURL": "llm-ray-x2k4p-head-svc.train.svc.cluster.local:8265", "startTime": THEN, "succeeded": 0,
        "failed": 0, "rayClusterStatus": {"state": "ready", "desiredWorkerReplicas": 1}, **other,
    }  # fmt: skip


def _ray_pods(name: str, _: Object) -> Sequence[tuple[str, int, Labels]]:
    cluster = {"ray.io/cluster": "llm-ray-x2k4p", "ray.io/is-ray-node": "yes"}
    return [
        (f"{name}-head-7kd2s", 1, {**cluster, "ray.io/node-type": "head", "ray.io/group": "headgroup"}),
        (f"{name}-gpu-worker-5gq9v", 1, {**cluster, "ray.io/node-type": "worker", "ray.io/group": "gpu"}),
        (f"{name}-4tr7b", 2, {"job-name": name}),
    ]


RAY_JOB = Shape(
    place="ray.io/v1/rayjobs",
    spec={"entrypoint": "python train.py", "submissionMode": "K8sJobMode"},
    between=lambda name: [("ray.io/v1/rayclusters", f"{name}-ray-x2k4p", {}), ("batch/v1/jobs", name, {})],
    pods=_ray_pods,
    running=_ray("RUNNING", "Running"),
    failed=_ray(
        "FAILED", "Failed", reason="AppFailed", failed=1, endTime=NOW,
        message="Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars)",
    ),
    well=_ray("SUCCEEDED", "Complete", succeeded=1, endTime=NOW),
    stopped=_ray("", "Suspended", rayClusterName=""),
    world_size=None,
    rank=None,
    reason="AppFailed",
)  # fmt: skip


def _volcano(phase: str, retries: int = 0, **count: int) -> Object:
    return {
        "state": {"phase": phase, "lastTransitionTime": NOW}, "minAvailable": 2, "version": 1 + retries,
        "retryCount": retries, "taskStatusCount": {"worker": {"phase": {"Failed": 1}}}, "controlledResources": {},
        "conditions": [{"status": "Pending", "lastTransitionTime": NOW}, {"status": phase, "lastTransitionTime": NOW}],
        "running": None, **count,
    }  # fmt: skip


VOLCANO_JOB = Shape(
    place="batch.volcano.sh/v1alpha1/jobs",
    spec={"minAvailable": 2, "tasks": [{"name": "worker", "replicas": 2}]},
    between=_nothing,
    pods=lambda name, _: [
        (
            f"{name}-worker-{index}", 0,
            {
                "volcano.sh/job-name": name, "volcano.sh/task-spec": "worker", "volcano.sh/task-index": str(index),
                "volcano.sh/job-namespace": NAMESPACE, "volcano.sh/queue-name": "default",
            },
        )
        for index in range(2)
    ],
    running=_volcano("Running", running=2),
    failed=_volcano("Failed", failed=1),
    well=_volcano("Completed", succeeded=2),
    stopped=_volcano("Aborted"),
    world_size=2,
    reason="",
)  # fmt: skip

POD_GROUP = Shape(
    place="kueue.x-k8s.io/v1beta1/workloads",
    spec={"active": True, "queueName": "team", "podSets": [{"name": "main", "count": 2}]},
    between=_nothing,
    pods=lambda name, _: [
        (
            f"{name}-{index}", -1,
            {
                "kueue.x-k8s.io/pod-group-name": name, "kueue.x-k8s.io/pod-group-pod-index": str(index),
                "kueue.x-k8s.io/queue-name": "team", "kueue.x-k8s.io/managed": "true",
            },
        )
        for index in range(2)
    ],
    running={"conditions": [said("QuotaReserved", "QuotaReserved"), said("Admitted", "Admitted")]},
    failed={"conditions": [said("Admitted", "Admitted"), said("Finished", "Failed", "Pods failed: 1")]},
    well={"conditions": [said("Admitted", "Admitted"), said("Finished", "Succeeded", "Pods succeeded: 2/2.")]},
    stopped={
        "conditions": [
            said("QuotaReserved", "Pending", status="False"), said("Preempted", "InClusterQueue"),
            said("Evicted", "Preempted", "Preempted to accommodate a workload (UID: 7a5) in the ClusterQueue"),
        ]
    },
    world_size=2,
    reason="Failed",
)  # fmt: skip

SHAPES = {
    "Job": JOB, "JobSet": JOBSET, "TrainJob": TRAIN_JOB, "PyTorchJob": PYTORCH_JOB, "MPIJob": MPI_JOB,
    "RayJob": RAY_JOB, "VolcanoJob": VOLCANO_JOB, "pod group": POD_GROUP,
}  # fmt: skip
"""By what people call them."""
