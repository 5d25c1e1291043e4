"""What is kept of a log that is too long: its head, its tail, and what looks suspicious between."""

from __future__ import annotations

import os
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.hooks.conftest import trimmed
from tests.hooks.placements import decisive_lines

MIB = 1 << 20
MARK = re.compile(rb"^\[firstfault: (about )?(\d+) lines \((\d+) bytes\) left out\]$", re.MULTILINE)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rank-0.log"


def test_a_short_log_is_kept_as_it_is(hook: Any, log: Path) -> None:
    log.write_bytes(b"no newline at the end \xff\x00")
    assert trimmed(hook, log, 100) == b"no newline at the end \xff\x00"


def test_head_tail_and_the_suspicious_line_between_are_kept(hook: Any, log: Path) -> None:
    lines = [b"step %d loss 2.1\n" % step for step in range(100_000)]
    lines[50_000] = b"RuntimeError: boom\n"
    log.write_bytes(b"".join(lines))
    kept = trimmed(hook, log, 20_000)
    assert len(kept) < 21_000
    assert kept.startswith(lines[0])
    assert kept.endswith(lines[-1])
    assert lines[49_999] + lines[50_000] + lines[50_001] in kept


def test_the_marks_count_exactly_what_is_left_out(hook: Any, log: Path) -> None:
    lines = [b"step %d loss 2.1\n" % step for step in range(100_000)]
    lines[50_000] = b"RuntimeError: boom\n"
    log.write_bytes(b"".join(lines))
    kept = trimmed(hook, log, 20_000)
    marks = MARK.findall(kept)
    rest = MARK.sub(b"", kept).replace(b"\n\n", b"\n")
    assert len(marks) == 2
    assert sum(int(count) for _, count, _ in marks) + rest.count(b"\n") == len(lines)
    assert sum(int(size) for _, _, size in marks) + len(rest) == log.stat().st_size
    assert set(rest.splitlines(keepends=True)) <= set(lines)  # no line is torn


def test_a_storm_of_one_line_does_not_hide_the_rare_one(hook: Any, log: Path) -> None:
    storm = [b"WARNING timeout %d on peer %d, trying again\n" % (n, n % 64) for n in range(200_000)]
    storm[180_000] = b"gpu-n17 NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n"
    log.write_bytes(b"".join(storm))
    assert storm[180_000] in trimmed(hook, log, 16_384)


def test_when_everything_is_suspicious_the_first_and_the_last_windows_win(hook: Any, log: Path) -> None:
    words = [bytes(97 + (n >> shift & 15) for shift in (12, 8, 4)) for n in range(0, 1 << 16, 16)]
    log.write_bytes(b"".join(b"error in %s\n" % word * 40 for word in words))
    kept = trimmed(hook, log, 40_000)
    assert len(kept) < 42_000
    middle = [int(size) for _, _, size in MARK.findall(kept)]
    assert len(middle) >= 2  # head, first windows, … last windows, tail


def test_one_endless_line_is_cut_between_words(hook: Any, log: Path) -> None:
    log.write_bytes(b" ".join(b"word%06d" % n for n in range(100_000)))
    kept = MARK.sub(b"", trimmed(hook, log, 10_000))
    assert len(kept) < 10_500
    assert all(re.fullmatch(rb"word\d{6}", word) for word in kept.split())


def test_one_endless_word_is_left_out_rather_than_cut_and_costs_no_time(hook: Any, log: Path) -> None:
    log.write_bytes(b"RuntimeError: boom\n" + b"x" * 3_000_000)
    assert trimmed(hook, log, 1_000_000) == b"RuntimeError: boom\n[firstfault: 0 lines (3000000 bytes) left out]\n"


def test_a_huge_log_costs_little_memory_and_only_its_end_is_searched(hook: Any, log: Path) -> None:
    with log.open("wb") as out:
        out.write(b"began\n")
        out.truncate(3 << 30)  # three gigabytes of nothing
        out.seek(0, os.SEEK_END)
        out.write(b"\nquiet\n" * 1000 + b"fatal: disk gone\n" + b"quiet\n" * 100_000)
    tracemalloc.start()
    kept = trimmed(hook, log, 20_000, scan=2 * MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert b"fatal: disk gone" in kept
    assert b"about " in kept
    assert peak < 16 * MIB


def test_every_message_that_begins_a_failure_has_something_suspicious(hook: Any) -> None:
    """What has not is only found as rare among what is plain, which much other text may be: say its word in SUSPICIOUS or
    PHRASES."""
    words = [*hook.SUSPICIOUS, *hook.PHRASES]
    lines = [line.encode() for line in decisive_lines()]
    assert [line for line in lines if not any(word in line.lower() for word in words)] == []
