"""The sentences of a digest, the same in Slack and in the terminal. Nothing here is escaped yet."""

from __future__ import annotations

from datetime import datetime, timedelta

from bot.digest import phrases
from bot.digest.numbers import CauseLine, Cost, Median, NodeLine, Numbers, age, title
from storage.past import Failure, OpenEpisode


def headline(numbers: Numbers) -> str:
    """`30 training failures, 16–22 Nov: 25 more than the week before`."""
    failures = phrases.counted(numbers.failures, "training failure")
    return f"{failures}, {_days(numbers)}: {_compared(numbers, numbers.failures, numbers.before)}"


def nothing(numbers: Numbers) -> str:
    """One line for a span without failures."""
    before = f" ({phrases.number(numbers.before)} {earlier(numbers)})" if numbers.before else ""
    count = numbers.open_count
    still = f" {phrases.counted(count, 'older failure')} {'is' if count == 1 else 'are'} still open." if count else ""
    return f"No training failures, {_days(numbers)}{before}.{still}"


def facts(numbers: Numbers, now: datetime) -> list[tuple[str, str]]:
    """Names and values, two lines a value at most."""
    return [
        ("GPU-hours lost", f"{cost(numbers.cost)}\n{_cost_compared(numbers)}"),
        ("Kinds of failure", f"{numbers.new_kinds} new, {numbers.known_kinds} seen before{_unexplained(numbers)}"),
        ("Still open", _still_open(numbers, now)),
        ("How fast people were", f"{_took(numbers.acknowledged, 'acknowledge')}\n{_took(numbers.resolved, 'resolve')}"),
    ]


def cost(of: Cost) -> str:
    """GPU-hours, and whether they are all."""
    if not of.hours and of.unknown:
        return "unknown"
    return f"{'at least ' if of.unknown else ''}{phrases.hours(of.hours)}"


def is_new(line: CauseLine) -> str:
    """Whether its kinds of failure are new."""
    if not line.kinds:
        return "–"
    if line.new_kinds == line.kinds:
        return "yes"
    return "no" if not line.new_kinds else f"{line.new_kinds} of {line.kinds}"


def cause(line: CauseLine) -> str:
    """A row of the table as a sentence."""
    seen = {"–": "", "yes": ", new", "no": ", seen before"}.get(is_new(line), f", {is_new(line)} kinds new")
    times = f"{phrases.counted(line.count, 'failure')} ({line.before} before)"
    return f"{line.title}: {times}, {cost(line.cost)} GPU-hours{seen}"


def node(line: NodeLine) -> str:
    """What stands behind a node's name."""
    blamed = (
        ""
        if not line.suspected
        else ", the node is suspect"
        if line.suspected == line.count
        else f", suspect in {line.suspected}"
    )
    hours = f", {phrases.hours(line.cost.hours)} GPU-hours" if line.cost.hours else ""
    return f"began {phrases.counted(line.count, 'failure')}{hours}: {line.title}{blamed}"


def standing(episode: OpenEpisode, now: datetime) -> str:
    """What stands behind an open episode's job."""
    times = f" ({phrases.times(episode.count)})" if episode.count > 1 else ""
    return f"{title(episode.cause)}{times}, open for {phrases.duration(age(episode, now))}, {who(episode)}"


def who(episode: OpenEpisode) -> str:
    """Who looks after an episode, and whose job it was."""
    owner = f" (job of {episode.owner})" if episode.owner else ""
    if episode.assignee:
        return f"assigned to {episode.handler or 'somebody'}{owner}"
    if episode.acknowledged_by:
        return f"acknowledged by {episode.handler or 'somebody'}{owner}"
    return f"nobody’s yet{owner}"


def is_free(episode: OpenEpisode) -> bool:
    """Whether nobody looks after an episode."""
    return episode.assignee is None and episode.acknowledged_by is None


