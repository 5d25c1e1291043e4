"""Opening logs that somebody compressed, also those that a dying node never finished or that are misnamed."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import stat
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import zstandard

from knowledge.errors import UnreadableEvidence

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER = 1 << 16
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class LogStream(io.BufferedReader):
    """Unpacked bytes. `size` is how many there were when the file was opened, or None where only reading tells."""

    size: int | None = None


def open_log(path: Path) -> LogStream:
    """Open for reading bytes; gzip and zstd, known by their content, are unpacked as far as they are intact, and UTF-16
    becomes UTF-8.

    Raises UnreadableEvidence, here or while reading, with a message that names the path.
    """
    try:
        file = _Plain(path)
        status = os.fstat(file.fileno())
        start = os.pread(file.fileno(), 4, 0) if stat.S_ISREG(status.st_mode) else b""
    except OSError as error:
        raise _unreadable(path, error) from error
    if is_packed(start):
        packed = io.BufferedReader(file, _BUFFER)
        return LogStream(_Intact(path, packed, _unpacking(packed, start)), _BUFFER)
    stream = LogStream(file, _BUFFER)
    if stat.S_ISREG(status.st_mode):
        stream.size = status.st_size
    return stream


def first_bytes(path: Path, count: int) -> bytes:
    """Up to `count` bytes as they stand at the beginning of a file. Raises UnreadableEvidence."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return os.read(descriptor, count)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unreadable(path, error) from error


def count_lines(path: Path, before: int) -> int:
    """How many lines end in the first `before` unpacked bytes of a log. Raises UnreadableEvidence."""
    lines, buffer = 0, bytearray(1 << 18)
    with open_log(path) as stream, memoryview(buffer) as view:
        while before and (got := stream.readinto(view[: min(before, len(buffer))])):
            lines += buffer.count(b"\n", 0, got)
            before -= got
    return lines


def is_packed(data: bytes) -> bool:
    """Whether bytes begin as gzip, zstd or UTF-16 do, so that only `open_packed` reads them."""
    return data.startswith((_GZIP, _ZSTD, *_UTF_16))


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
    if start.startswith(_UTF_16):
        return cast("IO[bytes]", _Utf8(file))
    return file


class _Utf8(io.RawIOBase):
    """UTF-16, as tools on other systems write it, in UTF-8."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
        self._waiting = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._waiting and (data := self._file.read(_BUFFER)):
            self._waiting = self._decoder.decode(data).encode("utf-8", "replace")
        with memoryview(buffer) as view:
            size = min(len(view), len(self._waiting))
            view[:size] = self._waiting[:size]
        self._waiting = self._waiting[size:]
        return size


class _Plain(io.FileIO):
    """A file as it is. Errors of the disk name it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def readinto(self, buffer: WriteableBuffer) -> int:
        try:
            return super().readinto(buffer) or 0
        except OSError as error:
            raise _unreadable(self._path, error) from error


class _Intact(io.RawIOBase):
    """What can be read before the damage, if any."""

    def __init__(self, path: Path, file: IO[bytes], unpacked: IO[bytes]) -> None:
        self._path, self._file, self._unpacked = path, file, unpacked

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        try:
            return self._unpacked.readinto(buffer)  # type: ignore[attr-defined,no-any-return]
        except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError):
            return 0
        except OSError as error:
            raise _unreadable(self._path, error) from error

    def close(self) -> None:
        self._unpacked.close()
        self._file.close()
        super().close()


def _unreadable(path: Path, error: OSError) -> UnreadableEvidence:
    return UnreadableEvidence(f"cannot read {path}: {error.strerror or error}")
