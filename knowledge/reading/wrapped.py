"""Lines that a collector of logs put into JSON: container runtimes, forwarders, a journal's export."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_FORMS = (("log", ("stream", "time", "kubernetes")), ("textPayload", ()), ("MESSAGE", ()))
"""The key under which the line stands, and keys of which one must be beside it, since programs log JSON themselves."""
_KEYS = tuple(f'"{key}"' for key, _ in _FORMS)


@dataclass(slots=True, frozen=True)
class Wrapped:
    """What a collector knows of a line: the line, and where it was written."""

    text: str
    host: str | None = None
    pod: str | None = None
    kernels: bool = False  # a journal says that the kernel wrote it


def unwrap(line: str) -> Wrapped | None:
    """The line inside a collector's record; None where it is none, or not whole."""
    if not line.startswith("{"):
        return None
    for key in _KEYS:
        if key in line:
            break
    else:
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    for key, beside in _FORMS:
        text = record.get(key)
        if isinstance(text, str) and (not beside or any(other in record for other in beside)):
            pod = record.get("kubernetes")
            told: dict[str, Any] = pod if isinstance(pod, dict) else {}
            return Wrapped(
                text.rstrip("\r\n").split("\n")[0],
                _name(record.get("_HOSTNAME")) or _name(told.get("host")),
                _name(told.get("pod_name")),
                record.get("_TRANSPORT") == "kernel" or record.get("SYSLOG_IDENTIFIER") == "kernel",
            )
    return None


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) < 254 else None
