"""Secrets that go over several lines: private keys, and values on the line after their name.

A line opens a block; the lines after it are shown to the block one by one, until one does not belong to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from knowledge.redaction.names import QUOTED, TELLING_NAME, is_nothing, is_secret, is_secret_name, prefix_of
from knowledge.redaction.placeholder import MARK, PLACEHOLDER, placeholder


class Block(Protocol):
    """What a line has opened."""

    def take(self, line: str, salt: bytes) -> tuple[str, bool] | None:
        """Return the line without secrets and whether the block goes on; None where the line is none of its own."""


def open_key(line: str, salt: bytes) -> tuple[str, Block | None]:
    """Return the line without the private key that begins in it, and the block if the key goes on below."""
    if "-----BEGIN" in line and (begin := _KEY_BEGIN.search(line)):
        kept, inside = _blank_one_line_key(line, begin, salt)
        return kept, _PrivateKey() if inside else None
    return line, None


# --- private keys

_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_HEADER = re.compile(r"(?:Proc-Type|DEK-Info|Version|Comment|Hash): ")
_KEY_LINE = re.compile(r"(?:^|[\s\]>:])([A-Za-z0-9+/=]{1,128})\s*$")


class _PrivateKey:
    """The lines of base64 after BEGIN. One without an end stops at the first line that is no base64."""

    def take(self, line: str, salt: bytes) -> tuple[str, bool] | None:
        if "-----BEGIN" in line:
            return None
        body = _KEY_LINE.search(line[-_KEY_WIDTH:])
        if body and (len(body[1]) >= 16 or body[1] == line.strip()):
            start, end = (len(line) - min(len(line), _KEY_WIDTH) + at for at in body.span(1))
            return line[:start] + placeholder("private-key", body[1], salt) + line[end:], True
        if not line.strip() or _KEY_HEADER.search(line) or "[redacted:private-key:" in line:
            return line, True
        return None


_KEY_WIDTH = 160  # the end of a line is all that matters


def _blank_one_line_key(line: str, begin: re.Match[str], salt: bytes) -> tuple[str, bool]:
    r"""Handle the line with BEGIN, which in JSON holds the whole key with `\n` written out.

    Returns the line and whether the key goes on below.
    """
    end = _KEY_END.search(line, begin.end())
    body = line[begin.end() : end.start() if end else len(line)]
    rest = line[end.start() :] if end else ""
    if len(body.strip("\\rn \"'")) < 8 or PLACEHOLDER.fullmatch(body.strip()):
        return line, end is None
    return line[: begin.end()] + placeholder("private-key", body, salt) + rest, end is None


# --- values on the line after their name

_WIDTH = 512  # characters at the end of a line in which a name is looked for
_LONGEST_HEAD = 200  # what launchers and clocks write before each line
_NAME_AT_END = re.compile(
    rf"(?P<name>{TELLING_NAME})[\"']?\s{{0,8}}[:=]\s{{0,8}}(?P<style>[|>][+-]?\d?[+-]?)?\s*$", re.ASCII | re.IGNORECASE
)
_OPTION_AT_END = re.compile(
    rf"(?:^|[\s\"'\[])--(?:[\w.]{{1,40}}[-_])?(?P<name>{TELLING_NAME})[\"']?,?\s*$", re.ASCII | re.IGNORECASE
)
_VARIABLE_AT_END = re.compile(r"\bname[\"']?\s{0,4}:\s{0,4}[\"']?(?P<variable>[A-Z][A-Z0-9_]{0,127})[\"']?,?\s*$")
_VALUE_OF_VARIABLE = re.compile(r"\bvalue[\"']?\s{0,4}:\s{0,4}(?P<rest>\S.*)$")
_BELONGS = re.compile(r"[\w.\-\"'\\]*$", re.ASCII)  # to the name, before it
_LINES_OF_SCALAR = 200


def open_value(line: str) -> Block | None:
    """Return what a line without secrets opens when it ends in a name that says "secret"."""
    end = line[-_WIDTH:]
    if found := _NAME_AT_END.search(end):
        belongs = _BELONGS.search(end, max(0, found.start() - 80), found.start())
        head = end[: belongs.start() if belongs else found.start()]
        head = head if len(head) <= _LONGEST_HEAD and len(line) < _WIDTH else ""
        return _Value(head, found["name"].lower(), prefix_of(end, found.start()), bool(found["style"]))
    if found := _OPTION_AT_END.search(end):
        return _ListItem(found["name"].lower())
    if (found := _VARIABLE_AT_END.search(end)) and is_secret_name(found["variable"]):
        return _OfVariable()
    return None


@dataclass
class _Value:
    """The value of `password:` on the line below: deeper, or in quotes, or the lines of a YAML scalar."""

    head: str  # of the line with the name: what a launcher wrote, and the indent
    name: str
    prefix: str
    scalar: bool
    taken: int = 0

    def take(self, line: str, salt: bytes) -> tuple[str, bool] | None:
        if not line.strip():
            self.taken += 1
            return (line, True) if self.taken < (_LINES_OF_SCALAR if self.scalar else 3) else None
        start = _behind(self.head.rstrip(), line)
        if start is None or (MARK in line and not self.scalar):
            return None
        rest = line[start:]
        bare = self.head.rstrip()
        deeper = len(rest) - len(rest.lstrip()) > (len(self.head) - len(bare) if start == len(bare) else 0)
        if self.scalar:
            span = _whole(rest) if deeper else None
            self.taken += 1
            goes_on = self.taken < _LINES_OF_SCALAR
        else:
            span = _single(rest, deeper)
            goes_on = False
        if span is None:
            return None
        value = rest[span[0] : span[1]]
        if not is_secret(self.name, self.prefix or "x", ":", value):
            return (line, True) if goes_on else None
        return line[: start + span[0]] + placeholder("password", value, salt) + rest[span[1] :], goes_on


@dataclass
class _ListItem:
    """The argument after `--password` in a list with one item a line."""

    name: str

    def take(self, line: str, salt: bytes) -> tuple[str, bool] | None:
        if not line.strip() or MARK in line:
            return None
        start = len(line) - len(line.lstrip())
        item = line[start:]
        if not item.startswith(("- ", '"', "'")) or item.startswith(("- -", '"-', "'-")):
            return None
        span = _single(item, deeper=True)
        if span is None or not is_secret(self.name, "--", "=", item[span[0] : span[1]]):
            return None
        return line[: start + span[0]] + placeholder("password", item[span[0] : span[1]], salt) + item[span[1] :], False


class _OfVariable:
    """The `value:` below `- name: WANDB_API_KEY`, as in a pod's manifest."""

    def take(self, line: str, salt: bytes) -> tuple[str, bool] | None:
        found = _VALUE_OF_VARIABLE.search(line[:_WIDTH])
        if not found or MARK in line:
            return None
        start = found.start("rest")
        rest = line[start:]
        span = _single(rest, deeper=True) or _whole(rest)
        value = rest[span[0] : span[1]]
        if is_nothing(value):
            return None
        return line[: start + span[0]] + placeholder("password", value, salt) + rest[span[1] :], False


