"""How fast the catalogue is looked for in logs, beside tools that look for the same literals, all in one run.

    make bench                              64 MB of healthy training log with planted faults
    make bench BENCH="--megabytes 512"

The figure is MB per second of CPU time (user and system, best of the rounds), which holds on a busy machine too.
The ratio is ours over theirs: 2.0 means that we are twice as fast.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, count
from pathlib import Path

from knowledge.catalogue import Catalogue, load_catalogue
from knowledge.job import JobFacts
from knowledge.reading.bundle import Bundle, Source
from knowledge.reading.reader import read_evidence

MEGA = 1_000_000
BLOCK = 1 << 20
FAULT_EVERY = 4 * MEGA  # bytes of healthy log between two planted faults


DIALECTS = {
    "python logging": "{clock},{ms:03} INFO trainer: step {step} loss {loss:.4f} lr 3.0e-04 tok/s {rate}",
    "Transformers": "[rank{rank}]: {{'loss': {loss:.4f}, 'grad_norm': {norm:.6f}, 'lr': 0.0003, 'epoch': 0.42}}",
    "NCCL": "{rank}: {host}:{pid}:{tid} [{local}] NCCL INFO Channel {channel:02}/16 : {rank}[{local}] -> "
    "{peer}[{local}] via P2P/CUMEM",
    "Megatron": " [{clock}] iteration {step:8d}/  500000 | consumed samples: {samples:12d} | elapsed time per "
    "iteration (ms): {rate}.1 | lm loss: {loss:.6E} | number of skipped iterations:   0 |",
    "tqdm": "Epoch {epoch}: {done:3d}%|{bar:<10}| {done}/100 [00:{done:02}<01:{done:02}, {norm:.2f}it/s]",
    "DeepSpeed": "[{clock}] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, lr=[0.0003]",
    "kernel": "{host} kernel: [{step:5d}.{pid:06}] nfs: server storage-02 OK",
}
RARITY = {"tqdm": 7, "DeepSpeed": 50, "kernel": 400}  # every so many steps; others at each


def healthy_lines(dice: random.Random) -> Iterator[str]:
    """Lines of a healthy job of 64 ranks in the dialects of several trainers, without end."""
    for step in count(1):
        rank, done = dice.randrange(64), step % 60
        facts = {
            "step": step,
            "clock": f"2026-03-02 {step // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02}",
            "ms": dice.randrange(1000),
            "loss": 1 + 8 / (1 + step / 500) + dice.random() / 10,
            "rate": dice.randrange(9000, 9999),
            "norm": dice.random() * 3,
            "samples": step * 1024,
            "epoch": step // 100,
            "done": done,
            "bar": "█" * (done // 10),
            "channel": step % 16,
            "rank": rank,
            "local": rank % 8,
            "peer": (rank + 8) % 64,
            "host": f"gpu-n{rank // 8:02}",
            "pid": 20_000 + rank,
            "tid": 21_000 + rank,
        }
        for name, template in DIALECTS.items():
            if step % RARITY.get(name, 1) == 0:
                yield template.format(**facts)


def write_corpus(path: Path, size: int, catalogue: Catalogue, seed: int = 7) -> int:
    """Write at least `size` bytes to `path` and return how many faults are planted in it."""
    dice = random.Random(seed)
    faults = [sample.text for entry in catalogue for sample in entry.samples.match]
    written, planted = 0, 0
    with path.open("wb") as file:
        for line in healthy_lines(dice):
            written += file.write(line.encode() + b"\n")
            if written > (planted + 1) * FAULT_EVERY:
                written += file.write(dice.choice(faults).encode() + b"\n")
                planted += 1
            if written >= size:
                return planted
    raise AssertionError("healthy lines never end")


@dataclass(frozen=True, slots=True)
class Result:
    """One contestant's figures: bytes read a second of CPU, and what it found."""

    name: str
    speed: float
    found: str


