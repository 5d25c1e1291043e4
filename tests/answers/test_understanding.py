"""From wording to meaning: names are found, slips are forgiven, and strange questions stay strange."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import Any

import pytest

from bot.answers.slots import Slots, find_slots
from bot.answers.terms import find_terms
from bot.answers.understanding import intents, understand
from bot.answers.wording import slips

HOSTS = ["gpu-n17", "gpu-n18", "node-b.cluster.local", "ip-10-0-0-7"]
LOGS: dict[str, tuple[str, ...]] = {"rank-3.log": (), "n1/kern.log": ("kernel", "dmesg")}


def _slots(text: str) -> Slots:
    return find_slots(text, HOSTS, LOGS, find_terms)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("what did rank 3 say", "ranks", [3]),
        ("r3 r12", "ranks", [3, 12]),
        ("rk #7 pls", "ranks", [7]),
        ("ranks 3, 5 and 9", "ranks", [3, 5, 9]),
        ("ranks 8-11", "ranks", [8, 9, 10, 11]),
        ("rank three", "ranks", [3]),
        ("the 7th rank", "ranks", [7]),
        ("rang 4", "ranks", [4]),
        ("what happened on gpu-n17?", "hosts", ["gpu-n17"]),
        ("GPU-N17 dead?", "hosts", ["gpu-n17"]),
        ("n18 ok?", "hosts", ["gpu-n18"]),
        ("node-b", "hosts", ["node-b.cluster.local"]),
        ("show rank-3.log", "logs", ["rank-3.log"]),
        ("dmesg please", "logs", ["n1/kern.log"]),
        ("last 20 lines", "count", 20),
        ("tail -n 50 rank 3", "count", 50),
        ("die letzten 7 zeilen", "count", 7),
        ("around 03:12", "when", time(3, 12)),
        ("at 3:12:07 pm", "when", time(15, 12, 7)),
        ("at 4 am", "when", time(4)),
        ("what is xid 79", "terms", ["xid 79"]),
        ("explain the oom killer", "terms", ["oom killer"]),
    ],
)
def test_what_is_named_is_found(text: str, name: str, value: Any) -> None:
    assert getattr(_slots(text), name) == value


@pytest.mark.parametrize("text", ["error 404", "step 3000", "version 2.1.0", "48213", "2 gpus"])
def test_numbers_that_name_no_rank_are_none(text: str) -> None:
    assert _slots(text).ranks == []


def test_a_time_of_day_is_the_one_nearest_to_the_failure() -> None:
    died = datetime(2026, 3, 2, 0, 10, tzinfo=UTC)
    assert _slots("what happened at 23:55?").moment(died) == datetime(2026, 3, 1, 23, 55, tzinfo=UTC)


@pytest.mark.parametrize(
    ("one", "other", "count"), [("restrat", "restart", 1), ("timline", "timeline", 1), ("rank", "rank", 0)]
)
def test_slips_are_counted(one: str, other: str, count: int) -> None:
    assert slips(one, other, 2) == count


def test_words_that_are_far_apart_are_not_slips() -> None:
    assert slips("weather", "whether", 1) == 2


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("rstart ok", "restart"),
        ("timelin", "timeline"),
        ("how do i verfy", "verify"),
        ("colateral?", "collateral"),
        ("whcih ranks are victms", "collateral"),
        ("alternatvies", "else"),
    ],
)
def test_typing_errors_are_forgiven(text: str, intent: str) -> None:
    assert understand(text).intent == intent


def test_every_example_that_people_are_shown_is_understood_as_what_it_stands_for() -> None:
    taken = {intent.name: understand(intent.example, HOSTS, LOGS, find_terms).intent for intent in intents().values()}
    assert taken == {name: name for name in taken}


@pytest.mark.parametrize(
    "text", ["", "   ", "?", "🙂", "\x00\x01", "lorem ipsum dolor", "the of and", "1234567890" * 100]
)
def test_what_says_nothing_is_not_understood(text: str) -> None:
    assert understand(text).intent == ""
