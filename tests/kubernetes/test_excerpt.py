"""A long log is kept in little room, and what decides is in it."""

from __future__ import annotations

import random

import pytest

from hooks.kubernetes.excerpt import Excerpt

LINE = b"2026-11-05T03:12:07Z step %d loss 1.25 lr 0.0003 tokens per second 18250\n"
TROUBLE = b"RuntimeError: CUDA error: an illegal memory access was encountered\n"


def taken(lines: list[bytes], budget: int, pieces: int = 4096) -> bytes:
    excerpt = Excerpt(budget)
    whole = b"".join(lines)
    for start in range(0, len(whole), pieces):
        excerpt.feed(whole[start : start + pieces])
    return excerpt.text()


def test_a_short_log_is_kept_whole() -> None:
    lines = [LINE % step for step in range(100)]
    assert taken(lines, 1 << 20) == b"".join(lines)


@pytest.mark.parametrize("seed", range(10))
def test_the_line_of_trouble_is_kept_wherever_it_stands(seed: int) -> None:
    lines = [LINE % step for step in range(20_000)]
    lines.insert(random.Random(seed).randrange(len(lines)), TROUBLE)
    kept = taken(lines, 64 << 10)
    assert TROUBLE in kept
    assert len(kept) < 80 << 10


def test_the_first_and_the_last_of_much_trouble_are_kept() -> None:
    lines = [b"error %d\n" % number for number in range(50_000)]
    kept = taken(lines, 64 << 10)
    assert kept.startswith(b"error 0\n")
    assert kept.endswith(b"error 49999\n")
    assert len(kept) < 80 << 10


def test_what_is_left_out_is_said_and_counted() -> None:
    lines = [LINE % step for step in range(20_000)]
    kept = taken(lines, 64 << 10).splitlines(keepends=True)
    gaps = [int(line.split()[1]) for line in kept if line.startswith(b"[firstfault:")]
    assert sum(gaps) + len(kept) - len(gaps) == len(lines)


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    excerpt = Excerpt(64 << 10)
    for _ in range(200):
        excerpt.feed(b"\r 10%|#         | 1/10" * 2000)
    assert len(excerpt.text()) < 128 << 10


@pytest.mark.parametrize("pieces", [1, 7, 4096, 1 << 20])
def test_how_the_bytes_arrive_does_not_matter(pieces: int) -> None:
    lines = [LINE % step for step in range(500)] + [TROUBLE]
    assert taken(lines, 8 << 10, pieces) == taken(lines, 8 << 10)
