"""The search for input whose cost grows faster than its length."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from knowledge.catalogue import load_catalogue
from knowledge.redaction import redact_bytes
from tests.fuzz.corpus import PIECES, cases, lines
from tests.fuzz.properties import check_bundle
from tests.fuzz.targets import hook
from tests.knowledge.test_redaction import HOSTILE, SECRETS

DOUBLED = 2.6  # times the cost of half the input, at most
_WORTH = 0.02  # CPU seconds below which a measurement says nothing
_ROUNDS = 3


def cost(work: Callable[[bytes], object], data: bytes) -> float:
    """Return the least CPU seconds of a few rounds."""
    least = float("inf")
    for _ in range(_ROUNDS):
        began = time.process_time()
        work(data)
        least = min(least, time.process_time() - began)
    return least


def grows_too_fast(work: Callable[[bytes], object], make: Callable[[int], bytes], most: int) -> str | None:
    """Double an input up to `most` bytes. Return how cost grew if it did so too fast three times in a row."""
    size, before, strikes, story = 1 << 12, 0.0, 0, []
    while size <= most:
        now = cost(work, make(size))
        story.append(f"{size} bytes {now:.3f} s")
        too_fast = now > _WORTH and before > 0.002 and now > DOUBLED * before
        strikes = strikes + 1 if too_fast else 0
        if strikes == 3 or now > 20:
            return ", ".join(story)
        before, size = now, size * 2
    return None


def repeated(piece: bytes, before: bytes = b"", after: bytes = b"") -> Callable[[int], bytes]:
    """Return a maker of inputs: one piece again and again."""
    return lambda size: before + piece * (size // len(piece)) + after


def works() -> dict[str, tuple[Callable[[bytes], object], int]]:
    """Return what is measured, and up to how many bytes."""
    clean = hook().Redaction("hook-test-not-a-token")
    return {
        "diagnose": (lambda data: check_bundle({"slurm-1.out": data}, {}), 1 << 19),
        "redact": (redact_bytes, 1 << 20),
        "hook": (clean, 1 << 19),
        "match": (_match_all, 1 << 12),
    }


def _match_all(data: bytes) -> None:
    line = data.decode("utf-8", "replace")
    for entry in load_catalogue():
        for pattern in entry.patterns:
            pattern.search(line)


def inputs(dice: random.Random) -> Iterator[tuple[str, Callable[[int], bytes]]]:
    """Yield inputs without end, each with words for it: pieces of what parsers know, in lines or without."""
    known = [*HOSTILE, *PIECES, *(frame.format(secret) for secret, frame in SECRETS)]
    while True:
        kind = dice.random()
        if kind < 0.4:
            piece = dice.choice(known)
        elif kind < 0.7:
            piece = "".join(dice.choice(known) for _ in range(dice.randint(2, 3)))
        else:
            line = dice.choice(lines())
            at = dice.randrange(len(line) + 1)
            piece = line[at : at + dice.choice([1, 3, 10, 40, 400])]
        piece = piece.replace("\n", " ") if dice.random() < 0.5 else piece + dice.choice(["\n", "\r", ""])
        if not piece:
            continue
        before = dice.choice(["", "", "[rank0]: ", "Traceback (most recent call last):\n", dice.choice(known)])
        data = piece.encode("utf-8", "surrogateescape")
        yield repr((before, piece)), repeated(data, before.encode("utf-8", "surrogateescape"))


def every_case() -> Iterator[tuple[str, Callable[[int], bytes]]]:
    """Yield the logs of the cases, repeated."""
    for case in cases():
        for name, data in case.files.items():
            if data:
                yield name, repeated(data[:4096])
