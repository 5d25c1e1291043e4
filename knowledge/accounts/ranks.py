"""Every rank's account: where it lived, what it said that tells most, its last line, how it ended."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.accounts.quoting import Quoting
from knowledge.attribution.endings import describe
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Diagnosis
from knowledge.dossier import MAX_RANKS, Part, RankAccount, Said
from knowledge.reading.evidence import Place, RankStory
from knowledge.signature import SignatureRole

_ROOM = 300_000  # characters of all lines quoted
_BARE = 110  # of an account beside its lines
_MAX_HOST = 100
_TELLING = (SignatureRole.ROOT, SignatureRole.CASCADE, SignatureRole.CONFIRMATION)


def account_for_ranks(view: CaseView, diagnosis: Diagnosis, quoting: Quoting) -> list[RankAccount]:
    """Accounts by rank. Where there are too many, those that tell most keep their lines. Raises UnreadableEvidence."""
    parts = _Parts(view, diagnosis)
    chosen = sorted(view.numbered, key=lambda rank: (parts.weight(rank), rank))[:MAX_RANKS]
    room = _ROOM
    accounts: list[RankAccount] = []
    for rank in chosen:
        account = RankAccount(rank=rank, part=parts.of(rank), host=(view.host_of(rank) or "")[:_MAX_HOST] or None)
        story = view.stories.get(rank)
        if rank in view.exits:
            account.ended = describe(view.exits[rank].code)
        if story is not None:
            account.step = story.last_step
        if room > 0:
            account.telling = quoting.said(telling_place(view, rank, story))
            account.last = quoting.said(story.last) if story else None
            room -= sum(map(_size, (account.telling, account.last)))
        accounts.append(account)
    return sorted(accounts, key=lambda account: account.rank)


def _size(said: Said | None) -> int:
    return len(said.text) + len(said.source) + 80 if said else 0


class _Parts:
    def __init__(self, view: CaseView, diagnosis: Diagnosis) -> None:
        self._view = view
        self._began = set(diagnosis.initiating.ranks)
        self._followed = set(diagnosis.collateral.ranks)

    def of(self, rank: int) -> Part:
        if rank in self._began:
            return Part.INITIATING
        if not self._heard(rank):
            return Part.SILENT
        return Part.COLLATERAL if rank in self._followed else Part.OTHER

    def weight(self, rank: int) -> int:
        if rank in self._began:
            return 0
        return 1 if rank in self._view.own else 2 if not self._heard(rank) else 3

    def _heard(self, rank: int) -> bool:
        story = self._view.stories.get(rank)
        return story is not None and bool(story.lines or story.hits or story.tracebacks)


def telling_place(view: CaseView, rank: int, story: RankStory | None) -> Place | None:
    """The line of a rank that says most about why it ended: its own trouble, or how it suffered from others'."""
    return next(_telling(view, rank, story), None)


def _telling(view: CaseView, rank: int, story: RankStory | None) -> Iterator[Place]:
    yield from (own.place for own in view.own.get(rank, []))
    for told in (view.waiting, view.bereft):
        yield from (hit.place for hit in told.get(rank, []))
    if story is not None:
        for role in _TELLING:
            yield from (hit.place for hit in story.hits if hit.signature.role is role)
        yield from (traceback.end for traceback in story.tracebacks)
    if rank in view.exits:
        yield view.exits[rank].place
