"""Secrets that a name announces without `=` or `:`: columns of an environment, XML, cookies as a dictionary, and prose."""

from __future__ import annotations

import re

from knowledge.redaction.names import TELLING_NAME
from knowledge.redaction.rule import Rule

_NAMES = ("pass", "pwd", "secret", "token", "credential", "_auth", "key")


def _looks_random(found: re.Match[str]) -> bool:
    """Whether a value is no word: letters of both cases with digits, or a long hexadecimal number."""
    secret = found["s"]
    mixed = any(map(str.isdigit, secret)) and any(map(str.isupper, secret)) and any(map(str.islower, secret))
    return mixed or (len(secret) >= 32 and re.fullmatch(r"[0-9a-f]+", secret) is not None)


def _has_digit(found: re.Match[str]) -> bool:
    return any(map(str.isdigit, found["s"]))


TOLD: tuple[Rule, ...] = (
    Rule(
        "password",
        ("_key", "_token", "_secret", "_passw"),
        re.compile(
            r"(?<![A-Za-z0-9_])(?:[A-Z][A-Z0-9_]{0,64}_(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)"
            r"|aws_(?:secret_access_key|session_token))[ \t]{1,8}(?P<s>[A-Za-z0-9+/=_.~-]{16,512}+)(?!\S)",
            re.ASCII,
        ),
        _has_digit,
    ),
    Rule(
        "password",
        _NAMES,
        re.compile(rf"<[\w:.-]{{0,40}}(?:{TELLING_NAME})>(?P<s>[^\s<>]{{3,1024}}+)</", re.ASCII | re.IGNORECASE),
    ),
    Rule(
        "password",
        _NAMES,
        re.compile(
            r"\b(?:password|passphrase|(?:api|secret|access)[ _-]?key|(?:access|auth|api|bearer)[ _-]?token)[ \t]{1,4}"
            r"(?:(?:is|was)[ \t]{1,4})?[\"'`]?(?P<s>[A-Za-z0-9_+=-]{20,512}+)",
            re.ASCII | re.IGNORECASE,
        ),
        _looks_random,
    ),
    Rule(
        "cookie",
        ("cookie",),
        re.compile(
            r"cookies?[\"']?[ \t]{0,4}[:=][ \t]{0,4}\{(?P<s>[ \t]{0,4}[\"'][^{}\n]{1,4096}+)(?=\}|$)", re.IGNORECASE
        ),
    ),
)
