"""Secrets: how they look, and what stands in front of them."""

import collections
import re
from typing import List, Pattern, Tuple

# Before anything leaves the node. The service redacts again with more rules; the placeholders have one form.

SECRET_NAMES = (
    rb"(?:pass(?:word|wd|phrase)|pwd|secret|credentials?|_auth"
    rb"|(?:api|access|private|account|signing|subscription|license|wandb|ssh|hmac|secret)[_-]?key)"
)
_TOKENS = (
    rb"(?:auth|access|refresh|api|bearer|session|hf|hub|github|gh|gitlab|slack|bot|app|wandb|aws|vault|job|hook|tracking"
    rb"|neptune|comet|mlflow|databricks|clearml|ngc|kaggle)[_-]?token"
)
_SEPARATOR = rb"\\{0,8}[\"']? {0,4}(?:=>|:=|[:=]|%3[ad]) {0,64}"
_VALUE = (
    rb"(?:\\{0,8}\"(?P<d>(?:[^\"\\]|\\[^\"]){3,})|\\{0,8}'(?P<q>(?:[^'\\]|\\[^']){3,})"
    rb"|(?!(?<= )[A-Za-z_][\w.-]{0,64}=)(?P<s>[^\s\"'\\<>\x00-\x1f][^\s\"'<>\x00-\x1f]{2,}))"
)
_EDGE = (  # behind an escape of JSON or of an address no word is under way either
    rb"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrtv0])|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u00[0-9A-Fa-f]{2})|(?<=%[0-9A-Fa-f]{2}))"
)
_TOKEN_NAMES = (b"token=", b"token:", b"token'", b'token"', b"token ")
_ARGUMENT = rb"(?:[ \t]{1,8}|=|[\"'],[ \t]{0,4}[\"'])"
_CURL = re.compile(rb"\b(?:curl|wget|https?|rclone|lftp)\b[^;|]*$")
_LOGIN = re.compile(
    rb"\bsshpass\b[^;|]*$|\b(?:docker|podman|nerdctl|buildah|skopeo|crane|oras|helm|az|oc|argocd|enroot|singularity"
    rb"|apptainer)\b[^;|]{1,300}\blogin\b[^;|]*$"
)
_MYSQL = re.compile(rb"\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^;|]*$")
_REDIS = re.compile(rb"\bredis-cli\b[^;|]*$")
SECRET_RULES: List[Tuple[str, Tuple[bytes, ...], Pattern[bytes]]] = [
    (kind, triggers, re.compile(pattern, re.IGNORECASE if kind in ("credential", "password", "signature", "cookie") else 0))
    for kind, triggers, pattern in (
        ("private-key", (b"age-secret-key-",), _EDGE + rb"(?P<s>AGE-SECRET-KEY-1[A-Z0-9]{40,128})"),
        ("aws-key", (b"akia", b"asia"), _EDGE + rb"(?P<s>(?:AKIA|ASIA)[A-Z0-9]{16})(?![A-Za-z0-9])"),
        ("aws-secret", (b"akia", b"asia", b"[redacted:aws-key"),
         rb"(?<![A-Za-z0-9/+=_.-])(?P<s>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+_.-])"),
        ("gcp-key", (b"aiza",), _EDGE + rb"(?P<s>AIza[A-Za-z0-9_-]{30,64})"),
        ("gcp-key", (b"gocspx-",), _EDGE + rb"(?P<s>GOCSPX-[A-Za-z0-9_-]{20,64})"),
        ("gcp-token", (b"ya29.",), rb"(?<![A-Za-z0-9_.-])(?P<s>ya29\.[A-Za-z0-9_.-]{16,2048})"),
        ("azure-secret", (b"8q~",), rb"(?<![A-Za-z0-9_~.-])(?P<s>[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,40})"),
        ("hf-token", (b"hf_", b"api_org_"), _EDGE + rb"(?P<s>(?:hf|api_org)_[A-Za-z0-9]{16,128})"),
        ("openai-key", (b"sk-", b"sk_"), _EDGE + rb"(?P<s>sk[-_](?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{16,256})"),
        ("nvidia-key", (b"nvapi-",), _EDGE + rb"(?P<s>nvapi-[A-Za-z0-9_-]{16,256})"),
        ("github-token", (b"gh", b"github_pat_"), _EDGE + rb"(?P<s>(?:gh[oprsu]_|github_pat_)[A-Za-z0-9_]{16,256})"),
        ("gitlab-token", (b"gl",), _EDGE + rb"(?P<s>gl(?:pat|dt|rt|cbt|ptt|ft|soat|imt|agent|oas)-[A-Za-z0-9_-]{16,256})"),
        ("slack-token", (b"xox", b"xapp-"), _EDGE + rb"(?P<s>(?:xox[a-z](?:[.-][a-z])?|xapp)-[A-Za-z0-9-]{8,256})"),
        ("slack-hook", (b"hooks.slack.com",), rb"hooks\.slack\.com/[a-z]{1,20}/(?P<s>[A-Za-z0-9/_-]{8,256})"),
        ("chat-hook", (b"/api/webhooks/", b".webhook.office.com/"),
         rb"(?:/api/webhooks/\d{1,24}/|\.webhook\.office\.com/[a-z0-9]{1,20}/)(?P<s>[A-Za-z0-9@/_-]{16,256})"),
        ("package-token", (b"npm_", b"pypi-"), _EDGE + rb"(?P<s>(?:npm_|pypi-)[A-Za-z0-9_-]{30,256})"),
        ("service-token", (b"dapi", b"hvs.", b"hvb.", b"dckr_pat_", b"glsa_", b"glc_", b"tskey-", b"gsk_", b"xai-", b"r8_"),
         _EDGE + rb"(?P<s>(?:dapi(?=[0-9a-f]{32})|hv[sb]\.|dckr_pat_|glsa_|glc_|tskey-[a-z]{1,10}-|gsk_|xai-|r8_)"
         rb"(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_=.-]{20,256})"),
        ("munge-credential", (b"munge:",), rb"MUNGE:(?P<s>[A-Za-z0-9+/=]{16,4096})"),
        ("jwt", (b"eyj",), rb"(?<![A-Za-z0-9_-])(?P<s>eyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{8,4096}(?:\.[A-Za-z0-9_-]{0,4096})?)"),
        ("neptune-token", (b"eyjhcglf",), _EDGE + rb"(?P<s>eyJhcGlf[A-Za-z0-9+/=]{24,2048})"),
        ("wandb-key", (b"wandb_v1_",), _EDGE + rb"(?P<s>wandb_v1_[A-Za-z0-9_]{16,256})"),
        ("wandb-key", (b"wandb",), rb"wandb[^\n]{0,64}?(?<![A-Za-z0-9])(?P<s>[0-9a-f]{40})(?![A-Za-z0-9])"),
        ("cookie", (b"cookie",),
         rb"cookie[\"'\\]{0,3} {0,4}[:=,] {0,4}[\"'\\]{0,3}(?P<s>[^\s=;,\"'\\<>(){}]{1,64}=[^\n\r\"'\\]{1,4096})"),
        ("credential", (b"authorization", b"bearer"),
         rb"(?:authorization[\"' ]{0,3}[:=][\"' ]{0,3}(?:(?:bearer|basic|token|digest|negotiate) {1,4})?|\bbearer {1,4})"
         rb"(?P<s>(?!\[redacted)[A-Za-z0-9._~+/=-]{8,4096})"),
        ("credential", (b"authorization",),
         rb"authorization[\"' ]{0,3}[:=][\"' ]{0,3}(?:bearer|basic|token|digest|negotiate|apikey) {1,4}(?P<s>[A-Za-z0-9._~+/=-]{4,})"),
        ("basic", (b"basic",), rb"\b[Bb]asic[ \t]{1,8}(?P<s>[A-Za-z0-9+/]{6,512}={0,2})"),
        ("signature", (b"sig", b"x-amz", b"x-goog"),
         rb"[?&;](?:sig|signature|(?:x-amz|x-goog)-(?:signature|credential|security-token))=(?P<s>[^\s&\"'<>]{8,2048})"),
        ("password", (b"://",), rb"[a-z0-9+.-]://[^\s/:@]{0,128}:(?P<s>[^\s/@]{1,256})@"),
        ("password", (b"%3a%2f%2f",), rb"%3A%2F%2F[^\s/%]{0,128}%3A(?P<s>[^\s/]{1,256}?)%40"),
        ("password", (b"pass=",), rb"(?-i:(?<=[A-Z0-9_])PASS)=(?!-?[0-9.,]{1,32}(?:\s|$))" + _VALUE),
        ("password", (b"login",), rb"login [^\s]{1,128} {1,4}password {1,4}(?P<s>[^\s]{3,})"),
        ("password", (b"pass", b"pwd", b"secret", b"credential", b"_auth", b"key"), SECRET_NAMES + _SEPARATOR + _VALUE),
        ("password", _TOKEN_NAMES, _TOKENS + _SEPARATOR + _VALUE),
        ("password", (b"_key", b"_token", b"_secret", b"_passw"),
         rb"(?-i:(?<![A-Za-z0-9])[A-Z][A-Z0-9_]{0,64}_(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD))[ \t]{1,8}"
         rb"(?P<s>(?=[^\s]{0,64}[0-9])[A-Za-z0-9+/=_.~-]{16,512})(?!\S)"),
        ("password", _TOKEN_NAMES,
         rb"token[\"']?[:=] ?[\"']?(?P<s>(?=[^\s]{0,64}[0-9])[A-Za-z0-9._~+/-]{16,})"),
        ("password", _TOKEN_NAMES,
         rb"(?<![\w.-])token[\"']?=[\"']?(?P<s>(?![-+0-9.,]{1,64}(?![\w-]))[^\s\"'<>()\[{|][^\s\"'<>()|]{5,})"),
        ("password", _TOKEN_NAMES,
         rb"(?<![\w.-])token[\"']?: ?[\"']?(?P<s>(?=[^\s]{0,64}[0-9])(?=[^\s]{0,64}[A-Za-z])[A-Za-z0-9._~+/-]{10,})"),
        ("password", (b"--",),
         rb"(?<![a-z-])--(?:[a-z_-]{0,30}[_-])?(?:password|passwd|token|secret|api[_-]key|wandb[_-]key)(?:[ =]|[\"'], ?[\"'])"
         rb"(?P<s>[^\s\"']{4,})"),
        ("password", (b'"value"', b"'value'"),
         rb"name[\"'] ?: ?[\"'][a-z0-9_]{0,99}(?:password|passwd|secret|token|api_key|access_key|_pass|_auth)[\"'], {0,4}"
         rb"[\"']value[\"'] ?: ?(?:\"(?P<d>[^\"]{1,2048})|'(?P<q>[^']{1,2048}))"),
        ("email", (b"@",),
         rb"(?<![A-Za-z0-9._%+-])(?P<s>[A-Za-z0-9_%+-][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})"
         rb"(?![A-Za-z0-9-])"),
    )
]  # fmt: skip
IN_COMMANDS: "collections.OrderedDict[Pattern[bytes], Pattern[bytes]]" = collections.OrderedDict(
    (re.compile(pattern), command) for pattern, command in (
        (rb"(?<![\w-])(?:-[a-zA-Z]{0,8}[uU]" + _ARGUMENT + rb"?|--(?:proxy-)?user" + _ARGUMENT + rb")[\"']?[^\s\"':<>|;&/]{1,128}:"
         rb"(?P<s>[^\s\"'<>|;&]{1,512})", _CURL),
        (rb"(?<![\w-])-p" + _ARGUMENT + rb"?[\"']?(?P<s>[^\s\"'<>|;&]{3,512})", _LOGIN),
        (rb"(?<![\w-])-p[\"']?(?P<s>[^\s\"'<>|;&]{1,512})", _MYSQL),
        (rb"(?<![\w-])-a" + _ARGUMENT + rb"[\"']?(?P<s>[^\s\"'<>|;&]{3,512})", _REDIS),
    )
)  # fmt: skip
_COMMANDS = (b"curl", b"wget", b"http", b"rclone", b"lftp", b"login", b"sshpass", b"mysql", b"mariadb", b"redis-cli")
SECRET_RULES += [("password", _COMMANDS, pattern) for pattern in IN_COMMANDS]
