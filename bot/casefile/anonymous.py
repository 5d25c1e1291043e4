"""Stand-ins for the names of a site: the same name gets the same stand-in everywhere, so that the evidence still fits together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_ADDRESS = re.compile(rb"(?<![\w.])(?!127\.|0\.0\.0\.0|255\.)(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_HOME = re.compile(rb"/(?:home|users|Users|scratch|data|mnt|lustre|gpfs|nfs)(?:/[\w.+@-]+)?/([A-Za-z][\w.-]+)(?=/)")
_PLAIN = {"root", "local", "shared", "data", "lib", "python", "envs", "conda", "checkpoints", "datasets", "models"}
_LEAST = 3  # characters of a name that is looked for in text


class Anonymous:
    """Replaces what is known to be a name: hosts, users, accounts, the job's name, addresses of the network."""

    def __init__(self, hosts: Iterable[str], people: Iterable[str], others: Mapping[str, str]) -> None:
        """`people` are users and accounts; `others` gives further names with their stand-ins."""
        names: dict[str, str] = {}
        for number, host in enumerate(dict.fromkeys(host for host in hosts if host), 1):
            names.setdefault(host, f"node-{number:03d}")
            names.setdefault(host.split(".")[0], f"node-{number:03d}")
        for number, person in enumerate(dict.fromkeys(person for person in people if person), 1):
            names.setdefault(person, f"user{number}")
        names |= {name: stand_in for name, stand_in in others.items() if name}
        usable = {name: stand_in for name, stand_in in names.items() if len(name) >= _LEAST and not name.isdigit()}
        self._names = {name.encode(): stand_in.encode() for name, stand_in in usable.items()}
        longest_first = sorted(self._names, key=len, reverse=True)
        parts = b"|".join(re.escape(name) for name in longest_first)
        self._known = re.compile(rb"(?<![\w])(?:%s)(?![\w])" % parts) if parts else None
        self._addresses: dict[bytes, bytes] = {}

    def log(self, text: bytes) -> bytes:
        """Return a log without the names of the site; its lines stay where they were."""
        for found in _HOME.finditer(text):
            owner = found[1]
            if owner.decode("ascii", "replace") not in _PLAIN and owner not in self._names:
                self._add(owner, f"user{len(self._names) + 1}".encode())
        if self._known is not None:
            text = self._known.sub(lambda found: self._names[found[0]], text)
        return _ADDRESS.sub(self._address, text)

    def name(self, name: str) -> str:
        """Return the name of a log without them."""
        return self.log(name.encode()).decode("utf-8", "replace")

    def facts(self, value: Any) -> Any:
        """Return a document without them, at any depth."""
        if isinstance(value, str):
            return self.name(value)
        if isinstance(value, list):
            return [self.facts(each) for each in value]
        if isinstance(value, dict):
            return {key: self.facts(each) for key, each in value.items()}
        return value

    def _add(self, name: bytes, stand_in: bytes) -> None:
        if len(name) < _LEAST:
            return
        self._names[name] = stand_in
        parts = b"|".join(re.escape(each) for each in sorted(self._names, key=len, reverse=True))
        self._known = re.compile(rb"(?<![\w])(?:%s)(?![\w])" % parts)

    def _address(self, found: re.Match[bytes]) -> bytes:
        number = len(self._addresses) + 1
        return self._addresses.setdefault(found[0], f"10.0.{number // 250}.{number % 250 + 1}".encode())
