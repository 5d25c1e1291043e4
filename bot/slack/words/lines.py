"""How answers of the slash command are written: short lines of mrkdwn, as many as fit."""

from __future__ import annotations

from collections.abc import Sequence

from bot.digest.numbers import title
from bot.slack.commands import MAX_ANSWER
from bot.slack.escape import mrkdwn, person
from bot.slack.phrases import RESOLUTIONS
from storage.past import Failure, OpenEpisode, Resolution


def fitted(head: Sequence[str], lines: Sequence[str], tail: Sequence[str] = (), count: int | None = None) -> str:
    """Return `head`, as many of `lines` as fit, how many of `count` are missing, and `tail`."""
    whole = len(lines) if count is None else count
    room = MAX_ANSWER - sum(len(line) + 1 for line in (*head, *tail)) - 40
    shown: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    hidden = whole - len(shown)
    rest = [f"… and {hidden} more."] if hidden > 0 else []
    return "\n".join([*head, *shown, *rest, *tail])


def job(of: Failure | OpenEpisode) -> str:
    """`*llama-70b* (48213)`."""
    return f"*{mrkdwn(of.name, 80)}* ({mrkdwn(of.job_id, 60)})" if of.name.strip() else f"job {mrkdwn(of.job_id, 60)}"


def cause(of: str) -> str:
    """A cause's title."""
    return mrkdwn(title(of), 120)


def resolved(resolution: Resolution) -> str:
    """`resolved by @bob: node drained (power-cycled it)`."""
    by = f" by {person(resolution.by)}" if resolution.by else ""
    how = RESOLUTIONS.get(resolution.how, resolution.how)
    note = f" ({mrkdwn(resolution.note, 160)})" if resolution.note else ""
    return f"resolved{by}{f': {mrkdwn(how, 60)}' if how else ''}{note}"
