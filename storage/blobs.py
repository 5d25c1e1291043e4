"""Log bytes on disk: one compressed file a blob, whole or absent, durable before its name is given out."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import tempfile
from pathlib import Path

import zstandard

_NAME = re.compile(r"[0-9a-f]{32}/[0-9a-f]{32}")
_COPY_BLOCK = 1 << 20  # bytes


class BlobStore:
    """A folder of zstd files, `<incident id>/<random>.zst`. Names are made here; none from outside becomes a path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, incident_id: str, data: bytes) -> str:
        """Keep `data` and return the name to read it by; it survives a power loss from then on. Blocks.

        Raises:
            ValueError: `incident_id` is not an id of ours.
            OSError: the disk is full or read-only.
        """
        name = f"{incident_id}/{secrets.token_hex(16)}"
        self._write(self._path(name), data)
        return name

    async def get(self, name: str) -> bytes:
        """Return the bytes of blob `name`. Raises FileNotFoundError where there is none."""
        return await asyncio.to_thread(lambda: zstandard.decompress(self._path(name).read_bytes()))

    async def tail(self, name: str, most: int) -> tuple[bytes, int]:
        """Return the last `most` bytes of blob `name`, and its whole size. Raises FileNotFoundError without one."""
        return await asyncio.to_thread(self._tail, self._path(name), most)

    async def copy(self, name: str, target: Path) -> None:
        """Write the bytes of blob `name` to `target`, making its folders. Raises FileNotFoundError without one."""
        await asyncio.to_thread(self._copy, self._path(name), target)

    async def delete(self, name: str) -> None:
        """Remove blob `name`; nothing happens where there is none."""
        await asyncio.to_thread(self._path(name).unlink, missing_ok=True)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a blob name")
        return self._folder / f"{name}.zst"

    @staticmethod
    def _write(path: Path, data: bytes) -> None:
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            _sync_folder(path.parent.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(zstandard.compress(data))
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).rename(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)

    @staticmethod
    def _tail(path: Path, most: int) -> tuple[bytes, int]:
        tail, size = b"", 0
        with path.open("rb") as source, zstandard.ZstdDecompressor().stream_reader(source) as reader:
            while block := reader.read(_COPY_BLOCK):
                tail, size = (tail + block)[-most:], size + len(block)
        return tail, size

    @staticmethod
    def _copy(path: Path, target: Path) -> None:
        with path.open("rb") as source:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as sink:
                zstandard.ZstdDecompressor().copy_stream(source, sink, read_size=_COPY_BLOCK, write_size=_COPY_BLOCK)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
