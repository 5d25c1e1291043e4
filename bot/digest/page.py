"""The digest in a terminal, and as a document for programs: the same numbers in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.digest import words
from bot.digest.advice import Advice
from bot.digest.numbers import Cost, Median, Numbers, age
from bot.digest.tables import bars, causes
from bot.terminal import Layout, one_line
from storage.past import OpenEpisode

MAX_NODES = 10
MAX_OPEN = 20


def page(numbers: Numbers, advice: Advice | None, *, now: datetime, width: int = 80, colour: bool = False) -> str:
    """Return the text for a terminal `width` columns wide, ending in a newline."""
    shown = _Page.on(width, colour=colour)
    sections = [
        shown.headline(numbers),
        shown.advice(advice),
        shown.facts(numbers, now),
        shown.chart(numbers),
        shown.causes(numbers),
        shown.nodes(numbers),
        shown.open(numbers, now),
        shown.small_print(numbers),
    ]
    return "\n".join("\n".join(lines) + "\n" for lines in map(list, sections) if lines)


@dataclass(frozen=True, slots=True)
class _Page(Layout):
    def headline(self, numbers: Numbers) -> Iterator[str]:
        if numbers.failures:
            yield from map(self.style.bad, self.wrapped(words.headline(numbers), 0))
        else:
            yield from map(self.style.good, self.wrapped(words.nothing(numbers), 0))

    def advice(self, advice: Advice | None) -> Iterator[str]:
        if advice is not None:
            yield from map(self.style.strong, self.wrapped(one_line(f"Do first: {advice.do}."), 0))
            yield from self.wrapped(one_line(advice.why), 2)

    def facts(self, numbers: Numbers, now: datetime) -> Iterator[str]:
        if not numbers.failures:
            return
        pairs = words.facts(numbers, now)
        widest = max(len(name) for name, _ in pairs)
        for name, value in pairs:
            yield f"{self.style.strong(name)}{' ' * (widest - len(name) + 2)}{value.replace(chr(10), ', ')}"

    def chart(self, numbers: Numbers) -> Iterator[str]:
        if not numbers.failures or len(numbers.bars) < 2:
            return
        yield self.style.strong(words.chart_title(numbers))
        yield from (f"  {line}" for line in bars(words.bar_labels(numbers), numbers.bars))

    def causes(self, numbers: Numbers) -> Iterator[str]:
        if not numbers.causes:
            return
        header, *rows = causes(numbers).lines(max(12, self.width - 40))
        yield self.style.strong(header)
        yield from rows

    def nodes(self, numbers: Numbers) -> Iterator[str]:
        if not numbers.nodes:
            return
        yield self.style.strong("Nodes that began them")
        for node in numbers.nodes[:MAX_NODES]:
            yield from self.item("·", one_line(f"{node.host} {words.node(node)}"))
        yield from self._more(words.more(len(numbers.nodes) - MAX_NODES, "node"))

    def open(self, numbers: Numbers, now: datetime) -> Iterator[str]:
        if not numbers.open:
            return
        yield self.style.strong("Still open")
        for episode in words.pressing(numbers, MAX_OPEN):
            yield from self.item("·", one_line(f"{words.job(episode)}: {words.standing(episode, now)}"))
        yield from self._more(words.more(numbers.open_count - MAX_OPEN, "failure"))

    def small_print(self, numbers: Numbers) -> Iterator[str]:
        if numbers.failures:
            text = " ".join([*words.judgements(numbers), words.how_counted(numbers)])
            yield from map(self.style.faint, self.wrapped(text, 0))

    def _more(self, text: str) -> Iterator[str]:
        if text:
            yield f"    {text}"


def document(numbers: Numbers, advice: Advice | None, *, now: datetime, channel: str | None) -> dict[str, Any]:
    """Return the numbers for programs: hours are GPU-hours, seconds are seconds, moments are ISO 8601 in UTC."""
    span = numbers.span
    return {
        "schema": 1,
        "channel": channel,
        "start": span.start.isoformat(),
        "end": span.end.isoformat(),
        "timezone": str(numbers.zone),
        "first": {"do": advice.do, "why": advice.why} if advice else None,
        "failures": numbers.failures,
        "jobs": numbers.jobs,
        "failures_before": numbers.before,
        "gpu_hours": _cost(numbers.cost),
        "gpu_hours_before": _cost(numbers.cost_before),
        "kinds": {"new": numbers.new_kinds, "known": numbers.known_kinds, "unexplained": numbers.unexplained},
        "causes": [
            {
                "cause": line.cause,
                "title": line.title,
                "failures": line.count,
                "failures_before": line.before,
                "gpu_hours": _cost(line.cost),
                "kinds": line.kinds,
                "new_kinds": line.new_kinds,
            }
            for line in numbers.causes
        ],
        "nodes": [
            {"host": node.host, "began": node.count, "suspect_in": node.suspected, "gpu_hours": _cost(node.cost)}
            for node in numbers.nodes
        ],
        "days": [
            {"from": bar.first_day.isoformat(), "failures": bar.now, "before": bar.before} for bar in numbers.bars
        ],
        "acknowledged": _median(numbers.acknowledged),
        "resolved": _median(numbers.resolved),
        "judged_wrong": numbers.judged_wrong,
        "false_alarms": numbers.false_alarms,
        "open_count": numbers.open_count,
        "open": [_open(episode, now) for episode in numbers.open],
    }


def _cost(cost: Cost) -> dict[str, float]:
    return {"hours": round(cost.hours, 3), "unknown": cost.unknown}


def _median(middle: Median | None) -> dict[str, float] | None:
    return {"median_seconds": middle.duration.total_seconds(), "count": middle.count} if middle else None


def _open(episode: OpenEpisode, now: datetime) -> dict[str, Any]:
    return {
        "episode": episode.id,
        "cause": episode.cause,
        "fingerprint": episode.fingerprint,
        "job": episode.job_id,
        "name": episode.name,
        "owner": episode.owner,
        "failures": episode.count,
        "open_seconds": round(age(episode, now).total_seconds()),
        "acknowledged_by": episode.acknowledged_by,
        "assignee": episode.assignee,
    }
