"""Take secrets and e-mail addresses out of log text, before it is stored, posted or given to a model.

Each secret becomes `[redacted:KIND:xxxx]`. The four hexadecimal digits are a keyed hash, so that the same secret is
recognised wherever it stands. They are deliberately few: whoever tests guesses against 16 bits is left with one guess
in 65,536, which is still too many for a weak password, so a service should pass a `salt` of its own that it keeps to
itself; without the salt the digits say nothing. The empty salt makes the command line's answers repeatable.

Lines are handled one by one and never joined or split. Every pattern is linear: it cannot start twice in one run of
its own characters, or it is bounded.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from knowledge.suspects import suspect_lines

PLACEHOLDER = re.compile(r"\[redacted:[a-z][a-z0-9-]*:[0-9a-f]{4}\]")
_MARK = "[redacted:"
_LINE_END = re.compile(r"([\r\n])")
_KEY_BLOCK = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY", re.IGNORECASE)
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,40}m")
_SHORT = 16_384  # characters of a text that is not worth the time of making the search for suspects ready
_SHORTEST = 4  # characters of a line that can hold no secret


def redact(text: str, salt: bytes = b"") -> str:
    """Return `text` with every secret replaced; the number of lines stays. Doing it twice changes nothing more.

    `salt` (up to 64 bytes) keys the digits of the placeholders.
    """
    if len(text) <= _SHORT:
        return _redact_every_line(text, salt)
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # surrogates that stand for no byte
        return _redact_every_line(text, salt)
    return redact_bytes(data, salt).decode("utf-8", "surrogateescape")


def redact_bytes(data: bytes, salt: bytes = b"") -> bytes:
    """As `redact`, for bytes of any kind: what is not UTF-8 stays as it is."""
    if _KEY_BLOCK.search(data):
        return _redact_every_line(data.decode("utf-8", "surrogateescape"), salt).encode("utf-8", "surrogateescape")
    pieces: list[bytes] = []
    position = 0
    for start, end in suspect_lines(data):
        line = data[start:end].decode("utf-8", "surrogateescape")
        pieces += [data[position:start], _clean(line, salt).encode("utf-8", "surrogateescape")]
        position = end
    return b"".join([*pieces, data[position:]])


def _redact_every_line(text: str, salt: bytes) -> str:
    """The long way, for texts with a private key, which goes over many lines."""
    pieces = _LINE_END.split(text)  # progress bars overwrite with \r, so that ends a line too
    pieces[::2] = [_clean(line, salt) for line in _without_private_keys(pieces[::2], salt)]
    return "".join(pieces)


@dataclass(frozen=True)
class _Rule:
    """How one kind of secret looks: the pattern's group `s` is the secret."""

    kind: str
    triggers: tuple[str, ...]  # in lower case; a text without any of these is not searched
    pattern: re.Pattern[str]
    accept: Callable[[re.Match[str]], bool] = bool  # by default every match

    def apply(self, line: str, salt: bytes) -> str:
        def replace(found: re.Match[str]) -> str:
            secret = found["s"]
            if PLACEHOLDER.fullmatch(secret) or not self.accept(found):
                return found[0]
            before = line[found.start() : found.start("s")]
            return before + _placeholder(self.kind, secret, salt) + line[found.end("s") : found.end()]

        return self.pattern.sub(replace, line)


def _placeholder(kind: str, secret: str, salt: bytes) -> str:
    digest = hashlib.blake2s(secret.encode("utf-8", "surrogatepass"), key=salt[:32], salt=salt[32:40], digest_size=2)
    return f"{_MARK}{kind}:{digest.hexdigest()}]"


def _clean(line: str, salt: bytes) -> str:
    if "\x1b[" in line:  # colours part names from values; a line with a secret loses them
        bare = _COLOUR.sub("", line)
        cleaned = _apply(bare, salt)
        return line if cleaned == bare else cleaned
    return _apply(line, salt)


