"""What a telling is given: the matter, and what was understood of the question."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from bot.answers.matter import Matter
from bot.answers.reply import Line, Part, Reply, of_evidence, of_said
from bot.answers.slots import Slots
from bot.slack import phrases
from knowledge.diagnosis import Diagnosis, Evidence, Outcome, Role
from knowledge.dossier import RankAccount

MAX_PROOFS = 4
_PROOF = {Role.ROOT: 0, Role.CONFIRMATION: 1, Role.CONTEXT: 2, Role.CASCADE: 3}


@dataclass(frozen=True, slots=True)
class Asked:
    """One question about one matter."""

    matter: Matter
    intent: str
    slots: Slots
    meanings: frozenset[str] = frozenset()
    text: str = ""

    @property
    def diagnosis(self) -> Diagnosis:
        """The matter's diagnosis."""
        return self.matter.diagnosis

    @property
    def failed(self) -> bool:
        """Whether the job failed at all."""
        return self.diagnosis.outcome is Outcome.FAILED

    @property
    def known(self) -> bool:
        """Whether a cause is known."""
        return self.diagnosis.cause.id != "unknown"

    @property
    def end(self) -> datetime | None:
        """About when it ended: times of day that are asked for are near it."""
        times = [line.time for line in (*self.diagnosis.evidence, *self.matter.dossier.timeline) if line.time]
        return self.matter.job.ended_at or max(times, default=None)

    def reply(self, *parts: Part | None) -> Reply:
        """The reply made of these parts."""
        return Reply(self.intent, tuple(part for part in parts if part is not None))

    def proofs(self, most: int = MAX_PROOFS) -> tuple[Line, ...]:
        """The lines that prove the verdict, the strongest first; what only followed stands behind, and never alone."""
        ordered = sorted(self.diagnosis.evidence, key=lambda line: _PROOF[line.role])
        strong = [line for line in ordered if line.role in (Role.ROOT, Role.CONFIRMATION)]
        return tuple(map(of_evidence, (strong or ordered)[:most]))

    def verdict(self) -> str:
        """Cause and place in a sentence: "GPU fell off the bus on gpu-n17 (rank 137)."."""
        if not self.failed:
            return "Nothing shows that this job failed."
        if not self.known:
            return "The cause was not found."
        where = phrases.where(self.diagnosis.initiating)
        guess = "Perhaps: " if self.diagnosis.confidence < phrases.SURE else ""
        return f"{guess}{self.diagnosis.cause.title}{f' on {where}' if where else ''}."


def telling_lines(accounts: Iterable[RankAccount], most: int) -> tuple[Line, ...]:
    """The most telling line of each account, or its last one."""
    said = [(account, account.telling or account.last) for account in accounts]
    return tuple(of_said(line, account.rank, account.host) for account, line in said if line is not None)[:most]


def unique(lines: Iterable[Line]) -> tuple[Line, ...]:
    """The lines, each once."""
    return tuple({(line.source, line.number): line for line in lines}.values())


def of_timeline(lines: Iterable[Evidence]) -> tuple[Line, ...]:
    """Lines of a timeline, in its order."""
    return tuple(map(of_evidence, lines))
