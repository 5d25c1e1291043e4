"""A reply fits Slack whatever it holds, and shows log lines as they are."""

from __future__ import annotations

import json

from bot.answers.rendering import as_message, as_text
from bot.answers.reply import Command, Line, Quotes, Reply, Steps, Words
from tests.slack import blockkit

LONG = tuple(Line(f"n{number}/rank-{number}.log", number + 1, "<!channel> & <b> " * 100) for number in range(200))


def test_a_huge_reply_is_cut_to_what_slack_takes() -> None:
    reply = Reply(
        "log",
        (
            Words("x" * 50_000),
            Quotes(LONG, "Lines", run=True),
            Steps(("y" * 9000,) * 50),
            Command("z" * 9000, "w" * 9000),
        ),
    )
    message = as_message(reply)
    assert len(json.dumps(message.blocks)) <= 12_000
    assert len(message.text) <= 4_000
    assert blockkit.message_problems(message.blocks, []) == []


def test_of_consecutive_lines_the_last_ones_stay() -> None:
    message = as_message(Reply("log", (Quotes(LONG, run=True),)))
    shown = json.dumps(message.blocks)
    assert "n199/rank-199.log:200" in shown
    assert "n0/rank-0.log:1 " not in shown
    assert "more lines" in shown


def test_lines_stand_in_preformatted_text_with_their_place() -> None:
    message = as_message(Reply("why", (Quotes((Line("rank-3.log", 12, "it <died> & *fell*"),)),)))
    [element] = [part for part in message.blocks[0]["elements"] if part["type"] == "rich_text_preformatted"]
    assert element["elements"] == [{"type": "text", "text": "rank-3.log:12  it <died> & *fell*"}]
    assert "<died>" not in message.text


def test_only_people_who_are_meant_are_named() -> None:
    message = as_message(Reply("owner", (Words("by @U0ALICE, not @U0BOSS", people=("U0ALICE",)),)))
    parts = message.blocks[0]["elements"][0]["elements"]
    assert {"type": "user", "user_id": "U0ALICE"} in parts
    assert [part for part in parts if part["type"] == "user"] == [{"type": "user", "user_id": "U0ALICE"}]


def test_a_terminal_gets_no_control_characters() -> None:
    text = as_text(Reply("log", (Quotes((Line("a.log", 1, "\x1b[31mred\x07\u202e"),)),)))
    assert "\x1b" not in text
    assert "a.log:1  red" in text