def _apply(line: str, salt: bytes) -> str:
    if len(line) <= _SHORTEST:
        return line
    lowered = line.lower()
    wanted = [rule for rule in _RULES if any(trigger in lowered for trigger in rule.triggers)]
    # A replacement can lay bare what stood beside it, so go on until nothing changes; two rounds are the rule.
    for _ in range(4):
        before = line
        for rule in wanted:
            line = rule.apply(line, salt)
        if line == before:
            break
    return line


_NO_WORD = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrtv0])|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u00[0-9A-Fa-f]{2})|(?<=%[0-9A-Fa-f]{2}))"
"""Behind an escape of JSON or of an address no word is under way either, though a letter or digit stands there."""


def _token(prefix: str, rest: str) -> re.Pattern[str]:
    """A token known by its prefix, which starts only where no word is under way."""
    return re.compile(rf"{_NO_WORD}(?P<s>{prefix}{rest})", re.ASCII)


def _has_digit_or_capital(found: re.Match[str]) -> bool:
    return any(character.isdigit() or character.isupper() for character in found["s"][3:])


def _mixed(found: re.Match[str]) -> bool:
    """Whether the characters are mixed as in random base64, which those of hashes and words are not."""
    secret = found["s"]
    return (
        any(character.isupper() for character in secret)
        and any(character.islower() for character in secret)
        and any(character.isdigit() for character in secret)
    )


def _is_basic_credential(found: re.Match[str]) -> bool:
    secret = found["s"][:512].rstrip("=")
    try:
        return b":" in base64.b64decode(secret + "=" * (-len(secret) % 4), validate=True)
    except binascii.Error:
        return False


def _is_bearer(found: re.Match[str]) -> bool:
    return len(found["s"]) >= 32 or any(character.isdigit() for character in found["s"])


def _is_wandb_key(found: re.Match[str]) -> bool:
    """The key looks like a git hash, so the words before it decide."""
    before = found.string[max(0, found.start() - 80) : found.start()].lower()
    return "wandb" in before and ("login" in before or "key" in before)


def _is_address_of_a_person(found: re.Match[str]) -> bool:
    """`root@gpu-n17.cluster.local` names a host, which a diagnosis needs."""
    return found["s"].rpartition(".")[2].lower() not in {"local", "internal", "lan", "svc", "localdomain", "log"}


# --- private keys: the only secret of many lines

_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_HEADER = re.compile(r"(?:Proc-Type|DEK-Info|Version|Comment|Hash): ")
_KEY_LINE = re.compile(r"(?:^|[\s\]>:])([A-Za-z0-9+/=]{1,128})\s*$")
_LONE_KEY_LINE = re.compile(r"^\s{0,8}(?P<s>[A-Za-z0-9+/]{64})\s{0,8}$")


def _without_private_keys(lines: list[str], salt: bytes) -> list[str]:
    """Blank out key blocks line by line. A block without an end stops at the first line that is no base64."""
    cleaned, inside = [], False
    for line in lines:
        if not line or not (inside or "-----BEGIN" in line):
            cleaned.append(line)
            continue
        begin = _KEY_BEGIN.search(line)
        body = _KEY_LINE.search(line) if inside and not begin else None
        kept = line
        if begin:
            kept, inside = _blank_one_line_key(line, begin, salt)
        elif body and (len(body[1]) >= 16 or body[1] == line.strip()):
            kept = line[: body.start(1)] + _placeholder("private-key", body[1], salt) + line[body.end(1) :]
        elif inside:
            inside = not line.strip() or _KEY_HEADER.search(line) is not None or "[redacted:private-key:" in line
        cleaned.append(kept)
    return cleaned


def _blank_one_line_key(line: str, begin: re.Match[str], salt: bytes) -> tuple[str, bool]:
    r"""Handle the line with BEGIN, which in JSON holds the whole key with `\n` written out.

    Returns the line and whether the key goes on below.
    """
    end = _KEY_END.search(line, begin.end())
    body = line[begin.end() : end.start() if end else len(line)]
    rest = line[end.start() :] if end else ""
    if len(body.strip("\\rn \"'")) < 8 or PLACEHOLDER.fullmatch(body.strip()):
        return line, end is None
    return line[: begin.end()] + _placeholder("private-key", body, salt) + rest, end is None


