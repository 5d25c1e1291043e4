"""Work shared out to forked processes: they inherit all that is there, and send back what they made."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

Made = TypeVar("Made")

_PER_WORKER = 4  # runs, so that a slow one does not keep the others waiting
_work: Callable[[range], Any] | None = None


def workers() -> int:
    """How many processes may run at once; 1 where they cannot be forked safely."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def in_shares(
    work: Callable[[range], Made], weights: Sequence[int], meanwhile: Callable[[], object] = lambda: None
) -> list[Made]:
    """Do `work` for runs of the numbers below `len(weights)`, each about as heavy as the others, and return what it made
    of them in order. `meanwhile` is what this process does itself before it waits. Raises what they raise."""
    global _work  # noqa: PLW0603 - how forked workers come by it
    parts = runs(weights, workers() * _PER_WORKER)
    _work = work
    try:
        with ProcessPoolExecutor(workers(), mp_context=multiprocessing.get_context("fork")) as pool:
            heaviest_first = sorted(parts, key=lambda part: -sum(weights[part.start : part.stop]))
            pending = {part: pool.submit(_do, part) for part in heaviest_first}
            meanwhile()
            return [pending[part].result() for part in parts]
    finally:
        _work = None


def runs(weights: Sequence[int], count: int) -> list[range]:
    """Cut the numbers below `len(weights)` into at most about `count` runs of neighbours of about equal weight."""
    share = (sum(weights) + len(weights)) / count
    found: list[range] = []
    start, load = 0, 0.0
    for number, weight in enumerate(weights):
        if number > start and load + (weight + 1) / 2 > share:
            found.append(range(start, number))
            start, load = number, 0.0
        load += weight + 1
    if start < len(weights):
        found.append(range(start, len(weights)))
    return found


def _do(part: range) -> Any:
    assert _work is not None
    return _work(part)
