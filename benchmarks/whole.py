"""What a whole diagnosis costs: a large job, a storm of errors, and growth with the number of ranks."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.jobs import write_job, write_storm
from benchmarks.measure import MEGA, Cost, cheapest_program
from benchmarks.section import Section

_RAISED = "data-error"  # what the guilty rank of our jobs died of
_READY = """
import json, sys, time
from pathlib import Path
from knowledge import diagnose
from knowledge.redaction import redact
diagnose([Path(sys.argv[1])])
began = time.perf_counter()
for path in sys.argv[2:]:
    diagnose([Path(path)])
print(json.dumps(time.perf_counter() - began))
"""


def diagnose(folder: Path, rounds: int, guilty: int) -> Cost:
    """Run `firstfault diagnose` on a folder; see that it names the guilty rank."""
    command = [sys.executable, "-m", "bot.cli", "diagnose", "--json", str(folder)]
    cost, out = cheapest_program(rounds, command, range(8))
    verdict = json.loads(out)
    named = (verdict.get("initiating") or {}).get("ranks")
    if named != [guilty]:
        sys.exit(f"{folder.name}: rank {guilty} failed first, but the diagnosis names {named}: {verdict['summary']}")
    return cost


def ready(folder: Path, rounds: int, first: Path) -> float:
    """Seconds for a diagnosis in a process that has made one before, as the service does."""
    outs = [cheapest_program(1, [sys.executable, "-c", _READY, str(first), str(folder)])[1] for _ in range(rounds)]
    return min(float(json.loads(out)) for out in outs)


def large_job(folder: Path, ranks: int, rounds: int) -> Section:
    """A job of `ranks` ranks with 1 MB each: all but one end in their watchdogs."""
    guilty = ranks * 2 // 5
    small, job = folder / "small", folder / "job"
    write_job(small, 2, 4000, 1)
    size = write_job(job, ranks, MEGA, guilty)
    start = diagnose(small, rounds, 1)
    cost = diagnose(job, rounds, guilty)
    warm = ready(job, rounds, small)
    for path in (small, job):
        shutil.rmtree(path)
    speed = size / MEGA / warm
    return Section(
        "A large job",
        f"{ranks:,} ranks, a file of 1 MB each; {ranks - 1:,} end in a watchdog's timeout, one raised an exception before. "
        f"`firstfault diagnose` names it. Starting alone takes {start.wall:.2f} s of wall time, {start.cpu:.2f} s of CPU. "
        "The figure is that of a process that has started, as the service has: a whole diagnosis, from paths to answer.",
        ["", "wall s", "MB per wall second", "MB per CPU second", "resident MB, all processes"],
        [
            ["from the command to the answer", f"{cost.wall:.2f}", f"{size / MEGA / cost.wall:,.0f}",
             f"{size / MEGA / cost.cpu:,.0f}", f"{cost.resident:,.0f}"],
            ["in a service that runs", f"{warm:.2f}", f"{speed:,.0f}", "", ""],
        ],
        {"diagnose_1024_mb_per_s": speed},
    )  # fmt: skip


def storm(folder: Path, size: int, rounds: int, ranks: int = 256) -> Section:
    """Watchdogs of all ranks that repeat themselves without end, `size` bytes in all."""
    guilty = ranks * 2 // 5
    one, many, size = write_storm(folder / "storm", ranks, size, guilty)
    costs = {"one labelled stream": diagnose(one, rounds, guilty), "a file a rank": diagnose(many, rounds, guilty)}
    shutil.rmtree(folder / "storm")
    return Section(
        "An error storm",
        f"{ranks} ranks repeat their watchdogs' words, {size / MEGA:,.0f} MB; the one that raised an exception before is "
        "named. The figures are the worse of the two ways of collecting logs.",
        ["", "wall s", "MB per wall second", "MB per CPU second", "resident MB, all processes"],
        [
            [name, f"{cost.wall:.2f}", f"{size / MEGA / cost.wall:,.0f}", f"{size / MEGA / cost.cpu:,.0f}", f"{cost.resident:,.0f}"]
            for name, cost in costs.items()
        ],
        {
            "storm_mb_per_s": size / MEGA / max(cost.wall for cost in costs.values()),
            "storm_rss_mb": max(cost.resident for cost in costs.values()),
        },
    )  # fmt: skip


def growth(folder: Path, size: int, rounds: int, worlds: Sequence[int] = (8, 64, 512, 4096)) -> Section:
    """The same job at several world sizes, `size` bytes a rank: CPU seconds over ranks, less those of starting."""
    write_job(folder / "start", 2, 1000, 1)
    start = diagnose(folder / "start", rounds, 1).cpu
    seconds: list[float] = []
    for ranks in worlds:
        write_job(folder / "grown", ranks, size, ranks // 3)
        seconds.append(max(diagnose(folder / "grown", rounds, ranks // 3).cpu - start, 1e-3))
        shutil.rmtree(folder / "grown")
    steps = [""] + [f"{slope(worlds[i : i + 2], seconds[i : i + 2]):.2f}" for i in range(len(worlds) - 1)]
    return Section(
        "Growth",
        f"The same job with {size / 1000:g} kB a rank, in CPU seconds without those of starting ({start:.2f}). The exponent "
        "is the slope of the logarithms: 1 is linear. The figure is the slope over all world sizes.",
        ["ranks", "CPU s", "ms per rank", "exponent since the line above"],
        [
            [f"{ranks:,}", f"{cpu:.2f}", f"{1000 * cpu / ranks:.2f}", step]
            for ranks, cpu, step in zip(worlds, seconds, steps, strict=True)
        ],
        {"growth_exponent": slope(worlds, seconds)},
    )


def slope(ranks: Sequence[float], seconds: Sequence[float]) -> float:
    """The exponent that fits best: least squares on logarithms."""
    xs, ys = [math.log(x) for x in ranks], [math.log(y) for y in seconds]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)
