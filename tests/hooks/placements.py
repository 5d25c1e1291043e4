"""A job of 64 ranks with 50 MB of log each, and a fault that may stand anywhere: is the decisive line sent?

    python -m tests.hooks.placements [PLACEMENTS [MEGABYTES]]

Files of ranks that have no fault are links to one file, and from one placement to the next only one log changes, so that
3.2 GB need be neither written nor read a hundred times: the hook leaves alone what has not changed.
"""

from __future__ import annotations

import gzip
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

from knowledge.catalogue import load_catalogue
from knowledge.signature import SignatureRole, SourceKind
from tests.cluster.hooks import HOOK

RANKS = 64
NODE_BYTES = 10 << 20
MIB = 1 << 20
_OWN = {SourceKind.RANK, SourceKind.COMBINED, SourceKind.LAUNCHER}
_SYLLABLES = "ka lo mi ter van sol ine pra du che ros tel bam qui nor ex ward ly ous ment".split()


def decisive_lines() -> list[str]:
    """What can begin a failure and stand in the log of a rank, one line for each message of the catalogue."""
    own = (
        each
        for each in load_catalogue()
        if each.role is SignatureRole.ROOT and (not each.sources or each.sources & _OWN)
    )
    lines = [max((sample.text for sample in entry.samples.match), key=len) for entry in own]
    return [line for line in lines if "\n" not in line]


def word(chance: random.Random) -> str:
    return "".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4)))


def steps(chance: random.Random, number: int) -> str:
    loss = chance.random() * 3
    return (
        f"[2026-11-30 08:{number // 60 % 60:02}:{number % 60:02},{number % 1000:03}][INFO] iteration {number:8}/ 500000 |"
        f" elapsed time per iteration (ms): {chance.random() * 1e3:.1f} | lm loss: {loss:.6E} | grad norm: {loss:.3f}\n"
    )


def bars(chance: random.Random, number: int) -> str:
    return f"\rEpoch {number // 100}: {number % 100}%|{'#' * (number % 10)}| {number}/500000 [{number % 60:02}:11, 3.1it/s]"


def samples(chance: random.Random, number: int) -> str:
    """What a model writes at an evaluation: no two lines alike, and now and then a word that sounds like trouble."""
    text = " ".join(chance.choice(["failed", "lost", "killed", "error"]) if chance.random() < 0.01 else word(chance)
                    for _ in range(14))  # fmt: skip
    return f"eval sample {number}: {text}\n"


def retries(chance: random.Random, number: int) -> str:
    return (
        f"ERROR data worker {number % 8}: cannot fetch {word(chance)}-{word(chance)}.tar ({word(chance)}), retrying\n"
    )


def slow_peers(chance: random.Random, number: int) -> str:
    return (
        f"gpu-n{number % 8}:{number}:{number} [{number % 8}] NCCL WARN Call to ibv_poll_cq timed out, retry {number}\n"
    )


def watchdogs(chance: random.Random, number: int) -> str:
    rank = number % RANKS
    return (
        f"[rank{rank}]:[E1130 08:30:{number % 60:02}.{number % 10**6:06} ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught"
        f" collective operation timeout: WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576,"
        f" Timeout(ms)=600000) ran for {600000 + number % 999} milliseconds before timing out.\n"
    )


def resets(chance: random.Random, number: int) -> str:
    return f"[rank{number % RANKS}]: RuntimeError: [../gloo/pair.cc:534] Connection closed by peer [10.0.3.{number % 256}]:{number}\n"


BEFORE = (steps, bars, samples, retries, slow_peers)
AFTER = (watchdogs, resets, retries, steps)