def cpu() -> float:
    """Seconds of CPU that this process and its ended children have used."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def measure(name: str, size: int, rounds: int, work: Callable[[], str]) -> Result:
    """Run `work` several times and keep the cheapest."""
    best, found = float("inf"), ""
    for _ in range(rounds):
        before = cpu()
        found = work()
        best = min(best, cpu() - before)
    return Result(name, size / max(best, 1e-9), found)


def read(path: Path) -> str:
    """Only read."""
    buffer = bytearray(BLOCK)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return ""


def scan(path: Path, catalogue: Catalogue) -> str:
    """Find candidate lines and confirm them with the regexes, without telling ranks or times."""
    found, rest = 0, b""
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(BLOCK):
            block, cut, rest_after = (rest + chunk).rpartition(b"\n")
            block, rest = block + cut, rest_after
            if catalogue.scanner.candidates(block, []):  # only then is it worth knowing where the lines are
                lines = block.splitlines(keepends=True)
                ends = list(accumulate(map(len, lines)))
                for number, entries in catalogue.scanner.candidates(block, ends).items():
                    line = lines[number].decode("utf-8", "replace")
                    found += any(entry.match(line) is not None for entry in entries)
    return f"{found} lines"


def read_as_evidence(path: Path, catalogue: Catalogue) -> str:
    """Everything that `firstfault diagnose` does with a file: prefixes, ranks, times, tracebacks, progress."""
    case = read_evidence(Bundle([Source(name=path.name, path=path)], JobFacts()), catalogue)
    return f"{len(case.hits)} hits"


def run_tool(command: list[str], path: Path) -> str:
    """Let another program look for the literals. Its exit status 1 only says that it found none."""
    plain = {**os.environ, "LC_ALL": "C"}
    tool = subprocess.run([*command, str(path)], stdout=subprocess.PIPE, env=plain, check=False)
    if tool.returncode not in (0, 1):
        raise SystemExit(f"{command[0]} ended with status {tool.returncode}")
    return str(tool.stdout.count(b"\n")) + " lines"


def contest(path: Path, literals: Path, catalogue: Catalogue, rounds: int) -> list[Result]:
    """All contestants on the same file, ours last."""
    size = path.stat().st_size
    results = [measure("read only", size, rounds, lambda: read(path))]
    if shutil.which("grep"):
        command = ["grep", "-a", "-F", "-f", str(literals)]
        results.append(measure("grep -F -f", size, rounds, lambda: run_tool(command, path)))
    if shutil.which("rg"):
        other = ["rg", "-a", "-N", "-j1", "-F", "-f", str(literals)]
        results.append(measure("ripgrep -F -f", size, rounds, lambda: run_tool(other, path)))
    results.append(measure("ours: literals and regexes", size, rounds, lambda: scan(path, catalogue)))
    results.append(measure("ours: the whole reading", size, rounds, lambda: read_as_evidence(path, catalogue)))
    return results


def main() -> None:
    """Make the corpus, let everybody run, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=64, help="size of the corpus (default 64)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, of which the best counts (default 3)")
    options = parser.parse_args()
    if min(options.megabytes, options.rounds) < 1:
        parser.error("nothing to measure")

    began = time.perf_counter()
    catalogue = load_catalogue()
    assert catalogue.scanner
    loading = time.perf_counter() - began
    words = sorted({literal for entry in catalogue for literal in entry.literals})
    with tempfile.TemporaryDirectory(prefix="firstfault-bench-") as folder:
        corpus, literals = Path(folder, "training.log"), Path(folder, "literals")
        literals.write_text("\n".join(words) + "\n", encoding="utf-8")
        planted = write_corpus(corpus, options.megabytes * MEGA, catalogue)
        size = corpus.stat().st_size
        print(
            f"{size / MEGA:.0f} MB, {planted} faults planted, {len(catalogue.entries)} entries, {len(words)} literals, "
            f"{os.cpu_count()} cores, Python {sys.version.split()[0]}; catalogue ready in {loading:.2f} s\n"
        )
        results = contest(corpus, literals, catalogue, options.rounds)
    ours = {result.name: result.speed for result in results if result.name.startswith("ours")}
    print(f"{'':<28}{'MB per CPU s':>14}{'scan ratio':>14}{'whole ratio':>14}   found")
    for result in results:
        ratios = "".join(f"{speed / result.speed:>14.2f}" for speed in ours.values())
        print(f"{result.name:<28}{result.speed / MEGA:>14.1f}{ratios}   {result.found}")


if __name__ == "__main__":
    main()
