"""How to fix it, how to verify it, and whether to start again."""

from __future__ import annotations

import re

from bot.answers.asked import Asked
from bot.answers.reply import Command, Quotes, Reply, Steps, Words, of_said
from bot.slack import phrases
from knowledge.diagnosis import Restart
from knowledge.dossier import Part, Setting

_STEP = re.compile(r"step (\d+)")
_WHY = {
    Restart.SAFE: "Nothing has to be repaired first.",
    Restart.AFTER_FIX: "Started again unchanged, it fails again.",
    Restart.ELSEWHERE: "The trouble is tied to where it ran.",
    Restart.UNSAFE: "It would do harm, or lose work, before it is repaired.",
    Restart.UNKNOWN: "It depends on a cause that is not known yet.",
}
_DAMAGED = ("checkpoint-corrupt",)


async def fix(asked: Asked) -> Reply:
    """The steps, and what to do afterwards."""
    diagnosis = asked.diagnosis
    if not asked.failed:
        return asked.reply(Words(f"Nothing to fix: {diagnosis.cause.summary}"))
    return asked.reply(
        Words(asked.verdict()),
        Steps(tuple(diagnosis.fix), "Do this", numbered=True) if diagnosis.fix else Words("No step is known."),
        *[Command(step.run, step.expect) for step in diagnosis.verify[:2]],
        Words(f"Restart: {phrases.restart(diagnosis)}."),
        Quotes(asked.proofs(2), "Why"),
    )


async def verify(asked: Asked) -> Reply:
    """Commands, and what a good answer looks like."""
    diagnosis = asked.diagnosis
    if not asked.failed:
        return asked.reply(Words(f"Nothing to verify: {diagnosis.cause.summary}"))
    if not diagnosis.verify:
        told = diagnosis.missing[0] if diagnosis.missing else "The cause is not known."
        return asked.reply(Words(f"No check is known for this. {told}"))
    where = phrases.where(diagnosis.initiating)
    return asked.reply(
        Words(f"{asked.verdict()} Run {'on ' + where if where else 'where it failed'}:"),
        *[Command(step.run, step.expect) for step in diagnosis.verify],
        Words(f"What would settle it: {diagnosis.missing[0]}") if diagnosis.missing else None,
        Quotes(asked.proofs(1), "What it rests on"),
    )


async def restart(asked: Asked) -> Reply:
    """Whether to start again, without which nodes, and from which checkpoint."""
    diagnosis = asked.diagnosis
    if not asked.failed:
        return asked.reply(
            Words(f"Nothing shows that it failed, so there is nothing to recover from. {diagnosis.cause.summary}")
        )
    opening = f"Restart: {phrases.restart(diagnosis)}. {_WHY[diagnosis.restart]} {asked.verdict()}"
    return asked.reply(
        Words(opening),
        *_checkpoints(asked),
        Steps(tuple(diagnosis.fix[:3]), "Before that", numbered=True)
        if diagnosis.restart is not Restart.SAFE
        else None,
        Quotes(asked.proofs(2), "Why"),
        Words("I start and stop nothing myself."),
    )


def _checkpoints(asked: Asked) -> list[Words | Quotes]:
    settings = asked.matter.dossier.settings
    saved = [setting for setting in settings if setting.name == "checkpoint"]
    begun = [setting for setting in settings if setting.name == "checkpoint begun"]
    read = [setting for setting in settings if setting.name == "resumed from"]
    parts: list[Words | Quotes] = []
    if saved:
        last = max(saved, key=_step)
        parts.append(Words(f"From: the last checkpoint that the logs report as saved{_what(last)}."))
        parts.append(Quotes((of_said(last.said),)))
    if begun and (not saved or _step(begun[-1]) > max(map(_step, saved))):
        parts.append(
            Words(
                f"A save had begun{_what(begun[-1])}, and nothing reports that it ended: do not trust that one unseen."
            )
        )
        parts.append(Quotes((of_said(begun[-1].said),)))
    if not saved and not begun:
        steps = [account.step for account in asked.matter.dossier.ranks if account.step is not None]
        reached = f" The last step that was logged is {max(steps)}." if steps else ""
        parts.append(
            Words(
                f"From which checkpoint: the logs tell of none that was saved; take the last complete one of your folder.{reached}"
            )
        )
    if read:
        began = {
            account.last.source
            for account in asked.matter.dossier.ranks
            if account.part is Part.INITIATING and account.last
        }
        read.sort(key=lambda setting: setting.said.source in began)
        damaged = (
            " It is the one that could not be read: take an older one." if asked.diagnosis.cause.id in _DAMAGED else ""
        )
        parts.append(Words(f"This run itself had started from a checkpoint{_what(read[-1])}.{damaged}"))
        parts.append(Quotes((of_said(read[-1].said),)))
    return parts


def _step(setting: Setting) -> int:
    found = _STEP.search(setting.value)
    return int(found[1]) if found else -1


def _what(setting: Setting) -> str:
    return f" ({setting.value})" if setting.value else ""
