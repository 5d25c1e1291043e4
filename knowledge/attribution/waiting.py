"""Who was waited for: ranks that lag, that never entered, or that issued something else, when others timed out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.notation import compress
from knowledge.attribution.odd_one import in_collective
from knowledge.attribution.own_errors import cause_of_trouble
from knowledge.attribution.strangers import busy_stranger
from knowledge.attribution.troubles import OF_THE_GROUP, dead_thread
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Hit, Place
from knowledge.reading.progress import is_going_on, says_leaving
from knowledge.signature import Says

_PAIRED = ("SEND", "RECV", "COALESCED")  # operations that ranks of a group rightly do not all issue alike
_APART = 16  # collectives by which no rank is ahead of another in a group where they wait for each other


@dataclass(slots=True)
class Position:
    """How far one rank came in one process group."""

    rank: int
    place: Place
    call: Place | None = None  # the line that tells the operation
    seq: int | None = None
    op: str | None = None
    numel: str | None = None
    enqueued: int | None = None
    completed: int | None = None


def positions(view: CaseView) -> dict[str, dict[int, Position]]:
    """Process group → rank → the last position that the rank told."""
    groups: dict[str, dict[int, Position]] = {}
    for rank, story in view.stories.items():
        group = None
        loose: Position | None = None
        for hit in story.hits:
            if not hit.signature.says & {Says.COUNTERS, Says.WAITING}:
                continue
            said = hit.captures
            if not {"seq", "enqueued", "completed", "op"} & said.keys():
                continue
            group = said.get("pg")
            if group is None:
                loose = loose or Position(rank, hit.place)
                _fill(loose, hit)
                continue
            position = groups.setdefault(group, {}).setdefault(rank, Position(rank, hit.place))
            _fill(position, hit)
            if loose and (position.seq is None or loose.seq == position.seq):
                position.op, position.numel = position.op or loose.op, position.numel or loose.numel
                position.call = position.call or loose.call
                loose = None
        if loose:
            groups.setdefault("", {}).setdefault(rank, loose)
    return _joined(groups)


def _joined(groups: dict[str, dict[int, Position]]) -> dict[str, dict[int, Position]]:
    """Ranks whose words name no group belong to the only one that others name: their logs were cut, or are of one version."""
    named = [group for group in groups if group]
    if "" in groups and len(named) == 1:
        groups[named[0]] = groups.pop("") | groups[named[0]]
    return groups


def _fill(position: Position, hit: Hit) -> None:
    said = hit.captures
    position.seq = hit.number("seq") if position.seq is None else position.seq
    position.enqueued = hit.number("enqueued") if position.enqueued is None else position.enqueued
    position.completed = hit.number("completed") if position.completed is None else position.completed
    if position.op is None and "op" in said:
        position.op, position.call = said["op"], hit.place
    position.numel = position.numel or said.get("numel")


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """Hypotheses from collective positions, then from silence."""
    found = positions(view)
    for name, group in found.items():
        if len(group) >= 2:
            yield from _different(view, group) if name or not _of_several(group) else ()
            yield from _lagging(view, group)
    yield from _absent(view)


def _of_several(group: dict[int, Position]) -> bool:
    """Whether ranks that name no group cannot all have told of one: each group counts for itself."""
    told = [position.seq for position in group.values() if position.seq is not None] or [0]
    return max(told) - min(told) > _APART


def _different(view: CaseView, group: dict[int, Position]) -> Iterator[Hypothesis]:
    """Same sequence number, another operation or size: the minority is out of step."""
    by_seq: dict[int, list[Position]] = {}
    for position in group.values():
        if position.seq is not None and position.op and position.op not in _PAIRED:
            by_seq.setdefault(position.seq, []).append(position)
    for same in by_seq.values():
        calls = Counter((position.op, position.numel) for position in same)
        if len(calls) < 2:
            continue
        usual, _ = calls.most_common(1)[0]
        odd = [position for position in same if (position.op, position.numel) != usual]
        clear = len(odd) * 2 < len(same)
        failed = bool(view.own.keys() - group.keys())  # then the others may have waited in whatever they were in
        score = (0.95 if clear else 0.8) - 0.15 * failed
        ranks = sorted(position.rank for position in odd) if clear else []
        proofs = [Proof(one.call or one.place, Role.ROOT) for one in odd[:2]]
        proofs += [Proof(one.call or one.place, Role.CONFIRMATION) for one in same if one not in odd][:1]
        yield Hypothesis(
            cause="collective-mismatch", score=score, ranks=ranks, hosts=view.hosts_of(ranks), proofs=proofs,
            reason="at the same sequence number this rank issued another collective than the rest of the group",
        )  # fmt: skip


def _lagging(view: CaseView, group: dict[int, Position]) -> Iterator[Hypothesis]:
    """A rank that had not even enqueued what the others waited in never joined it."""
    enqueued = {rank: position.enqueued for rank, position in group.items() if position.enqueued is not None}
    waited = [
        position.seq
        for position in group.values()
        if position.seq is not None and position.enqueued is not None and position.seq <= position.enqueued
    ]
    if not enqueued or not waited:
        return
    seq = Counter(waited).most_common(1)[0][0]
    behind = sorted(rank for rank, number in enqueued.items() if number < seq)
    if behind and len(behind) * 2 < len(group):
        yield _laggard(
            view, group, behind, 0.9, f"its last enqueued collective is before {seq}, in which the others waited"
        )
        return
    completed = {rank: position.completed for rank, position in group.items() if position.completed is not None}
    if completed:
        lowest = min(completed.values())
        behind = sorted(rank for rank, number in completed.items() if number == lowest)
        if len(behind) * 2 < len(completed):
            yield _laggard(view, group, behind, 0.7, f"its last completed collective is {lowest}, behind the others")


def _laggard(view: CaseView, group: dict[int, Position], ranks: list[int], score: float, reason: str) -> Hypothesis:
    busy = view.busy_with(ranks)
    proofs = [Proof(group[rank].place, Role.ROOT) for rank in ranks[:2]]
    if busy:
        proofs.insert(0, Proof(busy[1], Role.ROOT))
        reason += "; its last words say what it was busy with"
    return Hypothesis(
        cause=busy[0] if busy else "rank-hang", score=score, reason=reason, ranks=ranks, hosts=view.hosts_of(ranks), proofs=proofs,
        missing=[f"What rank {ranks[0]} was doing: `py-spy dump --pid <pid of rank {ranks[0]}>` during the next hang."],
    )  # fmt: skip


def _absent(view: CaseView) -> Iterator[Hypothesis]:
    """Ranks that neither waited nor lost a peer, while the others did."""
    victims = {*view.waiting, *view.bereft}
    if not victims or _unfit(view):
        return
    if len(view.ranks) < 2:
        yield _nobody(view, victims, [])
        return
    silent = [
        rank for rank in view.numbered if rank not in victims and rank not in view.own and not _gave_up(view, rank)
    ]
    if not silent and (late := _late(view)):
        yield late
        return
    if not silent or len(silent) * 2 > len(view.numbered):
        yield _nobody(view, victims, sorted({*silent} & {*view.ranks}))
        return
    unheard = not any(rank in view.stories for rank in silent)
    if unheard and (busy := busy_stranger(view, silent)):
        yield busy
        return
    torn = [rank for rank in silent if rank in view.gaps.torn and not _left(view, rank)]
    if whole := [rank for rank in silent if rank not in torn]:
        yield _silent(view, whole, torn, victims)
    for rank in torn if len(torn) < 3 else ():
        yield _torn(view, rank, victims)


def _late(view: CaseView) -> Hypothesis | None:
    """The only rank that met closed connections where all others' time was up: busy with something slow, it came too late."""
    late, waited = _parted(view) - _timed_out(view), _timed_out(view)
    busy = view.busy_with(late) if len(late) == 1 and len(waited) > 1 else None
    if busy is None or not is_going_on(busy[1].text):
        return None
    hit = view.waiting[min(waited)][0]
    return Hypothesis(
        cause=busy[0], score=0.78, ranks=sorted(late), hosts=view.hosts_of(late),
        reason="all others' time was up, it found their connections closed, and its last words say what it was busy with",
        proofs=[Proof(busy[1], Role.ROOT), Proof(hit.place, Role.CASCADE, hit.signature.id)],
    )  # fmt: skip


