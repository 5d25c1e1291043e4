"""Flight-recorder dumps: in each process group, who has not come to the operation in which the others wait.

Groups wait for each other: a rank that is missing in one of them may only be waiting in another. Whoever is missing
somewhere and waits nowhere is where it began.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.platform import state_of
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Place
from knowledge.reading.flight_recorder import Call, Dump

_SAME_SHAPES = (
    "all_reduce", "allreduce_coalesced", "broadcast", "reduce", "barrier", "_all_gather_base", "_reduce_scatter_base",
    "all_gather_into_tensor", "reduce_scatter_tensor",
)  # fmt: skip
"""Operations in which every rank must bring the same shapes; in the others they may differ."""

_GOING_ON = ("", "RUNNING", "COMPLETING", "PENDING")
"""States of a job that say nothing of a standstill."""

_WINDOW = 1000  # operations that are compared between ranks, from the first that some rank has not completed

_PEER = re.compile(r"^(?:send (?P<source>\d+)->(?P<to>\d+)|recv (?P<into>\d+)<-(?P<origin>\d+))")


@dataclass(slots=True)
class _Group:
    """One process group over all dumps: global rank → its calls, in order."""

    title: str
    members: tuple[int, ...] = ()  # in the group's order; empty where no dump tells
    calls: dict[int, list[Call]] = field(default_factory=dict)

    @property
    def tracked(self) -> bool:
        """Whether the library told when operations started and completed; Gloo's does not."""
        return any(call.state in ("started", "completed") for calls in self.calls.values() for call in calls)

    def position(self, rank: int) -> tuple[int, bool]:
        """The operation that a rank has still to complete, and whether it has entered it."""
        collectives = [call for call in self.calls.get(rank, []) if not call.p2p]
        if not collectives:
            return (0, False)
        last = collectives[-1].seq
        if not self.tracked:
            return (last, True)
        unfinished = [call.seq for call in collectives if call.state != "completed"]
        return (min(unfinished), True) if unfinished else (last + 1, False)

    def at(self, rank: int, seq: int) -> list[Call]:
        """A rank's calls with one sequence number: several where they were coalesced."""
        return [call for call in self.calls.get(rank, []) if call.seq == seq and not call.p2p]


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """Mismatched calls first, then who is missing; nothing where the dumps show no standstill."""
    dumps = _dumps(view)
    if not dumps or not _stood_still(view, dumps.values()):
        return
    rest = []
    for group in _groups(dumps):
        different = _different(view, group)
        if different:
            yield different
        else:
            rest.append(group)
    yield from _missing(view, rest, dumps)


def _dumps(view: CaseView) -> dict[int, Dump]:
    """The fullest dump of each rank."""
    found: dict[int, Dump] = {}
    for source, dump in view.case.dumps:
        if source.attempt in (None, view.attempt):
            known = found.get(dump.rank)
            if known is None or _fullness(dump) > _fullness(known):
                found[dump.rank] = dump
    return found


def _fullness(dump: Dump) -> tuple[int, bool]:
    return len(dump.calls), any(call.where for call in dump.calls)


def _stood_still(view: CaseView, dumps: Iterable[Dump]) -> bool:
    """Dumps can be asked for at any time: whether these were written because the job no longer went on."""
    if not view.stories or view.waiting or view.bereft or state_of(view) not in _GOING_ON:
        return True
    return any(call.retired and call.state == "started" for dump in dumps for call in dump.calls)


def _groups(dumps: dict[int, Dump]) -> list[_Group]:
    """Bring together what the dumps tell of each group. Names are unique in one process only, so members count too."""
    found: dict[tuple[str, tuple[int, ...]], _Group] = {}
    for dump in dumps.values():
        for told in dump.groups.values():
            if told.ranks:
                found.setdefault((told.name, told.ranks), _Group(told.title or told.name, told.ranks))
    for rank, dump in dumps.items():
        for told in dump.groups.values():
            members = told.ranks or next((ranks for name, ranks in found if name == told.name and rank in ranks), ())
            group = found.setdefault((told.name, members), _Group(told.title or told.name, members))
            calls = [call for call in dump.calls if call.group == told.name]
            if calls and (rank in members or not members):
                group.calls[rank] = calls
    return [group for group in found.values() if group.calls]


def _different(view: CaseView, group: _Group) -> Hypothesis | None:
    """The first operation that some have not completed and in which the calls differ: the minority is out of step."""
    reached = [group.position(rank)[0] for rank in group.calls]
    for seq in range(min(reached, default=0), min(max(reached, default=-1), min(reached, default=0) + _WINDOW) + 1):
        at = {rank: calls for rank in group.calls if (calls := group.at(rank, seq))}
        kinds = Counter(_kind(calls) for calls in at.values())
        if len(kinds) < 2:
            continue
        usual, many = kinds.most_common(1)[0]
        odd = sorted(rank for rank, calls in at.items() if _kind(calls) != usual)
        clear = len(odd) < many
        rest = next(rank for rank in at if rank not in odd)
        return Hypothesis(
            cause="collective-mismatch", score=0.95 if clear else 0.8, ranks=odd if clear else [],
            hosts=view.hosts_of(odd) if clear else [],
            reason=f"operation {seq} of {group.title} is another call on this rank than on the others, by their flight recorders",
            proofs=[*(_proof(view, rank, at[rank][0], Role.ROOT) for rank in odd[:2]),
                    _proof(view, rest, at[rest][0], Role.CONFIRMATION)],
        )  # fmt: skip
    return None


def _kind(calls: list[Call]) -> tuple[str, ...]:
    return tuple(f"{call.op} {call.shapes}" if call.op in _SAME_SHAPES else call.op.split(" ")[0] for call in calls)


