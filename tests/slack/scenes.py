"""Moments in the life of an incident, as people see them: for pictures, and for checks of everything that is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.slack.contract import Before, IncidentStatus, Member, SlackFile, SlackMessage, State
from bot.slack.message import render, render_merged
from bot.slack.modals import correction, resolution
from bot.slack.thread import replies
from knowledge.diagnosis import Collateral, Evidence, Initiating, Restart, Role, VerifyStep
from knowledge.dossier import Dossier, Part, RankAccount, Said, SourceAccount
from storage.tables import Action, ActionKind
from tests.slack import samples

EPISODE = "0f9c2f4f5f1d4f3d9a52d5c1a7e0b111"
NIGHT = datetime(2026, 11, 30, 9, 12, 7, tzinfo=UTC)
LINK = "https://example.test/archives/C0TRAINFAIL/p1763100000000100"

Scene = Callable[[], list[Any]]


def standing(**more: Any) -> IncidentStatus:
    """The status of the lost GPU, with buttons."""
    _, _, status = samples.gpu_lost()
    known: dict[str, Any] = {
        "episode_id": EPISODE,
        "owner": "U0ALICE",
        "last_seen": datetime(2026, 11, 14, tzinfo=UTC),
        "nodes": ("gpu-n17", "gpu-n03"),
        "before": Before("bob", datetime(2026, 11, 14, tzinfo=UTC), "node-drained", "GPU reseated by the vendor", LINK),
    }
    return replace(status, **(known | more))


def lost_gpu(**more: Any) -> SlackMessage:
    """The message about the lost GPU of 512 ranks."""
    job, diagnosis, _ = samples.gpu_lost()
    return render(job, diagnosis, standing(**more))


def plain() -> SlackMessage:
    """A failure of the program itself, on two nodes."""
    job, diagnosis, status = samples.python_exception()
    return render(job, diagnosis, replace(status, episode_id=EPISODE, owner="U0BOB"))


def guess() -> SlackMessage:
    """A failure that cannot be told from what has arrived."""
    job, diagnosis, status = samples.cannot_tell()
    return render(job, diagnosis, replace(status, episode_id=EPISODE, owner="U0BOB"))


def acknowledged() -> SlackMessage:
    """Somebody looks after it and gave it to another."""
    at = NIGHT + timedelta(minutes=4)
    return lost_gpu(
        state=State.ACKNOWLEDGED, acknowledged_by="U0BOB", acknowledged_at=at, assignee="U0ALICE", reported=64
    )


def resolved() -> SlackMessage:
    """It is over, with the reason."""
    at = NIGHT + timedelta(hours=2)
    return lost_gpu(
        state=State.RESOLVED,
        acknowledged_by="U0BOB",
        acknowledged_at=NIGHT + timedelta(minutes=4),
        resolved_by="U0BOB",
        resolved_at=at,
        resolution="node-drained",
        note="gpu-n17 is out, ticket 4711",
        reported=64,
    )


def muted() -> SlackMessage:
    """Nobody wants to be woken by it for a week."""
    return lost_gpu(state=State.MUTED, muted_by="U0CAROL", muted_until=NIGHT + timedelta(days=7), reported=64)


def recovered() -> SlackMessage:
    """A later attempt went well."""
    return lost_gpu(recovered_by="attempt 4", members=attempts(), member_count=3, reported=64)


def attempts() -> tuple[Member, ...]:
    """Three attempts of one job."""
    return tuple(
        Member(f"i{n}", "48213", n, "llama-70b-pretrain", "alice", "gpu-n17", NIGHT - timedelta(hours=2 - n))
        for n in (2, 1, 0)
    )


def storm_members(count: int) -> tuple[Member, ...]:
    """Jobs of many people that fell within ten minutes."""
    owners, names = ("alice", "bob", "carol", "dave"), ("llama-70b-pretrain", "vit-huge", "sft-13b", "rlhf-ppo-7b")
    return tuple(
        Member(
            f"i{n}",
            str(48900 - n),
            0,
            names[n % 4],
            owners[n % 4],
            f"gpu-n{n % 64:02d}",
            NIGHT - timedelta(seconds=n),
        )
        for n in range(count)
    )


def storm(count: int = 500) -> tuple[Any, Any, IncidentStatus]:
    """A file server went away under everybody."""
    job, diagnosis, _ = samples.gpu_lost()
    cause = diagnosis.cause.model_copy(
        update={
            "id": "stale-file-handle",
            "layer": "storage",
            "title": "Stale NFS file handle",
            "summary": "The file server at /scratch stopped serving handles that were open.",
        }
    )
    line = Evidence(
        source="gpu-n00/rank-0.err",
        line=881,
        host="gpu-n00",
        text="OSError: [Errno 116] Stale file handle: '/scratch/data/shard-0117.tar'",
        role=Role.ROOT,
    )
    told = diagnosis.model_copy(
        update={
            "cause": cause,
            "evidence": [line],
            "initiating": Initiating(),
            "collateral": Collateral(),
            "suspect_nodes": [],
            "fix": ["Ask the storage team whether /scratch was failed over.", "Remount /scratch on the nodes."],
            "verify": [VerifyStep(run="ls /scratch/data | head -1", expect="a file name, within a second")],
            "restart": Restart.AFTER_FIX,
        }
    )
    members = storm_members(min(count, 100))
    return (
        job,
        told,
        IncidentStatus(episode_id=EPISODE, url=samples.URL, occurrences=count, member_count=count, members=members),
    )


def dossier(world: int = 512) -> Dossier:
    """What each of the ranks said when rank 137 lost its GPU."""
    waited = "[rank{0}]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88123, OpType=ALLREDUCE)"

    def account(rank: int) -> RankAccount:
        host = f"gpu-n{rank // 8 + 1:02d}"
        source = f"{host}/rank-{rank}.err"
        if rank == 137:
            text = "torch.AcceleratorError: CUDA error: unspecified launch failure"
            said = Said(source="gpu-n17/rank-137.err", line=5123, text=text)
            last = Said(
                source="gpu-n17/rank-137.err",
                line=5140,
                text="terminate called after throwing an instance of 'c10::Error'",
            )
            return RankAccount(
                rank=rank,
                host="gpu-n17",
                part=Part.INITIATING,
                telling=said,
                last=last,
                step=41_210,
                ended="signal 6 (SIGABRT)",
            )
        if rank == 138:
            return RankAccount(rank=rank, host=host, part=Part.SILENT)
        said = Said(source=source, line=990 + rank % 7, text=waited.format(rank))
        return RankAccount(rank=rank, host=host, part=Part.COLLATERAL, telling=said, step=41_210, ended="exit code 134")

    _, diagnosis, _ = samples.gpu_lost()
    timeline = [
        *diagnosis.evidence,
        Evidence(
            source="gpu-n17/kern.log",
            line=810,
            host="gpu-n17",
            text="pcieport 0000:17:01.0: AER: Uncorrected (Fatal) error received",
            role=Role.CONTEXT,
        ),
        Evidence(
            source="gpu-n17/rank-137.err",
            line=5119,
            rank=137,
            text="step 41210 loss 1.912 lr 2.1e-05",
            role=Role.CONTEXT,
        ),
    ]
    sources = [
        SourceAccount(name="gpu-n17/kern.log", kind="kernel", host="gpu-n17", bytes=190_000),
        SourceAccount(name="gpu-n17/rank-137.err", kind="rank", ranks=[137], host="gpu-n17", bytes=900_000),
        SourceAccount(name="gpu-n01/rank-0.err", kind="rank", ranks=[0], host="gpu-n01", bytes=700_000),
    ]
    return Dossier(world_size=world, ranks=[account(rank) for rank in range(world)], timeline=timeline, sources=sources)


def actions() -> list[Action]:
    """A night's work."""

    def did(number: int, kind: ActionKind, user: str, name: str, minutes: int, **detail: Any) -> Action:
        at = NIGHT + timedelta(minutes=minutes)
        return Action(
            id=number, key=str(number), episode_id=EPISODE, kind=kind, user=user, user_name=name, detail=detail, at=at
        )

    return [
        did(1, ActionKind.ACKNOWLEDGE, "U0BOB", "bob", 4),
        did(2, ActionKind.ASSIGN, "U0BOB", "bob", 5, assignee="U0ALICE"),
        did(
            3, ActionKind.WRONG, "U0ALICE", "alice", 30, ranks=[8, 9], cause="nic-fault", note="the switch port flapped"
        ),
        did(4, ActionKind.RESOLVE, "U0ALICE", "alice", 122, resolution="node-drained", note="ticket 4711"),
    ]


def thread() -> list[SlackMessage | SlackFile]:
    """The thread below the lost GPU, with a verdict that changed."""
    job, diagnosis, _ = samples.gpu_lost()
    _, early, _ = samples.cannot_tell()
    history = [(1, early), (2, diagnosis)]
    return [reply.content for reply in replies(job, diagnosis, standing(), dossier(), history, actions())]


ALL: dict[str, Scene] = {
    "plain": lambda: [plain()],
    "lost-gpu": lambda: [lost_gpu()],
    "guess": lambda: [guess()],
    "storm": lambda: [render(*storm())],
    "acknowledged": lambda: [acknowledged()],
    "resolved": lambda: [resolved()],
    "muted": lambda: [muted()],
    "recovered": lambda: [recovered()],
    "merged": lambda: [render_merged(samples.gpu_lost()[0], LINK)],
    "thread": lambda: [lost_gpu(), thread()],
    "modal-resolve": lambda: [resolution(EPISODE, "C0TRAINFAIL", None)],
    "modal-wrong": lambda: [correction(EPISODE, "C0TRAINFAIL", None)],
}