def _unfit(view: CaseView) -> bool:
    """Whether a rank ended by a message of the wrong size: then ranks that fell silent need not have been the first."""
    return any(hit.signature.id == "gloo-size-mismatch" for story in view.stories.values() for hit in story.hits)


def _gave_up(view: CaseView, rank: int) -> bool:
    """Whether a rank ended by an exception of the group's: it met others' trouble, whatever its words."""
    story = view.stories.get(rank)
    last = story.tracebacks[-1] if story and story.tracebacks else None
    if story is None or last is None or view.handled(story, last.end, last.last_order):
        return False
    return last.original.exception.rsplit(".", 1)[-1] in OF_THE_GROUP


def _torn(view: CaseView, rank: int, victims: Iterable[int]) -> Hypothesis:
    """A rank that fell silent in mid-sentence may have said why in the part that is lost."""
    victim = next(iter(victims))
    hit = (view.waiting.get(victim) or view.bereft[victim])[0]
    story = view.stories[rank]
    ended = story.unfinished or story.last
    cause = "app-exception" if story.unfinished else "rank-hang" if view.waiting else "killed-unknown"
    reason = (
        "its log ends in the middle of a traceback" if story.unfinished else "its log ends in the middle of its words"
    )
    return Hypothesis(
        cause=cause, score=0.62 if story.unfinished else 0.56, ranks=[rank], hosts=view.hosts_of([rank]),
        reason=f"{reason}, and the others only waited or lost a peer", missing=[view.gaps.rest_of(rank)],
        proofs=[*([Proof(ended, Role.ROOT)] if ended else []), Proof(hit.place, Role.CASCADE, hit.signature.id)],
    )  # fmt: skip


