"""Bytes out of compressed bytes: all of them or none, and never more than allowed."""

from __future__ import annotations

import zlib

import zstandard

from bot.intake.errors import IntakeError, too_large

_STEP = 256  # bytes of zstd at a time: a hostile frame turns them into at most 8 MiB
_WINDOW = 8 << 20  # bytes; more than any level below "ultra" asks for


def decompress(body: bytes, encoded: str, limit: int, name: str) -> bytes:
    """Return the plain bytes of `body`.

    Raises IntakeError: 413 beyond `limit` bytes (`name` is the setting), 400 where the data are damaged or cut off.
    """
    try:
        if encoded == "gzip":
            plain = _gunzip(body, limit)
        elif encoded == "zstd":
            plain = _unzstd(body, limit)
        else:
            plain = body
    except (zlib.error, zstandard.ZstdError, EOFError) as error:
        raise IntakeError(
            400,
            "bad-body",
            f"the body is no valid {encoded}: {error}",
            "compress the whole body once and send all of it",
        ) from None
    if len(plain) > limit:
        raise too_large(name, limit, "the body is too large")
    return plain


def _gunzip(body: bytes, limit: int) -> bytes:
    plain, rest = bytearray(), body
    while rest:  # a gzip file may have several members
        member = zlib.decompressobj(wbits=31)
        plain += member.decompress(rest, limit + 1 - len(plain))
        if len(plain) > limit:
            break
        if not member.eof:
            raise EOFError("it ends too early")
        rest = member.unused_data
    return bytes(plain)


def _unzstd(body: bytes, limit: int) -> bytes:
    plain, rest = bytearray(), memoryview(body)
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    while rest:  # a body may have several frames
        frame = decompressor.decompressobj()
        while not frame.eof:
            if not rest:
                raise EOFError("it ends too early")
            plain += frame.decompress(rest[:_STEP])
            rest = rest[_STEP:]
            if len(plain) > limit:
                return bytes(plain)
        if frame.unused_data:
            rest = memoryview(frame.unused_data + bytes(rest))
    return bytes(plain)
