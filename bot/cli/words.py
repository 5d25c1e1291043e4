"""Finding entries by words, as one remembers a message: any order, other endings, a typing error here and there."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from knowledge.signature import Signature

_WORD = re.compile(r"[a-z]+|\d+")
_EMPTY = frozenset("a an and are at be by for from in is it no not of on or that the to was what when why with".split())
_MAX_WORDS = 40
_PREFIX = 4  # letters from which the beginning of a word is enough


def words_of(text: str) -> list[str]:
    """The words and numbers of a text, in small letters, without those that say nothing."""
    return [word for word in _WORD.findall(text.lower()) if word not in _EMPTY]


@dataclass(frozen=True, slots=True)
class Result:
    """An entry, how many of the words it holds, and how telling they are there."""

    entry: Signature
    matched: int
    score: float


class Index:
    """All entries by the words that stand in them."""

    def __init__(self, entries: Iterable[Signature], layers: Mapping[str, str]) -> None:
        self._entries = {entry.id: entry for entry in entries}
        self._weights: dict[str, dict[str, float]] = defaultdict(dict)
        for entry in self._entries.values():
            for word, weight in _weights(entry, layers.get(entry.id, "")).items():
                self._weights[word][entry.id] = weight
        self._vocabulary = sorted(self._weights)

    def search(self, text: str) -> list[Result]:
        """Entries that hold the words of `text`, those with most of them and the most telling ones first."""
        scores: defaultdict[str, float] = defaultdict(float)
        matched: Counter[str] = Counter()
        for word in dict.fromkeys(words_of(text)[:_MAX_WORDS]):
            best: dict[str, float] = {}
            for form, likeness in self._forms(word):
                holders = self._weights[form]
                rarity = math.log(1 + len(self._entries) / len(holders))
                for entry, weight in holders.items():
                    best[entry] = max(best.get(entry, 0.0), weight * rarity * likeness)
            for entry, score in best.items():
                scores[entry] += score
                matched[entry] += 1
        ranked = sorted(scores, key=lambda entry: (-matched[entry], -scores[entry], entry))
        return [Result(self._entries[entry], matched[entry], scores[entry]) for entry in ranked]

    def _forms(self, word: str) -> list[tuple[str, float]]:
        """The words of the catalogue that `word` may mean, each with how alike the two are (1: the same)."""
        forms = [(word, 1.0)] if word in self._weights else []
        if len(word) >= _PREFIX and word.isalpha():
            stem = word.rstrip("s")
            forms += [(other, 0.7) for other in self._vocabulary if other != word and other.startswith(stem)]
            if not forms:
                forms = [(other, 0.5) for other in get_close_matches(word, self._vocabulary, n=3, cutoff=0.8)]
        return forms


def _weights(entry: Signature, layer: str) -> dict[str, float]:
    """How much each word says about the entry."""
    weights: dict[str, float] = {}
    texts = [
        (4.0, entry.id),
        (4.0, entry.title),
        (2.0, f"{entry.cause} {layer}"),
        (2.0, " ".join([*entry.literals, *(sample.text for sample in entry.samples.match)])),
        (1.5, entry.summary),
        (1.0, " ".join([entry.mechanism, entry.is_not, entry.discriminator, *entry.fix])),
    ]
    for weight, text in texts:
        for word in words_of(text):
            weights[word] = max(weights.get(word, 0.0), weight)
    return weights
