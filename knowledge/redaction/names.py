"""Names that say "secret": password=…, "api_key": "…", --token …, and what is a value that deserves to be one."""

from __future__ import annotations

import re

from knowledge.redaction.placeholder import MARK, PLACEHOLDER, placeholder
from knowledge.redaction.rule import Rule

TELLING_NAME = (
    r"pass(?:word|wd|phrase|code)|pwd|secret|token|credentials?|_auth"
    r"|(?:api|access|private|account|signing|subscription|license|wandb|ssh|hmac|secret|master|encryption|fernet|functions|s3)"
    r"[ _-]?key(?:[_-]?id)?"
)
_NAME = re.compile(
    rf"(?P<name>{TELLING_NAME}|(?-i:(?<=[A-Z0-9_])PASS(?==)))"
    r"(?P<sep>\\{0,8}[\"']?[ \t]{0,8}(?:=>|:=|[:=]|%3[ad])[ \t]{0,64}|[\"'],[ \t]{0,8}|[ \t]{1,8}(?=[\"'\w]))",
    re.ASCII | re.IGNORECASE,
)
_VARIABLE = re.compile(  # of a pod, as JSON or Python prints it
    r"name[\"']\s{0,2}:\s{0,2}[\"'](?P<variable>[A-Z][A-Z0-9_]{0,127})[\"'],\s{0,4}[\"']value[\"']\s{0,2}:\s{0,2}"
    r"(?P<quote>[\"'])"
)
_MANY = 2000  # a line with more names than this is a dump or an attack, and goes as a whole
_PREFIX = re.compile(r"[\w.-]+$", re.ASCII)
QUOTED = {
    '"': re.compile(r'(?:[^"\\]|\\.)*+'),
    "'": re.compile(r"(?:[^'\\]|\\.)*+"),
    '\\"': re.compile(r'[^"\\]*+'),
    "\\'": re.compile(r"[^'\\]*+"),
}
_OPENING = re.compile(  # JSON inside JSON doubles its backslashes; Python says b'…', ['…'], SecretStr('…')
    r"(?:[\[(]|[A-Za-z_][\w.]{0,40}\()?(?:[bBuUrR]{1,2}(?=[\"']))?\\{0,8}[\"']", re.ASCII
)
_WORDS_OF_KUBERNETES = re.compile(r"[\"'][ \t]+:")  # `volume "hf-token" : secret "hf" not found`
# A comma or its like ends the value only where something new begins after it.
_UNQUOTED = re.compile(
    r"(?:[^\s\"',;&|<>\x00-\x1f]|[,;&](?!\s|[\"']|[\w.-]{1,64}[\"']?[=:]|$))++",
    re.ASCII,
)
_NOTHING = re.compile(
    r"(?:none|null|nil|true|false|undefined|unset|\*+|x{3,}|\.\.\.|\$\{?\w*\}?|<[^>]*>|%s|\{\w*\}|[\[{(]+)?",
    re.IGNORECASE,
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
    r"|vault|registry|private|secret|client|user|admin|npm|pypi|docker|k8s|kube|join|identity|id|job|hook|tracking"
    r"|neptune|comet|mlflow|databricks|clearml|ngc|kaggle)[_.-]?$"
)


def is_secret_name(name: str) -> bool:
    """Whether the name of an environment variable says that its value is a secret."""
    return _TELLING_VARIABLE.search(name) is not None


_TELLING_VARIABLE = re.compile(rf"(?:^|_)(?:{TELLING_NAME}|pass|auth)$", re.IGNORECASE)


class Assignments(Rule):
    """`name = value` in the styles of shells, JSON, YAML, Python and command lines."""

    def apply(self, line: str, salt: bytes) -> str:
        """Return the line with a placeholder for each value whose name says that it is a secret."""
        if '"value"' in line or "'value'" in line:
            line = _without_variables(line, salt)
        done, position, pieces = 0, 0, list[str]()
        candidates = 0
        while found := _NAME.search(line, position):
            position = found.end()
            candidates += 1
            if candidates > _MANY:
                return placeholder("line", line, salt)
            mark = line.rfind(MARK, max(0, found.start() - 30), found.start())
            if mark >= 0 and PLACEHOLDER.match(line, mark):
                continue  # the name is the kind that a placeholder states
            value = _secret_value(line, found, prefix_of(line, found.start()))
            if value is None:
                continue
            start, end = value
            pieces += [line[done:start], placeholder("password", line[start:end], salt)]
            done = position = end
        return "".join([*pieces, line[done:]])


def prefix_of(line: str, start: int) -> str:
    """Return what stands before a name and belongs to it, in lower case: `hf_` of `hf_token`."""
    prefix = _PREFIX.search(line[max(0, start - 40) : start])
    return prefix[0].lower() if prefix else ""


def is_nothing(value: str) -> bool:
    """Whether a value only stands for one: None, ***, ${SECRET}, or a placeholder."""
    return _NOTHING.fullmatch(value) is not None or PLACEHOLDER.fullmatch(value) is not None


def is_secret(name: str, prefix: str, separator: str, value: str) -> bool:
    """Whether a value is a secret, by all that is known of its name (in lower case)."""
    if is_nothing(value):
        return False
    if name == "pass" and _NUMBER.fullmatch(value):
        return False  # FORWARD_PASS=3
    if name == "pwd" and value.startswith(("/", "~", ".")):
        return False  # a shell's working directory
    if name.startswith("credential") and ":" in separator and value.isalpha() and value.islower():
        return False  # job_credential: expired
    return name not in ("token", "credential", "credentials") or _is_access_token(prefix, separator, value)


def _without_variables(line: str, salt: bytes) -> str:
    def replace(found: re.Match[str]) -> str:
        body = QUOTED[found["quote"]].match(line, found.end())
        if body is None or not is_secret_name(found["variable"]) or is_nothing(body[0]):
            return found[0]
        spans.append((body.start(), body.end()))
        return found[0]

    spans: list[tuple[int, int]] = []
    _VARIABLE.sub(replace, line)
    for start, end in reversed(spans):
        line = line[:start] + placeholder("password", line[start:end], salt) + line[end:]
    return line


def _secret_value(line: str, found: re.Match[str], prefix: str) -> tuple[int, int] | None:
    """Where the value stands that belongs to a name, or None where it is none or nothing secret."""
    name, separator, start = found["name"].lower(), found["sep"], found.end()
    spaced = not any(character in separator for character in ":=%")
    if spaced and not (prefix.startswith("--") or (name == "password" and "login " in line[:start])):
        return None  # prose, unless it is an option of a command or a line of .netrc
    opening = _OPENING.match(line, start)
    if opening:
        start = opening.end()
        body = QUOTED[opening[0][-2:] if opening[0][-2:] in QUOTED else opening[0][-1]].match(line, start)
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
        if _WORDS_OF_KUBERNETES.match(separator) and value.isalpha() and value.islower():
            return None
    return (start, end) if is_secret(name, prefix, separator, value) else None


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


ASSIGNMENTS = Assignments("password", ("pass", "pwd", "secret", "token", "credential", "_auth", "key"), _NAME)