def pressing(numbers: Numbers, most: int) -> list[OpenEpisode]:
    """The open episodes to show: those that nobody has taken, then the oldest."""
    return sorted(numbers.open, key=lambda episode: not is_free(episode))[:most]


def job(of: Failure | OpenEpisode) -> str:
    """`llama-70b (48213)`."""
    return f"{of.name} ({of.job_id})" if of.name else f"Job {of.job_id}"


def more(hidden: int, noun: str) -> str:
    """`and 3 more nodes`, or nothing."""
    return f"and {hidden} more {noun}{'' if hidden == 1 else 's'}" if hidden > 0 else ""


def judgements(numbers: Numbers) -> list[str]:
    """What people said of the verdicts; nothing where nobody complained."""
    wrong = f"{phrases.counted(numbers.judged_wrong, 'verdict')} judged wrong" if numbers.judged_wrong else ""
    false = phrases.counted(numbers.false_alarms, "false alarm") if numbers.false_alarms else ""
    said = phrases.listed([part for part in (wrong, false) if part])
    return [f"{said[0].upper()}{said[1:]}."] if said else []


def how_counted(numbers: Numbers) -> str:
    """What GPU-hours mean here, and what is not in them."""
    left_out = numbers.cost.unknown
    without = (
        f"; {phrases.counted(left_out, 'attempt')} without known ranks or times {'is' if left_out == 1 else 'are'} left out"
        if left_out
        else ""
    )
    return f"GPU-hours are ranks times run time of failed attempts, checkpoints not deducted{without}."


def chart_title(numbers: Numbers) -> str:
    """What the bars count."""
    return "Failures a day" if numbers.bar_days == 1 else f"Failures in {numbers.bar_days} days"


def bar_labels(numbers: Numbers) -> list[str]:
    """One label a bar, each different."""
    if numbers.bar_days == 1:
        return [f"{bar.first_day:%a} {bar.first_day.day}" for bar in numbers.bars]
    return [f"{bar.first_day.day} {bar.first_day:%b}" for bar in numbers.bars]


def series(numbers: Numbers) -> str:
    """The name of the span."""
    return _days(numbers)[:20]


def series_before(numbers: Numbers) -> str:
    """The name of what it is compared with."""
    back = timedelta(days=_length(numbers))
    return phrases.days(numbers.first_day - back, numbers.last_day - back)[:20]


def earlier(numbers: Numbers) -> str:
    """`the week before`."""
    days = _length(numbers)
    return {1: "the day before", 7: "the week before"}.get(days, f"the {days} days before")


def _days(numbers: Numbers) -> str:
    return phrases.days(numbers.first_day, numbers.last_day)


def _length(numbers: Numbers) -> int:
    return (numbers.last_day - numbers.first_day).days + 1


def _compared(numbers: Numbers, now: float, before: float) -> str:
    return f"{phrases.change(now, before)} {earlier(numbers)}"


def _cost_compared(numbers: Numbers) -> str:
    if not numbers.cost_before.hours:
        return f"none known {earlier(numbers)}"
    return _compared(numbers, numbers.cost.hours, numbers.cost_before.hours)


def _unexplained(numbers: Numbers) -> str:
    return f"\n{phrases.counted(numbers.unexplained, 'failure')} unexplained" if numbers.unexplained else ""


def _still_open(numbers: Numbers, now: datetime) -> str:
    if not numbers.open_count:
        return "none"
    oldest = phrases.duration(age(numbers.open[0], now))
    free = sum(1 for episode in numbers.open if is_free(episode))
    taken = (
        "all are taken"
        if not free
        else f"{free} of them nobody’s"
        if free != numbers.open_count
        else "nobody has taken any"
    )
    return f"{phrases.number(numbers.open_count)}, the oldest for {oldest}\n{taken}"


def _took(middle: Median | None, what: str) -> str:
    if middle is None:
        return f"nothing {what}d"
    times = "once" if middle.count == 1 else f"median of {middle.count}"
    return f"{phrases.duration(middle.duration)} to {what} ({times})"