def _silent(view: CaseView, silent: list[int], torn: list[int], victims: Iterable[int]) -> Hypothesis:
    heard = [
        rank for rank in silent if rank in view.stories and (view.stories[rank].lines > 1 or view.busy_with([rank]))
    ]
    stopped = [rank for rank in silent if (ended := view.exits.get(rank)) and ended.code in (-15, 143)]
    left = [rank for rank in heard if _left(view, rank)]
    ranks, cause, score, reason = _reading(view, silent, heard, left)
    busy = view.busy_with(ranks) if cause == "rank-hang" else None
    if busy and is_going_on(busy[1].text):
        cause, reason = busy[0], f"{reason}; its last words say what it was busy with"
    clear = len(ranks) == 1 or ranks == view.ranks_on(view.host_of(ranks[0]))
    if not clear and stopped and len(stopped) == 1 and view.waiting:
        ranks, clear = stopped, True
    lost = [rank for rank in (*torn, *view.gaps.unheard) if rank not in ranks and rank not in victims]
    if lost and not left:
        score -= 0.25
    proofs = [
        Proof(last, Role.ROOT) for rank in ranks[:2] if (story := view.stories.get(rank)) and (last := story.last)
    ]
    if busy:
        proofs = [Proof(busy[1], Role.ROOT), *(proof for proof in proofs if proof.place != busy[1])]
    if cause == "rank-hang" and len(heard) == 1 and (dump := _watchdog(view, heard[0])):
        proofs.insert(0, Proof(dump, Role.ROOT))
    story = view.stories.get(ranks[0]) if cause == "rank-hang" and len(ranks) == 1 else None
    thread = dead_thread(story) if story else None
    if thread:
        cause, reason = (
            cause_of_trouble(thread),
            "a thread of it had died of this exception right before it stood still",
        )
        proofs.insert(0, Proof(thread.place, Role.ROOT, thread.hit.signature.id if thread.hit else None))
    victim = next(iter(victims))
    hit = (view.waiting.get(victim) or view.bereft[victim])[0]
    proofs.append(Proof(hit.place, Role.CASCADE, hit.signature.id))
    who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks[:8]))}"
    missing = [
        f"What {who} did last: exit code and kernel log of the host, or a stack (`py-spy dump`) at the next hang."
    ]
    if lost:
        missing.insert(0, f"What ranks {compress(lost)} wrote last: their logs are missing or not whole.")
    if not clear:
        ranks, score = [], 0.45
    return Hypothesis(
        cause=cause, score=score, reason=reason, ranks=ranks, hosts=view.hosts_of(ranks), proofs=proofs, missing=missing,
        traceback=thread.traceback if thread else None, signature=thread.hit.signature if thread and thread.hit else None,
        captures=thread.hit.captures if thread and thread.hit else {},
    )  # fmt: skip


def _reading(view: CaseView, silent: list[int], heard: list[int], left: list[int]) -> tuple[list[int], str, float, str]:
    """Which of the silent ranks, what their silence means, and how sure that is."""
    timed_out, parted = _timed_out(view), _parted(view)
    if left:
        return left, "silent-exit", 0.88, "it left the loop by itself while the others still waited for it"
    if not heard:
        if view.bereft and not view.waiting and not view.pulse.count:
            reason = "nothing was heard of it, and the others, which were connected to it, lost it"
            return silent, "peer-lost", 0.5, reason
        began = view.pulse.count or _all_joined(view)
        if (began or view.bereft) and len(silent) > 1:
            reason = "nothing was heard of these ranks, and the others lost them in mid-training"
            return silent, "peer-lost", 0.5, reason
        if began and not timed_out:
            reason = "nothing was heard of it, and all others lost their connection in mid-training"
            return silent, "killed-unknown", 0.6, reason
        if began:
            reason = "nothing was heard of it, and the others timed out waiting for it"
            return silent, "rank-hang", 0.55, reason
        return silent, "missing-rank", 0.68, "nothing at all was heard of it, and the others waited in vain"
    if len(heard) == 1 and _watchdog(view, heard[0]):
        return heard, "rank-hang", 0.84, "its own watchdog found it stuck, wrote its stack, and nothing follows"
    if (timed_out and not parted) or len(timed_out) > len(parted):
        score = 0.72 if parted else 0.82  # where connections closed too, it may have ended instead
        return heard, "rank-hang", score, "it stopped without a word while every other rank timed out waiting"
    if len(heard) == 1 and (ended := view.exits.get(heard[0])) and ended.first and 0 < ended.code < _SIGNALLED:
        return heard, "silent-exit", 0.66, "its launcher saw it end first, by itself, and its log has no word on why"
    if len(heard) == 1:
        return heard, "killed-unknown", 0.72, "its log ends without a word, and all others then lost their connection"
    return heard, "peer-lost", 0.5, "these ranks ended without a word, and the others lost their connection"