def _behind(head: str, line: str) -> int | None:
    """Where the text begins in a line with the same head as another one, whatever digits its time has.

    A line with no head at all is one, too, for many tools write a head only before the first of several lines.
    """
    at = 0
    for character in head:
        other = line[at : at + 1]
        if other != character and not (character.isdigit() and other.isdigit()):
            return 0 if line[:1].isspace() else None
        at += 1
    return at


_WORD = re.compile(r"\s*(?:-\s{1,8})?(?P<s>[^\s\"',\[\]{}][^\s\"',]{2,})[,;]?\s*$")


def _single(rest: str, deeper: bool) -> tuple[int, int] | None:
    """Where the only value of a line stands: in quotes, or a single word that stands deeper than its name."""
    start = len(rest) - len(rest.lstrip())
    start += 2 if rest.startswith("- ", start) else 0
    quote = rest[start : start + 1]
    if quote in ('"', "'"):
        body = QUOTED[quote].match(rest, start + 1)
        end = body.end() if body else start + 1
        return (start + 1, end) if not rest[end + 1 :].strip(" \t,;)]}") else None
    word = _WORD.match(rest)
    return word.span("s") if word and deeper and not word["s"].endswith((":", "=")) else None


def _whole(rest: str) -> tuple[int, int]:
    """Where the text of a line stands, without the space around it."""
    return len(rest) - len(rest.lstrip()), len(rest.rstrip())