# --- names that say "secret": password=…, "api_key": "…", --token …


class _Assignments(_Rule):
    """`name = value` in the styles of shells, JSON, YAML, Python and command lines."""

    def apply(self, line: str, salt: bytes) -> str:
        done, position, pieces = 0, 0, list[str]()
        candidates = 0
        while found := _NAME.search(line, position):
            position = found.end()
            candidates += 1
            if candidates > _MANY:
                return _placeholder("line", line, salt)
            mark = line.rfind(_MARK, max(0, found.start() - 30), found.start())
            if mark >= 0 and PLACEHOLDER.match(line, mark):
                continue  # the name is the kind that a placeholder states
            prefix = _PREFIX.search(line[max(0, found.start() - 40) : found.start()])
            value = _secret_value(line, found, prefix[0].lower() if prefix else "")
            if value is None:
                continue
            start, end = value
            pieces += [line[done:start], _placeholder("password", line[start:end], salt)]
            done = position = end
        return "".join([*pieces, line[done:]])


_NAME = re.compile(
    r"(?P<name>pass(?:word|wd|phrase|code)|pwd|secret|token|credentials?|_auth"
    r"|(?-i:(?<=[A-Z0-9_])PASS(?==))"
    r"|(?:api|access|private|account|signing|subscription|license|wandb|ssh|hmac)[ _-]?key(?:[_-]?id)?)"
    r"(?P<sep>\\{0,8}[\"']?[ \t]{0,8}(?:=>|:=|[:=]|%3[ad])[ \t]{0,8}|[\"'],[ \t]{0,8}|[ \t]{1,8}(?=[\"'\w]))",
    re.ASCII | re.IGNORECASE,
)
_MANY = 2000  # a line with more names than this is a dump or an attack, and goes as a whole
_PREFIX = re.compile(r"[\w.-]+$", re.ASCII)
_QUOTED = {
    '"': re.compile(r'(?:[^"\\]|\\.)*+'),
    "'": re.compile(r"(?:[^'\\]|\\.)*+"),
    '\\"': re.compile(r'[^"\\]*+'),
    "\\'": re.compile(r"[^'\\]*+"),
}
_OPENING = re.compile(r"\\{0,8}[\"']")  # JSON inside JSON doubles its backslashes
# A comma or its like ends the value only where something new begins after it.
_UNQUOTED = re.compile(r"(?:[^\s\"',;&|<>]|[,;&](?!\s|[\"']|[\w.-]{1,64}[\"']?[=:]|$))++", re.ASCII)
_NOTHING = re.compile(
    r"(?:none|null|nil|true|false|undefined|unset|\*+|x{3,}|\.\.\.|\$\{?\w*\}?|<[^>]*>|%s|\{\w*\})?", re.IGNORECASE
)
_NEXT_NAME = re.compile(r"[A-Za-z_][\w.-]{0,64}=", re.ASCII)  # `password= user=…`: the value is empty
_NUMBER = re.compile(r"[-+]?\d[\d_,]*(?:\.\d*)?(?:e[-+]?\d+)?\s?(?:[kmgtb]|ms|us|ns|s|gb|mb|kb|%)?", re.IGNORECASE)
_TOKENS_OF_TEXT = re.compile(
    r"(?:pad|eos|bos|boi|eoi|unk|sep|cls|mask|special|image|audio|video|speech|text|word|sub|extra|vocab|decoder"
    r"|per|each|max|min|num|total|next|last|first|new|prev|previous|start|end|stop|begin|single|multi|current"
    r"|prompt|draft|target|input|output|generated|predicted|sampled|bad|unexpected|invalid|unknown|illegal"
    r"|ms|s|sec|time|loss)"
)
_ACCESS = re.compile(
    r"(?:auth|access|refresh|api|bearer|session|security|hf|hub|hugging_?face|github|gh|gitlab|slack|bot|app|wandb|aws"
    r"|vault|registry|private|secret|client|user|admin|npm|pypi|docker|k8s|kube|join|identity|id|job|hook)[_.-]?$"
)