def _watchdog(view: CaseView, rank: int) -> Place | None:
    """Where a rank's last words begin, if they are the stack that Python writes before it ends a process which takes too
    long, and the process stood in no collective."""
    story = view.stories[rank]
    dumps = [hit.place for hit in story.hits if hit.signature.id == "faulthandler-timeout"]
    if len(dumps) != 1 or any(hit.place.order > dumps[0].order for hit in story.hits):
        return None
    progress = story.last_progress
    if progress is not None and progress.source == dumps[0].source and progress.order > dumps[0].order:
        return None
    return dumps[0] if story.stacks and not any(map(in_collective, story.stacks)) else None


_SIGNALLED = 128  # from here on, a shell's exit codes mean a signal
_ENDED = "remote process exited"  # NCCL's words


def _saw_the_end(hit: Hit) -> bool:
    """Whether a rank that waited tells of a peer that ended, rather than of time that was up."""
    return hit.signature.cause == "peer-lost" or _ENDED in hit.captures.get("detail", "")


def _timed_out(view: CaseView) -> set[int]:
    """Ranks that waited until their time was up."""
    return {rank for rank, hits in view.waiting.items() if not all(map(_saw_the_end, hits))}


def _parted(view: CaseView) -> set[int]:
    """Ranks that saw a connection end, also those that cannot say whose."""
    return {rank for rank, hits in view.waiting.items() if any(map(_saw_the_end, hits))} | set(view.bereft)


def _all_joined(view: CaseView) -> bool:
    """Whether a collective timed out by the watchdog: it watches only what a communicator of all ranks was made for."""
    return any(
        "seq" in hit.captures and hit.signature.cause == "collective-timeout"
        for hits in view.waiting.values()
        for hit in hits
    )


def _left(view: CaseView, rank: int) -> bool:
    story = view.stories[rank]
    ended = view.exits.get(rank)
    return (
        bool(story.finished)
        or (ended is not None and ended.code == 0)
        or bool(story.last and says_leaving(story.last.text))
    )


def _nobody(view: CaseView, victims: Iterable[int], silent: list[int]) -> Hypothesis:
    """Everybody waited, or too many are silent: the cause lies outside what was read."""
    unanswered = [hit for hits in view.bereft.values() for hit in hits if hit.signature.cause == "rdma-retry-exceeded"]
    if unanswered and not silent:
        return _transport(view, unanswered)
    timed_out = bool(_timed_out(view))
    busy = None if silent else busy_stranger(view, [])
    if busy:
        return busy
    lead = next((hits[0] for rank in victims if (hits := view.waiting.get(rank) or view.bereft.get(rank))), None)
    return Hypothesis(
        cause="collective-timeout" if timed_out or not _parted(view) else "peer-lost", score=0.45, reason="every rank that spoke was only waiting",
        proofs=[Proof(lead.place, Role.CASCADE, lead.signature.id)] if lead else [], signature=lead.signature if lead else None,
        missing=[
            ("Which rank did not answer: the logs of the silent ranks, the launcher's exit codes, or flight-recorder dumps "
            "(TORCH_NCCL_TRACE_BUFFER_SIZE=2000).")
        ],
    )  # fmt: skip


def _transport(view: CaseView, unanswered: list[Hit]) -> Hypothesis:
    """All ranks lived and none had trouble of its own: what lies between them did not deliver."""
    peers = dict.fromkeys(
        view.case.addresses.get(peer, peer) for hit in unanswered if (peer := hit.captures.get("peer"))
    )
    devices = dict.fromkeys(device for hit in unanswered if (device := hit.captures.get("device")))
    ends = " and ".join([*peers][:4]) or "the hosts in these lines"
    ports = f" of {', '.join([*devices][:4])}" if devices else ""
    return Hypothesis(
        cause="rdma-retry-exceeded", score=0.5, signature=unanswered[0].signature, captures=unanswered[0].captures, whole_job=True,
        reason="every rank lived and told of others only, and RDMA requests between them were not answered",
        proofs=[Proof(hit.place, Role.CASCADE, hit.signature.id) for hit in unanswered[:2]],
        missing=[f"Which end or switch it was: kernel log and port counters{ports} (`perfquery -x`) of {ends}."],
    )  # fmt: skip
