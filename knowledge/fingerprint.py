"""The fingerprint: the same failure has the same one in every job, on every rank, host and day."""

from __future__ import annotations

import hashlib
import re

from knowledge.reading.evidence import Traceback

_VARIABLE = (
    (re.compile(r"0x[0-9a-fA-F]+"), "<addr>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<ip>"),
    (re.compile(r"(?:/[\w.+-]+){2,}"), "<path>"),
    (re.compile(r"\b[0-9a-fA-F]{8,}\b"), "<hex>"),
    (re.compile(r"\d+"), "<n>"),
)


def normalise(message: str) -> str:
    """A message without what differs between two runs: numbers, addresses, paths."""
    for pattern, stand_in in _VARIABLE:
        message = pattern.sub(stand_in, message)
    return message.strip()


def fingerprint(cause: str, signature: str | None, traceback: Traceback | None) -> str:
    """16 hex digits from the cause, the kind of message, and the innermost frame of the user's own code."""
    parts = [cause, signature or ""]
    if traceback:
        original = traceback.original
        frame = original.innermost_user_frame
        if not signature:
            parts += [original.exception.rsplit(".", 1)[-1], normalise(original.message)]
        parts.append(f"{frame.path.rsplit('/', 1)[-1]}:{frame.function}" if frame else "")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
