"""Compressed logs are read as far as they are intact."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
import zstandard

from knowledge.errors import UnreadableEvidence
from knowledge.reading.compressed import open_log

DICE = random.Random(1)
LINES = b"".join(b"step %d loss %.6f\n" % (step, DICE.random()) for step in range(50_000))
PACKED = {"gzip": gzip.compress(LINES), "zstd": zstandard.compress(LINES)}


@pytest.mark.parametrize("packed", PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("name", ["rank-0.log.gz", "rank-0.log.zst", "rank-0.log"])
def test_what_it_is_shows_in_its_content(tmp_path: Path, packed: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(packed)
    with open_log(tmp_path / name) as log:
        assert log.read(7) == LINES[:7]
        assert log.read() == LINES[7:]


def test_a_plain_log_with_a_wrong_name_is_a_plain_log(tmp_path: Path) -> None:
    (tmp_path / "rank-0.log.gz").write_bytes(b"RuntimeError: out of luck\n")
    with open_log(tmp_path / "rank-0.log.gz") as log:
        assert log.read() == b"RuntimeError: out of luck\n"


@pytest.mark.parametrize("packed", PACKED.values(), ids=PACKED)
def test_of_a_log_that_was_cut_off_the_beginning_is_read(tmp_path: Path, packed: bytes) -> None:
    (tmp_path / "log").write_bytes(packed[: len(packed) // 2])
    with open_log(tmp_path / "log") as log:
        read = log.read()
    assert LINES.startswith(read)
    assert len(read) > len(LINES) // 4


@pytest.mark.parametrize("packed", PACKED.values(), ids=PACKED)
def test_damage_in_the_middle_ends_the_log(tmp_path: Path, packed: bytes) -> None:
    middle = len(packed) // 2
    (tmp_path / "log").write_bytes(packed[:middle] + bytes(64) + packed[middle + 64 :])
    with open_log(tmp_path / "log") as log:
        read = log.read()
    assert read[: len(LINES) // 8] == LINES[: len(LINES) // 8]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_read_as_utf_8(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "log").write_bytes(("\ufeff" + LINES.decode() + "größer 🙂\n").encode(encoding)[:-1])
    with open_log(tmp_path / "log") as log:
        assert log.read(7) == LINES[:7]
        assert log.read() == LINES[7:] + "größer 🙂".encode()


def test_an_empty_log_is_empty(tmp_path: Path) -> None:
    (tmp_path / "log.gz").write_bytes(b"")
    with open_log(tmp_path / "log.gz") as log:
        assert log.read() == b""


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableEvidence, match=r"nowhere\.log"):
        open_log(tmp_path / "nowhere.log")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file whose reading fails: Linux has one")
def test_what_fails_while_being_read_is_named() -> None:
    with pytest.raises(UnreadableEvidence, match="/proc/self/mem"), open_log(Path("/proc/self/mem")) as log:
        log.read()
