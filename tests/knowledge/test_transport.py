"""What lies between ranks that all lived: lost peers and unanswered requests, where nobody says that he began it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]


def unanswered(rank: int, peer: str) -> str:
    """A rank whose RDMA request to `peer` was never answered."""
    return (
        f"n{rank}:71:72 [0] transport/net_ib.cc:2264 NCCL WARN NET/IB: Got completion from peer {peer}<41002> with status=12 opcode=0 len=0 "
        f"vendor err 129 (Send)  hca mlx5_2\n[rank{rank}]:[E1102 04:40:13.026449855 ProcessGroupNCCL.cpp:552] [Rank {rank}] Collective "
        "WorkNCCL(SeqNum=61022, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) raised the following async exception: "
        "NCCL error: remote process exited or there was a network error, NCCL version 2.27.3\n"
    )


def lost(rank: int, peer: str, world: int) -> str:
    """A rank that met `peer` at the start and lost it before any step."""
    return (
        f"h1:5{rank}:90 [{rank}] NCCL INFO ncclCommInitRank comm 0x7f rank {rank} nranks {world} cudaDev {rank} busId 1b000 - Init COMPLETE\n"
        f"h1:5{rank}:91 [{rank}] misc/socket.cc:484 NCCL WARN socketProgress: Connection closed by remote peer {peer}<33001>\n"
    )


def test_ranks_that_all_lived_and_got_no_answer_blame_what_lies_between(verdict: Verdict) -> None:
    said = verdict({"rank-0.log": unanswered(0, "10.9.0.8"), "rank-1.log": unanswered(1, "10.9.0.7")})
    assert said.cause.id == "rdma-retry-exceeded"
    assert (said.initiating.ranks, said.initiating.hosts) == ([], [])
    assert said.confidence < 0.6
    assert "mlx5_2" in said.missing[0]
    assert "10.9.0.8 and 10.9.0.7" in said.missing[0]


@pytest.mark.parametrize(("seconds", "hosts"), [((1, 2), ["ib-1", "ib-2"]), ((1, 41), ["ib-1"])])
def test_links_that_went_down_in_one_moment_are_one_fault(
    verdict: Verdict, seconds: tuple[int, int], hosts: list[str]
) -> None:
    down = "[Mon Nov  2 04:30:{:02} 2026] mlx5_core 0000:1a:00.0 mlx5_2: Port: 1 Link DOWN\n"
    start = "rank {} of 3 on {}, pid 4{}, local rank 0\n"
    logs = {f"rank-{rank}.log": start.format(rank, host, rank) for rank, host in enumerate(("ib-1", "ib-2", "ib-3"))}
    logs["rank-2.log"] += unanswered(2, "10.9.0.8")
    said = verdict(logs | {f"dmesg-ib-{node}.txt": down.format(second) for node, second in enumerate(seconds, 1)})
    assert (said.cause.id, said.initiating.hosts) == ("link-down", hosts)


def test_ranks_that_were_lost_after_the_start_are_not_missing_at_it(verdict: Verdict) -> None:
    said = verdict({f"rank-{rank}.log": lost(rank, f"10.8.1.{23 + rank}", 4) for rank in (0, 1)})
    assert said.cause.id == "peer-lost"
    assert said.missing


def waited(rank: int) -> str:
    return (
        f"[rank{rank}]:[E312 05:31:00.100 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
    )


def test_a_silent_rank_that_was_building_an_index_is_slow_and_not_hung(verdict: Verdict) -> None:
    busy = "loading the corpus\n\t> Build and save the sample index to 8c2f-GPTDataset-train-sample_index.npy\n"
    said = verdict({"rank-0.log": busy, **{f"rank-{rank}.log": waited(rank) for rank in (1, 2, 3)}})
    assert (said.cause.id, said.initiating.ranks) == ("slow-preprocessing", [0])


def test_a_silent_rank_whose_checkpoint_was_written_hangs_elsewhere(verdict: Verdict) -> None:
    done = "step 200 loss 1.9\nsaved checkpoint to /ckpt/200 in 41 s\n"
    said = verdict({"rank-0.log": done, **{f"rank-{rank}.log": waited(rank) for rank in (1, 2, 3)}})
    assert (said.cause.id, said.initiating.ranks) == ("rank-hang", [0])


def test_old_files_are_ranks_where_the_number_in_name_and_words_agree(verdict: Verdict) -> None:
    old = (
        "[E ProcessGroupNCCL.cpp:821] [Rank {0}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=5117, OpType={1}, Timeout(ms)=1800000) ran for 1800311 milliseconds before timing out.\n"
    )
    said = verdict({f"worker_{n}.txt": old.format(n, "BROADCAST" if n == 3 else "ALLREDUCE") for n in range(4)})
    assert (said.cause.id, said.initiating.ranks) == ("collective-mismatch", [3])


def test_a_warning_of_memory_that_was_got_over_does_not_share_the_blame(verdict: Verdict) -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.40 GiB.\n"
    tried = f"[WARNING] rank 1: caught {oom.strip()} Decreasing batch size to: 32.\n"
    said = verdict({"nohup.out": f"{tried}[rank3]: {oom}"})
    assert (said.cause.id, said.initiating.ranks) == ("gpu-oom", [3])


def test_a_rank_without_a_log_had_joined_where_the_watchdog_watched_a_collective(verdict: Verdict) -> None:
    said = verdict({f"rank-{rank}.log": waited(rank) for rank in (1, 2, 3)}, world_size=4)
    assert (said.cause.id, said.initiating.ranks) == ("rank-hang", [0])
    assert said.confidence < 0.7


def test_a_rank_that_once_said_what_it_was_about_to_do_is_slow_at_it(verdict: Verdict) -> None:
    said = verdict(
        {"sft.log": "[rank0] tokenizing with 16 workers; other ranks wait\n" + "".join(map(waited, (1, 2, 3)))}
    )
    assert (said.cause.id, said.initiating.ranks) == ("slow-preprocessing", [0])


def test_nccls_own_report_names_the_process_that_it_misses(verdict: Verdict) -> None:
    def met(rank: int) -> str:
        return f"gq-1:70{rank}:7 [{rank}] NCCL INFO ncclCommInitRank comm 0x4 rank {rank} nranks 4 cudaDev {rank} busId 1a000 - Init COMPLETE\n"

    report = "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n  Process 702 on node 10.7.2.2 managing GPU 2\n"
    ranks = {f"rank-{rank}.log": met(rank) + (waited(rank) if rank != 2 else "") for rank in range(4)}
    said = verdict({"ncclras.txt": report, **ranks})
    assert said.initiating.ranks == [2]
    assert said.cause.id in ("peer-lost", "rank-hang")


def test_a_silent_rank_whose_peers_saw_it_end_was_ended_and_did_not_hang(verdict: Verdict) -> None:
    aborted = (
        "[rank{0}]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank {0}. Original reason for failure was: "
        "NCCL error: remote process exited or there was a network error, NCCL version 2.18.5\n"
    )
    said = verdict(
        {
            "rank-0.log": "loading\nstep 9\n",
            **{f"rank-{rank}.log": "step 9\n" + aborted.format(rank) for rank in (1, 2, 3)},
        }
    )
    assert (said.cause.id, said.initiating.ranks) == ("killed-unknown", [0])
