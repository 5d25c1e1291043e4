"""How lines write ranks and addresses: lists and ranges, PCI addresses in several forms."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from knowledge.reading.exits import expand

MOST_NAMED = 4096
"""Ranks; a line that names more of them accuses nobody in particular."""

_NUMBERS = re.compile(r"\d{1,6}(?:-\d{1,6})?")


@lru_cache(maxsize=1024)
def numbers(text: str) -> tuple[int, ...]:
    """The ranks in "3, 5-7", "[3 5]" or "0 and rank 1"; none where there are more than MOST_NAMED."""
    named: list[int] = []
    for part in _NUMBERS.findall(text):
        low, _, high = part.partition("-")
        if high and int(high) - int(low) >= MOST_NAMED:
            return ()
        named += expand(part)
        if len(named) > MOST_NAMED:
            return ()
    return tuple(named)


def compress(ranks: Iterable[int]) -> str:
    """[1, 2, 3, 7] → "1–3, 7"."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in spans)


def bus_key(bus: str) -> str:
    """The comparable part of a PCI address: `00000000:1B:00.0`, `0000:1b:00` and `1b:00` are one address, `0009:1b:00` another."""
    parts = bus.lower().split(".")[0].split(":")
    domain = parts[-3].lstrip("0") if len(parts) > 2 else ""
    return ":".join([*([domain] if domain else []), *parts[-2:]])
