"""Everything that a case makes the service say: its message in every state, the thread, and answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

from bot.answers.answerer import Answerer, Question
from bot.answers.matter import Matter
from bot.answers.rendering import as_message
from bot.cli.ask import matter_of
from bot.slack.contract import Before, IncidentStatus, SlackMessage, State
from bot.slack.message import render, render_merged
from bot.slack.poster import wire
from bot.slack.thread import replies
from tests.accuracy.cases import find_cases
from tests.slack import samples, scenes

WORKERS = 2
SPITEFUL = "<!channel> *done* & <@U0MALLORY> \u202edusted\u202c <https://example.test|here>"
"""What a person may type into a note; job names are as bad."""
QUESTIONS = (
    "why this rank?",
    "what did rank 0 say last?",
    "show the timeline",
    "which ranks are collateral?",
    "is it the node?",
    "is it safe to restart?",
    "what else could it be?",
    "have we seen this before?",
    "show the log of rank 1",
    "what changed since the last good run?",
)
IN_GENERAL = ("explain NCCL", "help", "what do you think of the weather?")
"""What is answered alike for every case."""


@dataclass(frozen=True)
class Payload:
    """One thing that goes to Slack: a message's text, blocks and attachments, or a view."""

    name: str
    kind: Literal["message", "view"]
    content: dict[str, Any]

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """All blocks, those in attachments too."""
        beside = (block for bar in self.content.get("attachments", ()) for block in bar["blocks"])
        return [*self.content.get("blocks", ()), *beside]


def message(name: str, shown: SlackMessage) -> Payload:
    """Return a message as it is sent."""
    return Payload(name, "message", wire(shown))


def view(name: str, shown: dict[str, Any]) -> Payload:
    """Return a modal or Home tab as it is sent."""
    return Payload(name, "view", shown)


def of_all_cases() -> list[Payload]:
    """Return what all cases make the service say, nothing twice; the cases are worked on side by side."""
    folders = [case.folder for case in find_cases()]
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        return distinct(payload for said in pool.map(of_case, folders, chunksize=4) for payload in said)


def distinct(payloads: Iterable[Payload]) -> list[Payload]:
    """Return the first of those that say the same."""
    kept: dict[str, Payload] = {}
    for payload in payloads:
        kept.setdefault(json.dumps([payload.kind, payload.content]), payload)
    return list(kept.values())


def in_general() -> list[Payload]:
    """Return what is answered alike, whatever failed."""
    job, diagnosis, _ = samples.gpu_lost()
    answers = asyncio.run(_answers(Matter(diagnosis, scenes.dossier(), job), IN_GENERAL))
    return [message(question, answer) for question, answer in zip(IN_GENERAL, answers, strict=True)]


def of_case(folder: Path) -> list[Payload]:
    """Return what one case makes the service say."""
    return list(_of(folder.name, matter_of(folder)))


def _of(name: str, matter: Matter) -> Iterator[Payload]:
    job, diagnosis, dossier = matter.job, matter.diagnosis, matter.dossier
    early = samples.cannot_tell()[1]
    for state, status in states().items():
        yield message(f"{name}/{state}", render(job, diagnosis, status))
    for state in ("open", "storm"):
        history = [(1, early), (2, diagnosis)]
        for reply in replies(job, diagnosis, states()[state], dossier, history, scenes.actions()):
            if isinstance(reply.content, SlackMessage):
                yield message(f"{name}/{state}/{reply.part}", reply.content)
    yield message(f"{name}/merged", render_merged(job, scenes.LINK))
    for question, answer in zip(QUESTIONS, asyncio.run(_answers(matter, QUESTIONS)), strict=True):
        yield message(f"{name}/{question}", answer)


async def _answers(matter: Matter, questions: Sequence[str]) -> list[SlackMessage]:
    answerer = Answerer()
    return [as_message(await answerer.answer(Question(text, matter))) for text in questions]


def states() -> dict[str, IncidentStatus]:
    """Return the moments in the life of an incident, with the worst that people may have typed."""
    night = scenes.NIGHT
    before = Before("U0BOB", night - timedelta(days=16), "other", SPITEFUL, scenes.LINK)
    opened = IncidentStatus(url=samples.URL, reported=1, expected=2, episode_id=scenes.EPISODE, owner="U0ALICE")
    taken = replace(opened, acknowledged_by="U0BOB", acknowledged_at=night, assignee="U0ALICE")
    again = replace(opened, occurrences=9, first_seen=night - timedelta(days=28), last_seen=night - timedelta(days=16))
    members = tuple(replace(each, name=SPITEFUL, owner=SPITEFUL[:40]) for each in scenes.storm_members(100))
    return {
        "bare": IncidentStatus(),
        "open": opened,
        "acknowledged": replace(taken, state=State.ACKNOWLEDGED),
        "resolved": replace(
            taken, state=State.RESOLVED, resolved_by="U0CAROL", resolved_at=night, resolution="other", note=SPITEFUL
        ),
        "muted": replace(opened, state=State.MUTED, muted_by="U0CAROL", muted_until=night + timedelta(days=7)),
        "recovered": replace(opened, recovered_by=SPITEFUL, members=scenes.attempts(), member_count=3),
        "storm": replace(again, occurrences=500, members=members, member_count=500, before=before),
        "recurred": replace(again, before=before, nodes=("gpu-n17", SPITEFUL, "gpu-n03")),
    }
