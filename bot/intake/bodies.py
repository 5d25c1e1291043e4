"""Request bodies: read within limits, whatever their headers claim."""

from __future__ import annotations

from aiohttp import web

from bot.intake.errors import IntakeError, too_large

ENCODINGS = ("identity", "gzip", "zstd")


async def read(request: web.Request, limit: int, name: str) -> bytes:
    """Return the body as it was sent, still compressed.

    Raises IntakeError 413 beyond `limit` bytes (`name` is the setting), 415 for an encoding that is not in ENCODINGS.
    """
    encoding(request)
    body = bytearray()
    async for chunk in request.content.iter_chunked(64 << 10):
        body += chunk
        if len(body) > limit:
            raise too_large(name, limit, "the body is too large even before decompression")
    return bytes(body)


def encoding(request: web.Request) -> str:
    """Return the body's encoding. Raises IntakeError 415 for one that we cannot read."""
    named = request.headers.get("Content-Encoding", "identity").strip().lower() or "identity"
    if named not in ENCODINGS:
        raise IntakeError(
            415, "unknown-encoding", f"Content-Encoding {named[:40]!r} is not known", "use gzip, zstd, or none"
        )
    return named
