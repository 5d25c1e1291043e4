"""Terms that can be explained: our own words, the catalogue's entries and causes, and the numbers of drivers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import yaml

from bot.answers.wording import plain, tokens
from knowledge.catalogue import load_catalogue
from knowledge.causes import load_causes

_ASKING = re.compile(
    r"\b(?:means?|meaning|meant|define|definition|bedeutet|bedeuten|heisst|explain|erklaer\w*|what is an?|what'?s an?|was ist ein\w*)\b"
)
_NUMBERS = re.compile(
    r"\bs?xid[ :#=-]*\d{1,6}\b|\bcuda(?:[ _-]?(?:error|failure|code))[ :#=-]*\d{1,4}\b|\bcuda[ _-]\d{3}\b|\bcudaerror[a-z]\w+\b"
)
_EMPTY = frozenset(
    "does do this that the a an it is are was in of to me us please pls was das der die what whats".split()
)
_ID = re.compile(r"\b[a-z0-9]+(?:-[a-z0-9]+)+\b")


@cache
def _terms() -> Mapping[str, Mapping[str, str]]:
    told = yaml.safe_load(Path(__file__).with_name("terms.yaml").read_text(encoding="utf-8"))
    return {kind: {plain(term): text for term, text in terms.items()} for kind, terms in told.items()}


def glossary(term: str) -> str:
    """What our own words mean; empty: not one of them."""
    term = plain(term)
    return _terms()["strong"].get(term) or _terms()["weak"].get(term) or ""


def find_terms(text: str) -> list[str]:
    """The terms in a plain text that can be explained, the longest first where they overlap."""
    found = [told[0] for told in _NUMBERS.finditer(text)]
    known = load_catalogue().entries.keys() | load_causes().keys()
    found += [told[0] for told in _ID.finditer(text) if told[0] in known]
    kinds = ["strong"] + (["weak"] if _ASKING.search(text) else [])
    rest = text
    for term in sorted((term for kind in kinds for term in _terms()[kind]), key=len, reverse=True):
        if re.search(rf"(?<![\w-]){re.escape(term)}(?![\w-])", rest):
            found.append(term)
            rest = rest.replace(term, " ")
    if not found and _ASKING.search(text) and (phrase := _told_of(text)):
        found.append(phrase)
    return [term for term in dict.fromkeys(found) if not any(term != other and term in other for other in found)]


def _told_of(text: str) -> str:
    """The words behind the question that all stand in one entry's title or messages, if there are at least two."""
    words = [word for word in tokens(_ASKING.sub(" ", text)) if word not in _EMPTY and not word.isdigit()]
    if len(words) < 2:
        return ""
    for told in _messages():
        if all(f" {word}" in told for word in words):
            return " ".join(words)
    return ""


@cache
def _messages() -> tuple[str, ...]:
    """Title and messages of every entry, as words with a blank before each."""
    texts = (f"{entry.title} {entry.id.replace('-', ' ')} {' '.join(entry.literals)}" for entry in load_catalogue())
    return tuple(f" {' '.join(tokens(plain(text)))}" for text in texts)


@cache
def trade() -> frozenset[str]:
    """Words of this trade: those of the catalogue's titles and messages."""
    texts = [f"{entry.title} {' '.join(entry.literals)}" for entry in load_catalogue()]
    texts += [f"{cause.title} {cause.layer}" for cause in load_causes().values()]
    return frozenset(word for text in texts for word in tokens(plain(text)))
