"""What happens to a log in a worker process: decompress, hash, redact, keep. Nothing unredacted touches the disk."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.intake.compression import decompress
from bot.intake.errors import too_large
from knowledge.reading.compressed import is_packed, open_packed
from knowledge.redaction import redact, redact_bytes
from storage.blobs import BlobStore

_MOST_LAYERS = 3  # of compression; what is packed deeper is no log


@dataclass(frozen=True, slots=True)
class Upload:
    """A log as it arrived, and where it shall go. `salt` keys the placeholders of what is redacted."""

    body: bytes
    encoding: str
    limit: int  # bytes after decompression
    incident_id: str
    blobs: Path
    salt: bytes


@dataclass(frozen=True, slots=True)
class Kept:
    """What was received (hash and size) and the name of the blob that holds it, redacted."""

    sha256: str
    bytes: int
    blob: str


def receive(upload: Upload) -> Kept:
    """Keep a log. Raises IntakeError where it is too large or damaged, OSError where the disk is full."""
    plain = decompress(upload.body, upload.encoding, upload.limit, "limits.log_bytes")
    text = _unpacked(plain, upload.limit)
    blob = BlobStore(upload.blobs).write(upload.incident_id, redact_bytes(text, upload.salt))
    return Kept(hashlib.sha256(plain).hexdigest(), len(plain), blob)


def _unpacked(data: bytes, limit: int) -> bytes:
    """Return what a log that was compressed where it lay holds, as far as it is intact: secrets show only in the open.

    Raises IntakeError 413 beyond `limit` bytes.
    """
    for _ in range(_MOST_LAYERS):
        if not is_packed(data):
            return data
        data = open_packed(io.BytesIO(data)).read(limit + 1)
        if len(data) > limit:
            raise too_large("limits.log_bytes", limit, "the log is too large when unpacked")
    return b"" if is_packed(data) else data


def redact_facts(value: Any, salt: bytes) -> Any:
    """Return a JSON value with the secrets in its strings redacted, and only characters that every database keeps."""
    if isinstance(value, str):
        return redact(_kept(value), salt)
    if isinstance(value, list):
        return [redact_facts(item, salt) for item in value]
    if isinstance(value, dict):
        return {_kept(name): redact_facts(item, salt) for name, item in value.items()}
    return value


def _kept(text: str) -> str:
    """Without the characters that no database keeps: NUL and halves of surrogate pairs."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
