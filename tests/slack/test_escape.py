"""Whatever a log holds, nothing in Slack becomes live, invisible, endless or broken."""

from __future__ import annotations

import html
import random
import re

import pytest

from bot.slack.escape import ELLIPSIS, clean, code, cut, link, literal, mrkdwn
from tests.slack.blockkit import live

HOSTILE = {
    "broadcast": "<!channel> <!here> <!everyone|everyone>",
    "user": "<@U123> lost",
    "group": "<!subteam^S123|oncall>",
    "channel": "<#C123|general>",
    "link": "<https://evil.example.test|scontrol update>",
    "date": "<!date^1392734382^{date}|now>",
    "fence": "``` <!channel> ```",
    "entity": "&lt;!channel&gt; & &amp;",
    "ansi": "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example.test\x07click\x1b]8;;\x07 \x9b1mbold",
    "right-to-left": "abc\u202egnp.exe\u2066x\u2069",
    "zero width": "<\u200b!chan\u200dnel> a\ufeffb\u00adc\U000e0041",
    "control": "a\x00b\x07c\x7fd\x85e",
    "split by control": "<\x00!channel>",
    "split by ansi": "<\x1b[0m!channel>",
    "surrogate": "half \ud83d pair",
    "separators": "one\u2028two\u2029three",
    "one line of 100 kB": "x" * 100_000,
    "100 kB of entities": "<&>" * 33_000,
    "unfinished escape": "tail \x1b[",
    "empty": "",
}
INVISIBLE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("limit", [1, 2, 7, 80, 3_000])
def test_mrkdwn_is_inert_and_within_its_limit(text: str, limit: int) -> None:
    shown = mrkdwn(text, limit)
    assert live(shown) == []
    assert "<" not in shown
    assert len(shown) <= limit
    assert not INVISIBLE.search(shown)
    assert re.sub(r"&(?:amp|lt|gt);", "", shown).count("&") == 0  # no entity is cut in two
    shown.encode()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_a_person_reads_is_the_clean_text(text: str) -> None:
    assert html.unescape(mrkdwn(text, 1_000_000)) == literal(text, 1_000_000)


def test_random_mixtures_of_all_of_it_stay_inert() -> None:
    dice = random.Random(20261130)
    pieces = [*HOSTILE.values(), "<", ">", "&", "!", "@", "#", "`", "|", "\n", " ", "\x1b", "ok"]
    for _ in range(2_000):
        text = "".join(piece[:40] for piece in dice.choices(pieces, k=12))
        limit = dice.randrange(1, 200)
        shown = mrkdwn(text, limit, lines=3)
        assert live(shown) == []
        assert len(shown) <= limit
        assert shown.count("\n") <= 3
        assert not INVISIBLE.search(shown)


def test_already_escaped_text_is_shown_as_it_was_written() -> None:
    assert mrkdwn("&lt;!channel&gt;", 100) == "&amp;lt;!channel&amp;gt;"


def test_colours_go_and_words_stay() -> None:
    assert clean("\x1b[1;31mRuntimeError\x1b[0m: \x1b[38;5;9mboom\x1b[m") == "RuntimeError: boom"


def test_cleaning_cannot_assemble_a_terminal_sequence() -> None:
    assert "\x1b" not in clean("\x1b\x1b[31m[31mred")


@pytest.mark.parametrize("text", ["`", "``` rm -rf ```", "a`b", "``"])
def test_backticks_cannot_end_a_code_span(text: str) -> None:
    span = code(text, 100)
    assert span.startswith("`")
    assert span.endswith("`")
    assert "`" not in span[1:-1]


def test_long_text_is_cut_at_a_word_and_says_so() -> None:
    assert cut("the quick brown fox jumps", 18) == f"the quick brown{ELLIPSIS}"
    assert cut("x" * 50, 10) == "x" * 9 + ELLIPSIS
    assert cut("short", 10) == "short"


def test_lines_beyond_the_limit_are_marked() -> None:
    assert literal("a\n\nb\nc\nd", 100, lines=2) == f"a\nb\n{ELLIPSIS}"


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "https://a.test/>|<!channel>",
        "http://a.test/ b",
        "file:///etc/passwd",
        "https://" + "a" * 4_000,
    ],
)
def test_only_plain_web_addresses_become_links(url: str) -> None:
    assert link(url, "Incident") == "Incident"


def test_a_link_escapes_what_it_shows() -> None:
    assert link("https://a.test/?x=1&y=2", "<!channel>|b") == "<https://a.test/?x=1&amp;y=2|&lt;!channel&gt;/b>"
