"""What a question is about: one incident, with all that may be said of it to whoever asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Protocol

from bot.answers.logs import Logs
from bot.answers.wording import plain, tokens
from knowledge.diagnosis import Diagnosis
from knowledge.dossier import Dossier, RankAccount
from knowledge.job import JobFacts
from storage.past import OpenEpisode, SeenBefore

_KINDS = {
    "kernel": ("kernel", "dmesg", "kern"),
    "scheduler": ("slurm", "slurmctld", "scheduler", "sacct"),
    "launcher": ("launcher", "torchrun", "mpirun", "srun", "agent"),
    "kubernetes": ("kubernetes", "k8s", "kubectl"),
    "node": ("nvidia-smi", "fabricmanager", "dcgm", "journal"),
}


@dataclass(frozen=True, slots=True)
class Care:
    """Who takes care of it, and how far they are. Persons are Slack's ids; `owner` is the scheduler's user."""

    owner: str = ""
    state: str = ""
    acknowledged_by: str | None = None
    assignee: str | None = None
    resolved_by: str | None = None
    resolution: str | None = None
    note: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """An earlier attempt of this job, or an earlier job of its name, of which something is known."""

    title: str  # "job 48190", "attempt 1"
    job: JobFacts
    dossier: Dossier
    cause: str


class Neighbourhood(Protocol):
    """What else is open, as far as whoever asks may know it."""

    async def others(self) -> Sequence[OpenEpisode]:
        """Return other failures that are open now, the newest first."""
        ...


class Surroundings(Neighbourhood, Protocol):
    """What the service knows beyond this incident, as far as whoever asks may know it."""

    async def seen(self) -> SeenBefore:
        """Return how often this failure was seen."""
        ...

    async def care(self) -> Care:
        """Return who takes care of this one."""
        ...

    async def earlier(self) -> EarlierRun | None:
        """Return the run before this one."""
        ...


@dataclass(frozen=True)
class Matter:
    """One incident."""

    diagnosis: Diagnosis
    dossier: Dossier = field(default_factory=Dossier)
    job: JobFacts = field(default_factory=JobFacts)
    logs: Logs | None = None
    surroundings: Surroundings | None = None

    def account(self, rank: int) -> RankAccount | None:
        """The account of a rank, where there is one."""
        return self._accounts.get(rank)

    @cached_property
    def _accounts(self) -> dict[int, RankAccount]:
        return {account.rank: account for account in self.dossier.ranks}

    @cached_property
    def hosts(self) -> list[str]:
        """Every host that is known by name."""
        names = [account.host for account in self.dossier.ranks]
        names += [source.host for source in self.dossier.sources]
        names += [*self.job.nodes, *self.diagnosis.initiating.hosts, *self.diagnosis.suspect_nodes]
        names += [line.host for line in (*self.dossier.timeline, *self.diagnosis.evidence)]
        return list(dict.fromkeys(name for name in names if name))

    @cached_property
    def words(self) -> frozenset[str]:
        """The words in which this failure is told of."""
        diagnosis = self.diagnosis
        texts = [
            diagnosis.cause.title,
            diagnosis.cause.summary,
            *diagnosis.fix,
            *diagnosis.missing,
            self.job.name or "",
        ]
        texts += [line.text for line in (*diagnosis.evidence, *self.dossier.timeline)]
        return frozenset(word for text in texts for word in tokens(plain(text)))

    @cached_property
    def logs_by_name(self) -> dict[str, tuple[str, ...]]:
        """Every log, with the words that people use for its kind."""
        return {source.name: _KINDS.get(source.kind, ()) for source in self.dossier.sources}

    @cached_property
    def ranks(self) -> set[int]:
        """Every rank that is known by number."""
        known = {account.rank for account in self.dossier.ranks}
        if self.dossier.world_size:
            known |= set(range(min(self.dossier.world_size, 1 << 17)))
        return known | set(self.diagnosis.initiating.ranks) | set(self.diagnosis.collateral.ranks)