def _secret_value(line: str, found: re.Match[str], prefix: str) -> tuple[int, int] | None:
    """Where the value stands that belongs to a name, or None where it is none or nothing secret."""
    name, separator, start = found["name"].lower(), found["sep"], found.end()
    spaced = not any(character in separator for character in ":=%")
    if spaced and not (prefix.startswith("--") or (name == "password" and "login " in line[:start])):
        return None  # prose, unless it is an option of a command or a line of .netrc
    opening = _OPENING.match(line, start)
    if opening:
        start = opening.end()
        body = _QUOTED[opening[0][-2:]].match(line, start)
        end = body.end() if body else start
    else:
        body = _UNQUOTED.match(line, start)
        end = body.end() if body else start
    value = line[start:end]
    if not opening:
        if _NOTHING.fullmatch(value) or (separator[-1].isspace() and _NEXT_NAME.match(value)):
            return None
        kept = value.rstrip(")}]")
        if PLACEHOLDER.fullmatch(kept + "]"):
            return None
        value, end = kept, start + len(kept)
    if PLACEHOLDER.fullmatch(value) or _NOTHING.fullmatch(value):
        return None
    if name == "pass" and _NUMBER.fullmatch(value):
        return None  # FORWARD_PASS=3
    if name == "pwd" and value.startswith(("/", "~", ".")):
        return None  # a shell's working directory
    if name in ("token", "credential", "credentials") and not _is_access_token(prefix, separator, value):
        return None
    return start, end


def _is_access_token(prefix: str, separator: str, value: str) -> bool:
    """Tell a token that opens a door from a token of text, of which training logs are full."""
    words = re.split(r"[_.\-/]+", prefix.rstrip("_.-/"))
    if _TOKENS_OF_TEXT.fullmatch(words[-1]) or _NUMBER.fullmatch(value[:64]):
        return False
    if any(character.isspace() or character in "<>|()" for character in value[:64]):
        return False
    if _ACCESS.search(prefix):
        return True
    if "=" in separator or '"' in separator or "'" in separator or prefix:
        return len(value) >= 6 and value[0] not in "[{"
    return len(value) >= 10 and any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


_VALUE = r"[A-Za-z0-9._~+/=-]"

