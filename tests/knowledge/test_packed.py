"""Archives that nobody unpacked, names that are no text, and job files that are none: said, and never taken for health."""

from __future__ import annotations

import bz2
import io
import lzma
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from knowledge import diagnose
from knowledge.diagnosis import Outcome
from knowledge.errors import UnreadableEvidence

LOG = b"RuntimeError: boom\n"


def zipped() -> bytes:
    """A zip file with a log in it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("rank-0.log", LOG)
    return file.getvalue()


def tarred(mode: str) -> bytes:
    """A tar with a log in it."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
        member = tarfile.TarInfo("rank-0.log")
        member.size = len(LOG)
        archive.addfile(member, io.BytesIO(LOG))
    return file.getvalue()


PACKED: list[tuple[str, Callable[[], bytes]]] = [
    ("zip", zipped),
    ("tar", lambda: tarred("w")),
    ("tar", lambda: tarred("w:gz")),
    ("bzip2", lambda: bz2.compress(LOG)),
    ("xz", lambda: lzma.compress(LOG)),
]


@pytest.mark.parametrize(("kind", "make"), PACKED)
@pytest.mark.parametrize("named", ["rank-0.log", "."])
def test_what_is_packed_shows_no_health(tmp_path: Path, kind: str, make: Callable[[], bytes], named: str) -> None:
    (tmp_path / "rank-0.log").write_bytes(make())
    with pytest.raises(UnreadableEvidence, match=rf"packed \({kind}\).*unpack"):
        diagnose([tmp_path / named])


def test_beside_logs_an_archive_is_named_as_missing(tmp_path: Path) -> None:
    (tmp_path / "rank-0.log").write_bytes(LOG)
    (tmp_path / "others.tgz").write_bytes(tarred("w:gz"))
    said = diagnose([tmp_path])
    assert said.outcome is Outcome.FAILED
    assert [fact for fact in said.missing if "others.tgz" in fact and "unpack" in fact]


def test_names_that_are_no_text_stay_apart_and_can_be_told(tmp_path: Path) -> None:
    for byte in (b"\xfe", b"\xff"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/rank-0" + byte + b".log")).write_bytes(LOG)
    said = diagnose([tmp_path])
    assert "\\xf" in said.evidence[0].source
    assert said.model_dump_json()


def test_folders_inside_folders_end_somewhere(tmp_path: Path) -> None:
    (tmp_path / "rank-0.log").write_bytes(LOG)
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    try:
        assert diagnose([tmp_path]).outcome is Outcome.FAILED
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)  # Python's own would climb down no deeper


@pytest.mark.parametrize("text", ["[]", "null", "3", '"FAILED"', "[" * 100_000, " " * (17 << 20) + "{}"])
def test_a_job_file_that_is_none_is_refused_in_words_of_its_reader(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.json").write_text(text)
    (tmp_path / "rank-0.log").write_bytes(LOG)
    with pytest.raises(UnreadableEvidence, match=r"is not a job\.json: (it holds no object|larger than|it nests)"):
        diagnose([tmp_path])
