"""The digest as a Slack message: what to do first, the numbers, a chart, a table, and what is still open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from bot.digest import phrases, words
from bot.digest.advice import Advice
from bot.digest.numbers import Numbers
from bot.digest.tables import MAX_CAUSES, Table, bars, causes
from bot.slack import rich
from bot.slack.contract import Block, Posted, SlackMessage
from bot.slack.escape import literal, mrkdwn
from storage.past import OpenEpisode

MAX_NODES = 5
MAX_OPEN = 5
WORTH_A_CHART = 5  # failures, of both spans together
NATIVE = frozenset({"data_visualization", "table"})
"""Blocks that an older workspace may refuse."""

_PLAIN = "digest-plain"  # the mark of a message that does without them

Link = Callable[[Posted], str | None]
"""From where a message stands to its address."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how a digest is shown. `native`: with charts and tables. `late`: when it should have come."""

    now: datetime
    channel: str | None = None
    native: bool = True
    late: datetime | None = None
    link: Link = lambda _posted: None


def render(numbers: Numbers, advice: Advice | None, setting: Setting) -> SlackMessage:
    """Return the message; one line where nothing failed."""
    if numbers.failures == 0:
        return _empty(numbers, setting)
    headline = f"📊 {words.headline(numbers)}"
    blocks = [
        rich.header(headline),
        *([_first(advice)] if advice else []),
        _fields(numbers, setting.now),
        *_chart(numbers, native=setting.native),
        *_causes(numbers, native=setting.native),
        *_lists(numbers, setting),
        rich.context(mrkdwn(" ".join(_small_print(numbers, setting)), 1_000)),
    ]
    if not setting.native:
        blocks[0]["block_id"] = _PLAIN
    return SlackMessage(text=_story(headline, numbers, advice, setting), blocks=blocks, colour="")


def is_plain(blocks: list[Block]) -> bool:
    """Whether a digest did without charts and tables although it had something to show."""
    return any(block.get("block_id") == _PLAIN for block in blocks)


def is_native(blocks: list[Block]) -> bool:
    """Whether a message holds blocks that an older workspace may refuse."""
    return any(block.get("type") in NATIVE for block in blocks)


def _empty(numbers: Numbers, setting: Setting) -> SlackMessage:
    text = mrkdwn(" ".join([f"✅ {words.nothing(numbers)}", *_late(setting)]), 1_000)
    block: Block = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
    return SlackMessage(text=text, blocks=[block], colour="")


def _first(advice: Advice) -> Block:
    do, why = literal(advice.do, 300), literal(advice.why, 600)
    return rich.rich_text(rich.section(rich.plain("Do first: "), rich.bold(f"{do}."), rich.plain(f" {why}")))


def _fields(numbers: Numbers, now: datetime) -> Block:
    fields = [
        {"type": "mrkdwn", "text": f"*{name}*\n{mrkdwn(value, 300, lines=2)}"}
        for name, value in words.facts(numbers, now)
    ]
    return {"type": "section", "fields": fields}


def _chart(numbers: Numbers, *, native: bool) -> list[Block]:
    if numbers.failures + numbers.before < WORTH_A_CHART or len(numbers.bars) < 2:
        return []
    title, labels = words.chart_title(numbers), words.bar_labels(numbers)
    if not native:
        shown = "\n".join(bars(labels, numbers.bars))
        return [rich.rich_text(rich.section(rich.bold(title)), rich.preformatted(shown))]
    series = [
        (words.series(numbers), [bar.now for bar in numbers.bars]),
        (words.series_before(numbers), [bar.before for bar in numbers.bars]),
    ]
    chart = {
        "type": "bar",
        "series": [
            {
                "name": name,
                "data": [{"label": label, "value": value} for label, value in zip(labels, values, strict=True)],
            }
            for name, values in series
        ],
        "axis_config": {"categories": labels, "y_label": "Failures"},
    }
    return [{"type": "data_visualization", "title": title, "chart": chart}]


def _causes(numbers: Numbers, *, native: bool) -> list[Block]:
    table = causes(numbers)
    if native:
        return [_native(table)]
    return [rich.rich_text(rich.section(rich.bold("Causes")), rich.preformatted("\n".join(table.lines(34))))]


def _native(table: Table) -> Block:
    settings = [{"is_wrapped": True} if number == 0 else {"align": "right"} for number in range(len(table.header))]
    rows = [
        [{"type": "raw_text", "text": literal(cell, 100) or "–"} for cell in row] for row in (table.header, *table.rows)
    ]
    return {"type": "table", "column_settings": settings, "rows": rows}


def _lists(numbers: Numbers, setting: Setting) -> list[Block]:
    elements: list[rich.Element] = []
    if numbers.nodes:
        items = [
            [rich.bold(literal(node.host, 100)), rich.plain(f" {literal(words.node(node), 300)}")]
            for node in numbers.nodes[:MAX_NODES]
        ]
        hidden = words.more(len(numbers.nodes) - MAX_NODES, "node")
        elements += _listed("Nodes that began them", items, hidden)
    if numbers.open:
        opened = [_open(episode, setting) for episode in words.pressing(numbers, MAX_OPEN)]
        hidden = words.more(numbers.open_count - MAX_OPEN, "failure")
        elements += _listed("Still open", opened, hidden)
    return [rich.rich_text(*elements)] if elements else []


def _listed(heading: str, items: list[list[rich.Element]], hidden: str) -> list[rich.Element]:
    shown = [*items, [rich.plain(hidden)]] if hidden else items
    return [rich.section(rich.bold(heading)), rich.listing("bullet", shown)]


def _open(episode: OpenEpisode, setting: Setting) -> list[rich.Element]:
    name = literal(words.job(episode), 200)
    place = next((each for each in episode.messages if setting.channel in (None, each[0])), None)
    address = setting.link(Posted(*place)) if place else None
    shown: rich.Element = {"type": "link", "url": address, "text": name} if address else rich.bold(name)
    return [shown, rich.plain(f": {literal(words.standing(episode, setting.now), 400)}")]


def _small_print(numbers: Numbers, setting: Setting) -> list[str]:
    return [*_late(setting), *words.judgements(numbers), words.how_counted(numbers)]


def _late(setting: Setting) -> list[str]:
    if setting.late is None:
        return []
    return [
        f"This comes late: it was due on {setting.late:%A} {phrases.day(setting.late, setting.now)} at {setting.late:%H:%M %Z}."
    ]


def _story(headline: str, numbers: Numbers, advice: Advice | None, setting: Setting) -> str:
    """All of it in plain words, for notifications, screen readers and clients without blocks."""
    lines = [headline]
    if advice:
        lines.append(f"Do first: {advice.do}. {advice.why}")
    lines += [f"{name}: {value}".replace("\n", ", ") for name, value in words.facts(numbers, setting.now)]
    lines += [words.cause(line) for line in numbers.causes[:MAX_CAUSES]]
    lines += [f"{node.host} {words.node(node)}" for node in numbers.nodes[:MAX_NODES]]
    lines += [
        f"Open: {words.job(episode)}: {words.standing(episode, setting.now)}"
        for episode in words.pressing(numbers, MAX_OPEN)
    ]
    lines += _small_print(numbers, setting)
    text = ""
    for line in lines:
        room = 3_900 - len(text)
        if room < 40:
            break
        text += ("\n" if text else "") + mrkdwn(line, min(600, room))
    return text
