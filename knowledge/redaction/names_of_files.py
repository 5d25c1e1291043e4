"""Secrets in the names of logs, which end up in messages as the logs' text does."""

from __future__ import annotations

import re

from knowledge.redaction.lines import redact
from knowledge.redaction.placeholder import PLACEHOLDER

_PART = re.compile(r"[^/]+?(?=(?:\.(?:log|out|err|txt|json|pkl|gz|zst)){0,3}(?:/|$))")


def redact_name(name: str, salt: bytes = b"") -> str:
    """Return a log's path with each secret replaced by `redacted-KIND-xxxx`, which every file system takes."""

    def clean(part: re.Match[str]) -> str:
        return PLACEHOLDER.sub(lambda found: found[0][1:-1].replace(":", "-"), redact(part[0], salt))

    return _PART.sub(clean, name)
