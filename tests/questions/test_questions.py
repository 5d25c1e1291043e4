"""Questions as people ask them at night: the right answer to nine in ten, and no answer to what is none of our business."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.answers.answerer import Answerer, Question
from bot.answers.rendering import as_message, as_text
from bot.answers.reply import Reply
from bot.cli.ask import matter_of
from knowledge.reading.text import clean
from tests.slack import blockkit

FOLDER = Path(__file__).parent
CASES = FOLDER.parent / "cases"
ENOUGH = 0.9
NONE = "none"


@dataclass(frozen=True)
class Asked:
    """One question of the suite, what was answered, and what is wrong with it."""

    file: str
    case: str
    text: str
    expected: set[str]
    reply: Reply
    wrong: str

    @property
    def answerable(self) -> bool:
        return NONE not in self.expected


@cache
def _matter(case: str) -> Any:
    return matter_of(CASES / case)


def _judge(file: str, case: str, told: dict[str, Any]) -> Asked:
    reply = asyncio.run(Answerer().answer(Question(str(told["ask"]), _matter(case))))
    intents = told["intent"] if isinstance(told["intent"], list) else [told["intent"]]
    text = " ".join(as_text(reply, width=100).split()).casefold()
    wrong = [] if (reply.intent or NONE) in intents else [f"taken for {reply.intent or NONE}, not {intents}"]
    wrong += [f"lacks {fact!r}" for fact in told.get("has", ()) if str(fact).casefold() not in text]
    wrong += [f"holds {fact!r}" for fact in told.get("not", ()) if str(fact).casefold() in text]
    return Asked(file, case, str(told["ask"]), set(intents), reply, "; ".join(wrong))


def _ask_all() -> Iterator[Asked]:
    for path in sorted(FOLDER.glob("*.yaml")):
        for told in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield from (_judge(path.stem, told["case"], question) for question in told["questions"])


@pytest.fixture(scope="module")
def asked() -> list[Asked]:
    return list(_ask_all())


def _listed(found: list[Asked]) -> str:
    return "\n".join(f"{one.file}: {one.text!r}: {one.wrong}" for one in found)


def test_the_suite_is_large_and_over_many_cases(asked: list[Asked]) -> None:
    assert len(asked) >= 120
    assert len({one.file for one in asked if one.answerable}) >= 8


def test_nine_in_ten_are_answered_rightly(asked: list[Asked]) -> None:
    answerable = [one for one in asked if one.answerable]
    wrong = [one for one in answerable if one.wrong]
    assert len(wrong) <= (1 - ENOUGH) * len(answerable), _listed(wrong)


def test_what_cannot_be_answered_gets_the_list_of_what_can(asked: list[Asked]) -> None:
    wrong = [one for one in asked if not one.answerable and one.wrong]
    assert not wrong, _listed(wrong)


def test_every_answer_about_the_failure_cites_a_line(asked: list[Asked]) -> None:
    about = {"why", "timeline", "said", "log", "collateral", "blame", "sure"}
    bare = [one for one in asked if one.reply.intent in about and not one.reply.lines and not one.wrong]
    honest = (
        "nothing shows",
        "there is no rank",
        "no line of it is known",
        "no line is known",
        "none of them",
        "nothing of it has arrived",
    )
    speechless = [one for one in bare if not any(words in as_text(one.reply, width=100).casefold() for words in honest)]
    assert not speechless, _listed(speechless)


def test_every_answer_can_be_posted(asked: list[Asked]) -> None:
    faults = {
        one.text: found for one in asked if (found := blockkit.message_problems(as_message(one.reply).blocks, []))
    }
    assert not faults


def test_every_line_cited_stands_where_it_is_said_to(asked: list[Asked]) -> None:
    wrong = [
        (one.text, line.place)
        for one in asked
        for line in one.reply.lines
        if not set(_words(line.text)) <= set(_line(one.case, line.source, line.number).split())
    ]
    assert not wrong


@cache
def _lines(case: str, source: str) -> list[bytes]:
    return (CASES / case / "logs" / source).read_bytes().split(b"\n")


def _line(case: str, source: str, number: int) -> str:
    lines = _lines(case, source)
    return clean(lines[number - 1]) if 0 < number <= len(lines) else ""


def _words(text: str) -> list[str]:
    """Words that redaction, cutting and cleaning leave alone."""
    return [word for word in text.rstrip("…").split()[:12] if word.isalnum()][:6]
