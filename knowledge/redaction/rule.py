"""How one kind of secret looks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from knowledge.redaction.placeholder import PLACEHOLDER, placeholder


@dataclass(frozen=True)
class Rule:
    """The group `s` of the pattern is the secret. Every pattern is linear: it cannot start twice in one run of its own
    characters, or it is bounded."""

    kind: str
    triggers: tuple[str, ...]  # in lower case; a text without any of these is not searched
    pattern: re.Pattern[str]
    accept: Callable[[re.Match[str]], bool] = bool  # by default every match

    def apply(self, line: str, salt: bytes) -> str:
        """Return the line with a placeholder for each secret of this kind."""

        def replace(found: re.Match[str]) -> str:
            secret = found["s"]
            if PLACEHOLDER.fullmatch(secret) or not self.accept(found):
                return found[0]
            before = line[found.start() : found.start("s")]
            return before + placeholder(self.kind, secret, salt) + line[found.end("s") : found.end()]

        return self.pattern.sub(replace, line)