def text_of(kinds: Sequence[Any], chance: random.Random, size: int) -> bytes:
    """About `size` bytes, made of runs of lines of one kind; what is long is a repetition of its first two megabytes."""
    made, number = bytearray(), chance.randrange(10**5)
    while len(made) < min(size, 2 * MIB):
        kind = chance.choice(kinds)
        for _ in range(chance.choice((1, 10, 1000))):
            made += kind(chance, number).encode()
            number += 1
    return bytes(made) * (size // len(made) + 1) if size else b""


@dataclass(frozen=True)
class Placement:
    """One fault: in whose log it stands, behind how many bytes, and what surrounds it."""

    rank: int
    line: bytes
    text: bytes

    @classmethod
    def at_random(cls, seed: int, size: int, lines: Sequence[str]) -> Placement:
        chance = random.Random(seed)
        before = chance.choices(BEFORE, k=3)
        after = chance.choices(AFTER, k=2)
        line = chance.choice(lines).encode()
        at = chance.randrange(size)
        text = text_of(before, chance, size)[:at] + b"\n" + line + b"\n" + text_of(after, chance, size)
        return cls(
            chance.randrange(RANKS), line, text[:size] if at + len(line) + 2 < size else text[: at + len(line) + 2]
        )


class Job:
    """The logs of the job in `folder`, and the hook of the node that has to send them all."""

    def __init__(self, hook: Any, folder: Path, size: int) -> None:
        self.folder, self.size = folder, size
        self.healthy = folder / "healthy"
        self.healthy.write_bytes(text_of((steps, slow_peers), random.Random(0), size)[:size])
        for rank in range(RANKS):
            self.log(rank).hardlink_to(self.healthy)
        config = folder / "hook.conf"
        config.touch(mode=0o600)
        config.write_text(
            f"[hook]\nurl = http://127.0.0.1:9\ntoken = hook-test-not-a-token\nnode_bytes = {NODE_BYTES}\n"
            f"shared_paths = {folder}\nglobs = rank-%t.log\nscan_time = 10m\n"
        )
        env = {
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_UID": str(os.getuid()),
            "SLURM_NODELIST": "n[1-8]",
            "SLURMD_NODENAME": "n1",
            "SLURM_JOB_WORK_DIR": str(folder),
        }
        self.evidence = hook.Evidence(hook.Settings(str(config)), hook.Job(env, "node"))

    def log(self, rank: int) -> Path:
        """The log of a rank."""
        return self.folder / f"rank-{rank}.log"

    def collect(self) -> dict[str, bytes]:
        """What the hook would send now, by name."""
        self.evidence.collect([("rank-%t.log", False)], failed=True)
        return {name: gzip.decompress(packed) for name, (_, packed) in self.evidence.packed.items()}

    def is_sent(self, placement: Placement) -> bool:
        """Whether the decisive line is sent, and no more than may be."""
        log = self.log(placement.rank)
        log.unlink()
        log.write_bytes(placement.text)
        sent = self.collect()
        assert len(sent) == RANKS
        assert sum(map(len, sent.values())) <= NODE_BYTES
        log.unlink()
        log.hardlink_to(self.healthy)
        return placement.line in sent[log.name]


def loaded_hook() -> Any:
    """The hook as a module."""
    loader = SourceFileLoader("firstfault_hook", str(HOOK))
    spec = spec_from_loader("firstfault_hook", loader)
    assert spec
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def outcomes(folder: Path, placements: int, size: int) -> Iterator[tuple[Placement, bool, float]]:
    """(placement, whether its line was sent, seconds) one after the other; the first one takes all 64 logs."""
    job, lines = Job(loaded_hook(), folder, size), decisive_lines()
    for seed in range(placements):
        placement = Placement.at_random(seed, size, lines)
        began = time.monotonic()
        yield placement, job.is_sent(placement), time.monotonic() - began


def main() -> int:
    given = [int(word) for word in sys.argv[1:3]]
    placements, megabytes = given + [100, 50][len(given) :]
    sent, times = 0, []
    with tempfile.TemporaryDirectory(prefix="ff-placements-") as folder:
        for placement, kept, seconds in outcomes(Path(folder), placements, megabytes * 10**6):
            sent += kept
            times.append(seconds)
            if not kept:
                at = placement.text.index(placement.line)
                print(f"lost: rank {placement.rank}, byte {at}: {placement.line.decode()}", flush=True)  # noqa: T201
    print(f"{sent} of {placements} lines sent; {RANKS} ranks with {megabytes} MB each")  # noqa: T201
    one = statistics.median(times[1:] or times)
    print(f"{times[0]:.0f} s for the logs of all ranks, then {one:.1f} s for the one that changed")  # noqa: T201
    return 0 if sent == placements else 1


if __name__ == "__main__":
    sys.exit(main())
