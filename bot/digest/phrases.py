"""How a digest puts numbers and days into words. Nothing here is escaped yet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta

from bot.slack import phrases


def number(value: float) -> str:
    """Whole, thousands apart.

    >>> number(12345)
    '12,345'
    """
    return f"{value:,.0f}"


def hours(value: float) -> str:
    """One decimal for the few, none for the many.

    >>> hours(3.25), hours(1234.5)
    ('3.2', '1,234')
    """
    return f"{value:.1f}" if 0 < value < 10 else number(value)


def counted(value: int, noun: str) -> str:
    """`1 failure`, `12 failures`."""
    return f"{number(value)} {noun}{'' if value == 1 else 's'}"


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{number(count)} times")


def duration(length: timedelta) -> str:
    """Two units at most, and days alone from a week on."""
    seconds = length.total_seconds()
    return f"{seconds // 86_400:.0f} d" if seconds >= 7 * 86_400 else phrases.duration(seconds)


def day(moment: date | datetime, now: date | datetime) -> str:
    """`2 Nov`; the year is added when it is not that of `now`."""
    return f"{moment.day} {moment:%b}" + ("" if moment.year == now.year else f" {moment.year}")


def days(first: date, last: date) -> str:
    """`16–22 Nov`, `28 Sep – 4 Oct`."""
    if first == last:
        return f"{first.day} {first:%b}"
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day}–{last.day} {last:%b}"
    return f"{day(first, last)} – {last.day} {last:%b}"


def change(now: float, before: float) -> str:
    """`6 more than the week before`, without the span: the caller says what came before."""
    more = now - before
    if abs(more) < 0.5:
        return "as many as"
    return f"{number(abs(more))} {'more' if more > 0 else 'fewer'} than"


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