@dataclass(slots=True)
class _Suspicion:
    """Ranks that a group waits for."""

    group: _Group
    ranks: set[int]
    waiting: set[int]
    score: float
    reason: str


def _missing(view: CaseView, groups: list[_Group], dumps: dict[int, Dump]) -> Iterator[Hypothesis]:
    found = [suspicion for group in groups for suspicion in (*_behind(group, dumps), *_unanswered(group))]
    waiting = {rank for suspicion in found for rank in suspicion.waiting}
    began = [suspicion for suspicion in found if suspicion.ranks - waiting]
    if found and not began:
        yield Hypothesis(
            cause="collective-mismatch", score=0.7, whole_job=True,
            reason="by their flight recorders, process groups wait for each other: ranks use them in different orders",
            proofs=[_last(view, one.group, dumps[rank], Role.ROOT) for one in found[:2] for rank in sorted(one.waiting)[:1]],
        )  # fmt: skip
    if not began:
        return
    lead = max(began, key=lambda one: (one.score, len(one.waiting)))
    ranks = sorted(set().union(*(one.ranks - waiting for one in began if one.score == lead.score)))
    witness = min(lead.waiting)
    busy = view.busy_with(ranks)
    own = [_last(view, lead.group, dumps[rank], Role.ROOT) for rank in ranks[:2] if rank in dumps and dumps[rank].calls]
    yield Hypothesis(
        cause=busy[0] if busy else "rank-hang", score=lead.score, reason=lead.reason, ranks=ranks, hosts=view.hosts_of(ranks),
        proofs=[*([Proof(busy[1], Role.ROOT)] if busy else []), *own, _last(view, lead.group, dumps[witness], Role.CONFIRMATION)],
        missing=[f"What rank {ranks[0]} was doing: `py-spy dump --pid <pid of rank {ranks[0]}>` during the next hang."],
    )  # fmt: skip


def _behind(group: _Group, dumps: dict[int, Dump]) -> Iterator[_Suspicion]:
    """Who is behind the others in the group's order of operations; failing that, whose GPU is."""
    positions = {rank: group.position(rank) for rank in group.calls}
    positions |= {rank: (0, False) for rank in group.members if rank in dumps and rank not in positions}
    absent = {rank for rank in group.members if rank not in dumps}
    if len(positions) + len(absent) < 2 or not positions:
        return
    least = min(positions.values())
    most = max(positions.values())
    entered = {rank for rank, position in positions.items() if position > least}
    behind = set(positions) - entered
    if entered and len(behind) <= len(entered):
        score, reason = (
            0.93,
            f"its flight recorder ends before operation {most[0]} of {group.title}, in which the others wait",
        )
        if least[1] and group.tracked:
            score, reason = (
                0.85,
                f"it is still in operation {least[0]} of {group.title}, which the others have completed",
            )
        yield _Suspicion(group, behind, entered, score, reason)
        return
    if not entered and not least[1]:
        return
    started = {rank for rank in behind if any(call.state == "started" for call in group.at(rank, least[0]))}
    late = behind - started
    if not entered and started and late and len(late) <= len(started):
        reason = f"its GPU has not come to operation {least[0]} of {group.title}, which has started on the others'"
        yield _Suspicion(group, late, started, 0.76, reason)
    elif not entered and absent and len(absent) <= len(behind):
        reason = f"it left no flight recorder, and all others of {group.title} wait in operation {least[0]}"
        yield _Suspicion(group, absent, behind, 0.55, reason)


def _unanswered(group: _Group) -> Iterator[_Suspicion]:
    """Sends and receives that did not complete: the other side, unless it is in them too."""
    if not group.tracked:
        return
    arrows: dict[int, set[int]] = {}  # peer → who waits for it
    for rank, calls in group.calls.items():
        for call in calls:
            found = _PEER.match(call.op) if call.p2p and call.state != "completed" else None
            place = int(found["to"] or found["origin"]) if found else len(group.members)
            if place < len(group.members):
                arrows.setdefault(group.members[place], set()).add(rank)
    for peer, waiters in arrows.items():
        if not any(peer in others for others in arrows.values()):
            reason = f"others wait to send to it or to receive from it in {group.title}, and it is in neither"
            yield _Suspicion(group, {peer}, waiters, 0.82, reason)
        else:
            yield _Suspicion(group, set(), waiters, 0.0, "")


def _last(view: CaseView, group: _Group, dump: Dump, role: Role) -> Proof:
    """The call in which a rank stands: the first in the group that it has not completed, else its last anywhere."""
    calls = group.calls.get(dump.rank) or dump.calls
    stands = next((call for call in calls if group.tracked and call.state != "completed"), calls[-1])
    return _proof(view, dump.rank, stands, role)


def _proof(view: CaseView, rank: int, call: Call, role: Role) -> Proof:
    """An entry of a dump as a line: dumps have none, so it is its number and what it says."""
    source, dump = next((source, dump) for source, dump in view.case.dumps if dump.rank == rank and call in dump.calls)
    title = next((told.title for told in dump.groups.values() if told.name == call.group), call.group)
    parts = [
        f"{call.op}, number {call.seq} of {title or call.group}",
        call.state if any(other.state != "scheduled" for other in dump.calls) else "",  # Gloo tells no states
        call.shapes,
        f"called in {call.where}" if call.where else "",
    ]
    text = "flight recorder: " + "; ".join(part for part in parts if part)
    return Proof(
        Place(source, call.number, call.number, text, rank, view.host_of(rank), view.attempt, None, 1970), role
    )
