"""JSON of any depth: what lies deeper than any object of use is left out, and the rest is read."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

log = logging.getLogger(__name__)

_DEEPEST = 100  # levels that are kept where not all can be read
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def loads(text: bytes) -> Any:
    """Read JSON; what is nested too deeply for that becomes null. Raises ValueError where it is no JSON."""
    try:
        return json.loads(text)
    except RecursionError:
        log.error("something is nested more than %d levels deep: it is left out (%r…)", _DEEPEST, text[:200])
        return json.loads(b"".join(_clipped(text)))


def _clipped(text: bytes) -> Iterator[bytes]:
    depth = done = 0
    for token in _TOKENS.finditer(text):
        mark = token.group()
        if mark in b"[{":
            depth += 1
            if depth == _DEEPEST + 1:
                yield text[done : token.start()]
                yield b"null"
        elif mark in b"]}":
            depth -= 1
            if depth == _DEEPEST:
                done = token.end()
    if depth <= _DEEPEST:
        yield text[done:]
