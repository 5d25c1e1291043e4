"""What a question names: ranks, hosts, a time, how many lines, a log, a job, a term."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta

from bot.answers.wording import plain

MAX_LINES = 200

_RANKS = re.compile(
    r"\b(?:(?:global )?(?:ranks?|rnak|rakn|ran|rnk|rk|raenge|rang|workers?|proc(?:ess)?|r)[ #:=_-]{0,2})(?P<first>\d{1,6})"
    r"(?P<more>(?:\s*(?:,|and|und|&|\+|or|oder|/|to|bis|through|-|–|\.\.)\s*(?:ranks? ?|rk ?|r)?\d{1,6}\b)*)\b(?!\.\w)"
)
_SPELT = "zero one two three four five six seven eight nine ten eleven twelve".split()
_SPELT_RANK = re.compile(rf"\b(rank|rk|worker|process|rang) ({'|'.join(_SPELT)})\b")
_ORDINAL = re.compile(r"\b(?P<rank>\d{1,6})(?:st|nd|rd|th|te|ter|ten)? rank\b")
_MORE = re.compile(r"(?P<by>to|bis|through|-|–|\.\.)?\s*(?:ranks? ?|rk ?|r)?(?P<number>\d{1,6})")
_COUNT = re.compile(
    r"\b(?:(?:last|final|letzten?|tail(?: -n)?|first|about)\s+)?(?P<count>\d{1,5})\s*(?:more\s+)?(?:log\s*)?(?:lines?|zeilen|loc)\b"
    r"|\b(?:last|final|letzten|tail(?: -n)?)\s+(?P<bare>\d{1,4})\b(?!\s*(?:times|mal|runs?|jobs?|days?|weeks?|hours?|minutes?|steps?|:))"
)
_TIME = re.compile(
    r"(?<![\d.:])(?:(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)[t ])?(?P<H>[01]?\d|2[0-3])[:.](?P<M>[0-5]\d)(?:[:.](?P<S>[0-5]\d))?(?:[.,]\d+)?z?"
    r"(?:\s*(?P<half>[ap]m))?(?![\d:])"
)
_HOUR = re.compile(r"\b(?P<H>\d{1,2})\s*(?P<half>[ap]m|uhr|o'?clock)\b")
_MOST_RANKS = 64


@dataclass(slots=True)
class Slots:
    """What was named. `rest` is the plain text without it."""

    ranks: list[int] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    count: int | None = None
    when: time | None = None
    day: datetime | None = None
    terms: list[str] = field(default_factory=list)
    rest: str = ""

    @property
    def names(self) -> set[str]:
        """The kinds of what was named, as intents call them."""
        named = {"RANK": self.ranks, "HOST": self.hosts, "LOG": self.logs, "TERM": self.terms}
        found = {name for name, values in named.items() if values}
        found |= {"COUNT"} if self.count is not None else set()
        return found | ({"TIME"} if self.when is not None else set())

    def moment(self, near: datetime | None) -> datetime | None:
        """The moment meant: the given time of day nearest to `near`."""
        if self.when is None:
            return None
        if self.day is not None:
            return datetime.combine(self.day.date(), self.when, UTC)
        if near is None:
            return None
        same = datetime.combine(near.astimezone(UTC).date(), self.when, UTC)
        return min((same + timedelta(days=days) for days in (-1, 0, 1)), key=lambda moment: abs(moment - near))


def find_slots(
    text: str, hosts: Iterable[str], logs: Mapping[str, Iterable[str]], term: Callable[[str], list[str]]
) -> Slots:
    """Take out of a question what it names. `hosts` and `logs` (each with other words for it) are those that exist; `term` finds known terms."""
    found = Slots()
    rest = f" {' '.join(plain(text).split())} "
    rest = _logs(found, rest, logs)
    rest = _hosts(found, rest, hosts)
    rest = _kinds(found, rest, logs)
    rest = _lines(found, rest)
    rest = _times(found, rest)
    rest = _ranks(found, rest)
    found.terms = term(rest)
    for phrase in (one for one in found.terms if " " in one):
        rest = re.sub(rf"(?<![\w-]){re.escape(phrase)}(?![\w-])", " ", rest)
    found.rest = " ".join(rest.split())
    return found


def _logs(found: Slots, rest: str, logs: Mapping[str, Iterable[str]]) -> str:
    for name in sorted(logs, key=len, reverse=True):
        for form in dict.fromkeys((plain(name), plain(name.rsplit("/", 1)[-1]))):
            if len(form) > 4 and form in rest:
                found.logs.append(name)
                rest = rest.replace(form, " ")
    return rest


def _kinds(found: Slots, rest: str, logs: Mapping[str, Iterable[str]]) -> str:
    """Logs named by what they are: of those of the hosts that were named, where any were."""
    meant = [
        name
        for name, others in logs.items()
        if any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", rest) for word in others)
    ]
    of_hosts = [name for name in meant if any(plain(host) in plain(name) for host in found.hosts)]
    for name in of_hosts or meant:
        if name not in found.logs:
            found.logs.append(name)
        for word in logs[name]:
            rest = re.sub(rf"(?<![\w-]){re.escape(word)}(?![\w-])", " ", rest)
    return rest


def _hosts(found: Slots, rest: str, hosts: Iterable[str]) -> str:
    known = list(hosts)
    for host in sorted(known, key=len, reverse=True):
        rest = _take(found.hosts, rest, host, plain(host))
    ends = [end for other in known for end in _ends(other)]
    for host in known:  # the short name, and the ends that people call it by: "n17" for "gpu-n17"
        name = plain(host)
        short = name.split(".")[0]
        if len(short) >= 3 and not short.isdigit():
            rest = _take(found.hosts, rest, host, short)
        for form in _ends(host):
            if len(form) >= 3 and ends.count(form) == 1:
                rest = _take(found.hosts, rest, host, form)
        number = re.search(r"(\d+)$", name.split(".")[0])
        if number and sum(plain(other).split(".")[0].endswith(number[1]) for other in known) == 1:
            rest = _take(
                found.hosts,
                rest,
                host,
                rf"(?:node|host|machine|knoten|rechner|box|server)[ #-]?0*{int(number[1])}",
                regex=True,
            )
    return rest


def _ends(host: str) -> list[str]:
    """What a host may be called for short, the longest first: "gpu-60" and, had it a letter, "60" for "atlas-gpu-60"."""
    parts = plain(host).split(".")[0].split("-")
    ends = ["-".join(parts[start:]) for start in range(1, len(parts))]
    return [end for end in ends if re.search(r"[a-z]", end) and re.search(r"\d", end)]


def _take(into: list[str], rest: str, host: str, form: str, *, regex: bool = False) -> str:
    pattern = rf"(?<![\w.-]){form if regex else re.escape(form)}(?![\w-])"
    if re.search(pattern, rest):
        if host not in into:
            into.append(host)
        return re.sub(pattern, " ", rest)
    return rest


def _lines(found: Slots, rest: str) -> str:
    told = _COUNT.search(rest)
    if told is None:
        return rest
    found.count = max(1, min(MAX_LINES, int(told["count"] or told["bare"])))
    return rest[: told.start()] + " last log " + rest[told.end() :]


def _times(found: Slots, rest: str) -> str:
    told = _TIME.search(rest) or _HOUR.search(rest)
    if told is None:
        return rest
    named = told.groupdict()
    hour = int(named["H"])
    half = named.get("half")
    if half in ("am", "pm") and 1 <= hour <= 12:
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23:
        return rest
    found.when = time(hour, int(named.get("M") or 0), int(named.get("S") or 0))
    if named.get("y"):
        try:
            found.day = datetime(int(named["y"]), int(named["m"]), int(named["d"]), tzinfo=UTC)
        except ValueError:
            return rest
    return f"{rest[: told.start()]} {rest[told.end() :]}"


def _ranks(found: Slots, rest: str) -> str:
    rest = _SPELT_RANK.sub(lambda told: f"{told[1]} {_SPELT.index(told[2])}", rest)
    for told in _RANKS.finditer(rest):
        found.ranks.append(int(told["first"]))
        for more in _MORE.finditer(told["more"]):
            number = int(more["number"])
            if more["by"] and found.ranks[-1] < number <= found.ranks[-1] + _MOST_RANKS:
                found.ranks += range(found.ranks[-1] + 1, number + 1)
            else:
                found.ranks.append(number)
    found.ranks += [int(told["rank"]) for told in _ORDINAL.finditer(rest)]
    found.ranks = list(dict.fromkeys(found.ranks))
    return _ORDINAL.sub(" ", _RANKS.sub(" ", rest))
