"""Redaction: secrets never leave the node, also where one is cut in two."""

import base64
import functools
import hashlib
import re
from typing import Dict, Iterable, Iterator, Match, Optional, Tuple

from hooks.slurm.source.secret_rules import IN_COMMANDS, SECRET_NAMES, SECRET_RULES
from hooks.slurm.source.trimming import CONTEXT

_COLOUR = re.compile(rb"\x1b\[[0-?]{0,40}[ -/]{0,4}[@-~]")
_UNSEEN = bytes(byte for byte in range(128) if (byte < 32 and byte not in b"\t\n\r") or byte == 127)
_NULS_FOR_UNSEEN = bytes(0 if byte in _UNSEEN else byte for byte in range(256))
_PLACEHOLDER = re.compile(rb"\[redacted:[a-z][a-z0-9-]{0,40}:[0-9a-f]{4}\]")
_STUCK = re.compile(rb"(\[redacted:[a-z][a-z0-9-]{0,40}:[0-9a-f]{4}\])(?:\x00{1,8}[^\s\"',;&|<>\x00]{1,512}){1,64}")
_ABOVE = (b"pass", b"pwd", b"secret", b"token", b"credential", b"_auth", b"key")
_NAME_AT_END = re.compile(
    rb"(?i)(?P<own>[\w.\-\"'\\]{0,80})(?P<name>"
    + SECRET_NAMES
    + rb"|token)[\"']?[ \t]{0,8}[:=][ \t]{0,8}(?P<style>[|>][+-]?\d?)?$"
)
_OPTION_AT_END = re.compile(
    rb"(?i)(?:^|[\s\"'\[])--(?:[\w.]{1,40}[-_])?(?:password|passwd|token|secret|(?:api|wandb|access)[_-]key)[\"']?,?$"
)
_VARIABLE_AT_END = re.compile(
    rb"\bname[\"']? {0,4}: {0,4}[\"']?(?:[A-Z0-9_]{0,99}_)?(?:PASSWORD|PASSWD|PASS|SECRET|TOKEN|[A-Z0-9_]{0,99}KEY|AUTH)[\"']?,?$"
)
_VALUE_BELOW = re.compile(rb"^[^\n]{0,200}?\bvalue[\"']? {0,4}: {0,4}")
_QUOTED_BELOW = re.compile(rb"[ \t]*(?:-[ \t]{1,8})?(?:\"(?P<d>[^\"]{1,2048})|'(?P<q>[^']{1,2048}))[\"'][ \t,;)\]}]*$")
_WORD_BELOW = re.compile(rb"[ \t]*(?:-[ \t]{1,8})?(?P<s>[^\s\"',\[\]{}][^\s\"',]{2,2048})[,;]?$")
_KEY_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_HEADER = re.compile(rb"(?:Proc-Type|DEK-Info|Version|Comment|Hash): ")
_KEY_BODY = re.compile(rb"(?:^|[\s\]>:])(?P<s>[A-Za-z0-9+/=]{1,128})\s*$")
_KEY_LINE = re.compile(rb"(?:^|[\s:>\]])(?P<s>[A-Za-z0-9+/]{64}(?:[A-Za-z0-9+/]{6}){0,2})[ \r]{0,4}$")
_PLAIN_HOSTS = tuple(
    ("." + word).encode() for word in (
        "local internal lan svc localdomain log service socket slice scope mount target timer device ckpt safetensors json"
        " jsonl yaml yml txt tgz tar gz bin out err parquet pkl npz npy"
    ).split()
)  # fmt: skip
_NOBODY = (b"root", b"git", b"slurm", b"munge", b"nobody", b"hdfs", b"ubuntu", b"centos", b"ec2-user")
_NO_VALUE = re.compile(rb"(?i)^(?:none|null|true|false|unset|\*+|x{3,}|\.\.\.|\$.*|<[^>]*>|\[redacted.*)$")


def _lines_with(text: bytes, triggers: Iterable[bytes], lowered: Optional[bytes] = None) -> Iterator[Tuple[int, int]]:
    """(start, end) of the lines with any of these words in them; far fewer than all, which is what makes this fast."""
    lowered = text.lower() if lowered is None else lowered
    starts = set()
    for trigger in triggers:
        at = lowered.find(trigger)
        while at >= 0:
            starts.add(text.rfind(b"\n", 0, at) + 1)
            at = text.find(b"\n", at)
            at = lowered.find(trigger, at) if at >= 0 else -1
    for start in sorted(starts):
        end = text.find(b"\n", start)
        yield start, end if end >= 0 else len(text)


def _without_colours(text: bytes) -> bytes:
    """A NUL for each escape. Replacing one colour everywhere is much faster than searching for all of them."""
    for _ in range(32):
        found = _COLOUR.search(text)
        if found is None:
            return text
        text = text.replace(found.group(0), b"\0")
    return _COLOUR.sub(b"\0", text)


def _lines_after(text: bytes, at: int, most: int) -> Iterator[Tuple[int, int]]:
    """(start, end) of at most so many lines that begin behind `at`, without the space at their ends."""
    while 0 <= at < len(text) and most:
        end = text.find(b"\n", at + 1)
        end = end if end >= 0 else len(text)
        yield at + 1, at + 1 + len(text[at + 1 : end].rstrip())
        at, most = end, most - 1


