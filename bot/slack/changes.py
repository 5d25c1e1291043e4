"""How the story went on: why the verdict changed, who was asked to look, and who did what when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from bot.slack import phrases, rich
from bot.slack.contract import Block, SlackMessage
from bot.slack.escape import literal, moment, mrkdwn, person
from bot.slack.lines import evidence_origin
from knowledge.causes import load_causes
from knowledge.diagnosis import Diagnosis, Evidence, Outcome, Role
from storage.tables import Action, ActionKind

MAX_NEW_LINES = 3
MAX_DEEDS = 25
MAX_NOTE = 250
NOTABLE = 0.2  # a change of confidence worth a word where nothing else changed


def changes(history: Sequence[tuple[int, Diagnosis]]) -> Iterator[tuple[int, SlackMessage]]:
    """Yield, for each version whose verdict differs from the one before, what changed and why."""
    for (_, before), (version, after) in pairwise(history):
        differences = list(_differences(before, after))
        if differences:
            yield version, _change(differences, before, after)


def timeline(actions: Sequence[Action]) -> SlackMessage | None:
    """Return who did what when, oldest first; None while nobody has done anything. Nobody is woken by it."""
    shown = [line for line in map(_deed, actions) if line]
    if not shown:
        return None
    hidden = len(shown) - MAX_DEEDS
    listed = ([f"… {hidden} earlier"] if hidden > 0 else []) + shown[-MAX_DEEDS:]
    blocks = [rich.context("Timeline"), *_sections(listed)]
    return SlackMessage("Timeline\n" + "\n".join(_within(listed, 3_000)), blocks, "")


def assigned(actions: Sequence[Action]) -> Iterator[tuple[int, SlackMessage]]:
    """Yield a mention for each person who was given it by somebody else: an edited message wakes nobody.

    Not for the first action of all, with which the timeline is posted and mentions the person itself.
    """
    for action in actions[1:]:
        assignee = action.detail.get("assignee") if action.kind == ActionKind.ASSIGN else None
        if assignee and assignee != action.user and action.id is not None:
            told = f"{person(assignee)}, {_name(action)} gave you this incident."
            yield action.id, SlackMessage(told, [_section(told)], "")


def _differences(before: Diagnosis, after: Diagnosis) -> Iterator[tuple[str, str, str]]:
    """Name, old, new of what a person would call another verdict."""
    if before.outcome is not after.outcome:
        words = {Outcome.FAILED: "a failure", Outcome.NOT_A_FAILURE: "no failure"}
        yield "Outcome", words[before.outcome], words[after.outcome]
    if before.cause.id != after.cause.id:
        yield "Cause", before.cause.title or "unknown", after.cause.title or "unknown"
    where = phrases.where(before.initiating) or "nobody named", phrases.where(after.initiating) or "nobody named"
    placed = (
        before.initiating.ranks == after.initiating.ranks and before.initiating.ranks and not before.initiating.hosts
    )
    if before.initiating != after.initiating and not placed:  # that a rank's host is known now is no other verdict
        yield "Began on", *where
    moved = abs(before.confidence - after.confidence) >= NOTABLE
    if moved or (before.confidence < phrases.SURE) != (after.confidence < phrases.SURE):
        yield "Confidence", f"{round(before.confidence * 100)} %", f"{round(after.confidence * 100)} %"


def _change(differences: list[tuple[str, str, str]], before: Diagnosis, after: Diagnosis) -> SlackMessage:
    items = [
        [rich.plain(f"{name}: {literal(old, 200)} → "), rich.bold(literal(new, 200))] for name, old, new in differences
    ]
    elements = [rich.section(rich.bold("The verdict changed")), rich.listing("bullet", items)]
    fresh = _fresh(before, after)
    if fresh:
        elements.append(rich.section(rich.bold("Because this arrived since:")))
    for line in fresh[:MAX_NEW_LINES]:
        elements.append(rich.section(rich.plain(literal(evidence_origin(line), 200))))
        elements.append(rich.preformatted(literal(line.text, 400) or " "))
    if not fresh:
        elements.append(rich.section(rich.plain("No line of it is new: the same evidence was weighed again.")))
    told = "; ".join(f"{name}: {old} → {new}" for name, old, new in differences)
    because = f" Because of {evidence_origin(fresh[0])}: {fresh[0].text}" if fresh else ""
    return SlackMessage(mrkdwn(f"The verdict changed. {told}.{because}", 1_500), [rich.rich_text(*elements)], "")


def _fresh(before: Diagnosis, after: Diagnosis) -> list[Evidence]:
    """Lines that the earlier verdict did not have, those that prove most first; symptoms only where nothing proves."""
    known = {(line.source, line.line) for line in before.evidence}
    order = {Role.ROOT: 0, Role.CONFIRMATION: 1, Role.CONTEXT: 2, Role.CASCADE: 3}
    new = [line for line in after.evidence if (line.source, line.line) not in known]
    strong = [line for line in new if line.role in (Role.ROOT, Role.CONFIRMATION)]
    return sorted(strong or new, key=lambda line: order[line.role])


def _deed(action: Action) -> str:
    """One line of mrkdwn, or nothing for what is not known."""
    words = _words(action)
    return f"{moment(action.at)}  {_name(action)} {words}" if words else ""


def _words(action: Action) -> str:
    detail = action.detail
    if action.kind == ActionKind.ASSIGN:
        assignee = detail.get("assignee")
        if assignee == action.user:
            return "took it"
        return f"gave it to {person(str(assignee))}" if assignee else "took it from its assignee"
    if action.kind == ActionKind.RESOLVE:
        how = phrases.RESOLUTIONS.get(str(detail.get("resolution")), str(detail.get("resolution")))
        return f"resolved it: {mrkdwn(how, 60)}{_note(detail.get('note'))}"
    if action.kind == ActionKind.MUTE:
        until = _parsed(detail.get("until"))
        return f"muted it in this channel{f' until {moment(until)}' if until else ''}"
    if action.kind == ActionKind.WRONG:
        return f"judged the verdict wrong{_correction(detail)}"
    return {
        ActionKind.ACKNOWLEDGE: "acknowledged it",
        ActionKind.REOPEN: "opened it again",
        ActionKind.UNMUTE: "ended the mute",
        ActionKind.REDIAGNOSE: "asked to diagnose it again",
        ActionKind.RIGHT: "judged the verdict right",
    }.get(ActionKind(action.kind), "")


def _correction(detail: dict[str, object]) -> str:
    ranks = detail.get("ranks")
    parts = [f"cause {_cause(str(detail['cause']))}" if detail.get("cause") else ""]
    if isinstance(ranks, list) and ranks:
        parts.append(mrkdwn(f"begun by {phrases.ranks([int(rank) for rank in ranks])}", 200))
    shown = ", ".join(part for part in parts if part)
    return (f": {shown}" if shown else "") + _note(detail.get("note"))


def _cause(name: str) -> str:
    known = load_causes().get(name)
    return mrkdwn(f"“{known.title}”" if known else name, 100)


def _note(note: object) -> str:
    said = mrkdwn(str(note or ""), MAX_NOTE)
    return f" “{said}”" if said else ""


def _name(action: Action) -> str:
    """The person's name in words; a mention would wake them for what they did themselves."""
    return mrkdwn(action.user_name, 60) or person(action.user)


def _parsed(stamp: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(stamp))
    except ValueError:
        return None


def _section(text: str) -> Block:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _sections(lines: Sequence[str]) -> Iterator[Block]:
    """As many sections as the lines need; Slack takes 3,000 characters in one."""
    held = ""
    for line in lines:
        if held and len(held) + len(line) > 2_800:
            yield _section(held)
            held = ""
        held += ("\n" if held else "") + line
    yield _section(held)


def _within(lines: Sequence[str], room: int) -> list[str]:
    kept: list[str] = []
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept.insert(0, line)
    return kept
