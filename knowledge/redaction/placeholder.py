"""What stands where a secret stood."""

from __future__ import annotations

import hashlib
import re

PLACEHOLDER = re.compile(r"\[redacted:[a-z][a-z0-9-]*:[0-9a-f]{4}\]")
MARK = "[redacted:"


def placeholder(kind: str, secret: str, salt: bytes) -> str:
    """Return `[redacted:KIND:xxxx]`. The digits are a hash keyed with `salt`, and say nothing where there is none."""
    if not salt:
        return f"{MARK}{kind}:0000]"  # whoever has a list of passwords could test it against a hash without a key
    digest = hashlib.blake2s(secret.encode("utf-8", "surrogatepass"), key=salt[:32], salt=salt[32:40], digest_size=2)
    return f"{MARK}{kind}:{digest.hexdigest()}]"
