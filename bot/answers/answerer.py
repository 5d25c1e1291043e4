"""One question in, one reply out."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from bot.answers.asked import Asked
from bot.answers.matter import Matter, Neighbourhood
from bot.answers.model import Helper
from bot.answers.reply import Reply, Words
from bot.answers.telling import culprit, doubt, meaning, others, past, remedy, speech, story
from bot.answers.telling.asking import digest, help_, not_understood
from bot.answers.terms import find_terms, trade
from bot.answers.understanding import understand
from knowledge.diagnosis import CauseFound, Diagnosis, Outcome
from knowledge.job import JobFacts

Telling = Callable[[Asked], Awaitable[Reply]]

_TELLINGS: Mapping[str, Telling] = {
    "why": story.why,
    "timeline": story.timeline,
    "said": speech.said,
    "log": speech.log,
    "collateral": others.collateral,
    "blame": culprit.blame,
    "restart": remedy.restart,
    "verify": remedy.verify,
    "fix": remedy.fix,
    "else": doubt.alternatives,
    "missing": doubt.missing,
    "sure": doubt.sure,
    "seen": past.seen,
    "hit": past.hit,
    "owner": past.owner,
    "changed": past.changed,
    "settings": past.settings,
    "explain": meaning.explain,
}


_ALWAYS: Mapping[str, Callable[[], Reply]] = {"help": help_, "digest": digest}


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked, and about what. `matter` is None where no incident is meant, or none that may be seen there.

    `around` is what may be told of where there is no matter.
    """

    text: str
    matter: Matter | None
    user: str = ""
    channel: str = ""
    around: Neighbourhood | None = None


class Answerer:
    """Answers questions from stored evidence. What it does not understand, it says so, with a list of what can be asked.

    `helper` may answer what is a question about the matter and fits no intent.
    """

    def __init__(self, helper: Helper | None = None) -> None:
        self._helper = helper

    async def answer(self, question: Question) -> Reply:
        """Return the reply. The text of the question and of logs is data: nothing in it is ever done."""
        matter = question.matter
        about = matter or _NOTHING
        told = about.words
        text = _without_names(question.text, about.job)
        understood = understand(
            text,
            about.hosts,
            about.logs_by_name,
            find_terms,
            homely=lambda word: word in told or word in trade(),
            told=told.__contains__,
        )
        if understood.intent in _ALWAYS:
            return _ALWAYS[understood.intent]()
        if not understood.intent:
            helped = await self._helper.answer(text, matter) if self._helper and matter else None
            return helped or not_understood()
        asked = Asked(about, understood.intent, understood.slots, understood.meanings, question.text)
        if matter is None and understood.intent == "hit" and question.around is not None:
            return await past.open_now(await question.around.others())
        if matter is None and not (understood.intent == "explain" and understood.slots.terms):
            return Reply(
                understood.intent,
                (
                    Words(
                        "About which failure? Ask in the thread of its message, or name the job: “why did 48213 die?”"
                    ),
                ),
            )
        return await _TELLINGS[understood.intent](asked)


def _without_names(text: str, job: JobFacts) -> str:
    """The question without the job's id and name, by which the matter was found."""
    for name in (job.job_id, job.name):
        if name and len(name) > 2:
            text = re.sub(rf"(?<![\w-])(?:job\s+)?{re.escape(name)}(?![\w-])", " ", text, flags=re.IGNORECASE)
    return text if text.strip() else "why"


_NOTHING = Matter(
    Diagnosis(
        outcome=Outcome.FAILED, cause=CauseFound(id="unknown", layer="unknown", title="Cause not found", summary="")
    )
)
