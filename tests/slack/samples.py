"""Diagnoses of the kinds that arrive at night, with made-up hosts, users and paths."""

from __future__ import annotations

from datetime import UTC, datetime

from bot.slack.contract import IncidentStatus, State
from knowledge.diagnosis import (
    CauseFound,
    Collateral,
    Diagnosis,
    Evidence,
    Initiating,
    Outcome,
    Restart,
    Role,
    VerifyStep,
)
from knowledge.job import JobFacts

Sample = tuple[JobFacts, Diagnosis, IncidentStatus]
URL = "https://firstfault.example.test/v1/incidents/01JEXAMPLE"


def _nodes(first: int, count: int) -> list[str]:
    return [f"gpu-n{number:02d}" for number in range(first, first + count)]


def gpu_lost() -> Sample:
    """One GPU of one rank of 512 is lost; the others wait for it."""
    job = JobFacts(
        scheduler="slurm",
        cluster="alps",
        job_id="48213",
        name="llama-70b-pretrain",
        user="alice",
        state="FAILED",
        nodes=_nodes(1, 64),
        world_size=512,
        started_at=datetime(2026, 11, 30, 3, 0, 7, tzinfo=UTC),
        ended_at=datetime(2026, 11, 30, 9, 12, 7, tzinfo=UTC),
    )
    diagnosis = Diagnosis(
        outcome=Outcome.FAILED,
        cause=CauseFound(
            id="gpu-lost",
            layer="gpu-hardware",
            title="GPU fell off the bus",
            summary="GPU 1 of gpu-n17 stopped answering on PCIe; the process that used it was rank 137.",
        ),
        initiating=Initiating(ranks=[137], hosts=["gpu-n17"]),
        collateral=Collateral(ranks=[rank for rank in range(512) if rank != 137], count=511),
        confidence=0.97,
        evidence=[
            Evidence(
                source="gpu-n17/kern.log",
                line=812,
                rank=137,
                host="gpu-n17",
                time=datetime(2026, 11, 30, 9, 1, 58, tzinfo=UTC),
                text="NVRM: Xid (PCI:0000:1b:00): 79, pid=201133, name=python, GPU has fallen off the bus.",
                role=Role.ROOT,
            ),
            Evidence(
                source="gpu-n17/rank-137.err",
                line=5123,
                rank=137,
                host="gpu-n17",
                text="torch.AcceleratorError: CUDA error: unspecified launch failure",
                role=Role.CONFIRMATION,
            ),
            Evidence(
                source="gpu-n01/rank-0.err",
                line=991,
                rank=0,
                host="gpu-n01",
                text="[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88123)",
                role=Role.CASCADE,
            ),
        ],
        fix=[
            "Drain gpu-n17: scontrol update nodename=gpu-n17 state=drain reason=xid79",
            "Restart from the last checkpoint on other nodes.",
            "Power-cycle gpu-n17; if the GPU is still missing, open a hardware case with the nvidia-bug-report.",
        ],
        verify=[VerifyStep(run="ssh gpu-n17 nvidia-smi -L | wc -l", expect="8")],
        restart=Restart.ELSEWHERE,
        suspect_nodes=["gpu-n17"],
        fingerprint="gpu-lost",
    )
    status = IncidentStatus(
        url=URL, reported=37, expected=64, occurrences=3, first_seen=datetime(2026, 11, 2, tzinfo=UTC)
    )
    return job, diagnosis, status


def cannot_tell() -> Sample:
    """Everybody timed out and the one log that would tell is not there."""
    job = JobFacts(
        scheduler="slurm",
        job_id="48301",
        name="vit-huge",
        user="bob",
        nodes=_nodes(20, 4),
        world_size=32,
        started_at=datetime(2026, 11, 30, 1, 0, tzinfo=UTC),
        ended_at=datetime(2026, 11, 30, 1, 41, 12, tzinfo=UTC),
    )
    diagnosis = Diagnosis(
        outcome=Outcome.FAILED,
        cause=CauseFound(
            id="unknown",
            layer="unknown",
            title="Collective timed out, cause unknown",
            summary="All ranks that wrote a log waited for an all-reduce that one rank never entered.",
        ),
        collateral=Collateral(ranks=[rank for rank in range(32) if rank != 8], count=31),
        confidence=0.31,
        evidence=[
            Evidence(
                source="rank-0.log",
                line=4410,
                rank=0,
                host="gpu-n20",
                text="[rank0]:[E1130 01:41:02.11 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective "
                "operation timeout: WorkNCCL(SeqNum=5123, OpType=ALLREDUCE, NumelIn=1048576, Timeout(ms)=600000)",
                role=Role.CASCADE,
            )
        ],
        missing=["The log of rank 8 on gpu-n21: it is the only rank that did not report. Look for its stderr file."],
        fix=["Find out what rank 8 did last before restarting."],
        restart=Restart.UNKNOWN,
    )
    return job, diagnosis, IncidentStatus(url=URL, reported=3, expected=4)


