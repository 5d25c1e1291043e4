"""`/diagnose mute` and `unmute`: failures of which a channel wants no new message for a while."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import timedelta

from bot.digest import phrases
from bot.slack.commands import COMMAND, Answer, Invocation
from bot.slack.escape import code, moment, person
from bot.slack.words import lines
from storage.actions import Actions, Click, Done
from storage.history import Histories
from storage.tables import Episode
from storage.types import utc_now

USUAL = timedelta(hours=8)
LONGEST = timedelta(days=30)

_DURATION = re.compile(r"(\d{1,5})(m|h|d|w)", re.IGNORECASE)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def mute(histories: Histories, actions: Actions, changed: Callable[[], None]) -> Answer:
    """Return the answer to `mute`, which lists mutes, or mutes what it is given."""

    async def answer(asked: Invocation) -> str:
        if not asked.arguments:
            return await _listed(histories, asked.channel)
        name, duration, wrong = _understood(asked.arguments.split())
        if wrong or name is None or duration is None:
            return wrong
        episode = await histories.named(name, asked.channel)
        if episode is None:
            return _nobody(name)
        outcome = await actions.mute(_click(asked, episode, "mute"), duration)
        if outcome.done is Done.NOTHING:
            return f"{lines.cause(episode.cause)} cannot be muted: what nobody understood is not known to be the same again."
        changed()
        until = moment(utc_now() + duration)
        return (
            f"Muted here until {until}: {lines.cause(episode.cause)} ({code(episode.fingerprint, 40)}). "
            f"{code(f'{COMMAND} unmute {name}', 120)} ends it."
        )

    return answer


def unmute(histories: Histories, actions: Actions, changed: Callable[[], None]) -> Answer:
    """Return the answer to `unmute`."""

    async def answer(asked: Invocation) -> str:
        if not asked.arguments:
            return f"Say what to unmute, by its fingerprint or job.\n{await _listed(histories, asked.channel)}"
        episode = await histories.named(asked.arguments.strip("`"), asked.channel)
        if episode is None:
            return _nobody(asked.arguments)
        outcome = await actions.unmute(_click(asked, episode, "unmute"))
        if outcome.done is Done.NOTHING:
            return f"{lines.cause(episode.cause)} is not muted here."
        changed()
        return f"No longer muted here: {lines.cause(episode.cause)}."

    return answer


async def _listed(histories: Histories, channel: str) -> str:
    holding = await histories.mutes(channel)
    if not holding:
        return f"Nothing is muted here. {code(f'{COMMAND} mute JOB 8h', 80)} mutes the failure of a job."
    shown = [
        f"• {lines.cause(cause)} ({code(held.fingerprint, 40)}) until {moment(held.until)}, by {person(held.user)}"
        for held, cause in holding
    ]
    return lines.fitted([f"Muted here: {phrases.counted(len(holding), 'failure')}."], shown)


def _understood(words: list[str]) -> tuple[str | None, timedelta | None, str]:
    """Return the name and the duration in any order, or what is wrong."""
    durations = [found for word in words if (found := _DURATION.fullmatch(word))]
    names = [word.strip("`") for word in words if not _DURATION.fullmatch(word) and word.lower() != "for"]
    usage = f"Say it like {code(f'{COMMAND} mute JOB 8h', 80)}: a job or a fingerprint, and for how long."
    if len(names) != 1 or len(durations) > 1:
        return None, None, usage
    duration = int(durations[0][1]) * _UNITS[durations[0][2].lower()] if durations else USUAL
    if not timedelta() < duration <= LONGEST:
        return None, None, f"A mute holds for {LONGEST.days} days at most."
    return names[0], duration, ""


def _nobody(name: str) -> str:
    return f"No failure in this channel is known as {code(name, 80)}. A job's id or a fingerprint from a message is needed."


def _click(asked: Invocation, episode: Episode, what: str) -> Click:
    return Click(
        key=f"slash/{what}/{asked.mark or uuid.uuid4().hex}"[:200],
        episode_id=episode.id,
        user=asked.user,
        user_name=asked.user_name,
        channel=asked.channel,
    )
