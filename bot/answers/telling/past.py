"""What the service remembers: seen before, who else is hit, who is on it; and what is different from the run before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from bot.answers.asked import Asked
from bot.answers.matter import Care, EarlierRun
from bot.answers.reply import Line, Quotes, Reply, Steps, Words, of_said
from bot.slack import phrases
from knowledge.causes import load_causes
from knowledge.dossier import Dossier, Setting
from storage.past import OpenEpisode, SeenBefore

_NO_MEMORY = (
    "These are files only: what happened before, elsewhere or since is known to the service, in the incident's thread."
)
_PROGRAMS = ("torch", "pytorch", "nccl", "cuda", "cudnn", "driver", "python", "deepspeed", "megatron", "transformers")
_SHOWN = 12


async def seen(asked: Asked) -> Reply:
    """How often this failure was seen, where, and how it ended the last time."""
    if asked.matter.surroundings is None:
        return asked.reply(Words(_NO_MEMORY))
    before = await asked.matter.surroundings.seen()
    if before.count <= 1:
        return asked.reply(
            Words(f"No: this is the first time that this failure is seen here. {asked.verdict()}"), _fingerprint(asked)
        )
    told = f"Yes: {before.count} times, this one included"
    told += f", first on {_day(before.first)}" if before.first else ""
    told += f", last on {_day(before.last)}" if before.last else ""
    nodes = f" It began on {phrases.hosts(before.nodes)}." if before.nodes else ""
    return asked.reply(Words(f"{told}.{nodes}"), _resolution(before), _fingerprint(asked))


def _resolution(before: SeenBefore) -> Words:
    done = before.resolution
    if done is None:
        return Words("Nobody has told how it was resolved.")
    note = f" They noted: {done.note}" if done.note else ""
    how = f" ({done.how})" if done.how else ""
    who = f" by @{done.by}" if done.by else ""
    return Words(f"Last resolved{who} on {_day(done.at)}{how}.{note}", people=(done.by,) if done.by else ())


def _fingerprint(asked: Asked) -> Words | None:
    return Words(
        f"Same means: same cause, message and place in the code (fingerprint `{asked.diagnosis.fingerprint}`)."
    )


async def hit(asked: Asked) -> Reply:
    """Other failures that are open now."""
    if asked.matter.surroundings is None:
        return asked.reply(Words(_NO_MEMORY))
    others = await asked.matter.surroundings.others()
    if not others:
        return asked.reply(Words("Nobody else that may be told of here: no other failure is open."))
    alike = [one for one in others if one.fingerprint and one.fingerprint == asked.diagnosis.fingerprint]
    opening = f"{len(others)} other {'failure is' if len(others) == 1 else 'failures are'} open"
    opening += f", {len(alike)} of the same kind." if alike else ", none of the same kind."
    ordered = [*alike, *(one for one in others if one not in alike)]
    return asked.reply(Words(opening), Steps(tuple(map(_open, ordered[:_SHOWN]))))


async def open_now(found: Sequence[OpenEpisode]) -> Reply:
    """All failures that are open and may be told of, where no one of them is meant."""
    if not found:
        return Reply("hit", (Words("No failure is open that may be told of here."),))
    items = tuple(f"{_open(one)}{_handler(one)}" for one in found[:_SHOWN])
    return Reply(
        "hit", (Words(f"{len(found)} {'failure is' if len(found) == 1 else 'failures are'} open:"), Steps(items))
    )


def _handler(one: OpenEpisode) -> str:
    return f"; {one.handler} has it" if one.handler else "; nobody has it yet"


def _open(one: OpenEpisode) -> str:
    cause = load_causes().get(one.cause)
    name = one.name or f"job {one.job_id}"
    more = f", {one.count} attempts or jobs" if one.count > 1 else ""
    return f"{name} ({one.job_id}): {cause.title if cause else one.cause}, since {one.opened_at:%d %b %H:%M} UTC{more}"


async def owner(asked: Asked) -> Reply:
    """Whose job it is, and who works on it."""
    job = asked.matter.job
    whose = f"The job is {job.user}'s." if job.user else "The scheduler's facts do not tell whose job it is."
    if asked.matter.surroundings is None:
        return asked.reply(Words(f"{whose} Who works on it is known to the service, in the incident's thread."))
    care = await asked.matter.surroundings.care()
    if not job.user and care.owner:
        whose = f"The job is {care.owner}'s."
    return asked.reply(Words(whose), _care(care))


def _care(care: Care) -> Words:
    people = tuple(person for person in (care.assignee, care.acknowledged_by, care.resolved_by) if person)
    if care.resolved_by:
        how = f" ({care.resolution})" if care.resolution else ""
        note = f" They noted: {care.note}" if care.note else ""
        return Words(f"It is resolved, by @{care.resolved_by}{how}.{note}", people=people)
    if care.assignee:
        return Words(f"It is assigned to @{care.assignee}.", people=people)
    if care.acknowledged_by:
        return Words(f"@{care.acknowledged_by} has acknowledged it.", people=people)
    return Words("Nobody has taken it yet: use Acknowledge or Assign under the message.")


async def settings(asked: Asked) -> Reply:
    """Versions, environment and size, each with the line that tells it."""
    known = [
        setting for setting in asked.matter.dossier.settings if not setting.name.startswith(("checkpoint", "resumed"))
    ]
    wanted = {term.replace("-", "_") for term in asked.slots.terms} | set(
        asked.text.casefold().replace("world size", "world_size").split()
    )
    named = [setting for setting in known if setting.name.casefold().replace(" ", "_") in wanted]
    shown = named or known
    size = asked.matter.job.world_size or asked.matter.dossier.world_size
    nodes = asked.matter.job.nodes
    told = [f"{size} ranks" if size else "", f"{len(nodes)} nodes ({phrases.hosts(nodes)})" if nodes else ""]
    about = " on ".join(part for part in told if part)
    if not shown:
        return asked.reply(
            Words(f"The logs tell of no version or setting.{f' The scheduler knows of {about}.' if about else ''}")
        )
    listed = ", ".join(f"{setting.name} {setting.value}" for setting in shown[:_SHOWN])
    untold = "" if named else _untold(wanted)
    return asked.reply(
        Words(untold) if untold else None,
        Words(f"{listed}.{f' {about}.' if about and not named else ''}"),
        Quotes(_said(shown), folded=max(0, len(shown) - _SHOWN)),
    )


def _untold(wanted: set[str]) -> str:
    """Say of which programs that were asked for the logs tell no version; "" where none was."""
    words = {word.strip("?!.,") for word in wanted}
    asked_for = [program for program in _PROGRAMS if program in words]
    return f"Of {' and '.join(asked_for)} the logs tell no version. What they do tell:" if asked_for else ""


async def changed(asked: Asked) -> Reply:
    """What differs from the run before, as far as the logs of both tell."""
    before = await asked.matter.surroundings.earlier() if asked.matter.surroundings is not None else None
    if before is None:
        mixed = _mixed(asked.matter.dossier)
        told = "Of runs that went well nothing is sent here, and of an earlier one of this job nothing is known; so there is nothing to compare with."
        inside = "Within this run, these differ between ranks or nodes:" if mixed else ""
        return asked.reply(Words(f"{told} {inside}".strip()), Quotes(_said(mixed)) if mixed else None, _own(asked))
    return _compared(asked, before)


def _compared(asked: Asked, before: EarlierRun) -> Reply:
    now, then = asked.matter.dossier, before.dossier
    values, earlier = _values(now), _values(then)
    lines: list[Line] = []
    told: list[str] = []
    for name in sorted({*values, *earlier}):
        one, other = values.get(name), earlier.get(name)
        if (one and one.value) == (other and other.value):
            continue
        told.append(f"{name}: {other.value if other else 'not told'} → {one.value if one else 'not told'}")
        lines += [of_said(one.said)] if one else []
    gone = [node for node in before.job.nodes if node not in asked.matter.job.nodes]
    new = [node for node in asked.matter.job.nodes if node not in before.job.nodes]
    told += [f"nodes new: {', '.join(new[:_SHOWN])}"] if new and before.job.nodes else []
    told += [f"nodes no longer used: {', '.join(gone[:_SHOWN])}"] if gone and asked.matter.job.nodes else []
    if now.world_size != then.world_size:
        told.append(f"world size: {then.world_size} → {now.world_size}")
    opening = f"Compared with {before.title}, which failed too ({before.cause}); runs that went well are not sent here."
    return asked.reply(
        Words(opening if told else f"{opening} The logs of both tell the same versions, settings and nodes."),
        Steps(tuple(told)) if told else None,
        Quotes(tuple(lines[:_SHOWN]), "As this run tells it") if lines else None,
    )


def _values(dossier: Dossier) -> dict[str, Setting]:
    return {s.name: s for s in reversed(dossier.settings) if not s.name.startswith(("checkpoint", "resumed"))}


def _mixed(dossier: Dossier) -> list[Setting]:
    """Settings of which one run tells several values."""
    by_name: dict[str, list[Setting]] = {}
    for setting in dossier.settings:
        if not setting.name.startswith(("checkpoint", "resumed")) and setting.name not in ("network", "world size"):
            by_name.setdefault(setting.name, []).append(setting)
    # "2.21.5" and "2.21.5+cuda12.4" are one version, told by two
    return [
        setting
        for several in by_name.values()
        if len({setting.value.partition("+")[0] for setting in several}) > 1
        for setting in several
    ]


def _own(asked: Asked) -> Quotes | None:
    lines = _said(list(_values(asked.matter.dossier).values()))
    return Quotes(lines, "What this run tells of itself") if lines else None


def _said(found: Iterable[Setting]) -> tuple[Line, ...]:
    lines = {(setting.said.source, setting.said.line): of_said(setting.said) for setting in found}
    return tuple(lines.values())[:_SHOWN]


def _day(when: datetime | None) -> str:
    return f"{when.day} {when:%b %Y %H:%M} UTC" if when else "an unknown day"
