"""A node's faults and the ranks that they struck; faults between hosts, which are no rank's."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]

KERNEL = "Nov 12 02:20:29 gx6 kernel: [99811.22] "
MEMORY = (
    f"{KERNEL}EDAC MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x4a1c2b offset:0x0 grain:32)\n"
    f"{KERNEL}Memory failure: 0x4a1c2b: Sending SIGBUS to python:6101 due to hardware memory corruption\n"
)
RANKS = "".join(f"rank={rank} local_rank={rank} world_size=4 host=gx6 pid={6100 + rank}\n" for rank in range(4))


def test_of_a_host_with_bad_memory_the_rank_whose_process_the_kernel_ended(verdict: Verdict) -> None:
    said = verdict({"gx6.log": RANKS + "step 9 loss 2\n", "kern-gx6.log": MEMORY})
    assert (said.cause.id, said.initiating.ranks, said.initiating.hosts) == ("host-hardware", [1], ["gx6"])


def test_hosts_that_cannot_connect_to_each_other_accuse_no_rank(verdict: Verdict) -> None:
    raised = 'Traceback (most recent call last):\n  File "/app/t.py", line 3, in main\n    init()\n'
    client = (
        "The client socket has failed to connect to any network address of (fw0, 29500). "
        "The client socket has failed to connect to fw0:29500 (errno: 113 - No route to host)."
    )
    said = verdict(
        {
            "fw0.log": f"rank 0 of 2 on fw0\n{raised}torch.distributed.DistStoreError: Timed out after 301 seconds waiting for clients. "
            "1/2 clients joined.\n",
            "fw1.log": f"rank 1 of 2 on fw1\n{raised}torch.distributed.DistNetworkError: {client}\n",
        }
    )
    assert (said.cause.id, said.initiating.ranks) == ("connection-blocked", [])


def test_a_rank_that_gave_up_on_the_group_in_unknown_words_does_not_hang(verdict: Verdict) -> None:
    raised = 'Traceback (most recent call last):\n  File "/app/t.py", line 3, in main\n    init()\ntorch.distributed.'
    said = verdict(
        {
            "rank-0.log": f"rank 0 of 2 on fw0\n{raised}DistStoreError: Timed out after 301 seconds waiting for clients. 1/2 clients joined.\n",
            "rank-1.log": f"rank 1 of 2 on fw1\n{raised}DistNetworkError: the moon is in the way\n",
        }
    )
    assert said.cause.id != "rank-hang"
    assert said.confidence < 0.8