def _mixed(text: bytes) -> bool:
    """Whether the characters are mixed as in random base64, which those of hashes and words are not."""
    return all(re.search(part, text) for part in (rb"[a-z]", rb"[A-Z]", rb"[0-9]"))


def _names_a_user(secret: bytes) -> bool:
    """Whether base64 holds `user:password`."""
    bare = secret.rstrip(b"=")
    try:
        return b":" in base64.b64decode(bare + b"=" * (-len(bare) % 4))
    except ValueError:
        return False


def _behind(head: bytes, line: bytes) -> Optional[int]:
    """Where the text begins in a line with the same head as another one, whatever digits its time has; or None."""
    for at, character in enumerate(bytearray(head)):
        other = line[at : at + 1]
        if other != bytes((character,)) and not (other.isdigit() and bytes((character,)).isdigit()):
            return 0 if line[:1].isspace() else None
    return len(head)


def _secrets_below(text: bytes, start: int, end: int) -> Iterator[Tuple[int, int]]:
    """(start, end) of the secrets on the lines below one that ends in a name which says "secret"."""
    line = text[max(start, end - 512) : end].rstrip()
    named = _NAME_AT_END.search(line) if line and line[-1:] in b":=|>+-0123456789" else None
    if named:
        head = line[: named.start()] if len(line) < 256 else b""
        indent, blank = len(head) - len(head.rstrip()), 0
        for low, high in _lines_after(text, end, 200):
            below = text[low:high]
            blank += not below
            if not below and blank < 3:
                continue
            at = _behind(head.rstrip(), below)
            if at is None or not below or (b"[redacted:" in below and not named.group("style")):
                return
            rest = below[at:]
            deeper = len(rest) - len(rest.lstrip()) > (indent if at == len(head.rstrip()) else 0)
            if named.group("style"):
                if not deeper:
                    return
                yield high - len(rest.lstrip()), high
                continue
            found = _QUOTED_BELOW.match(rest) or (_WORD_BELOW.match(rest) if deeper else None)
            if found and not found.group(0).endswith((b":", b"=")) and _opens_a_door(named, found):
                span = found.span(found.lastgroup or 0)
                yield low + at + span[0], low + at + span[1]
            return
    elif b"--" in line and _OPTION_AT_END.search(line):
        for low, high in _lines_after(text, end, 1):
            item = text[low:high].lstrip()
            found = _QUOTED_BELOW.match(item) or (_WORD_BELOW.match(item) if item[:2] == b"- " else None)
            if found and found.group(found.lastgroup or 0)[:1] != b"-":
                span = found.span(found.lastgroup or 0)
                yield high - len(item) + span[0], high - len(item) + span[1]
    elif b"name" in line and _VARIABLE_AT_END.search(line):
        for low, high in _lines_after(text, end, 1):
            value = _VALUE_BELOW.match(text[low:high])
            if value:
                rest = text[low + value.end() : high]
                found = _QUOTED_BELOW.match(rest) or _WORD_BELOW.match(rest)
                span = found.span(found.lastgroup or 0) if found else (0, len(rest))
                yield low + value.end() + span[0], low + value.end() + span[1]


def _opens_a_door(named: Match[bytes], found: Match[bytes]) -> bool:
    """Tell a token that opens a door from a token of text, of which training logs are full."""
    value = found.group(found.lastgroup or 0)
    return named.group("name").lower() != b"token" or (
        len(value) >= 6 and not re.match(rb"[-+0-9.,]+$|[<\[(]", value)
        and (named.group("own") != b"" or re.search(rb"\d", value) is not None)
    )  # fmt: skip


