"""What stands in the thread under an episode's message: few posts, each edited in place rather than repeated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bot.slack import rich
from bot.slack.accounts import ranks
from bot.slack.changes import assigned, changes, timeline
from bot.slack.contract import IncidentStatus, SlackFile, SlackMessage
from bot.slack.lines import evidence
from bot.slack.members import table
from knowledge.diagnosis import Diagnosis
from knowledge.dossier import Dossier
from knowledge.job import JobFacts
from storage.tables import Action

PARENT_ROWS = 20
"""So many incidents the parent message shows at most; where there are more, the thread has the longer table."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One message or file of the thread; `part` names it, and the same part is edited, not posted again."""

    part: str
    content: SlackMessage | SlackFile


def replies(
    job: JobFacts,
    diagnosis: Diagnosis,
    status: IncidentStatus,
    dossier: Dossier | None,
    history: Sequence[tuple[int, Diagnosis]],
    actions: Sequence[Action],
) -> list[Reply]:
    """Return the replies in the order in which they are to be posted."""
    return [Reply(part, content) for part, content in _parts(job, diagnosis, status, dossier, history, actions)]


def _parts(
    job: JobFacts,
    diagnosis: Diagnosis,
    status: IncidentStatus,
    dossier: Dossier | None,
    history: Sequence[tuple[int, Diagnosis]],
    actions: Sequence[Action],
) -> Iterator[tuple[str, SlackMessage]]:
    shown = evidence(diagnosis, dossier)
    if shown is not None:
        yield "evidence", shown
    accounts = ranks(job, dossier)
    if accounts is not None:
        yield "ranks", accounts
    if status.member_count > PARENT_ROWS:
        yield "members", _members(status)
    for version, change in changes(history):
        yield f"why-{version}", change
    for number, mention in assigned(actions):
        yield f"assigned-{number}", mention
    done = timeline(actions)
    if done is not None:
        yield "timeline", done


def _members(status: IncidentStatus) -> SlackMessage:
    told = f"The newest of {status.member_count} incidents"
    rows, blocks = rich.fitting(lambda rows: [rich.context(told), table(status.members, status.member_count, rows)])
    return SlackMessage(f"{told}: " + "; ".join(member.job_id for member in status.members[:rows]), blocks, "")
