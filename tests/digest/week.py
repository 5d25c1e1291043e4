"""A week of 30 failures made by hand, 16 to 22 November 2026 in Zurich, with what stands around it.

Every number that a digest may say of it is worked out on paper in `test_numbers.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy.ext.asyncio import AsyncSession

from storage.database import Database
from storage.tables import (
    Action,
    ActionKind,
    Cluster,
    Episode,
    EpisodeState,
    Incident,
    IncidentNode,
    IncidentState,
    Message,
    Part,
)

ZURICH = ZoneInfo("Europe/Zurich")
CHANNEL = "C0TRAINFAIL"
ELSEWHERE = "C0ELSEWHERE"
MONDAY_AFTER = datetime(2026, 11, 23, 8, tzinfo=UTC)  # 9 o'clock in Zurich


def at(day: int, hour: int = 12, minute: int = 0, *, month: int = 11) -> datetime:
    """A moment of 2026 by the clock of Zurich."""
    return datetime(2026, month, day, hour, minute, tzinfo=ZURICH).astimezone(UTC)


@dataclass(frozen=True)
class Kind:
    """What a group of failures has in common. `minutes` is how long each attempt ran."""

    cause: str
    fingerprint: str
    name: str
    owner: str
    ranks: int | None
    minutes: int
    hosts: tuple[str, ...] = ()
    suspect: bool = False


@dataclass
class Told:
    """An episode to be: its failures by when they were heard of, and what people did."""

    id: str
    kind: Kind
    heard: Sequence[datetime]
    channels: list[str] = field(default_factory=lambda: [CHANNEL])
    acknowledged: tuple[str, datetime] | None = None
    assignee: str | None = None
    resolved: tuple[str, datetime, str] | None = None
    hosts: dict[int, str] = field(default_factory=dict)  # initiating node by the failure's number, where not the kind's


GPU = Kind("gpu-lost", "f1a0000000000001", "llama-70b", "alice", 512, 120, ("gpu-n17",), suspect=True)
OOM = Kind("gpu-oom", "f2b0000000000002", "vit-large", "bob", 64, 30)
NET = Kind("link-down", "f3c0000000000003", "moe-8x22", "carol", 128, 60)
SHARD = Kind("app-exception", "f4d0000000000004", "tokenise", "dave", 8, 15)
DISK = Kind("disk-full", "f5e0000000000005", "eval", "erin", None, 60)
DARK = Kind("unknown", "f6f0000000000006", "whisper", "frank", 16, 180)
LOADER = Kind("app-exception", "f7a0000000000007", "loader", "grace", 8, 60)

WEEK = [
    # 16 Nov at midnight sharp belongs to the week; so does the last second before 23 Nov.
    Told("e-gpu", GPU, [at(16, 0), at(16, 15), at(18), at(21)], acknowledged=("U0BOB", at(16, 0, 12))),
    Told("e-oom", OOM, [at(17, hour) for hour in (9, 10, 11)] + [at(19, hour) for hour in (9, 10, 11, 12, 13)],
         hosts={0: "gpu-n02", 1: "gpu-n02"}),
    Told("e-net", NET, [at(20, 10, minute) for minute in (0, 1, 2, 3, 4, 5)], hosts={0: "gpu-n05", 1: "gpu-n05"},
         acknowledged=("U0CAROL", at(20, 10, 30)), resolved=("U0CAROL", at(20, 13), "fixed")),
    Told("e-shard", SHARD, [at(18, hour) for hour in (1, 2, 3, 4, 5)],
         acknowledged=("U0DAVE", at(18, 1, 6)), resolved=("U0DAVE", at(18, 2), "false-alarm")),
    Told("e-disk", DISK, [at(22, 20), at(22, 21), at(23, 0) - timedelta(seconds=1)],
         acknowledged=("U0BOB", at(22, 21)), assignee="U0CAROL"),
    Told("e-dark1", DARK, [at(17, 18)]),
    Told("e-dark2", DARK, [at(21, 18)]),
    Told("e-loader", LOADER, [at(19, 14), at(19, 15)], resolved=("U0GRACE", at(19, 19), "fixed")),
]  # fmt: skip

AROUND = [
    # The week before: five failures.
    Told("e-net0", NET, [at(9, 8), at(9, 9)], resolved=("U0CAROL", at(9, 12), "fixed")),
    Told("e-loader0", LOADER, [at(11)], resolved=("U0GRACE", at(12), "fixed")),
    Told("e-gpu0", GPU, [at(15, 23, 59)], resolved=("U0BOB", at(15, 23, 59), "node drained")),
    Told("e-disk0", DISK, [at(10)], resolved=("U0ERIN", at(10, 14), "fixed")),
    # Long before, and just after.
    Told("e-gpu-first", GPU, [at(2)], resolved=("U0BOB", at(3), "node drained")),
    Told("e-disk-first", DISK, [at(12, month=10)], resolved=("U0ERIN", at(13, month=10), "fixed")),
    Told("e-after", OOM, [at(23, 0)], resolved=("U0BOB", at(23, 1), "fixed")),
    # Other people's: the fingerprint of OOM was seen there long ago, which CHANNEL must not learn.
    Told("e-secret", OOM, [at(1), at(18)], channels=[ELSEWHERE]),
]


async def fill(database: Database) -> None:
    """Store the week. The service was set up on 1 October."""
    async with database.writing() as session:
        cluster = Cluster(name="alps", token_hash="0" * 64, created_at=at(1, month=10))
        session.add(cluster)
        await session.flush()
        assert cluster.id is not None
        for number, told in enumerate([*WEEK, *AROUND]):
            await tell(session, cluster.id, told, first_job=1000 * (number + 1))
        session.add(_incident(cluster.id, "71", at(18), GPU, outcome="not-a-failure"))
        session.add(_incident(cluster.id, "72", at(18), LOADER))  # in no channel at all
        for number, user in enumerate(("U0ALICE", "U0GRACE")):  # two people, one episode
            judged = Action(key=f"w{number}", episode_id="e-loader", kind=ActionKind.WRONG, user=user, at=at(19, 20))
            session.add(judged)
        for user, name in (("U0BOB", "bob"), ("U0CAROL", "carol")):
            known = Action(key=user, episode_id="e-gpu", kind=ActionKind.ACKNOWLEDGE, user=user, user_name=name)
            session.add(known)


async def tell(session: AsyncSession, cluster_id: int, told: Told, first_job: int) -> None:
    """Store one episode with its incidents."""
    incidents = [
        _incident(cluster_id, str(first_job + number), moment, told.kind) for number, moment in enumerate(told.heard)
    ]
    episode = Episode(
        id=told.id,
        fingerprint=told.kind.fingerprint,
        cause=told.kind.cause,
        channels=told.channels,
        lead_id=incidents[0].id,
        opened_at=told.heard[0],
        last_at=told.heard[-1],
        assignee=told.assignee,
    )
    if told.acknowledged:
        episode.acknowledged_by, episode.acknowledged_at = told.acknowledged
        episode.state = EpisodeState.ACKNOWLEDGED
    if told.resolved:
        episode.resolved_by, episode.resolved_at, episode.resolution = told.resolved
        episode.state = EpisodeState.RESOLVED
    session.add(episode)
    await session.flush()
    for incident in incidents:
        incident.episode_id = episode.id
        session.add(incident)
    await session.flush()
    for number, incident in enumerate(incidents):
        own = (told.hosts[number],) if number in told.hosts else told.kind.hosts
        for host in own:
            session.add(IncidentNode(incident_id=incident.id, host=host, part=Part.INITIATING))
            if told.kind.suspect:
                session.add(IncidentNode(incident_id=incident.id, host=host, part=Part.SUSPECT))
    for channel in told.channels:
        ts = f"{told.heard[0].timestamp():.6f}"
        session.add(Message(key=f"{told.id}/{channel}", episode_id=told.id, channel=channel, ts=ts))


def _incident(cluster_id: int, job_id: str, heard: datetime, kind: Kind, outcome: str = "failed") -> Incident:
    return Incident(
        cluster_id=cluster_id,
        scheduler="slurm",
        job_id=job_id,
        attempt=0,
        state=IncidentState.DIAGNOSED,
        family=f"{cluster_id}/slurm/{job_id}",
        fingerprint=kind.fingerprint,
        outcome=outcome,
        cause=kind.cause,
        job_name=kind.name,
        owner=kind.owner,
        ranks=kind.ranks,
        started_at=heard - timedelta(minutes=kind.minutes),
        ended_at=heard,
        created_at=heard,
    )
