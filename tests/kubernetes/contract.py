"""What the watcher owes, on any API server: a real one must agree with the stub."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from hooks.kubernetes.api import Api
from hooks.kubernetes.lease import Lease
from tests.kubernetes.conftest import World
from tests.kubernetes.lab import now

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\nValueError: no such shard\n'


class TestFailures:
    async def test_an_indexed_job_is_told_with_logs_by_rank_and_the_facts_of_its_pods(
        self, world: World, tmp_path: Path
    ) -> None:
        await world.watch()
        job = await world.lab.job("llm", 2, annotations={"firstfault/slack-channel": "C0LLM"})
        _, second = await world.lab.workers(job, 2)
        await world.server.put_log("llm-0", "pytorch", "step 1\n")
        await world.server.put_log("llm-1", "pytorch", "step 1\n" + TRACEBACK)
        await world.lab.ends(second, 1)
        await world.lab.condition(job, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")

        told = await world.intake.told("llm")
        assert told.job["job_id"].startswith("train/llm:")
        assert told.job.items() >= {
            "state": "Failed", "reason": "BackoffLimitExceeded", "exit_code": 1, "partition": "train", "attempt": 0,
            "nodes": ["gpu-n0", "gpu-n1"], "world_size": 2, "ranks_per_node": 1, "comment": "slack-channel=C0LLM",
        }.items()  # fmt: skip
        assert "ValueError: no such shard" in told.logs["gpu-n1/rank-1.llm-1.pytorch.log"]
        assert "step 1" in told.logs["gpu-n0/rank-0.llm-0.pytorch.log"]
        assert "Name:         llm-1" in told.logs["pods-describe.txt"]
        assert "BackoffLimitExceeded" in told.logs["workload-describe.txt"]
        verdict = told.diagnose(tmp_path)
        assert (verdict.cause.id, verdict.initiating.ranks, verdict.initiating.hosts) == (
            "app-exception",
            [1],
            ["gpu-n1"],
        )

    async def test_a_jobset_is_told_once_and_its_jobs_are_not(self, world: World) -> None:
        await world.watch()
        replicated = [{"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 1}}}]
        jobset = await world.lab.create("jobset.x-k8s.io/v1alpha2/jobsets", "moe", {"replicatedJobs": replicated})
        pods = []
        for index in range(2):
            owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "controller": True}
            owner |= {"name": "moe", "uid": jobset["metadata"]["uid"]}
            job = await world.lab.job(f"moe-workers-{index}", ownerReferences=[owner])
            labels = {
                "jobset.sigs.k8s.io/jobset-name": "moe", "jobset.sigs.k8s.io/replicatedjob-name": "workers",
                "jobset.sigs.k8s.io/job-index": str(index), "batch.kubernetes.io/job-completion-index": "0",
                "controller-uid": job["metadata"]["uid"],
            }  # fmt: skip
            pod = await world.lab.pod(f"moe-workers-{index}-0", job, labels, f"gpu-n{index}", gpus=8)
            await world.lab.runs(pod)
            await world.server.put_log(f"moe-workers-{index}-0", "pytorch", TRACEBACK)
            pods.append(pod)
        await world.lab.ends(pods[1], 1)
        await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
        await world.lab.condition(jobset, "Failed", "FailedJobs", "jobset failed due to one or more job failures")

        told = await world.intake.told("moe")
        assert world.intake.names() == ["moe"]
        assert told.job.items() >= {"world_size": 16, "ranks_per_node": 8, "reason": "FailedJobs"}.items()
        assert "ValueError" in told.logs["gpu-n1/pod.moe-workers-1-0.pytorch.log"]

    async def test_a_pytorchjob_counts_its_master_as_rank_0(self, world: World, tmp_path: Path) -> None:
        await world.watch()
        replicas = {"Master": {"replicas": 1}, "Worker": {"replicas": 1}}
        job = await world.lab.create("kubeflow.org/v1/pytorchjobs", "diff", {"pytorchReplicaSpecs": replicas})
        for place, role in enumerate(("master", "worker")):
            labels = {
                "training.kubeflow.org/job-name": "diff", "training.kubeflow.org/replica-type": role,
                "training.kubeflow.org/replica-index": "0",
            }  # fmt: skip
            pod = await world.lab.pod(f"diff-{role}-0", job, labels, f"gpu-n{place}", gpus=1)
            await world.lab.runs(pod)
            await world.server.put_log(f"diff-{role}-0", "pytorch", f"I am the {role}\n")
        await world.lab.ends(pod, 137, "OOMKilled")
        await world.lab.condition(
            job, "Failed", "PyTorchJobFailed", "PyTorchJob diff is failed because 1 Worker failed."
        )

        told = await world.intake.told("diff")
        assert told.job.items() >= {"reason": "OOMKilled", "exit_code": 137, "signal": 9, "world_size": 2}.items()
        assert "I am the master" in told.logs["gpu-n0/rank-0.diff-master-0.pytorch.log"]
        assert "I am the worker" in told.logs["gpu-n1/rank-1.diff-worker-0.pytorch.log"]
        assert "OOMKilled" in told.logs["pods-describe.txt"]
        verdict = told.diagnose(tmp_path)
        assert (verdict.cause.id, verdict.initiating.ranks) == ("host-oom", [1])

    async def test_an_evicted_pod_is_told_without_any_log(self, world: World, tmp_path: Path) -> None:
        await world.watch()
        job = await world.lab.job("full", 1)
        (pod,) = await world.lab.workers(job, 1)
        message = "The node was low on resource: ephemeral-storage."
        await world.lab.status(pod, phase="Failed", reason="Evicted", message=message)
        await world.lab.condition(job, "Failed", "BackoffLimitExceeded")

        told = await world.intake.told("full")
        assert told.job["reason"] == "Evicted"
        assert message in told.logs["pods-describe.txt"]
        assert told.diagnose(tmp_path).cause.id == "evicted"

    async def test_a_preempted_pod_names_the_scheduler(self, world: World, tmp_path: Path) -> None:
        await world.watch()
        job = await world.lab.job("low", 1)
        (pod,) = await world.lab.workers(job, 1)
        disruption = {
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": "default-scheduler: preempting to accommodate a higher priority pod",
        }  # fmt: skip
        await world.lab.ends(pod, 143, conditions=[disruption])
        await world.lab.condition(job, "Failed", "BackoffLimitExceeded")

        told = await world.intake.told("low")
        assert told.job["reason"] == "Preempted"
        assert "PreemptionByScheduler" in told.logs["pods-describe.txt"]
        assert told.diagnose(tmp_path).cause.id == "preempted"

    async def test_an_image_that_cannot_be_pulled_is_told_while_the_job_still_waits(
        self, world: World, tmp_path: Path
    ) -> None:
        await world.watch(stuck_seconds=1)
        job = await world.lab.job("typo", 1)
        labels = {"controller-uid": job["metadata"]["uid"]}
        pod = await world.lab.pod("typo-0", job, labels, "gpu-n0")
        waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "train:1"'}
        status = {"name": "pytorch", "image": "train:1", "imageID": "", "ready": False, "restartCount": 0}
        await world.lab.status(pod, phase="Pending", containerStatuses=[{**status, "state": {"waiting": waiting}}])
        await world.lab.event(pod, "Failed", 'Failed to pull image "train:1": not found')

        told = await world.intake.told("typo")
        assert told.job.items() >= {"state": "Pending", "reason": "ImagePullBackOff"}.items()
        assert 'Failed to pull image "train:1"' in told.logs["events.txt"]
        assert told.diagnose(tmp_path).cause.id == "image-pull"

    async def test_a_rank_that_finds_no_node_is_told_when_the_others_wait_for_it(
        self, world: World, tmp_path: Path
    ) -> None:
        await world.watch(stuck_seconds=1)
        job = await world.lab.job("gang", 2)
        await world.lab.workers(job, 1)
        labels = {"controller-uid": job["metadata"]["uid"], "batch.kubernetes.io/job-completion-index": "1"}
        pod = await world.lab.pod("gang-1", job, labels)
        message = "0/9 nodes are available: 9 Insufficient nvidia.com/gpu."
        unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        await world.lab.status(pod, phase="Pending", conditions=[unscheduled])
        await world.lab.event(pod, "FailedScheduling", message)

        told = await world.intake.told("gang")
        assert told.job.items() >= {"state": "Pending", "reason": "Unschedulable"}.items()
        assert "pod/gang-1" in told.logs["events.txt"]
        assert message in told.logs["events.txt"]
        assert told.diagnose(tmp_path).cause.id == "unschedulable"

    async def test_a_volume_that_cannot_be_mounted_is_told(self, world: World, tmp_path: Path) -> None:
        await world.watch(stuck_seconds=1)
        job = await world.lab.job("mount", 1)
        pod = await world.lab.pod("mount-0", job, {"controller-uid": job["metadata"]["uid"]}, "gpu-n0")
        await world.lab.event(
            pod, "FailedMount", 'MountVolume.SetUp failed for volume "data" : mount failed: exit status 32'
        )

        told = await world.intake.told("mount")
        assert told.job.items() >= {"state": "Pending", "reason": "FailedMount", "nodes": ["gpu-n0"]}.items()
        assert told.diagnose(tmp_path).cause.id == "mount-failed"

    async def test_a_job_that_waited_and_then_failed_is_told_again(self, world: World) -> None:
        await world.watch(stuck_seconds=1)
        job = await world.lab.job("first-stuck", 1)
        pod = await world.lab.pod("first-stuck-0", job, {"controller-uid": job["metadata"]["uid"]}, "gpu-n0")
        await world.lab.event(pod, "FailedMount", 'MountVolume.SetUp failed for volume "data"')
        await world.intake.told("first-stuck", state="Pending")
        await world.lab.ends(pod, 1)
        await world.lab.condition(job, "Failed", "BackoffLimitExceeded")

        told = await world.intake.told("first-stuck", state="Failed")
        assert told.job["exit_code"] == 1

    async def test_a_job_may_ask_to_be_told_at_its_first_failed_pod(self, world: World) -> None:
        await world.watch()
        job = await world.lab.job("hasty", 2, annotations={"firstfault/report-on": "first-pod"})
        _, second = await world.lab.workers(job, 2)
        await world.server.put_log("hasty-1", "pytorch", TRACEBACK)
        await world.lab.ends(second, 1)

        told = await world.intake.told("hasty")
        assert "ValueError" in told.logs["gpu-n1/rank-1.hasty-1.pytorch.log"]

    async def test_a_bare_pod_is_told_only_with_the_label(self, world: World) -> None:
        await world.watch()
        quiet = await world.lab.pod("quiet", None, {"app": "x"}, "gpu-n0")
        loud = await world.lab.pod("loud", None, {"firstfault/watch": "true"}, "gpu-n0")
        await world.server.put_log("loud", "pytorch", TRACEBACK)
        for pod in (quiet, loud):
            await world.lab.runs(pod)
            await world.lab.ends(pod, 1)

        told = await world.intake.told("loud")
        assert "ValueError" in told.logs["gpu-n0/rank-0.loud.pytorch.log"]
        assert world.intake.names() == ["loud"]


class TestNoFailure:
    async def test_success_deletion_and_suspension_are_none(self, world: World) -> None:
        await world.watch()
        good, deleted, suspended = [await world.lab.job(name) for name in ("good", "deleted", "suspended")]
        for job in (good, deleted, suspended):
            await world.server.put_log(f"{job['metadata']['name']}-0", "pytorch", "step 1\n")
        (pod,) = await world.lab.workers(deleted, 1)
        await world.lab.condition(good, "Complete")
        await world.lab.condition(suspended, "Suspended")
        await world.lab.ends(pod, 143)
        await world.lab.delete(deleted)
        await world.lab.delete(pod)
        last = await world.lab.job("last")
        await world.lab.condition(last, "Failed", "DeadlineExceeded")

        await world.intake.told("last")
        await asyncio.sleep(0.5)
        assert world.intake.names() == ["last"]


class TestTrouble:
    async def test_what_failed_while_no_watcher_ran_is_told_and_what_was_told_is_not_told_again(
        self, world: World
    ) -> None:
        await world.watch()
        before = await world.lab.job("before")
        await world.lab.condition(before, "Failed", "BackoffLimitExceeded")
        told = await world.intake.told("before")
        await world.stop()
        during = await world.lab.job("during")
        await world.lab.condition(during, "Failed", "BackoffLimitExceeded")

        await world.watch()
        await world.intake.told("during")
        await asyncio.sleep(0.5)
        assert told.completions == 1

    async def test_a_failure_long_ago_is_not_told(self, world: World) -> None:
        old = await world.lab.job("old")
        condition = {"type": "Failed", "status": "True", "lastTransitionTime": now(-7200)}
        await world.lab.status(old, conditions=[condition])
        new = await world.lab.job("new")
        await world.lab.condition(new, "Failed", "BackoffLimitExceeded")

        await world.watch(max_age_seconds=3600)
        await world.intake.told("new")
        assert world.intake.names() == ["new"]

    async def test_a_compaction_while_the_connection_is_lost_loses_nothing(self, world: World) -> None:
        await world.watch()
        job, gone = await world.lab.job("compacted"), await world.lab.job("gone")
        await world.server.kill()
        await world.server.revive()
        await world.lab.delete(gone)
        await world.lab.condition(job, "Failed", "BackoffLimitExceeded")
        for number in range(3):
            await world.lab.job(f"other-{number}")
        await world.server.compact()

        assert (await world.intake.told("compacted", seconds=40)).completions == 1

    async def test_an_api_server_that_dies_under_the_watch_is_found_again(self, world: World) -> None:
        await world.watch()
        job = await world.lab.job("patient")
        await world.server.kill()
        await asyncio.sleep(1)
        await world.server.revive()
        await world.lab.condition(job, "Failed", "BackoffLimitExceeded")

        await world.intake.told("patient", seconds=40)

    async def test_a_service_that_fails_is_told_later_and_once(self, world: World) -> None:
        await world.watch()
        world.intake.failing = 5
        job = await world.lab.job("later")
        await world.lab.condition(job, "Failed", "BackoffLimitExceeded")

        assert (await world.intake.told("later")).completions == 1

    async def test_the_logs_of_a_pod_that_is_deleted_before_the_job_gives_up_are_kept(self, world: World) -> None:
        await world.watch()
        job = await world.lab.job("retry", 1)
        (pod,) = await world.lab.workers(job, 1)
        await world.server.put_log("retry-0", "pytorch", TRACEBACK)
        await world.lab.ends(pod, 1)
        await asyncio.sleep(1)
        await world.lab.delete(pod)
        await asyncio.sleep(0.5)
        await world.lab.condition(job, "Failed", "BackoffLimitExceeded")

        told = await world.intake.told("retry")
        assert "ValueError" in told.logs["gpu-n0/rank-0.retry-0.pytorch.log"]


class TestLease:
    """Who leads, with a lease of four seconds."""

    async def test_a_second_replica_waits_and_takes_over_when_the_first_is_stopped(self, world: World) -> None:
        async with _Replicas(world, "a", "b") as replicas:
            await replicas.wait_for({"a"})
            await asyncio.sleep(5)
            assert replicas.working == {"a"}
            await replicas.stop("a")
            await replicas.wait_for({"b"})

    async def test_a_leader_whose_lease_somebody_took_stops_until_the_lease_is_stale(self, world: World) -> None:
        async with _Replicas(world, "a") as replicas:
            await replicas.wait_for({"a"})
            path = "/apis/coordination.k8s.io/v1/namespaces/train/leases/watcher"
            await world.lab.call("PATCH", path, {"spec": {"holderIdentity": "somebody"}})
            await replicas.wait_for(set())
            await replicas.wait_for({"a"})

    async def test_a_leader_that_cannot_reach_the_api_server_stops_before_the_lease_is_stale(
        self, world: World
    ) -> None:
        async with _Replicas(world, "a") as replicas:
            await replicas.wait_for({"a"})
            await world.server.kill()
            try:
                await replicas.wait_for(set(), seconds=8)
            finally:
                await world.server.revive()
            await replicas.wait_for({"a"}, seconds=40)


class _Replicas:
    """Programs that do nothing but lead."""

    def __init__(self, world: World, *names: str) -> None:
        self._world, self._names = world, names
        self.working: set[str] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> _Replicas:
        self._api = await Api.connect(self._world.kubeconfig)
        for name in self._names:
            lease = Lease(self._api, "train", "watcher", name, seconds=4)
            self._running[name] = asyncio.create_task(lease.lead(self._work(name)))
            await self.wait_for({self._names[0]})
        return self

    async def __aexit__(self, *_: object) -> None:
        for name in list(self._running):
            await self.stop(name)
        await self._api.close()

    async def stop(self, name: str) -> None:
        task = self._running.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def wait_for(self, names: set[str], seconds: float = 15) -> None:
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(lambda: self.working == names)

    def _work(self, name: str) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            assert not self.working, "two lead at once"
            await self._note(self.working.add, name)
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.shield(self._note(self.working.discard, name))

        return work

    async def _note(self, change: Callable[[str], None], name: str) -> None:
        async with self._changed:
            change(name)
            self._changed.notify_all()
