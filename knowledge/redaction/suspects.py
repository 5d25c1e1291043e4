"""Lines that may hold a secret, found at the speed of memory: only these are looked at closely.

Every hint here is wider than the rule it stands for: a line without a hint cannot hold a secret of any rule, nor open
a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import hyperscan

_NAMES = r"(?:pass(?:word|wd|phrase|code)|pwd|secret|token|credentials?|_auth|key(?:[_-]?id)?)"

HINTS = (
    r"(?:akia|asia)[a-z0-9]{16}",
    r"\[redacted:aws-key",
    r"age-secret-key-",
    r"aiza[a-z0-9_-]{30}",
    r"gocspx-",
    r"ya29\.",
    r"8q~[a-z0-9_~.-]{31}",
    r"(?:hf|api_org)_[a-z0-9]{16}",
    r"sk[-_][a-z0-9_-]{16}",
    r"nvapi-",
    r"gh[oprsu]_[a-z0-9_]{16}",
    r"github_pat_",
    r"gl[a-z]{2,5}-[a-z0-9_-]{16}",
    r"xox[a-z]",
    r"xapp-",
    r"hooks\.slack\.com",
    r"/api/webhooks/|\.webhook\.office\.com/",
    r"(?:npm_|pypi-)[a-z0-9_-]{30}",
    r"dapi[0-9a-f]{32}",
    (
        r"(?:hv[sb]\.|dckr_pat_|gl(?:sa|c)_|tskey-[a-z]{1,10}-|gsk_|xai-|pplx-|r8_|dop_v1_|tgp_v1_|ntn_|lin_api_|sntrys_"
        r"|at[ac]tt|kgat_|rk_(?:live|test)_|whsec_|shpat_|pul-|pmak-|nrak-|sbp_|figd_|nfp_|rubygems_)[a-z0-9_=.-]{20}"
    ),
    r"(?:ltai|akid)[a-z0-9]{16}",
    r"sg\.[a-z0-9_-]{16}",
    r"[0-9]{8}:aa[a-z0-9_-]{33}",
    r"discord",
    r"\.atlasv1\.",
    r"munge:",
    r"eyj[a-z0-9_-]{8}",
    r"wandb_v1_",
    r"wandb[^\n]{0,120}[0-9a-f]{40}",
    r"cookie[\"'\\]{0,3}\s{0,8}[:=,]",
    r"authorization",
    r"bearer[ \t:]",
    r"basic[ \t]{1,8}[a-z0-9+/]{6}",
    r"[?&;](?:sig|signature|x-amz-[a-z-]{1,20}|x-goog-[a-z-]{1,20})=",
    r"://[^\s/]{1,4000}@",
    r"%3a%2f%2f[^\s/]{1,600}%40",
    r"(?:curl|wget|http|https|rclone|lftp)\b[^\n]{0,400}[ \t\"']-[a-z]{0,8}u",
    r"(?:curl|wget|http|https|rclone|lftp)\b[^\n]{0,400}--(?:proxy-)?user",
    r"(?:login|sshpass|mysql|mysqldump|mysqladmin|mariadb|mariadb-dump)\b[^\n]{0,400}[ \t\"']-p",
    r"redis-cli\b[^\n]{0,400}[ \t\"']-a",
    r"ldap[a-z]{2,12}\b[^\n]{0,400}[ \t\"']-w",
    r"(?:smbclient|smbget|rpcclient)\b[^\n]{0,400}%",
    r"[a-z0-9_]pass=",
    r"_(?:key|token|secret|password|passwd)[ \t]{1,8}[a-z0-9+/=_.~-]{16}",
    rf"{_NAMES}>[^\s<]{{3}}",
    rf"{_NAMES}[ \t]{{1,4}}(?:(?:is|was)[ \t]{{1,4}})?[\"'`]?[a-z0-9_+=-]{{20}}",
    r"cookies?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\{",
    rf"{_NAMES}[\\\"' \t]{{0,24}}(?:[:=]|%3[ad])",
    rf"{_NAMES}\\?[\"'][ \t]{{0,8}}[,:=]",
    rf"--[a-z0-9_.-]{{0,40}}{_NAMES}(?:[ \t\"',\r]|$)",
    r"login [^\n]{0,200}password[ \t]",
    rf"name[\"']?\s{{0,4}}:\s{{0,4}}[\"']?[a-z0-9_]{{0,128}}(?:{_NAMES}|_pass|_auth)\b",
    r"@[a-z0-9-]{1,63}\.[a-z]",
    r"[a-z0-9+/]{64}",
    r"-----begin",
)
"""Regular expressions, without regard to case; `$` is the end of a line."""

_UNSEEN = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"


@cache
def _database() -> hyperscan.Database:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_MULTILINE
    database.compile(
        expressions=[hint.encode() for hint in (*HINTS, _UNSEEN)],
        ids=list(range(len(HINTS) + 1)),
        flags=[flags] * len(HINTS) + [hyperscan.HS_FLAG_SINGLEMATCH],
    )
    return database


@dataclass(frozen=True)
class Suspects:
    """Where hints end, in order, and whether there are characters that nobody sees (escapes of colours, NULs)."""

    ends: list[int]
    unseen: bool

    def lines(self, data: bytes) -> Iterator[tuple[int, int]]:
        r"""Yield (start, end) of every line with a hint. Lines end at `\n` or `\r`, which are not part of them."""
        behind = 0
        for end in self.ends:
            if end <= behind:
                continue
            start = data.rfind(b"\n", behind, end - 1) + 1 or behind
            start = max(start, data.rfind(b"\r", start, end - 1) + 1)
            stop = end_of_line(data, end)
            yield start, stop
            behind = stop


_END_OF_LINE = re.compile(rb"[\r\n]|\Z")


def end_of_line(data: bytes, position: int) -> int:
    r"""Return where the line ends in which `position` is: at its `\n` or `\r`, or at the end of the data."""
    found = _END_OF_LINE.search(data, position)
    return found.start() if found else len(data)


def find_suspects(data: bytes) -> Suspects:
    """Search for all hints at once."""
    ends: list[int] = []
    unseen = False

    def on_match(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
        nonlocal unseen
        if number == len(HINTS):
            unseen = True
        else:
            ends.append(end)

    database = _database()
    database.scan(data, match_event_handler=on_match, scratch=hyperscan.Scratch(database))
    return Suspects(ends, unseen)
