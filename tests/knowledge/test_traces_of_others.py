"""Traces that others leave: a launcher's, a platform's or a library's words, where the ranks say little."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]


def test_ranks_that_ended_by_a_system_error_and_nothing_else_are_a_failed_job(verdict: Verdict) -> None:
    error = "torch.distributed.DistBackendError: NCCL error in: /b/NCCLUtils.hpp:317, unhandled system error, NCCL version 2.21.5"
    told = verdict({f"rank-{rank}.log": f"start\n[rank{rank}]: {error}\n" for rank in range(4)})
    assert (told.outcome, told.cause.id, told.initiating.ranks) == ("failed", "nccl-error", [])
    assert told.confidence < 0.8
    assert told.missing


def test_an_efa_error_without_a_number_names_nobody_where_a_rank_failed_of_itself(verdict: Verdict) -> None:
    lost = "n0:7:9 [0] ofi:1302 NCCL WARN NET/OFI Request 0x7 completed with error. RC: 107. Error: not connected. Completed"
    oom = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.47 GiB."
    files = {f"rank-{rank}.log": f"step 1\nstep 2\n{lost}\n" for rank in range(3)}
    told = verdict(files | {"rank-3.log": f"step 1\nstep 2\n[rank3]: Traceback (most recent call last):\n{oom}\n"})
    assert (told.cause.id, told.initiating.ranks) == ("gpu-oom", [3])
    assert verdict(files | {"rank-3.log": f"step 1\nstep 2\n{lost}\n"}).cause.id == "efa-error"


def test_a_process_stuck_in_the_kernel_over_a_lost_file_server_is_storage(verdict: Verdict) -> None:
    waited = (
        "[rank{0}]:[E0304 02:22:45.0 ProcessGroupNCCL.cpp:616] [PG ID 0 PG GUID 0(default_pg) Rank {0}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=6, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600041 "
        "milliseconds before timing out.\n"
    )
    files = {f"rank-{rank}.log": f"step 1\nstep 2\n{waited.format(rank)}" for rank in range(3)}
    files["rank-3.log"] = "step 1\nstep 2\nsaving\n"
    hung = "[300.1] INFO: task python3:7712 blocked for more than 120 seconds.\n"
    lost = "[280.1] Lustre: fs-OST3: Connection to fs-OST3 (at 10.9.0.3@o2ib) was lost; in progress operations using this service will wait\n"
    told = verdict(files | {"dmesg-n0.log": hung})
    assert (told.cause.id, told.initiating.ranks) == ("rank-hang", [3])
    told = verdict(files | {"dmesg-n0.log": lost + hung})
    assert (told.cause.id, told.initiating.ranks, told.initiating.hosts) == ("storage-io-error", [3], ["n0"])


def test_a_pod_that_started_in_the_end_failed_by_no_image_and_no_missing_node(verdict: Verdict) -> None:
    head = "LAST SEEN   TYPE      REASON             OBJECT        MESSAGE\n"
    early = (
        "10m   Warning   FailedScheduling   pod/train-0   0/3 nodes are available: 3 Insufficient nvidia.com/gpu.\n"
        "9m    Normal    Scheduled          pod/train-0   Successfully assigned ml/train-0 to n1\n"
        '9m    Warning   BackOff            pod/train-0   Back-off pulling image "reg.example/train:v9"\n'
    )
    started = "8m    Normal    Started            pod/train-0   Started container trainer\n"
    logs = {"pod.log": "step 1 loss 2.1\nstep 2 loss 2.0\nTraining complete\n"}
    assert verdict({"pod.log": "waiting for 2 pods\n", "events.txt": head + early}).cause.id == "image-pull"
    assert verdict(logs | {"events.txt": head + early + started}).outcome == "not-a-failure"


def test_ray_tells_the_rank_of_a_dead_actor_by_its_process(verdict: Verdict) -> None:
    started = "".join(
        f"(TrainController pid=900) - (ip=192.0.2.{2 + rank // 2}, pid={500 + rank}) world_rank={rank}, local_rank={rank % 2}\n"
        for rank in range(4)
    )
    died = (
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
        "\tclass_name: RayTrainWorker\n\tpid: 503\n\tip: 192.0.2.3\n"
    )
    memory = "Worker exit type: NODE_OUT_OF_MEMORY Worker exit detail: Task was killed due to the node running low on memory.\n"
    told = verdict({"driver.log": started + died})
    assert (told.cause.id, told.initiating.ranks) == ("actor-died", [3])
    told = verdict({"driver.log": started + died + memory})
    assert (told.cause.id, told.initiating.ranks) == ("host-oom", [3])


def test_srun_names_the_node_whose_prolog_failed(verdict: Verdict) -> None:
    told = verdict(
        {"slurm-88.out": "srun: error: Task launch for StepId=88.0 failed on node g7: Prolog failed\n"}, state="FAILED"
    )
    assert (told.cause.id, told.initiating.hosts, told.suspect_nodes) == ("prolog-failed", ["g7"], ["g7"])


def test_a_job_that_its_owner_interrupted_did_not_fail(verdict: Verdict) -> None:
    told = verdict(
        {
            "rank-0.log": 'step 1\nstep 2\nTraceback (most recent call last):\n  File "t.py", line 9, in <module>\nKeyboardInterrupt\n'
        }
    )
    assert (told.cause.id, told.outcome) == ("cancelled", "not-a-failure")


def test_a_master_that_nobody_could_resolve_is_no_blocked_connection(verdict: Verdict) -> None:
    unresolved = (
        "[W304 02:11:06.1 socket.cpp:764] [c10d] The IPv6 network addresses of (head-9.cluster.local, 22850) cannot be retrieved "
        "(gai error: -2 - Name or service not known).\n"
    )
    timed_out = (
        "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to "
        "(head-9.cluster.local, 22850).\n"
    )
    told = verdict({f"rank{rank}.log": unresolved * 6 + timed_out for rank in range(1, 4)})
    assert (told.cause.id, told.initiating.ranks) == ("name-not-resolved", [])
    told = verdict({f"rank{rank}.log": timed_out for rank in range(1, 4)})
    assert told.cause.id != "connection-blocked"


def test_a_fatal_event_of_a_switch_leads_before_one_that_it_survived(verdict: Verdict) -> None:
    hurt = "[rank{0}]: torch.AcceleratorError: CUDA error: unspecified launch failure\n"
    files = {f"hgx1/rank-{rank}.log": f"step 1\nstep 2\n{hurt.format(rank)}" for rank in range(4)}
    files["hgx1/dmesg.log"] = (
        "[20.1] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)\n"
        "[25.1] nvidia-nvswitch3: SXid (PCI:0000:0c:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
    )
    told = verdict(files)
    assert told.cause.summary.startswith("An NVSwitch on hgx1 failed (SXid 20034")
    assert told.suspect_nodes == ["hgx1"]
