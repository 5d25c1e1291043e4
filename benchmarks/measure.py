"""Seconds, seconds of CPU, and resident memory of what is measured, children included."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MEGA = 1_000_000
_SAMPLING = 0.1  # seconds between two looks at memory: looking costs CPU, too
_BYTECODE = "firstfault-bench-bytecode"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run cost: wall seconds, CPU seconds (user and system), peak resident megabytes (0 where not measured)."""

    wall: float
    cpu: float
    resident: float = 0.0


def used_cpu() -> float:
    """Seconds of CPU that this process and its ended children have used."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def in_turn(rounds: int, works: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Do each of `works` in turn, some times over; the CPU seconds of each run. What disturbs one disturbs its neighbours."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            before = used_cpu()
            work()
            seconds[name].append(max(used_cpu() - before, 1e-9))
    return seconds


def run_program(command: Sequence[str], allowed: Sequence[int] = (0,), **more: str) -> tuple[Cost, bytes]:
    """Run a program to its end and return its cost, with the memory of its whole tree, and its output.

    `more` are further environment variables. Raises SystemExit when its status is none of `allowed`.
    """
    environment = {**os.environ, "LC_ALL": "C.UTF-8", **more}
    # As where it is installed: Python keeps what it has compiled. The first round pays for it, the best one counts.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir(), _BYTECODE))
    began, before, peak = time.perf_counter(), used_cpu(), 0.0
    with subprocess.Popen(list(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as program:
        while True:
            try:
                out, err = program.communicate(timeout=_SAMPLING)
                break
            except subprocess.TimeoutExpired:
                peak = max(peak, _resident(program.pid))
    cost = Cost(time.perf_counter() - began, used_cpu() - before, peak)
    if program.returncode not in allowed:
        sys.exit(f"{' '.join(command)[:200]} ended with status {program.returncode}:\n{err.decode()[-2000:]}")
    return cost, out


def cheapest_program(
    rounds: int, command: Sequence[str], allowed: Sequence[int] = (0,), **more: str
) -> tuple[Cost, bytes]:
    """`run_program` some times over: the least wall and CPU, the most memory, and the last output."""
    runs = [run_program(command, allowed, **more) for _ in range(rounds)]
    costs = [cost for cost, _ in runs]
    least = Cost(
        min(cost.wall for cost in costs), min(cost.cpu for cost in costs), max(cost.resident for cost in costs)
    )
    return least, runs[-1][1]


def _resident(pid: int) -> float:
    """Megabytes that a process and all below it hold, shared pages counted in each. Linux only; else 0."""
    total, waiting = 0, [pid]
    while waiting:
        folder = Path("/proc", str(waiting.pop()))
        with contextlib.suppress(OSError, IndexError, ValueError):  # it may have ended meanwhile
            total += int((folder / "statm").read_text().split()[1]) * resource.getpagesize()
            for task in (folder / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return total / MEGA
