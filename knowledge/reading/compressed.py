"""Opening logs that somebody compressed, also those that a dying node never finished or that are misnamed."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import zstandard

from knowledge.errors import UnreadableEvidence

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER = 1 << 18
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def open_log(path: Path) -> IO[bytes]:
    """Open for reading bytes; gzip and zstd, known by their content, are unpacked as far as they are intact.

    Raises UnreadableEvidence, here or while reading, with a message that names the path.
    """
    try:
        file = path.open("rb")
        start = file.peek(4)
    except OSError as error:
        raise _unreadable(path, error) from error
    return io.BufferedReader(_Intact(path, file, _unpacking(file, start)), _BUFFER)


def is_packed(data: bytes) -> bool:
    """Whether bytes begin as gzip or zstd do."""
    return data.startswith((_GZIP, _ZSTD))


def open_packed(file: IO[bytes]) -> IO[bytes]:
    """As `open_log`, for bytes that are in memory."""
    start = file.read(4)
    file.seek(0)
    return io.BufferedReader(_Intact(Path("log"), file, _unpacking(file, start)), _BUFFER)


def _unpacking(file: IO[bytes], start: bytes) -> IO[bytes]:
    if start.startswith(_GZIP):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    if start.startswith(_ZSTD):
        return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    return file


class _Intact(io.RawIOBase):
    """What can be read before the damage, if any."""

    def __init__(self, path: Path, file: IO[bytes], unpacked: IO[bytes]) -> None:
        self._path, self._file, self._unpacked = path, file, unpacked

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        try:
            data = self._unpacked.read(len(view))
        except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError):
            return 0
        except OSError as error:
            raise _unreadable(self._path, error) from error
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._unpacked.close()
        self._file.close()
        super().close()


def _unreadable(path: Path, error: OSError) -> UnreadableEvidence:
    return UnreadableEvidence(f"cannot read {path}: {error.strerror or error}")
