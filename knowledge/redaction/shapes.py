"""Secrets that are known by their own shape, or by the word or address right before them."""

from __future__ import annotations

import base64
import binascii
import re

from knowledge.redaction.rule import Rule

_NO_WORD = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrtv0])|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u00[0-9A-Fa-f]{2})|(?<=%[0-9A-Fa-f]{2}))"
"""Behind an escape of JSON or of an address no word is under way either, though a letter or digit stands there."""

_VALUE = r"[A-Za-z0-9._~+/=-]"

_FILES_AND_UNITS = frozenset(
    "local internal lan svc localdomain log service socket slice scope mount target timer device ckpt safetensors json"
    " jsonl yaml yml txt tgz tar gz bin out err parquet pkl npz npy".split()
)
_NOBODY = frozenset({"root", "git", "slurm", "munge", "nobody", "hdfs", "ubuntu", "centos", "ec2-user"})


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
    """`root@gpu-n17.example.com` names a host, which a diagnosis needs, and `dcgm@0.service` a unit."""
    person, _, host = found["s"].lower().partition("@")
    return person not in _NOBODY and host.rpartition(".")[2] not in _FILES_AND_UNITS


SHAPES: tuple[Rule, ...] = (
    Rule("private-key", ("",), re.compile(r"^\s{0,8}(?P<s>[A-Za-z0-9+/]{64})\s{0,8}$"), _mixed),
    Rule("private-key", ("age-secret-key-",), _token("AGE-SECRET-KEY-1", r"[A-Z0-9]{40,}+")),
    Rule("aws-key", ("akia", "asia"), _token("(?:AKIA|ASIA)", r"[A-Z0-9]{16}(?![A-Za-z0-9])")),
    Rule(  # has no shape of its own, so it counts only beside a key id
        "aws-secret",
        ("akia", "asia", "[redacted:aws-key"),
        re.compile(r"(?<![A-Za-z0-9/+=_.-])(?P<s>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+_.-])"),
        _mixed,
    ),
    Rule("gcp-key", ("aiza",), _token("AIza", r"[A-Za-z0-9_-]{30,}+")),
    Rule("gcp-key", ("gocspx-",), _token("GOCSPX-", r"[A-Za-z0-9_-]{20,}+")),
    Rule("gcp-token", ("ya29.",), _token(r"ya29\.", r"[A-Za-z0-9_.-]{16,}+")),
    Rule(
        "azure-secret", ("8q~",), re.compile(r"(?<![A-Za-z0-9_~.-])(?P<s>[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,40}+)")
    ),
    Rule("hf-token", ("hf_", "api_org_"), _token("(?:hf|api_org)_", r"[A-Za-z0-9]{16,}+")),
    Rule("openai-key", ("sk-", "sk_"), _token("sk[-_]", r"[A-Za-z0-9_-]{16,}+"), _has_digit_or_capital),
    Rule("nvidia-key", ("nvapi-",), _token("nvapi-", r"[A-Za-z0-9_-]{16,}+")),
    Rule("github-token", ("gh", "github_pat_"), _token("(?:gh[oprsu]_|github_pat_)", r"[A-Za-z0-9_]{16,}+")),
    Rule(
        "gitlab-token",
        ("gl",),
        _token("gl(?:pat|dt|rt|cbt|ptt|ft|soat|imt|agent|oas)-", r"[A-Za-z0-9_-]{16,}+"),
        _has_digit_or_capital,
    ),
    Rule("slack-token", ("xox", "xapp-"), _token("(?:xox[a-z](?:[.-][a-z])?|xapp)-", r"[A-Za-z0-9-]{8,}+")),
    Rule("slack-hook", ("hooks.slack.com",), re.compile(r"hooks\.slack\.com/[a-z]{1,20}/(?P<s>[A-Za-z0-9/_-]{8,}+)")),
    Rule(
        "chat-hook",
        ("/api/webhooks/", ".webhook.office.com/"),
        re.compile(r"(?:/api/webhooks/\d{1,24}/|\.webhook\.office\.com/[a-z0-9]{1,20}/)(?P<s>[A-Za-z0-9@/_-]{16,}+)"),
    ),
    Rule("package-token", ("npm_", "pypi-"), _token("(?:npm_|pypi-)", r"[A-Za-z0-9_-]{30,}+"), _mixed),
    Rule(
        "service-token",
        (
            *("dapi", "hvs.", "hvb.", "dckr_pat_", "glsa_", "glc_", "tskey-", "gsk_", "xai-", "pplx-", "r8_"),
            *("dop_v1_", "tgp_v1_", "ntn_", "lin_api_", "sntrys_", "atatt", "atctt", "kgat_"),
            *(
                "rk_live_",
                "rk_test_",
                "whsec_",
                "shpat_",
                "pul-",
                "pmak-",
                "nrak-",
                "sbp_",
                "figd_",
                "nfp_",
                "rubygems_",
            ),
        ),
        _token(
            r"(?:dapi(?=[0-9a-f]{32})|hv[sb]\.|dckr_pat_|gls?[ac]_|tskey-[a-z]{1,10}-|gsk_|xai-|pplx-|r8_|dop_v1_"
            r"|tgp_v1_|ntn_|lin_api_|sntrys_|AT[AC]TT|KGAT_|rk_(?:live|test)_|whsec_|shpat_|pul-(?=[0-9a-f]{40})|PMAK-"
            r"|NRAK-|sbp_|figd_|nfp_|rubygems_)",
            r"[A-Za-z0-9_=.-]{20,}+",
        ),
        _has_digit_or_capital,
    ),
    Rule("cloud-key", ("ltai", "akid"), _token("(?:LTAI|AKID)", r"[A-Za-z0-9]{16,40}(?![A-Za-z0-9])"), _mixed),
    Rule("mail-key", ("sg.",), _token(r"SG\.", r"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}")),
    Rule(
        "chat-token", (":aa",), re.compile(r"(?:\b|bot)\d{8,10}:(?P<s>AA[A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])", re.ASCII)
    ),
    Rule(
        "chat-token",
        ("discord",),
        re.compile(r"(?<![A-Za-z0-9_.-])(?P<s>[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}+)"),
    ),
    Rule(
        "service-token",
        (".atlasv1.",),
        re.compile(r"(?<![A-Za-z0-9])(?P<s>[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,80})"),
    ),
    Rule("munge-credential", ("munge:",), re.compile(r"MUNGE:(?P<s>[A-Za-z0-9+/=]{16,}+)")),
    Rule(
        "jwt",
        ("eyj",),
        re.compile(r"(?<![A-Za-z0-9_-])(?P<s>eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+){0,3})"),
    ),
    Rule("neptune-token", ("eyjhcglf",), _token("eyJhcGlf", r"[A-Za-z0-9+/=]{24,}+")),  # {"api_…
    Rule("wandb-key", ("wandb",), re.compile(r"(?<![A-Za-z0-9])(?P<s>wandb_v1_[A-Za-z0-9_]{16,}+)")),
    Rule("wandb-key", ("wandb",), re.compile(r"(?<![A-Za-z0-9])(?P<s>[0-9a-f]{40})(?![A-Za-z0-9])"), _is_wandb_key),
    Rule(
        "cookie",
        ("cookie",),
        re.compile(
            r"cookie[\"'\\]{0,3}\s{0,8}[:=,]\s{0,8}(?:b(?=[\"']))?[\"'\\]{0,3}"
            r"(?P<s>[^\s=;,\"'\\<>(){}]{1,128}=[^\s;\"'\\]{1,}+(?:;[ ]?[^\s=;,\"'\\]{1,128}(?:=[^\s;\"'\\]*+)?)*+)",
            re.IGNORECASE,
        ),
    ),
    Rule(
        "credential",
        ("authorization",),
        re.compile(
            r"authorization[\"'\\]{0,3}\s{0,8}[:=,]\s{0,8}(?:b(?=[\"']))?[\"'\\]{0,3}"
            rf"(?>(?:(?:bearer|basic|token|digest|negotiate|apikey)\s{{1,8}})?)(?P<s>{_VALUE}{{4,}}+)",
            re.IGNORECASE,
        ),
    ),
    Rule(
        "credential",
        ("bearer",),
        re.compile(rf"\bbearer[ \t:]{{1,8}}(?P<s>{_VALUE}{{8,}}+)", re.IGNORECASE),
        _is_bearer,
    ),
    Rule(
        "credential",
        ("basic",),
        re.compile(r"\bbasic[ \t]{1,8}(?P<s>[A-Za-z0-9+/]{6,}+={0,2})", re.IGNORECASE),
        _is_basic_credential,
    ),
    Rule(
        "signature",
        ("sig", "x-amz", "x-goog"),
        re.compile(
            r"[?&;](?:sig|signature|(?:x-amz|x-goog)-(?:signature|credential|security-token))=(?P<s>[^\s&\"'<>]{8,}+)",
            re.IGNORECASE,
        ),
    ),
    Rule("password", ("://",), re.compile(r"[a-z0-9+.-]://[^\s/:@]*+:(?P<s>[^\s/]+)@", re.IGNORECASE)),
    Rule("url-key", ("://",), re.compile(r"[a-z0-9+.-]://(?P<s>[A-Za-z0-9_.~-]{16,}+):?@", re.IGNORECASE)),
    Rule(
        "password",
        ("%3a%2f%2f",),
        re.compile(r"%3A%2F%2F(?:(?!%3A|%40)[^\s/]){0,256}+%3A(?P<s>(?:(?!%40)[^\s/]){1,256}+)%40", re.IGNORECASE),
    ),
)
"""In the order in which they are tried. Every one has a wider hint in `suspects`."""

EMAIL = Rule(
    "email",
    ("@",),
    re.compile(
        r"(?<![A-Za-z0-9._%+-])(?P<s>[A-Za-z0-9_%+-][A-Za-z0-9._%+-]*+"
        r"@(?:[A-Za-z0-9-]{1,63}+\.){1,8}+(?<=\.)[A-Za-z]{2,24}+)(?![A-Za-z0-9-])"
    ),
    _is_address_of_a_person,
)