def time_limit() -> Sample:
    """The scheduler stopped the job; nobody is guilty."""
    job = JobFacts(
        scheduler="slurm",
        job_id="48310",
        attempt=1,
        name="sft-13b",
        user="carol",
        state="TIMEOUT",
        nodes=_nodes(3, 2),
        world_size=16,
        time_limit_seconds=86400,
        started_at=datetime(2026, 11, 29, 2, 0, tzinfo=UTC),
        ended_at=datetime(2026, 11, 30, 2, 0, 20, tzinfo=UTC),
    )
    diagnosis = Diagnosis(
        outcome=Outcome.FAILED,
        cause=CauseFound(
            id="time-limit",
            layer="scheduler",
            title="Time limit reached",
            summary="Slurm stopped the job at its limit of 24 hours while it was still training.",
        ),
        confidence=0.99,
        evidence=[
            Evidence(
                source="slurm-48310.out",
                line=88121,
                text="slurmstepd: error: *** JOB 48310 ON gpu-n03 CANCELLED AT 2026-11-30T02:00 DUE TO TIME LIMIT ***",
                role=Role.ROOT,
            )
        ],
        fix=["Resume from the last checkpoint.", "Ask for more time, or checkpoint on a signal before the limit."],
        verify=[VerifyStep(run="scontrol show job 48310 | grep TimeLimit", expect="TimeLimit=1-00:00:00")],
        restart=Restart.SAFE,
    )
    return job, diagnosis, IncidentStatus(state=State.ACKNOWLEDGED, url=URL, reported=2, expected=2)


def host_oom() -> Sample:
    """One node's memory was too small for its eight ranks."""
    job = JobFacts(
        scheduler="kubernetes",
        cluster="eu-west",
        job_id="rlhf-ppo-7b",
        name="rlhf-ppo-7b",
        user="dave",
        nodes=_nodes(1, 4),
        world_size=32,
        started_at=datetime(2026, 11, 30, 0, 0, tzinfo=UTC),
        ended_at=datetime(2026, 11, 30, 0, 12, 5, tzinfo=UTC),
    )
    diagnosis = Diagnosis(
        outcome=Outcome.FAILED,
        cause=CauseFound(
            id="host-oom",
            layer="host-memory",
            title="Host memory exhausted",
            summary="The kernel killed the training processes of gpu-n02 because the memory limit was exceeded.",
        ),
        initiating=Initiating(ranks=list(range(8, 16)), hosts=["gpu-n02"]),
        collateral=Collateral(ranks=[], count=24),
        confidence=0.82,
        evidence=[
            Evidence(
                source="gpu-n02/kern.log",
                line=10233,
                host="gpu-n02",
                time=datetime(2026, 11, 30, 0, 11, 58, tzinfo=UTC),
                text="Memory cgroup out of memory: Killed process 4121 (python) total-vm:812345600kB, "
                "anon-rss:131072000kB, file-rss:102400kB, shmem-rss:0kB, UID:1001 pgtables:301234kB oom_score_adj:0",
                role=Role.ROOT,
            )
        ],
        fix=["Lower num_workers or prefetch_factor of the data loader.", "Or raise the pod's memory limit."],
        verify=[VerifyStep(run="kubectl top pod -l job=rlhf-ppo-7b", expect="memory stays under the limit")],
        restart=Restart.AFTER_FIX,
    )
    return job, diagnosis, IncidentStatus(state=State.RESOLVED, url=URL, occurrences=12)


def python_exception() -> Sample:
    """Rank 2 of four raises; what it raises is not in the catalogue."""
    job = JobFacts(
        scheduler="slurm",
        job_id="7",
        name="toy",
        user="erin",
        nodes=["node-a", "node-b"],
        world_size=4,
        started_at=datetime(2026, 11, 30, 12, 0, tzinfo=UTC),
        ended_at=datetime(2026, 11, 30, 12, 0, 41, tzinfo=UTC),
    )
    diagnosis = Diagnosis(
        outcome=Outcome.FAILED,
        cause=CauseFound(
            id="app-exception",
            layer="application",
            title="ValueError in collate (data.py:88)",
            summary="Rank 2 raised ValueError: expected <int> & got 'None' while it built a batch.",
        ),
        initiating=Initiating(ranks=[2], hosts=["node-b"]),
        collateral=Collateral(ranks=[3], count=1),
        confidence=0.94,
        evidence=[
            Evidence(
                source="rank-2.err",
                line=31,
                rank=2,
                host="node-b",
                text="ValueError: expected <int> & got 'None' for field \"length\" of sample 1881",
                role=Role.ROOT,
            )
        ],
        fix=[
            'Fix or drop sample 1881: its field "length" is missing.',
            "Let collate skip such samples and count them.",
        ],
        verify=[VerifyStep(run="python -m toy.check --sample 1881", expect="no error")],
        restart=Restart.AFTER_FIX,
    )
    return job, diagnosis, IncidentStatus(url=URL, reported=2, expected=2)


ALL = (gpu_lost, cannot_tell, time_limit, host_oom, python_exception)
