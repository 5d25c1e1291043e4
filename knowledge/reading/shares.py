"""Work shared out to forked processes: they inherit all that is there, and send back what they made."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

Made = TypeVar("Made")

_PER_WORKER = 4  # shares, so that a slow one does not keep the others waiting
_work: Callable[[int], Any] | None = None


def workers() -> int:
    """How many processes may run at once; 1 where they cannot be forked safely."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def in_shares(work: Callable[[int], Made], weights: Sequence[int]) -> list[Made]:
    """Do `work` for every number below `len(weights)` and return the results in order. Raises what `work` raises."""
    global _work  # noqa: PLW0603 - how forked workers come by it
    shares: list[list[int]] = [[] for _ in range(workers() * _PER_WORKER)]
    loads = [0] * len(shares)
    for number in sorted(range(len(weights)), key=lambda number: -weights[number]):
        lightest = loads.index(min(loads))
        shares[lightest].append(number)
        loads[lightest] += weights[number] + 1
    _work = work
    try:
        with ProcessPoolExecutor(workers(), mp_context=multiprocessing.get_context("fork")) as pool:
            made = dict(part for share in pool.map(_do, shares) for part in share)
    finally:
        _work = None
    return [made[number] for number in range(len(weights))]


def _do(numbers: Sequence[int]) -> list[tuple[int, Any]]:
    assert _work is not None
    return [(number, _work(number)) for number in numbers]
