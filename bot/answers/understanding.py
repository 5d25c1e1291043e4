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
ENOUGH = 0.5  # of the question's weight that an intent must explain
ENOUGH_ODD = 0.57  # the same where one word of the question means nothing here
ENOUGH_STRANGE = 0.62  # and where several do
_ELSEWHERE = frozenset({"elsewhere"})
_LEAST = 0.5  # weight that an intent must find at all
_STRANGE = 1.1  # weight of a word that means nothing here
_FAINT = 0.7  # of its weight that a meaning has where it rests on a word that may as well say nothing
_HOMELY = 0.15  # weight of a word that asks nothing, and is one of this trade or of this failure
_ASIDE = 0.55  # share of a known word's weight that counts against an intent it does not belong to
_WITH = {"RANK": ("rank",), "HOST": ("node",), "TIME": ("around", "time"), "LOG": ("log",), "COUNT": ("log", "last")}
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
    """All intents of `intents.yaml`. Raises ValueError where they use a meaning that nothing has."""
    told = yaml.safe_load(Path(__file__).with_name("intents.yaml").read_text(encoding="utf-8"))
    known = vocabulary().weights.keys() | _SLOTS.keys()
    found = {
        name: Intent(name, said["title"], said["example"], tuple(frozenset(ask.split()) for ask in said["asks"]))
        for name, said in told.items()
    }
    strange = {meaning for intent in found.values() for ask in intent.asks for meaning in ask} - known
    if strange:
        raise ValueError(f"intents.yaml uses meanings that words.yaml does not hold: {sorted(strange)}")
    return found


def understand(
    text: str,
    hosts: Iterable[str] = (),
    logs: Mapping[str, Iterable[str]] | None = None,
    terms: Callable[[str], list[str]] = lambda _: [],
    homely: Callable[[str], bool] = lambda _: False,
    told: Callable[[str], bool] = lambda _: False,
) -> Understood:
    """Find what is asked. `hosts` and `logs` (each with other words for it) are those of the incident.

    `terms` finds terms that can be explained. `told` tells whether a word stands in what is known of this failure, and
    `homely` whether it does or is one of this trade.
    """
    slots = find_slots(text[:MAX_QUESTION], hosts, logs or {}, terms)
    said = tokens(slots.rest)
    words = list(vocabulary().words(said))
    if vocabulary().is_order(said) or any(word.meanings == _ELSEWHERE and not told(word.text) for word in words):
        return Understood("", slots)
    named = slots.names
    meanings = frozenset[str]().union(*(word.meanings for word in words)) | named
    counted = [(word, _cost(word, slots, homely)) for word in words]
    strange = sum(cost == _STRANGE for _, cost in counted) + 2 * ("future" in meanings)
    enough = ENOUGH if not strange else ENOUGH_ODD if strange == 1 else ENOUGH_STRANGE
    scored = [
        (*score, name)
        for name, intent in intents().items()
        for ask in intent.asks
        if not ask.isdisjoint(meanings) and (score := _score(ask, counted, named))[0] >= enough
    ]
    if not scored:
        return Understood("", slots, meanings)
    best, _, intent_name = max(scored, key=lambda found: found[:2])
    if intent_name == "said" and slots.count is not None:
        intent_name = "log"
    return Understood(intent_name, slots, meanings, best)


def _cost(word: Word, slots: Slots, homely: Callable[[str], bool]) -> float:
    """What a word counts against intents that it does not belong to."""
    if word.idle or word.meanings & _implied(slots):
        return 0.0
    if not word.meanings and any(word.text in term.split() for term in slots.terms):
        return 0.0
    if word.meanings:
        return _ASIDE * min(vocabulary().weights[meaning] for meaning in word.meanings)
    return _HOMELY if word.text in vocabulary().common or homely(word.text) else _STRANGE


def _implied(slots: Slots) -> set[str]:
    """Meanings that a name carries with it: "the node gpu-n17", "at 03:12"."""
    return {meaning for name in slots.names for meaning in _WITH.get(name, ())}


def _score(ask: frozenset[str], words: list[tuple[Word, float]], named: set[str]) -> tuple[float, float]:
    """The share of an intent's meanings and of the question's words that have found each other, by weight; and that weight."""
    met: set[str] = set()
    faint: set[str] = set()
    aside = 0.0
    for word, cost in words:
        hits = word.meanings & ask
        if word.idle:
            faint |= hits
        else:
            met |= hits
        aside += 0.0 if hits else cost
    for slot in named:
        if slot in ask:
            met.add(slot)
        else:
            aside += _HOMELY if slot == "TERM" else _ASIDE * _SLOTS[slot]
    found = sum(map(_weight, met)) + _FAINT * sum(map(_weight, faint - met))
    wanted = _wanted(ask)
    return (found / (wanted + aside) if found >= _LEAST else 0.0), found


@cache
def _wanted(ask: frozenset[str]) -> float:
    return sum(map(_weight, ask))


def _weight(meaning: str) -> float:
    return _SLOTS.get(meaning) or vocabulary().weights[meaning]
