"""Secrets that commands take as arguments behind one letter: `curl -u user:…`, `docker login -p …`, `mysql -p…`."""

from __future__ import annotations

import re

from knowledge.redaction.rule import Rule

_BETWEEN = r"(?:[ \t]{1,8}|=|[\"'],[ \t]{0,4}[\"'])"  # of a shell, or of a list that a program prints
_ARGUMENT = r"[\"']?(?P<s>[^\s\"'<>|;&]{3,}+)"

_FETCHERS = re.compile(r"\b(?:curl|wget|http|https|rclone|lftp)\b[^;|]*$")
_LOGIN = re.compile(
    r"\b(?:docker|podman|nerdctl|buildah|skopeo|crane|oras|helm|az|oc|argocd|enroot|singularity|apptainer)\b[^;|]*\blogin\b[^;|]*$"
)
_CLIENTS = re.compile(r"\b(?:mysql|mysqldump|mysqladmin|mariadb|mariadb-dump)\b[^;|]*$")
_LDAP = re.compile(r"\bldap[a-z]{2,12}\b[^;|]*$")
_REDIS = re.compile(r"\bredis-cli\b[^;|]*$")
_FAR = 400  # characters between a command and its argument


def _before(found: re.Match[str]) -> str:
    return found.string[max(0, found.start() - _FAR) : found.start()]


def _of_fetcher(found: re.Match[str]) -> bool:
    return _FETCHERS.search(_before(found)) is not None


def _of_login(found: re.Match[str]) -> bool:
    before = _before(found)
    return "sshpass" in before or _LOGIN.search(before) is not None


def _of_client(found: re.Match[str]) -> bool:
    return _CLIENTS.search(_before(found)) is not None


def _of_ldap(found: re.Match[str]) -> bool:
    return _LDAP.search(_before(found)) is not None


def _of_redis(found: re.Match[str]) -> bool:
    return _REDIS.search(_before(found)) is not None


COMMANDS: tuple[Rule, ...] = (
    Rule(
        "password",
        ("curl", "wget", "http", "rclone", "lftp"),
        re.compile(
            rf"(?<![\w-])(?:-[a-zA-Z]{{0,8}}[uU]{_BETWEEN}?|--(?:proxy-)?user{_BETWEEN})[\"']?[^\s\"':<>|;&/]{{1,128}}:"
            r"(?P<s>[^\s\"'<>|;&]{1,512}+)",
            re.ASCII,
        ),
        _of_fetcher,
    ),
    Rule("password", ("login", "sshpass"), re.compile(rf"(?<![\w-])-p{_BETWEEN}?{_ARGUMENT}", re.ASCII), _of_login),
    Rule(
        "password",
        ("mysql", "mariadb"),
        re.compile(rf"(?<![\w-])-p{_ARGUMENT.replace('{3,}', '{1,}')}", re.ASCII),
        _of_client,
    ),
    Rule("password", ("ldap",), re.compile(rf"(?<![\w-])-w{_BETWEEN}{_ARGUMENT}", re.ASCII), _of_ldap),
    Rule(
        "password",
        ("smbclient", "smbget", "rpcclient"),
        re.compile(rf"(?<![\w-])-U{_BETWEEN}?[\"']?[^\s\"'%]{{1,64}}%(?P<s>[^\s\"'<>|;&]{{1,256}}+)", re.ASCII),
    ),
    Rule("password", ("redis-cli",), re.compile(rf"(?<![\w-])-a{_BETWEEN}{_ARGUMENT}", re.ASCII), _of_redis),
)
