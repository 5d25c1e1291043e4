"""Logs of large failed jobs in the launcher's true format: a folder with a file for each rank."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from benchmarks.healthy import DIALECTS, facts

_OWN = ("python logging", "Transformers", "JSON lines")  # what one rank writes about itself while it trains
_BANNER = (
    "2026-03-02 00:00:05 | INFO | init rank={rank} local_rank={local} world_size={ranks} host={host} pid={pid}\n"
    "{host}:{pid}:{pid} [{local}] NCCL INFO Bootstrap : Using eth0:10.8.{node}.17<0>\n"
    "{host}:{pid}:{tid} [{local}] NCCL INFO ncclCommInitRank comm 0x55d0c01f rank {rank} nranks {ranks} cudaDev {local} "
    "nvmlDev {local} busId {bus}000 commId 0x7b1c - Init COMPLETE\n"
)
_TIMEOUT = "WorkNCCL(SeqNum=48213, OpType=ALLREDUCE, NumelIn=26214400, NumelOut=26214400, Timeout(ms)=600000)"
_CAUGHT = f"[Rank {{rank}}] Watchdog caught collective operation timeout: {_TIMEOUT} ran for 600{{ms:03}} milliseconds before timing out."
_GLOG = "[rank{rank}]:[E302 04:21:{second:02}.{ms:03}218776 ProcessGroupNCCL.cpp:{at}] "
WATCHDOG = (
    f"{_GLOG.replace('{at}', '629')}{_CAUGHT}\n"
    f"{_GLOG.replace('{at}', '2168')}[PG ID 0 PG GUID 0(default_pg) Rank {{rank}}]  failure detected by watchdog at work "
    "sequence id: 48213 PG status: last enqueued work: 48217, last completed work: 48212\n"
    f"{_GLOG.replace('{at}', '681')}[Rank {{rank}}] Some NCCL operations have failed or timed out. Due to the asynchronous "
    "nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.\n"
    f"{_GLOG.replace('{at}', '695')}[Rank {{rank}}] To avoid data inconsistency, we are taking the entire process down.\n"
    f"{_GLOG.replace('{at}', '1895')}[PG ID 0 PG GUID 0(default_pg) Rank {{rank}}] Process group watchdog thread terminated "
    f"with exception: {_CAUGHT}\n"
    "Exception raised from checkTimeout at /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:632 "
    "(most recent call first):\n"
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f1f3a5a88f2 in /opt/venv/lib/libc10.so)\n"
    "frame #1: c10d::ProcessGroupNCCL::watchdogHandler() + 0x233 (0x7f1f01b032fc in /opt/venv/lib/libtorch_cuda.so)\n"
    "frame #2: clone + 0x43 (0x7f1f4f0ee9d9 in /lib/x86_64-linux-gnu/libc.so.6)\n"
    "\n"
    "terminate called after throwing an instance of 'c10::DistBackendError'\n"
    f"  what():  [PG ID 0 PG GUID 0(default_pg) Rank {{rank}}] Process group watchdog thread terminated with exception: {_CAUGHT}\n"
)
RAISES = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/workspace/train.py", line 266, in <module>\n'
    "[rank{rank}]:     main(parse_args())\n"
    '[rank{rank}]:   File "/workspace/data.py", line 88, in __getitem__\n'
    "[rank{rank}]:     return self.shards[index]\n"
    "[rank{rank}]: KeyError: 'shard-00417'\n"
)


def who(rank: int, ranks: int) -> dict[str, object]:
    """What a rank of a job on nodes of eight says of itself."""
    node, local = divmod(rank, 8)
    return {
        "rank": rank, "ranks": ranks, "node": node % 250, "local": local, "host": f"gpu-n{node:03}", "pid": 20_000 + rank,
        "tid": 30_000 + rank, "bus": f"{16 + local:x}", "second": rank % 60, "ms": rank % 1000,
    }  # fmt: skip


def training(size: int, seed: int = 11) -> str:
    """About `size` bytes of one healthy rank's log; `RANK__` stands where its number does."""
    dice = random.Random(seed)
    lines: list[str] = []
    held = 0
    for step, name in enumerate(cycle(_OWN), start=1):
        line = DIALECTS[name].format(**{**facts(dice, step), "rank": "RANK__"})
        held += len(line) + 1
        if held > size:
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def write_job(folder: Path, ranks: int, size: int, guilty: int) -> int:
    """Write a job in which one rank raises and the others wait for it until their watchdogs end them.

    Each rank's file has about `size` bytes. Returns the bytes of all.
    """
    folder.mkdir(parents=True)
    written = 0
    body = training(size)
    for rank in range(ranks):
        end = RAISES if rank == guilty else WATCHDOG
        banner, ending = (text.format(**who(rank, ranks)) for text in (_BANNER, end))
        room = max(0, size - len(banner) - len(ending))
        cut = body.rfind("\n", 0, room) + 1
        written += (folder / f"rank-{rank}.log").write_bytes(
            (banner + body[:cut].replace("RANK__", str(rank)) + ending).encode()
        )
    return written


def spam(ranks: int, size: int) -> Iterator[tuple[int, str]]:
    """Watchdog complaints of all ranks in turn until there are `size` bytes: (rank, its lines)."""
    held = turn = 0
    while held < size:
        for rank in range(ranks):
            text = WATCHDOG.format(**{**who(rank, ranks), "ms": (rank + turn) % 1000})
            held += len(text)
            yield rank, text
        turn += 1


def write_storm(folder: Path, ranks: int, size: int, guilty: int) -> tuple[Path, Path, int]:
    """Write the same storm twice: as one labelled stream, and as a file a rank. One rank raises, then the rest repeat
    their watchdogs' words without end. Returns both folders and the bytes of each."""
    one, many = folder / "stream", folder / "ranks"
    one.mkdir(parents=True)
    many.mkdir()
    body = training(4000)
    files = [(many / f"rank-{rank}.log").open("w") for rank in range(ranks)]
    with (one / "slurm-48213.out").open("w") as stream:

        def put(rank: int, text: str) -> None:
            files[rank].write(text)
            stream.write("".join(f"{rank:3}: {line}" for line in text.splitlines(keepends=True)))

        for rank in range(ranks):
            put(rank, _BANNER.format(**who(rank, ranks)) + body.replace("RANK__", str(rank)))
        put(guilty, RAISES.format(**who(guilty, ranks)))
        for rank, text in spam(ranks, size):
            if rank != guilty:
                put(rank, text)
    for file in files:
        file.close()
    return one, many, sum(path.stat().st_size for path in many.iterdir())
