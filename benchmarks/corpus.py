"""One large file of healthy training log with faults planted in it, and the same job for ripgrep and for us."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from benchmarks.healthy import healthy_lines, near_miss
from benchmarks.measure import MEGA
from knowledge.catalogue import Catalogue
from knowledge.reading.compressed import open_log
from knowledge.reading.regions import MANY_RANKS, read_regions
from knowledge.signature import SignatureRole

BLOCK = 4 << 20
FAULT_EVERY = 4 * MEGA  # bytes between two planted faults
MISS_EVERY = MEGA  # bytes between two near misses
_DISTINCT = 64 * MEGA  # bytes of healthy log that are made; more is the same again, in another order


def write_corpus(path: Path, size: int, catalogue: Catalogue, seed: int = 7) -> list[str]:
    """Write about `size` bytes to `path` and return the faults planted in it, one line each, each once."""
    dice = random.Random(seed)
    faults = sorted(
        {
            sample.text
            for entry in catalogue
            if entry.role is not SignatureRole.NOISE
            for sample in entry.samples.match
            if "\n" not in sample.text
        }
    )
    dice.shuffle(faults)
    stretches = _stretches(dice, min(size, _DISTINCT))
    planted: list[str] = []
    written = 0
    with path.open("wb") as file:
        while written < size:
            dice.shuffle(stretches)
            for number, stretch in enumerate(stretches):
                written += file.write(stretch)
                written += file.write(near_miss(dice, written % 86_400).encode() + b"\n")
                if number % (FAULT_EVERY // MISS_EVERY) == 0 and len(planted) < len(faults):
                    fault = faults[len(planted)]
                    written += file.write(fault.encode() + b"\n")
                    planted.append(fault)
                if written >= size:
                    break
    return planted


def _stretches(dice: random.Random, size: int) -> list[bytes]:
    stretches: list[bytes] = []
    lines: list[str] = []
    held = 0
    for line in healthy_lines(dice):
        lines.append(line)
        held += len(line) + 1
        if held >= MISS_EVERY:
            stretches.append(("\n".join(lines) + "\n").encode())
            lines, held = [], 0
            if len(stretches) * MISS_EVERY >= size:
                break
    return stretches


def read_only(path: Path) -> None:
    """The limit: bring the file into memory, block by block, and do nothing with it."""
    buffer = bytearray(BLOCK)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def scan(path: Path, catalogue: Catalogue) -> Counter[str]:
    """What the product does to find failures in a large file: search it piece by piece, cut lines round what was found,
    and confirm each candidate with its regexes. Returns the confirmed lines with how often each stands there."""
    confirmed: Counter[str] = Counter()
    with open_log(path) as stream:
        for region in read_regions(stream, catalogue.scanner.literals, MANY_RANKS):
            lines = region.data.split(b"\n")
            for number, candidate in catalogue.scanner.candidates(region.data).items():
                line = lines[number].decode("utf-8", "replace")
                if any(entry.match(line) is not None for entry in candidate.entries.values()):
                    confirmed[line] += 1
    return confirmed
