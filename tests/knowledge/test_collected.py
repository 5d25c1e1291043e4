"""Logs as collectors leave them: nodes' logs named for nodes, records of JSON round lines, prefixes of sites' own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge.diagnosis import Diagnosis
from knowledge.reading.prefixes import learn_habits, strip_prefix
from knowledge.reading.wrapped import unwrap

Verdict = Callable[..., Diagnosis]

LOST = "[184050.1] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
WAITED = (
    "[E ProcessGroupNCCL.cpp:475] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=60, OpType={op}, "
    "NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600041 milliseconds before timing out.\n"
)


@pytest.mark.parametrize("name", ["dmesg/gn014", "gn014.dmesg", "gn014.kmsg.txt", "console/gn014.log", "journal-gn014"])
def test_a_kernels_log_is_of_the_node_in_its_name(verdict: Verdict, name: str) -> None:
    assert verdict({name: LOST}).initiating.hosts == ["gn014"]


@pytest.mark.parametrize("name", ["dmesg/full", "messages-20260302", "collected.dmesg"])
def test_a_word_or_date_in_the_name_of_a_kernels_log_is_no_node(verdict: Verdict, name: str) -> None:
    assert verdict({name: LOST}).initiating.hosts == []


def test_records_of_the_kernels_own_device_are_a_kernels_log(verdict: Verdict) -> None:
    told = verdict({"gn014.kmsg": f"3,9911,88123112233,-;{LOST.split('] ', 1)[1]}"})
    assert (told.cause.id, told.initiating.hosts) == ("gpu-lost", ["gn014"])


def test_lines_in_a_collectors_records_are_their_ranks(verdict: Verdict) -> None:
    def record(line: str) -> str:
        line = line.replace('"', '\\"')
        return f'{{"log": "{line}\\n", "stream": "stderr", "kubernetes": {{"pod_name": "tr-0", "host": "gke-7"}}}}\n'

    lines = ["[rank0]: step 1", "[rank1]: step 1", "[rank1]: Traceback (most recent call last):"]
    lines += ['[rank1]:   File "/app/train.py", line 5, in main', "[rank1]: ValueError: x"]
    told = verdict({"tr-0.json": "".join(map(record, lines))})
    assert told.initiating.ranks == [1]


def test_a_program_that_logs_json_itself_is_not_unwrapped() -> None:
    assert unwrap('{"log": "step 1", "rank": 3}') is None
    assert unwrap('{"message": "step 1", "rank": 3}') is None
    assert unwrap('{"log": "cut in mid') is None


def test_numbers_in_brackets_throughout_are_local_ranks(verdict: Verdict) -> None:
    def node(first: int) -> str:
        ops = {rank: "BROADCAST" if rank == 3 else "ALLREDUCE" for rank in range(first, first + 2)}
        return "".join(f"[{rank - first}]:{WAITED.format(rank=rank, op=op)}" for rank, op in ops.items())

    told = verdict({"xa.log": node(0), "xb.log": node(2), "xc.log": node(4)})
    assert (told.cause.id, told.initiating.ranks) == ("collective-mismatch", [3])


def test_addresses_in_front_of_lines_are_hosts(verdict: Verdict) -> None:
    lines = [f"10.3.0.{4 + rank // 2}: [rank{rank}]: step {step}" for step in (1, 2) for rank in range(4)]
    lines += ["10.3.0.5: [rank3]: Traceback (most recent call last):", "10.3.0.5: [rank3]: ValueError: x"]
    told = verdict({"all.log": "\n".join(lines) + "\n"})
    assert (told.initiating.ranks, told.initiating.hosts) == ([3], ["10.3.0.5"])


BROKEN = "Lustre: fs-OST0003-osc-ffff8881: Connection to fs-OST0003 (at 10.0.0.9@o2ib) was lost; in progress operations will wait\n"


def stalled(**kernels: str) -> dict[str, str]:
    files = {f"rank-{rank}.log": "step 1\nstep 2\nsaving checkpoint to /ckpt\n" for rank in range(4)}
    files |= {f"rank-{rank}.log": files["rank-0.log"] + WAITED.format(rank=rank, op="ALLREDUCE") for rank in range(3)}
    return files | {f"dmesg-{host}.log": f"[99.0] {line}[100.0] eth0: link is up\n" for host, line in kernels.items()}


def test_storage_that_one_node_alone_lost_explains_who_stood_still(verdict: Verdict) -> None:
    told = verdict(stalled(n1="x: ready\n", n2=BROKEN))
    assert (told.cause.id, told.initiating.hosts) == ("storage-io-error", ["n2"])


def test_storage_that_several_nodes_lost_names_none_of_them(verdict: Verdict) -> None:
    assert verdict(stalled(n1=BROKEN, n2=BROKEN)).initiating.hosts == []


def test_a_time_of_day_in_front_of_lines_is_no_rank(verdict: Verdict) -> None:
    def said(rank: int) -> str:
        steps = "".join(f"14:0{minute}:32 iteration {minute} | loss 2.1\n" for minute in range(9))
        return steps + (WAITED.format(rank=rank, op="ALLREDUCE") if rank != 2 else "")

    told = verdict({f"rank-{rank}.log": said(rank) for rank in range(4)})
    assert (told.cause.id, told.initiating.ranks) == ("rank-hang", [2])


def test_an_input_output_error_of_the_network_is_not_the_storages(verdict: Verdict) -> None:
    line = "n1:7:9 [0] rdma_process:1421 NCCL WARN NET/OFI Request 0x7f completed with error. RC: 5. Error: 5 (Input/output error)\n"
    assert verdict({"rank-0.log": "step 1\n" + line}).cause.id != "storage-io-error"


def test_words_for_what_is_in_a_file_are_no_part_of_its_hosts_name(verdict: Verdict) -> None:
    def node(first: int, error: str = "") -> str:
        lines = [f"[default{local}]:[rank{first + local}]: step {step}" for step in (1, 2) for local in range(2)]
        return "\n".join(lines) + "\n" + error

    error = "[default0]:[rank2]: Traceback (most recent call last):\n[default0]:[rank2]: ValueError: x\n"
    assert verdict({"out-q1.txt": node(0), "out-q2.txt": node(2, error)}).initiating.hosts == ["q2"]


def test_what_only_follows_from_another_fault_of_a_gpu_explains_no_error_of_a_rank(verdict: Verdict) -> None:
    row = "[99.0] NVRM: Xid (PCI:0000:07:00): 63, pid=1, name=x, Row Remapper: New row marked for remapping, reset gpu to activate.\n"
    told = verdict(
        {
            "kernel-one.log": row,
            "kernel-two.log": "[5.0] docker0: link becomes ready\n",
            "rank-0.log": "step 1\n" + WAITED.format(rank=0, op="ALLREDUCE"),
            "rank-1.log": "step 1\nRuntimeError: CUDA error: an illegal memory access was encountered\n",
        }
    )
    assert (told.cause.id, told.initiating.ranks) == ("illegal-memory-access", [1])


def test_ranks_that_send_and_ranks_that_receive_issue_no_different_collectives(verdict: Verdict) -> None:
    ops = ["SEND", "SEND", "SEND", "RECV"]
    files = {f"rank-{rank}.log": f"step 1\n{WAITED.format(rank=rank, op=op)}" for rank, op in enumerate(ops)}
    assert verdict(files).cause.id == "collective-timeout"


@pytest.mark.parametrize("between", [" pytorch ", "  | "])
def test_pods_in_a_column_of_their_own_are_where_lines_come_from(verdict: Verdict, between: str) -> None:
    lines = [f"vlm-{rank // 2}{between}[rank{rank}]: step {step}" for step in (1, 2, 3) for rank in range(4)]
    lines += [f"vlm-1{between}[rank3]: {line}" for line in ("Traceback (most recent call last):", "ValueError: x")]
    told = verdict({"all.log": "\n".join(lines) + "\n"})
    assert (told.initiating.ranks, told.initiating.hosts) == ([3], ["vlm-1"])


def test_ranks_between_others_that_nothing_was_heard_of_are_those_that_were_lost(verdict: Verdict) -> None:
    lost = "NCCL WARN socketProgress: Connection closed by remote peer n2<41000>\n"
    files = {f"rank-{rank}.log": f"step 1\nstep 2\n{lost}" for rank in range(8) if rank != 3}
    told = verdict(files)
    assert (told.cause.id, told.initiating.ranks) == ("killed-unknown", [3])
    assert told.missing
    assert told.confidence < 0.9


def test_a_program_that_names_itself_in_front_of_steps_is_no_pod() -> None:
    lines = [f"rank-{rank} step {step} loss 2.1" for step in range(4) for rank in range(2)]
    assert strip_prefix(lines[0], learn_habits(lines))[0].pod is None
    assert strip_prefix("my-app info ready", learn_habits(["my-app info ready"] * 5))[0].pod is None


def test_a_tag_beside_a_local_rank_tells_the_other_local_ranks_of_its_file(verdict: Verdict) -> None:
    crash = "[default3]:Fatal Python error: Segmentation fault\n"
    lines = "[default0]:[rank4]: step 1\n[default3]:step 1\n[default0]:[rank4]: step 2\n" + crash
    assert verdict({"tw2.txt": lines}).initiating.ranks == [7]


def test_a_fault_of_a_node_that_is_none_of_the_jobs_is_not_the_jobs(verdict: Verdict) -> None:
    error = "[rank1]: Traceback (most recent call last):\n[rank1]: KeyError: 'grid'\n"
    files = {f"rank-{rank}.log": f"rank {rank} of 2 on ja{rank}, pid {rank + 7}\nstep 1\n" for rank in range(2)}
    files["rank-1.log"] += error
    files["syslog.txt"] = f"Apr  7 08:00:40 jz9 kernel: {LOST.split('] ', 1)[1]}"
    assert verdict(files, scheduler="slurm", nodes=["ja0", "ja1"]).initiating.ranks == [1]
