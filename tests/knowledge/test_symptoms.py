"""Errors that look like another fault than they are."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]

UNREPORTED = (
    'Traceback (most recent call last):\n  File "/z/train.py", line 66, in main\n    loss.backward()\n'
    'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "/pytorch/c10/cuda/CUDACachingAllocator.cpp":1016, please report a bug to PyTorch. \n'
)
UPDATED = (
    "Aug 20 06:25:33 gn-17 kernel: NVRM: API mismatch: the client 'nvidia-smi' (pid 91333)\n"
    "Aug 20 06:25:33 gn-17 kernel: NVRM: API mismatch: the client has the version 550.163.01, but\n"
)


def test_a_driver_that_is_updated_does_not_end_what_already_runs(verdict: Verdict) -> None:
    said = verdict({"rank-4.log": "step 300 loss 1.1\n" + UNREPORTED, "gn-17.kern.log": UPDATED})
    assert (said.cause.id, said.initiating.ranks) == ("gpu-oom", [4])


def test_a_driver_that_does_not_fit_keeps_a_job_from_starting(verdict: Verdict) -> None:
    blind = "RuntimeError: CUDA error: system has unsupported display driver / cuda driver combination\n"
    said = verdict({"rank-4.log": blind, "gn-17.kern.log": UPDATED})
    assert said.cause.id == "driver-mismatch"


def first(rank: int) -> str:
    return (
        f"rig4:5{rank}:5 [{rank}] NCCL INFO ncclCommInitRank comm 0x1 rank {rank} nranks 2 cudaDev {rank} busId {rank + 1}1000 - Init COMPLETE\n"
        f"[rank{rank}]:[E404 10:10:10.100 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
    )


def test_gpus_that_the_iommu_keeps_apart_hang_in_their_first_collective(verdict: Verdict) -> None:
    fault = "[  611.220118] nvidia 0000:21:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0031 address=0xfd00000000 flags=0x0030]\n"
    assert verdict({"train.log": first(0) + first(1)}).cause.id == "collective-timeout"
    said = verdict({"train.log": first(0) + first(1), "rig4.dmesg": fault})
    assert said.cause.id == "gpu-peer-hang"
    assert said.confidence < 0.7


def test_all_ranks_of_the_host_with_the_odd_nccl_are_odd(verdict: Verdict) -> None:
    def differs(rank: int, mine: int, other: int, theirs: int) -> str:
        host = f"tau{rank // 2}"
        return (
            f"[1,{rank}]<stderr>:{host}:81{rank}:91{rank} [{rank % 2}] init.cc:889 NCCL WARN Mismatched NCCL version detected : "
            f"rank {other} version {theirs} rank {rank} version {mine}\n"
        )

    text = "".join(differs(rank, 22602, 4, 22105) for rank in range(4)) + "".join(
        differs(rank, 22105, 0, 22602) for rank in (4, 5)
    )
    said = verdict({"mpirun.out": text})
    assert (said.cause.id, said.initiating.ranks) == ("nccl-version-mismatch", [4, 5])


CARRIED = (
    '[rank6]: Traceback (most recent call last):\n[rank6]:   File "/app/train.py", line 120, in main\n[rank6]:     for batch in loader:\n'
    "[rank6]: KeyError: Caught KeyError in DataLoader worker process 3.\n[rank6]: Original Traceback (most recent call last):\n"
    '[rank6]:   File "/app/vqa/data.py", line 66, in __getitem__\n[rank6]:     target = record["answer"]\n[rank6]: KeyError: \'answer\'\n'
)


def test_what_a_loading_process_raised_is_the_origin_of_what_its_rank_raises(verdict: Verdict) -> None:
    said = verdict({"train.log": CARRIED})
    assert (said.cause.id, said.initiating.ranks) == ("data-error", [6])
    assert "data.py:66" in said.cause.summary


SPAWNED = (
    "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 2 terminated with the following error:\n"
    'Traceback (most recent call last):\n  File "/u/main.py", line 44, in train\n    y = model(x)\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)


def test_the_error_under_a_line_that_names_its_process_is_that_process_own(verdict: Verdict) -> None:
    said = verdict({"main.log": SPAWNED})
    assert (said.cause.id, said.initiating.ranks) == ("gpu-oom", [2])


def test_an_error_that_others_met_before_is_not_that_process_alone(verdict: Verdict) -> None:
    said = verdict({"main.log": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n" + SPAWNED})
    assert (said.cause.id, said.initiating.ranks) == ("gpu-oom", [])


def test_the_process_that_the_kernel_names_began_it_and_not_its_siblings_with_a_log(verdict: Verdict) -> None:
    def sibling(rank: int) -> str:
        return (
            f"gz-5:4000{rank}:7 [{rank}] NCCL INFO ncclCommInitRank comm 0x1 rank {rank} nranks 8 cudaDev {rank} busId {rank}a000 - Init COMPLETE\n"
            f"[rank{rank}]:[E721 15:15:16.100 ProcessGroupNCCL.cpp:1899] [PG ID 2 PG GUID 3(TP) Rank {rank}] Process group watchdog thread "
            "terminated with exception: CUDA error: unspecified launch failure\n"
        )

    def other(rank: int) -> str:
        return (
            first(rank)
            .replace("rig4", "gz-6")
            .replace("nranks 2", "nranks 8")
            .replace(f"cudaDev {rank}", f"cudaDev {rank - 4}")
        )

    fault = (
        "[Tue Jul 21 15:15:13 2026] NVRM: Xid (PCI:0000:4e:00): 31, pid=40000, name=python, Ch 00000012, intr 00000000. "
        "MMU Fault: ENGINE GRAPHICS GPC3 GPCCLIENT_T1_7 faulted @ 0x7f81_d0ab1000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ\n"
    )
    logs = {f"gz-5/rank_{rank}.log": sibling(rank) for rank in (1, 2, 3)} | {
        f"gz-6/rank_{rank}.log": other(rank) for rank in (4, 5, 6, 7)
    }
    said = verdict({"gz-5/dmesg.log": fault, **logs})
    assert (said.cause.id, said.initiating.ranks) == ("illegal-memory-access", [0])
