"""From what somebody types to meanings: words, endings, typing errors, and the phrases that go together."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

_WORD = re.compile(r"[a-z0-9][a-z0-9'_.-]*[a-z0-9]|[a-z0-9]")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "’": "'", "`": " ", "´": "'"})
_ENDINGS = ("ing", "ed", "es", "s", "er", "en")
_STEM = 4  # letters of a word from which endings are taken off
_SLIPS = ((5, 1), (8, 2))  # from so many letters on, so many typing errors are understood
_LONGEST_PHRASE = 5
_POLITE = frozenset("please pls plz bitte can could would will you u just".split())
_OPENINGS = frozenset("ok okay so well now and but hey hi hm hmm ah oh right alright".split())


@dataclass(frozen=True, slots=True)
class Word:
    """A word or phrase of a question: what it may mean, and how much it counts where it is not what was meant."""

    text: str
    meanings: frozenset[str]
    idle: bool = False  # it may as well say nothing


class Vocabulary:
    """All forms that are known, by what they mean."""

    def __init__(self, meanings: Mapping[str, Mapping[str, object]], orders: str, common: str, fillers: str) -> None:
        self.weights: dict[str, float] = {}
        self._forms: dict[str, set[str]] = {}
        for meaning, said in meanings.items():
            self.weights[meaning] = float(str(said["weight"]))
            for form in str(said["forms"]).split(","):
                self._forms.setdefault(plain(form.strip()), set()).add(meaning)
        self._fillers = frozenset(plain(fillers).split())
        self.orders = frozenset(plain(orders).split())
        self.common = frozenset(plain(common).split())
        self._phrases = {form for form in self._forms if " " in form}
        self._by_length: dict[int, list[str]] = {}
        for form in self._forms:
            if " " not in form:
                self._by_length.setdefault(len(form), []).append(form)

    def is_order(self, tokens: list[str]) -> bool:
        """Whether the words ask for a deed instead of an answer."""
        said = [token for token in tokens if token not in _OPENINGS and token not in _POLITE]
        return bool(said) and said[0] in self.orders

    def words(self, tokens: list[str]) -> Iterator[Word]:
        """The words of a question, longest phrases first. Fillers are left out."""
        at = next((at for at, token in enumerate(tokens[:-1]) if token not in _OPENINGS), 0)
        while at < len(tokens):
            length = next(
                (
                    size
                    for size in range(min(_LONGEST_PHRASE, len(tokens) - at), 1, -1)
                    if " ".join(tokens[at : at + size]) in self._phrases
                ),
                1,
            )
            text = " ".join(tokens[at : at + length])
            at += length
            meanings = self._meanings(text)
            if not meanings and "-" in text:  # "re-run", "auto-restart": as one word, or by what stands behind
                meanings = self._meanings(text.replace("-", "")) or self._meanings(text.rpartition("-")[2])
            idle = text in self._fillers
            if meanings or not idle:
                yield Word(text, frozenset(meanings), idle)

    def _meanings(self, text: str) -> set[str]:
        if text in self._forms:
            return self._forms[text]
        if text in self._fillers or text in self.common or any(character.isdigit() for character in text):
            return set()
        for ending in _ENDINGS:
            stem = text.removesuffix(ending)
            if stem != text and len(stem) >= _STEM:
                for form in (stem, f"{stem}e", stem[:-1] if stem[-1] == stem[-2] else stem):
                    if form in self._forms:
                        return self._forms[form]
        return self._nearly(text)

    def _nearly(self, text: str) -> set[str]:
        """What somebody meant who mistyped; words that differ in their first letter are other words."""
        allowed = next((slips for least, slips in reversed(_SLIPS) if len(text) >= least), 0)
        best, found = allowed + 1, set[str]()
        for length in range(len(text) - allowed, len(text) + allowed + 1):
            for form in self._by_length.get(length, ()):
                if length < _STEM or form[0] != text[0]:
                    continue
                distance = slips(text, form, allowed)
                if distance < best:
                    best, found = distance, set(self._forms[form])
                elif distance == best and distance <= allowed:
                    found |= self._forms[form]
        return found if best <= allowed else set()


def plain(text: str) -> str:
    """Small letters without accents, `ä` as `ae`."""
    text = text.casefold().translate(_UMLAUTS)
    return "".join(one for one in unicodedata.normalize("NFKD", text) if not unicodedata.combining(one))


def tokens(text: str) -> list[str]:
    """The words of a plain text."""
    return [word.replace("'", "") for word in _WORD.findall(text)]


def slips(one: str, other: str, most: int) -> int:
    """Typing errors between two words: letters too many, too few, wrong, or swapped with their neighbour; `most` + 1: more."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for number, letter in enumerate(one, 1):
        older, before = before, row
        row = [number]
        for at, target in enumerate(other, 1):
            cost = min(before[at] + 1, row[-1] + 1, before[at - 1] + (letter != target))
            if number > 1 and at > 1 and letter == other[at - 2] and one[number - 2] == target:
                cost = min(cost, older[at - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]


@cache
def vocabulary() -> Vocabulary:
    """The vocabulary of `words.yaml`."""
    told = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text(encoding="utf-8"))
    return Vocabulary(told["meanings"], told["orders"], told["common"], told["fillers"])
