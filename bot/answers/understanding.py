"""Which of the questions that can be answered was asked, or none of them.

Every question is told by meanings. One that holds little else than the meanings of an intent is that intent; one with many
words that mean nothing here is not understood, since a list of what can be asked helps more than a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from bot.answers.slots import Slots, find_slots
from bot.answers.wording import Word, tokens, vocabulary

MAX_QUESTION = 600  # characters
ENOUGH = 0.62  # of the question's weight that an intent must explain
_LEAST = 0.5  # weight that an intent must find at all
_STRANGE = 0.9  # weight of a word that means nothing here
_HOMELY = 0.15  # weight of a word that asks nothing, and is one of this trade or of this failure
_ASIDE = 0.55  # share of a known word's weight that counts against an intent it does not belong to
_SLOTS = {"RANK": 0.9, "HOST": 0.9, "TIME": 0.8, "COUNT": 0.6, "LOG": 1.2, "TERM": 1.1}


@dataclass(frozen=True, slots=True)
class Intent:
    """Something that can be asked."""

    name: str
    title: str
    example: str
    asks: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Understood:
    """What a question was taken for; `intent` is empty where it was not understood."""

    intent: str
    slots: Slots
    meanings: frozenset[str] = frozenset()
    score: float = 0.0


@cache
def intents() -> Mapping[str, Intent]:
    """All intents of `intents.yaml`."""
    told = yaml.safe_load(Path(__file__).with_name("intents.yaml").read_text(encoding="utf-8"))
    return {
        name: Intent(name, said["title"], said["example"], tuple(frozenset(ask.split()) for ask in said["asks"]))
        for name, said in told.items()
    }


def understand(
    text: str,
    hosts: Iterable[str] = (),
    logs: Mapping[str, Iterable[str]] | None = None,
    terms: Callable[[str], list[str]] = lambda _: [],
    homely: Callable[[str], bool] = lambda _: False,
) -> Understood:
    """Find what is asked. `hosts` and `logs` (each with other words for it) are those of the incident.

    `terms` finds terms that can be explained. `homely` tells whether a word is one of this trade, or stands in what is known of this failure.
    """
    slots = find_slots(text[:MAX_QUESTION], hosts, logs or {}, terms)
    words = list(vocabulary().words(tokens(slots.rest)))
    meanings = frozenset[str]().union(*(word.meanings for word in words)) | slots.names
    scored = [
        (score, len(ask), name)
        for name, intent in intents().items()
        for ask in intent.asks
        if (score := _score(ask, words, slots.names, homely)) >= ENOUGH
    ]
    if not scored:
        return Understood("", slots, meanings)
    score, _, name = max(scored, key=lambda found: (found[0], found[1]))
    return Understood(name, slots, meanings, score)


def _score(ask: frozenset[str], words: list[Word], named: set[str], homely: Callable[[str], bool]) -> float:
    """The share of an intent's meanings and of the question's words that have found each other, by weight."""
    weights = vocabulary().weights
    met: set[str] = set()
    aside = 0.0
    for word in words:
        hits = word.meanings & ask
        if hits:
            met |= hits
        elif not word.idle:
            own = min((weights[meaning] for meaning in word.meanings), default=0.0)
            aside += _ASIDE * own if word.meanings else _HOMELY if homely(word.text) else _STRANGE
    for slot in named:
        if slot in ask:
            met.add(slot)
        else:
            aside += _ASIDE * _SLOTS[slot]
    found = sum(_weight(meaning) for meaning in met)
    wanted = sum(_weight(meaning) for meaning in ask)
    return found / (wanted + aside) if found >= _LEAST else 0.0


def _weight(meaning: str) -> float:
    return _SLOTS.get(meaning) or vocabulary().weights[meaning]