class Redaction:
    """Replaces secrets by `[redacted:KIND:xxxx]`. The digits are a hash with the site's token, so that equal secrets of
    one site look equal on every node, and say nothing to anybody else."""

    def __init__(self, token: str) -> None:
        self.key = hashlib.sha256(token.encode()).digest()

    def __call__(self, text: bytes) -> bytes:
        """The text without secrets. A line whose secret is parted by colours, NULs and the like loses those."""
        if text[:2] in (b"\xff\xfe", b"\xfe\xff"):  # UTF-16, of which trimming may have torn characters
            text = text[2:].replace(b"\0", b"")
        text = self._seen(text)
        if len(text.translate(None, _UNSEEN)) == len(text):
            return text
        parted = _without_colours(text).translate(_NULS_FOR_UNSEEN)
        first = _STUCK.sub(rb"\1", self._seen(parted))  # as if they parted words
        joined = first.replace(b"\0", b"")
        last = self._seen(joined)  # as if they stood inside of words
        if first == parted and last == joined:
            return text
        versions = zip(*(version.split(b"\n") for version in (text, parted, first, joined, last)))
        return b"\n".join(line if a == b and c == d else d for line, a, b, c, d in versions)

    def _seen(self, text: bytes) -> bytes:
        if b"PRIVATE KEY-----" in text or b"PRIVATE KEY BLOCK-----" in text:
            text = b"\n".join(self._without_keys(text.split(b"\n")))
        text = b"\n".join(
            line if b" " in line[-60:-4] or len(line) < 64 else self._key_line(line) for line in text.split(b"\n")
        )
        lowered = text.lower()
        for kind, triggers, pattern in SECRET_RULES:
            pieces, done = [], 0
            for start, end in _lines_with(text, triggers, lowered):
                line = text[start:end]
                clean = pattern.sub(functools.partial(self._replace, kind), line)
                if clean != line:
                    pieces += [text[done:start], clean]
                    done = end
            if pieces:
                text = b"".join(pieces + [text[done:]])
                lowered = text.lower()
        pieces, done = [], 0
        for start, end in _lines_with(text, _ABOVE, lowered):
            for low, high in _secrets_below(text, start, end) if start >= done else ():
                if not _NO_VALUE.match(text[low:high]):
                    pieces += [text[done:low], self._placeholder("password", text[low:high])]
                    done = high
        return b"".join(pieces + [text[done:]]) if pieces else text

    def fit(self, before: bytes, text: bytes) -> bytes:
        """The text without the words at its beginning that are secrets, but show it only by what stands before them."""
        for _ in range(64):
            sample = text[:CONTEXT]
            if self(before + sample).endswith(self(sample)):
                break
            word = re.match(rb"\s*\S*\s*", sample)
            assert word is not None  # it may be empty
            before, text = (before + text[: word.end()])[-CONTEXT:], text[word.end() :]
        return text

    def name(self, name: str) -> str:
        """The name of a log without secrets."""
        return "/".join(
            re.sub(r"\[(redacted:[a-z0-9-]+:[0-9a-f]{4})\]", lambda found: found.group(1).replace(":", "-"), part)
            for part in self(name.replace("/", "\n").encode("utf-8", "replace")).decode("utf-8").split("\n")
        )

    def words(self, facts: Dict[str, object]) -> Dict[str, object]:
        """The same for the texts of a dictionary."""

        def clean(value: object) -> object:
            if isinstance(value, list):
                return [clean(item) for item in value]
            return self(value.encode("utf-8", "replace")).decode("utf-8") if isinstance(value, str) else value

        return {key: clean(value) for key, value in facts.items()}

    def _key_line(self, line: bytes) -> bytes:
        """Without a line of a private key whose beginning is elsewhere: random base64 of a width that keys have."""
        found = _KEY_LINE.search(line[-200:])
        if found is None or not _mixed(found.group("s")):
            return line
        start = max(0, len(line) - 200) + found.start("s")
        return line[:start] + self._placeholder("private-key", found.group("s")) + line[start + len(found.group("s")) :]

    def _replace(self, kind: str, found: Match[bytes]) -> bytes:
        group = found.lastgroup or 0
        secret, whole, start = found.group(group), found.group(0), found.start(group)
        mark = found.string.rfind(b"[redacted:", max(0, start - 40), start)
        placed = _PLACEHOLDER.match(found.string, mark) if mark >= 0 else None
        if secret.startswith(b"[redacted:") or (placed and placed.end() > start):
            return whole  # a placeholder, or what it says of its kind
        if kind == "email" and (secret.lower().endswith(_PLAIN_HOSTS) or secret.split(b"@")[0].lower() in _NOBODY):
            return whole  # root@gpu-n17.example.com names a host, which a diagnosis needs
        if kind == "password" and (_NO_VALUE.match(secret) or (whole[:3].lower() == b"pwd" and secret[:1] in b"/~.")):
            return whole
        if kind == "aws-secret" and not _mixed(secret):
            return whole  # a hash
        if kind == "basic":
            kind = "credential"
            if not _names_a_user(secret):
                return whole
        command = IN_COMMANDS.get(found.re)
        if command and not command.search(found.string[max(0, found.start() - 400) : found.start()]):
            return whole
        start -= found.start()
        return whole[:start] + self._placeholder(kind, secret) + whole[start + len(secret) :]

    def _placeholder(self, kind: str, secret: bytes) -> bytes:
        digits = hashlib.blake2s(secret, key=self.key, digest_size=2).hexdigest()
        return ("[redacted:%s:%s]" % (kind, digits)).encode()

    def _without_keys(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Key blocks blanked line by line; one without an end stops at the first line that is no base64."""
        inside = False
        for line in lines:
            begin = _KEY_BEGIN.search(line)
            if begin:  # in JSON the whole key stands in this line
                end = _KEY_END.search(line, begin.end())
                body = line[begin.end() : end.start() if end else len(line)]
                if len(body.strip()) >= 8 and b"[redacted:" not in body:
                    rest = line[begin.end() + len(body) :]
                    line = line[: begin.end()] + self._placeholder("private-key", body) + rest
                inside = end is None
            elif inside and _KEY_END.search(line):
                inside = False
            elif inside:
                found = _KEY_BODY.search(line)
                if found:
                    hidden = self._placeholder("private-key", found.group("s"))
                    line = line[: found.start("s")] + hidden + line[found.end("s") :]
                elif line.strip() and not _KEY_HEADER.search(line):
                    inside = False
            yield line
