"""What happens to a log in a worker process: decompress, hash, redact, keep. Nothing unredacted touches the disk."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.intake.compression import decompress
from knowledge.redaction import redact, redact_bytes
from storage.blobs import BlobStore


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
    blob = BlobStore(upload.blobs).write(upload.incident_id, redact_bytes(plain, upload.salt))
    return Kept(hashlib.sha256(plain).hexdigest(), len(plain), blob)


def redact_facts(value: Any, salt: bytes) -> Any:
    """Return a JSON value with the secrets in its strings redacted, and only characters that every database keeps."""
    if isinstance(value, str):
        return redact(value.replace("\0", "").encode("utf-8", "replace").decode(), salt)
    if isinstance(value, list):
        return [redact_facts(item, salt) for item in value]
    if isinstance(value, dict):
        return {name: redact_facts(item, salt) for name, item in value.items()}
    return value
