"""`python -m tests.fuzz SECONDS [SEED]`: fuzz for that long, and keep what is found in `found/`."""

from __future__ import annotations

import hashlib
import random
import resource
import sys
import time
import traceback

from tests.fuzz.corpus import FOUND
from tests.fuzz.growth import grows_too_fast, inputs, works
from tests.fuzz.targets import TARGETS, fuzzed, saved

MEMORY = 6 << 30  # bytes of address space; an input that wants more has been found
ROUND = 60  # examples before the next target has its turn
SHARE = {"bundles": 1, "single_lines": 10, "redaction": 10, "redaction_of_the_hook": 5}
GROWTH_SHARE = 0.3  # of the time, for what is slow


def main(seconds: float, first_seed: int) -> int:
    """Return how many targets have failed, and in how many ways."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    until, number, growth_spent = time.monotonic() + seconds, first_seed, 0.0
    done, seen = dict.fromkeys([*TARGETS, "growth"], 0), set[str]()
    began = time.monotonic()
    dice = random.Random(first_seed)
    shapes, measured = inputs(dice), works()
    while time.monotonic() < until:
        for target in TARGETS:
            number += 1
            done[target] += _fuzz(target, number, seen)
        while growth_spent < GROWTH_SHARE * (time.monotonic() - began) and time.monotonic() < until:
            start = time.monotonic()
            words, make = next(shapes)
            name = dice.choice(list(measured))
            work, most = measured[name]
            done["growth"] += 1
            try:
                slow = grows_too_fast(work, make, most)
            except Exception as error:
                slow = f"{type(error).__name__}: {error}"
            if slow:
                seen.add(f"{name} {words[:60]}")
                print(f"SLOW {name}: {words[:300]}: {slow}", flush=True)
            growth_spent += time.monotonic() - start
    print(", ".join(f"{target} {count:,}" for target, count in done.items()), f"inputs; {len(seen)} findings")
    return min(len(seen), 100)


def _fuzz(target: str, number: int, seen: set[str]) -> int:
    examples = ROUND * SHARE[target]
    try:
        fuzzed(target, number, examples)()
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        name = f"{type(error).__name__} {frame.filename.rpartition('/')[2]}:{frame.lineno}"
        if name not in seen:
            seen.add(name)
            ending, data = saved(target)
            path = FOUND / f"{target}-{hashlib.sha256(data).hexdigest()[:8]}.{ending}"
            path.write_bytes(data)
            print(f"FOUND {target} (seed {number}): {name}: {str(error)[:600]}\n  kept as {path.name}", flush=True)
    return examples


if __name__ == "__main__":
    sys.exit(
        main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 30))
    )