_RULES: tuple[_Rule, ...] = (
    _Rule("private-key", ("",), _LONE_KEY_LINE, _mixed),
    _Rule("aws-key", ("akia", "asia"), _token("(?:AKIA|ASIA)", r"[A-Z0-9]{16}(?![A-Za-z0-9])")),
    _Rule(  # has no shape of its own, so it counts only beside a key id
        "aws-secret",
        ("akia", "asia", "[redacted:aws-key"),
        re.compile(r"(?<![A-Za-z0-9/+=_.-])(?P<s>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+_.-])"),
        _mixed,
    ),
    _Rule("gcp-key", ("aiza",), _token("AIza", r"[A-Za-z0-9_-]{30,}+")),
    _Rule("gcp-token", ("ya29.",), _token(r"ya29\.", r"[A-Za-z0-9_.-]{16,}+")),
    _Rule(
        "azure-secret", ("8q~",), re.compile(r"(?<![A-Za-z0-9_~.-])(?P<s>[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,40}+)")
    ),
    _Rule("hf-token", ("hf_", "api_org_"), _token("(?:hf|api_org)_", r"[A-Za-z0-9]{16,}+")),
    _Rule("openai-key", ("sk-", "sk_"), _token("sk[-_]", r"[A-Za-z0-9_-]{16,}+"), _has_digit_or_capital),
    _Rule("nvidia-key", ("nvapi-",), _token("nvapi-", r"[A-Za-z0-9_-]{16,}+")),
    _Rule("github-token", ("gh", "github_pat_"), _token("(?:gh[oprsu]_|github_pat_)", r"[A-Za-z0-9_]{16,}+")),
    _Rule("gitlab-token", ("glpat-",), _token("glpat-", r"[A-Za-z0-9_-]{16,}+")),
    _Rule("slack-token", ("xox", "xapp-"), _token("(?:xox[a-z](?:[.-][a-z])?|xapp)-", r"[A-Za-z0-9-]{8,}+")),
    _Rule("slack-hook", ("hooks.slack.com",), re.compile(r"hooks\.slack\.com/[a-z]{1,20}/(?P<s>[A-Za-z0-9/_-]{8,}+)")),
    _Rule("package-token", ("npm_", "pypi-"), _token("(?:npm_|pypi-)", r"[A-Za-z0-9_-]{30,}+"), _mixed),
    _Rule("munge-credential", ("munge:",), re.compile(r"MUNGE:(?P<s>[A-Za-z0-9+/=]{16,}+)")),
    _Rule(
        "jwt",
        ("eyj",),
        re.compile(r"(?<![A-Za-z0-9_-])(?P<s>eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+){0,3})"),
    ),
    _Rule("wandb-key", ("wandb",), re.compile(r"(?<![A-Za-z0-9])(?P<s>wandb_v1_[A-Za-z0-9_]{16,}+)")),
    _Rule("wandb-key", ("wandb",), re.compile(r"(?<![A-Za-z0-9])(?P<s>[0-9a-f]{40})(?![A-Za-z0-9])"), _is_wandb_key),
    _Rule(
        "credential",
        ("authorization",),
        re.compile(
            r"authorization[\"'\\]{0,3}\s{0,8}[:=,]\s{0,8}(?:b(?=[\"']))?[\"'\\]{0,3}"
            rf"(?>(?:(?:bearer|basic|token|digest|negotiate|apikey)\s{{1,8}})?)(?P<s>{_VALUE}{{4,}}+)",
            re.IGNORECASE,
        ),
    ),
    _Rule(
        "credential",
        ("bearer",),
        re.compile(rf"\bbearer[ \t:]{{1,8}}(?P<s>{_VALUE}{{8,}}+)", re.IGNORECASE),
        _is_bearer,
    ),
    _Rule(
        "credential",
        ("basic",),
        re.compile(r"\bbasic[ \t]{1,8}(?P<s>[A-Za-z0-9+/]{6,}+={0,2})", re.IGNORECASE),
        _is_basic_credential,
    ),
    _Rule(
        "signature",
        ("sig", "x-amz", "x-goog"),
        re.compile(
            r"[?&;](?:sig|(?:x-amz|x-goog)-(?:signature|credential|security-token))=(?P<s>[^\s&\"'<>]{8,}+)",
            re.IGNORECASE,
        ),
    ),
    _Rule("password", ("://",), re.compile(r"[a-z0-9+.-]://[^\s/:@]*+:(?P<s>[^\s/]+)@", re.IGNORECASE)),
    _Rule("url-key", ("://",), re.compile(r"[a-z0-9+.-]://(?P<s>[A-Za-z0-9_.~-]{16,}+):?@", re.IGNORECASE)),
    _Rule(
        "password",
        ("%3a%2f%2f",),
        re.compile(r"%3A%2F%2F(?:(?!%3A|%40)[^\s/]){0,256}+%3A(?P<s>(?:(?!%40)[^\s/]){1,256}+)%40", re.IGNORECASE),
    ),
    _Assignments(
        "password",
        ("pass", "pwd", "secret", "token", "credential", "_auth", "key"),
        _NAME,
    ),
    _Rule(
        "email",
        ("@",),
        re.compile(
            r"(?<![A-Za-z0-9._%+-])(?P<s>[A-Za-z0-9_%+-][A-Za-z0-9._%+-]*+"
            r"@(?:[A-Za-z0-9-]{1,63}+\.){1,8}+(?<=\.)[A-Za-z]{2,24}+)(?![A-Za-z0-9-])"
        ),
        _is_address_of_a_person,
    ),
)
