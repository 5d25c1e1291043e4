"""Lines that may hold a secret, found at the speed of memory: only these are looked at closely by `redaction`.

Every hint here is wider than the rule it stands for: a line without a hint cannot hold a secret of any rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import hyperscan

HINTS = (
    r"(?:akia|asia)[a-z0-9]{16}",
    r"\[redacted:aws-key",
    r"aiza[a-z0-9_-]{30}",
    r"ya29\.",
    r"8q~[a-z0-9_~.-]{31}",
    r"(?:hf|api_org)_[a-z0-9]{16}",
    r"sk[-_][a-z0-9_-]{16}",
    r"nvapi-",
    r"gh[oprsu]_[a-z0-9_]{16}",
    r"github_pat_",
    r"glpat-",
    r"xox[a-z]",
    r"xapp-",
    r"hooks\.slack\.com",
    r"(?:npm_|pypi-)[a-z0-9_-]{30}",
    r"munge:",
    r"eyj[a-z0-9_-]{8}",
    r"wandb_v1_",
    r"wandb[^\n]{0,120}[0-9a-f]{40}",
    r"authorization",
    r"bearer[ \t:]",
    r"basic[ \t]{1,8}[a-z0-9+/]{6}",
    r"[?&;](?:sig|x-amz-[a-z-]{1,20}|x-goog-[a-z-]{1,20})=",
    r"://[^\s/]{1,4000}@",
    r"%3a%2f%2f[^\s/]{1,600}%40",
    r"[a-z0-9_]pass=",
    (
        r"(?:pass(?:word|wd|phrase|code)|pwd|secret|token|credentials?|_auth|key(?:[_-]?id)?)"
        r"(?:[\\\"' \t]|\x1b\[[0-9;:]{0,40}m){0,24}(?:[:=]|%3[ad])"
    ),
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret|token|credentials?|_auth|key(?:[_-]?id)?)\\?[\"'][ \t]{0,8}[,:=]",
    r"--[a-z0-9_.-]{0,40}(?:pass(?:word|wd|phrase|code)|pwd|secret|token|credentials?|_auth|key(?:[_-]?id)?)[ \t]",
    r"login [^\n]{0,200}password[ \t]",
    r"@[a-z0-9-]{1,63}\.[a-z]",
    r"[a-z0-9+/]{64}",
    r"-----begin",
)
"""Regular expressions, without regard to case."""


@cache
def _database() -> hyperscan.Database:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = hyperscan.HS_FLAG_CASELESS
    database.compile(
        expressions=[hint.encode() for hint in HINTS], ids=list(range(len(HINTS))), flags=[flags] * len(HINTS)
    )
    return database


def suspect_lines(data: bytes) -> Iterator[tuple[int, int]]:
    r"""Yield (start, end) of every line with a hint, in order. Lines end at `\n` or `\r`, which are not part of them."""
    ends: list[int] = []

    def on_match(_number: int, _start: int, end: int, _flags: int, _context: object) -> None:
        ends.append(end)

    database = _database()
    database.scan(data, match_event_handler=on_match, scratch=hyperscan.Scratch(database))
    behind = 0
    for end in ends:
        if end <= behind:
            continue
        start = data.rfind(b"\n", behind, end - 1) + 1 or behind
        start = max(start, data.rfind(b"\r", start, end - 1) + 1)
        stop = data.find(b"\n", end)
        stop = len(data) if stop < 0 else stop
        back = data.find(b"\r", end, stop)
        stop = stop if back < 0 else back
        yield start, stop
        behind = stop
