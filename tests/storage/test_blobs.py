"""Blobs are whole or absent, compressed, and named by nobody but the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.blobs import BlobStore

INCIDENT = "0123456789abcdef0123456789abcdef"


async def test_bytes_come_back_as_they_were(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    data = b"\x00\xff not text \n" * 10_000
    name = store.write(INCIDENT, data)
    assert await store.get(name) == data
    await store.copy(name, tmp_path / "out" / "deep" / "copy")
    assert (tmp_path / "out" / "deep" / "copy").read_bytes() == data


def test_blobs_are_compressed_and_nothing_half_written_stays(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    store.write(INCIDENT, b"the same line\n" * 10_000)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.suffix for path in files] == [".zst"]
    assert files[0].stat().st_size < 1000


@pytest.mark.parametrize("incident", ["../../etc", "", "x" * 32, f"{INCIDENT}/../{INCIDENT}"])
def test_a_foreign_incident_id_is_no_folder(tmp_path: Path, incident: str) -> None:
    with pytest.raises(ValueError, match="not a blob name"):
        BlobStore(tmp_path / "blobs").write(incident, b"x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["/etc/passwd", "../secret", f"{INCIDENT}/../../x", f"{INCIDENT}/{INCIDENT}.zst"])
async def test_a_foreign_name_is_not_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a blob name"):
        await BlobStore(tmp_path).get(name)


async def test_deleting_twice_is_no_error(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    name = store.write(INCIDENT, b"x")
    await store.delete(name)
    await store.delete(name)
    with pytest.raises(FileNotFoundError):
        await store.get(name)
