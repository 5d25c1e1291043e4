"""The digest as people read it, and as Slack accepts it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from slack_sdk.models.blocks import Block

from bot.digest import advice
from bot.digest.advice import Advice
from bot.digest.message import Setting, render
from bot.digest.numbers import Numbers, count
from bot.slack.contract import Posted, SlackMessage
from bot.slack.poster import wire
from bot.slack.terminal import as_text
from storage.database import Database
from storage.history import Histories
from storage.past import Failure, OpenEpisode, Period, Span
from tests.digest.test_numbers import SPAN, of_week
from tests.digest.week import CHANNEL, MONDAY_AFTER, ZURICH
from tests.slack import blockkit
from tests.slack.test_escape import HOSTILE

SETTING = Setting(MONDAY_AFTER, CHANNEL)
FIRST = (
    "Drain and check gpu-n17. 4 of the 30 failures are put down to it (GPU fell off the bus) and took"
    " 4,096 of 5,242 GPU-hours. It is with bob."
)
SMALL_PRINT = (
    "1 verdict judged wrong and 1 false alarm. GPU-hours are ranks times run time of failed attempts,"
    " checkpoints not deducted; 3 attempts without known ranks or times are left out."
)


def accepted(message: SlackMessage) -> None:
    """Fail unless Slack's limits, and the SDK's own validator where it knows the block, are content."""
    content = wire(message)
    assert content["attachments"] == []
    assert blockkit.problems(content["blocks"]) == []
    assert blockkit.message_problems(content["blocks"], []) == []
    assert len(json.dumps(message.blocks, ensure_ascii=False)) <= 12_000
    assert len(message.blocks) <= 12
    assert 0 < len(message.text) <= 4_000
    for block in message.blocks:
        parsed = Block.parse(block)
        if parsed is not None:  # charts are younger than the SDK
            parsed.validate_json()


def inert(message: SlackMessage) -> None:
    """Fail if anything is live: a digest mentions nobody."""
    assert blockkit.live(message.text) == []
    for text in blockkit.parsed_texts(message.blocks):
        assert blockkit.live(text) == []


async def week(database: Database) -> tuple[Period, Numbers]:
    period = await Histories(database).period(SPAN, CHANNEL)
    return period, count(period, ZURICH)


async def test_the_week_in_letters(filled: Database) -> None:
    period, numbers = await week(filled)
    message = render(numbers, advice.first(period), replace(SETTING, native=False))
    accepted(message)
    assert as_text(message, width=10_000).split("\n") == [
        "| 📊 30 training failures, 16–22 Nov: 25 more than the week before",
        "|",
        f"| Do first: {FIRST}",
        "|",
        "| GPU-hours lost: at least 5,242, 3,954 more than the week before",
        "| Kinds of failure: 2 new, 4 seen before, 2 failures unexplained",
        "| Still open: 5, the oldest for 7 d, 3 of them nobody’s",
        "| How fast people were: 21 m to acknowledge (median of 4), 3 h to resolve (median of 3)",
        "|",
        "| Failures a day",
        "|     Mon 16  ███████ 2 (before: 2)",
        "|     Tue 17  ██████████████ 4 (before: 1)",
        "|     Wed 18  █████████████████████ 6 (before: 1)",
        "|     Thu 19  ████████████████████████ 7 (before: 0)",
        "|     Fri 20  █████████████████████ 6 (before: 0)",
        "|     Sat 21  ███████ 2 (before: 0)",
        "|     Sun 22  ██████████ 3 (before: 1)",
        "|",
        "| Causes",
        "|     Cause                       Failures  Before  GPU-hours    New?",
        "|     GPU fell off the bus               4       1      4,096      no",
        "|     Network link went down             6       2        768      no",
        "|     GPU out of memory                  8       0        256     yes",
        "|     Cause not established              2       0         96       –",
        "|     Uncaught exception in the…         7       1         26  1 of 2",
        "|     Disk full                          3       1    unknown      no",
        "|",
        "| Nodes that began them",
        "|   - gpu-n17 began 4 failures, 4,096 GPU-hours: GPU fell off the bus, the node is suspect",
        "|   - gpu-n05 began 2 failures, 256 GPU-hours: Network link went down",
        "|   - gpu-n02 began 2 failures, 64 GPU-hours: GPU out of memory",
        "| Still open",
        "|   - vit-large (2000): GPU out of memory (8 times), open for 6 d, nobody’s yet (job of bob)",
        "|   - whisper (6000): Cause not established, open for 5 d 15 h, nobody’s yet (job of frank)",
        "|   - whisper (7000): Cause not established, open for 1 d 15 h, nobody’s yet (job of frank)",
        "|   - llama-70b (1000): GPU fell off the bus (4 times), open for 7 d, acknowledged by bob (job of alice)",
        "|   - eval (5000): Disk full (3 times), open for 13 h, assigned to carol (job of erin)",
        "|",
        f"| {SMALL_PRINT}",
    ]


async def test_the_week_with_slacks_own_chart_and_table(filled: Database) -> None:
    period, numbers = await week(filled)
    message = render(numbers, advice.first(period), SETTING)
    accepted(message)
    inert(message)
    assert [block["type"] for block in message.blocks] == [
        "header",
        "rich_text",
        "section",
        "data_visualization",
        "table",
        "rich_text",
        "context",
    ]
    chart = message.blocks[3]["chart"]
    assert chart["axis_config"]["categories"] == [
        "Mon 16",
        "Tue 17",
        "Wed 18",
        "Thu 19",
        "Fri 20",
        "Sat 21",
        "Sun 22",
    ]
    drawn = {series["name"]: [point["value"] for point in series["data"]] for series in chart["series"]}
    assert drawn == {"16–22 Nov": [2, 4, 6, 7, 6, 2, 3], "9–15 Nov": [2, 1, 1, 0, 0, 0, 1]}
    assert [cell["text"] for cell in message.blocks[4]["rows"][1]] == ["GPU fell off the bus", "4", "1", "4,096", "no"]


async def test_open_failures_link_to_their_message_in_this_channel_alone(filled: Database) -> None:
    _, numbers = await week(filled)

    def link(posted: Posted) -> str:
        return f"https://example.test/{posted.channel}/{posted.ts}"

    message = render(numbers, None, replace(SETTING, link=link))
    accepted(message)
    assert f"https://example.test/{CHANNEL}/" in json.dumps(message.blocks)
    elsewhere = render(numbers, None, replace(SETTING, channel="C0OTHER", link=link))
    assert "https://example.test" not in json.dumps(elsewhere.blocks)


def numbers_of(failures: Sequence[Failure], opened: Sequence[OpenEpisode] = ()) -> Numbers:
    period = Period(SPAN, list(failures), [], open=list(opened), open_count=len(opened))
    return count(period, ZURICH)


def failure(number: int = 1, **more: Any) -> Failure:
    values: dict[str, Any] = {
        "incident_id": f"i{number}",
        "episode_id": f"e{number}",
        "at": SPAN.start + timedelta(hours=1),
        "cluster": "alps",
        "job_id": str(number),
        "name": "llama",
        "attempt": 0,
        "owner": "alice",
        "cause": "gpu-oom",
        "fingerprint": f"f{number}",
        "ranks": 8,
        "started_at": SPAN.start,
        "ended_at": SPAN.start + timedelta(hours=1),
        "state": "open",
    }
    return Failure(**{**values, **more})


def opened(number: int = 1, **more: Any) -> OpenEpisode:
    values: dict[str, Any] = {
        "id": f"e{number}",
        "cause": "gpu-oom",
        "fingerprint": f"f{number}",
        "channels": (CHANNEL,),
        "opened_at": SPAN.start,
        "last_at": SPAN.start,
        "acknowledged_by": None,
        "assignee": None,
        "handler": None,
        "name": "llama",
        "job_id": str(number),
        "owner": "alice",
    }
    return OpenEpisode(**{**values, **more})


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("native", [True, False])
def test_hostile_names_are_inert_and_fit(text: str, native: bool) -> None:
    failures = [
        failure(
            number, name=text, job_id=text, owner=text, cause=text + str(number % 9), initiating=(text + str(number),)
        )
        for number in range(60)
    ]
    waiting = [opened(number, name=text, job_id=text, owner=text, handler=text, assignee="U1") for number in range(60)]
    numbers = numbers_of(failures, waiting)
    message = render(numbers, Advice(text, text), replace(SETTING, native=native))
    accepted(message)
    inert(message)


def test_one_failure_needs_no_chart() -> None:
    message = render(numbers_of([failure()]), None, SETTING)
    accepted(message)
    assert [block["type"] for block in message.blocks] == ["header", "section", "table", "context"]
    assert message.text.startswith("📊 1 training failure, 16–22 Nov: 1 more than the week before")


def test_rare_causes_share_a_row() -> None:
    failures = [failure(number, cause=f"cause-{number}", ranks=100 - number) for number in range(9)]
    rows = next(block for block in render(numbers_of(failures), None, SETTING).blocks if block["type"] == "table")[
        "rows"
    ]
    assert [cell["text"] for cell in rows[-1]] == ["3 other causes", "3", "0", "279", "–"]
    assert len(rows) == 8


def test_an_empty_week_is_one_line_whatever_is_still_open() -> None:
    message = render(numbers_of([], [opened()]), None, SETTING)
    accepted(message)
    assert message.text == "✅ No training failures, 16–22 Nov. 1 older failure is still open."


def advised(failures: Sequence[Failure], waiting: Sequence[OpenEpisode] = ()) -> Advice | None:
    return advice.first(Period(SPAN, list(failures), [], open=list(waiting)))


def test_what_costs_most_is_first() -> None:
    node = [failure(number, ranks=64, suspects=("gpu-n03",), cause="gpu-lost") for number in (1, 2)]
    kind = [failure(number, ranks=8, fingerprint="same") for number in (3, 4, 5)]
    found = advised([*node, *kind])
    assert found == Advice(
        "Drain and check gpu-n03",
        "2 of the 5 failures are put down to it (GPU fell off the bus) and took 128 of 152 GPU-hours.",
    )
    dear = [failure(number, ranks=80, fingerprint="same", owner=owner) for number, owner in ((3, "alice"), (4, "bob"))]
    assert advised([*node, *dear]) == Advice(
        "Fix “GPU out of memory”", "It came twice in jobs of alice and bob and took 160 of 288 GPU-hours."
    )


def test_what_is_resolved_needs_no_advice() -> None:
    done = [failure(number, suspects=("gpu-n03",), state="resolved") for number in (1, 2)]
    assert advised(done) is None


def test_what_everybody_forgot_is_first_where_nothing_comes_back() -> None:
    found = advised([failure(state="resolved")], [opened(1), opened(2)])
    assert found is not None
    assert found.do == "Give “GPU out of memory” in llama (1) to somebody"
    assert found.why == "It has been open for 7 d and is nobody's. So is one more."


def test_else_the_dearest_failure_is_looked_at() -> None:
    found = advised([failure(1), failure(2, ranks=100, initiating=("gpu-n01",))])
    assert found is not None
    assert found.do == "Look at llama (2)"
    assert found.why.startswith(
        "“GPU out of memory” on gpu-n01 is the dearest failure that is not resolved and took 100 of"
    )


def test_a_span_over_the_end_of_a_month_names_both() -> None:
    span = Span(*(datetime(2026, 9, 28, tzinfo=UTC) + timedelta(days=days) for days in (0, 7, -7, 0)))
    numbers = count(Period(span, [failure(at=span.start)], []), ZURICH)
    assert render(numbers, None, SETTING).text.startswith("📊 1 training failure, 28 Sep – 5 Oct")


async def test_numbers_agree_with_the_database(filled: Database) -> None:
    assert (await week(filled))[1] == await of_week(filled)
