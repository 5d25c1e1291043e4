"""Ranks with trouble of their own: an exception, a CUDA error, a full disk. The strongest evidence there is."""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Iterator

from knowledge.attribution.clocks import SURE, Clocks, estimate
from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.notation import compress
from knowledge.attribution.troubles import OF_THE_GROUP, Own, is_last_act
from knowledge.attribution.view import CaseView
from knowledge.causes import load_causes
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Frame, Place
from knowledge.reading.progress import is_warning
from knowledge.signature import Scope, SourceKind

_TAIL = 60  # lines in which the rest of an exception may stand, such as a worker's own traceback
_DATA_FRAMES = ("data", "loader", "collate", "sample", "dataset", "batch", "token")
BY_TYPE = {
    "MemoryError": "host-oom",
    "ModuleNotFoundError": "import-error",
    "ImportError": "import-error",
    "FloatingPointError": "loss-not-finite",
    "JSONDecodeError": "data-error",
    "UnicodeDecodeError": "data-error",
    "FileNotFoundError": "file-not-found",
    "PermissionError": "permission-denied",
}
"""What exceptions stand for by their mere type."""
_BY_NUMBER = {
    2: "file-not-found", 5: "storage-io-error", 12: "host-oom", 13: "permission-denied", 24: "fd-limit", 28: "disk-full",
    30: "read-only-fs", 107: "storage-io-error", 108: "storage-io-error", 116: "stale-file-handle", 117: "storage-io-error",
    122: "quota-exceeded",
}  # fmt: skip
"""Linux's numbers of errors, whose words may be cut off or in another language."""

_OF_A_FORMAT = (
    "KeyError", "IndexError", "EOFError", "ValueError", "OverflowError", "UnpicklingError", "BadZipFile", "ReadError", "error",
)  # fmt: skip
"""Exceptions of readers that meet bytes which are not in their format."""

_ERRNO = re.compile(r"^\[Errno (?P<number>\d{1,3})\]")
_REMOTE = re.compile(
    r"Socket closed|[Cc]onnection (?:was )?(?:reset|closed|aborted|lost)|Broken pipe|DEADLINE_EXCEEDED|UNAVAILABLE|failed to connect to all addresses"
)
"""Words of an exception that rather tells of the other side of a connection."""
_STARTERS = ("fork", "subprocess", "threading", "popen")


def cause_of_trouble(own: Own) -> str:
    """The cause that a trouble stands for, also where the catalogue has no entry for it."""
    if own.hit:
        return own.hit.signature.cause
    assert own.traceback
    original = own.traceback.original
    name = original.exception.rsplit(".", 1)[-1]
    if found := _ERRNO.match(original.message):
        number = int(found["number"])
        starting = any(word in frame.path for frame in original.frames for word in _STARTERS)
        if number in _BY_NUMBER or (number == errno.EAGAIN and starting):
            return _BY_NUMBER.get(number, "thread-limit")
    if name in BY_TYPE:
        return BY_TYPE[name]
    frame = original.innermost_user_frame
    if frame and _reads_data(frame):
        return "data-error"
    if name in _OF_A_FORMAT and any(frame.path.endswith("torch/serialization.py") for frame in original.frames):
        return "checkpoint-corrupt"
    return "app-exception"


def _reads_data(frame: Frame) -> bool:
    place = f"{frame.path.rsplit('/', 1)[-1]} {frame.function}".lower()
    return any(word in place for word in _DATA_FRAMES)


def first_of(owns: list[Own]) -> Own:
    """Of one rank's troubles the one that began: a catalogue entry before a bare exception, never what another explains."""
    raised = next((own.order for own in owns if own.traceback), None)
    named = [
        own
        for own in owns
        if own.hit
        and not (raised is not None and raised < own.order and own.traceback is None and is_last_act(own.hit))
    ]
    causes = {own.hit.signature.cause for own in named if own.hit}
    deeper = [
        own for own in named if own.hit and not own.hit.signature.explained_by & (causes - {own.hit.signature.cause})
    ]
    return (deeper or named or owns)[0]


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """One hypothesis for each distinct trouble, the earliest first in score."""
    firsts = {rank: first_of(owns) for rank, owns in view.own.items()}
    if not firsts:
        yield from _of_nobody(view)
        return
    groups: dict[str, list[Own]] = {}
    for own in firsts.values():
        groups.setdefault(_kind(own), []).append(own)
    clocks = estimate(view, (own.place for own in firsts.values()))
    ordered, tied = _in_order(list(groups.values()), clocks)
    if tied and len(seen := [group for group in ordered[:tied] if _seen_first(view, group)]) == 1:
        ordered, tied = [*seen, *(group for group in ordered if group is not seen[0])], 0
    for place, group in enumerate(ordered):
        hypothesis = _explain(view, group, place, len(ordered), clocks)
        if place < tied:
            _doubt(hypothesis, ordered[:tied], place)
        yield hypothesis


def _kind(own: Own) -> str:
    """What makes two ranks' troubles the same. What a host or the site lacks shows in many words, and is one cause."""
    cause = cause_of_trouble(own)
    return cause if load_causes()[cause].layer in ("storage", "environment", "driver") else own.key


def _of_nobody(view: CaseView) -> Iterator[Hypothesis]:
    """Errors in a stream that does not tell whose they are; the launcher's exits may."""
    owns = view.unattributed
    if not owns:
        return
    lead = first_of(owns)
    lead = next((own for own in owns if own.key == lead.key and not _is_warned(own)), lead)
    began = _ended_by_themselves(view, lead)
    locals_ = {local for own in owns if own.key == lead.key and (local := own.place.local) is not None}
    named = view.rank_of_local(lead.place.local) if lead.place.local is not None and len(locals_) == 1 else None
    ranks = [named] if named is not None else began if len(began) == 1 else []
    reason = "an error in a stream of many ranks" + (", and the launcher saw this rank end first" if ranks else "")
    if len(locals_) > 1:
        ranks, reason = (
            view.ranks_on(view.host_of(ranks[0])) if ranks else [],
            "the same error on several ranks of one host",
        )
    if not locals_ and (workers := _all_workers(view, owns, lead)):
        ranks, reason = workers, "the launcher lists as many workers that ended so as there are errors in its output"
    if not ranks and (struck := _of_process(view, owns, lead)) is not None:
        ranks, reason = [struck], "an error that names the process, and a start-up line tells whose it is"
    hypothesis = _explain(view, [lead], 0, 1, estimate(view, []))
    hosts = view.hosts_of(ranks)
    if not ranks and (host := _host_named(owns, lead)):
        ranks, hosts, reason = view.ranks_on(host), [host], "an error in a stream of many ranks, and it names the host"
    if not ranks and not hosts and (host := _written_in_pod(view, [own for own in owns if own.key == lead.key])):
        ranks, hosts, reason = _only_rank_on(view, host), [host], "an error that was written in one pod alone"
    hypothesis.ranks, hypothesis.hosts, hypothesis.reason = ranks, hosts, reason
    hypothesis.score -= 0.05 if ranks else 0.1
    if len(ranks) == 1 and ranks == began:
        hypothesis.proofs.append(Proof(view.exits[ranks[0]].place, Role.CONTEXT))
    if not ranks and not hosts and max(len(view.ranks), view.case.world_size or 0) > 1:
        hypothesis.missing.append("Which rank wrote this: one log file a rank, or `srun --label`.")
    yield hypothesis


def _of_process(view: CaseView, owns: list[Own], lead: Own) -> int | None:
    """The only rank whose process lines of the leading kind name."""
    same = [own.hit for own in owns if own.hit and own.key == lead.key and "pid" in own.hit.captures]
    ranks = {view.rank_of_hit(hit) for hit in same}
    return ranks.pop() if len(ranks) == 1 else None


def _is_warned(own: Own) -> bool:
    """Whether the program itself calls it a warning."""
    return own.traceback.warned if own.traceback else is_warning(own.place.text)


def _host_named(owns: list[Own], lead: Own) -> str | None:
    """The only host that lines of the leading kind, a node's fault, name."""
    if lead.hit is None or lead.hit.signature.scope is not Scope.NODE:
        return None
    named = {own.hit.captures.get("host") for own in owns if own.hit and own.key == lead.key} - {None}
    return named.pop() if len(named) == 1 else None


def _written_in_pod(view: CaseView, owns: list[Own]) -> str | None:
    """The host of the only pod in which an error was written, by the address in front of its lines or by whose log it is."""
    hosts = {own.place.host for own in owns}
    (host,) = hosts if len(hosts) == 1 else (None,)
    logs = [own.place.source for own in owns]
    labelled = host is not None and all(log.host is None for log in logs)  # each line tells where it was written
    if labelled and any(hit.place.source in logs and hit.place.host not in (None, host) for hit in view.case.hits):
        return host  # and others wrote there too
    if host is None or host in view.nodes_by_address or (labelled and _only_rank_on(view, host)):
        return host
    own = all(log.kind is not SourceKind.LAUNCHER and any(pod in log.name for pod in view.case.pods) for log in logs)
    return host if own else None


def _only_rank_on(view: CaseView, host: str) -> list[int]:
    """The rank of a host, where each rank is known to have a host of its own."""
    alone = len(view.hosts) == len(view.ranks) > 1 and view.ranks == list(view.numbered)
    return view.ranks_on(host) if alone else []


def _all_workers(view: CaseView, owns: list[Own], lead: Own) -> list[int]:
    """The workers that one agent lists, where each of them raised the same error into the same stream."""
    same = [own.place for own in owns if own.key == lead.key and own.place.source == lead.place.source]
    if lead.hit:
        same = [
            hit.place
            for hit in view.case.hits
            if hit.signature is lead.hit.signature and hit.place.source == lead.place.source
        ]
    listed = {rank: ended for rank, ended in view.exits.items() if ended.place.source == lead.place.source}
    alike = len({ended.code for ended in listed.values()}) == 1 and not {ended.code for ended in listed.values()} & {
        0,
        -15,
    }
    return sorted(listed) if len(same) == len(listed) > 1 and alike else []


def _ended_by_themselves(view: CaseView, lead: Own) -> list[int]:
    """The ranks that a launcher saw end first; where it does not tell who was first, those that it did not stop itself,
    unless its words on their ends are all that there is."""
    ended = {
        rank: ended for rank, ended in view.exits.items() if ended.code not in (0, -15, 143) and not view.suffered(rank)
    }
    first = [rank for rank, each in ended.items() if each.first]
    if len(first) > 1:  # one agent a node: the one that speaks in the same stream
        first = [rank for rank in first if ended[rank].place.source == lead.place.source] or first
    word = any(
        each.place.source == lead.place.source and each.place.order == lead.place.order for each in ended.values()
    )
    return first if first or word else list(ended)


def _in_order(groups: list[list[Own]], clocks: Clocks) -> tuple[list[list[Own]], int]:
    """The groups in order, by time where clocks allow it, else by cause; and how many may be first, 0 where one is."""
    ordered = sorted(groups, key=lambda group: _when(group, clocks))
    leads = [_earliest(group, clocks) for group in ordered]
    if len({own.place.source for own in leads}) == 1 and all(own.seconds is None for own in leads):
        ordered.sort(key=lambda group: min(own.order for own in group))
    if len(ordered) < 2:
        return ordered, 0
    lead = _earliest(ordered[0], clocks).place
    open_ = [group for group in ordered[1:] if _cannot_tell(lead, _earliest(group, clocks).place, clocks)]
    if not open_:
        return ordered, 0
    rivals = sorted([ordered[0], *open_], key=_by_cause)
    rest = [group for group in ordered if group not in rivals]
    tied = sum(_by_cause(group) == _by_cause(rivals[0]) for group in rivals)
    return [*rivals, *rest], tied if tied > 1 else 0


def _seen_first(view: CaseView, group: list[Own]) -> bool:
    """Whether a launcher saw one of these ranks end before all others."""
    return any((ended := view.exits.get(own.rank)) is not None and ended.first for own in group)


def _cannot_tell(one: Place, other: Place, clocks: Clocks) -> bool:
    """Whether two lines of different logs both lack a time, or have times by clocks that are known to be wrong by more than
    lies between them, or may be."""
    first, second = clocks.seconds(one), clocks.seconds(other)
    if first is None or second is None:
        return first is second and one.source != other.source
    doubt = clocks.doubt(one, other)
    return doubt > SURE and abs(second - first) <= doubt


def _earliest(group: list[Own], clocks: Clocks) -> Own:
    def when(own: Own) -> tuple[bool, float, int]:
        seconds = clocks.seconds(own.place)
        return (seconds is None, seconds or 0.0, own.order)

    return min(group, key=when)


def _by_cause(group: list[Own]) -> int:
    """Fewer ranks before more, an entry of the catalogue before a bare exception."""
    return min(len(group), 3) + (0 if any(own.hit for own in group) else 1)


def _when(group: list[Own], clocks: Clocks) -> tuple[float, int, int]:
    """Order of groups: time where every group has one, else the likelier cause, else the order of the lines."""
    seconds = clocks.seconds(_earliest(group, clocks).place)
    return (float("inf") if seconds is None else seconds, _by_cause(group), min(own.order for own in group))


def _doubt(hypothesis: Hypothesis, tied: list[list[Own]], place: int) -> None:
    """Several ranks have troubles of their own, and nothing tells which came first."""
    names = sorted({own.rank for group in tied for own in group})
    hypothesis.ranks, hypothesis.hosts = [], []
    hypothesis.score = 0.56 - 0.02 * place
    fact = f"Which of ranks {', '.join(map(str, names[:8]))} failed first"
    if all(own.seconds is None for group in tied for own in group):
        hypothesis.reason = "one of several errors whose order cannot be told: their lines have no times"
        hypothesis.missing = [f"{fact}: the launcher's output, or logs with a time on each line."]
        return
    hypothesis.reason = "one of several errors whose order cannot be told: the clocks of their hosts cannot be compared"
    hypothesis.missing = [
        f"{fact}: how far their hosts' clocks are apart (`chronyc tracking` and `date -u` on each host)."
    ]


def _explain(view: CaseView, group: list[Own], place: int, total: int, clocks: Clocks) -> Hypothesis:
    lead = _earliest(group, clocks)
    ranks = sorted(own.rank for own in group if own.rank >= 0)
    signature = lead.hit.signature if lead.hit else None
    cause = cause_of_trouble(lead)
    score = 0.93 if signature else 0.88
    missing: list[str] = []
    if not signature and (cost := max(_torn_off(view, own) for own in group)):
        score -= cost
        missing.append(f"How the error of rank {lead.rank} goes on: its log ends in the middle of the message.")
    elsewhere = (
        lead.traceback
        and not signature
        and cause == "app-exception"
        and _REMOTE.search(lead.traceback.original.message)
    )
    if elsewhere:
        score -= 0.36
        missing.append(
            f"What ended the other side of this connection (`{elsewhere[0]}`): the log of the process or service there."
        )
    hosts = view.hosts_of(ranks)
    lost = [rank for rank in view.gaps.unheard if rank not in ranks]
    if all(map(_is_warned, group)):
        score -= 0.36
        missing.append(f"Whether rank {lead.rank} really got over its error, as it says: its exit code.")
    everyone = len(ranks) > 1 and len(ranks) >= 0.75 * (len(view.ranks) - len(lost))
    one_host = len(hosts) == 1 and len(view.hosts) > 1 and len(ranks) > 1 and ranks == view.ranks_on(hosts[0])
    reason = "the only rank with an error of its own" if len(ranks) == 1 else "ranks with the same error of their own"
    if everyone:
        ranks, hosts = [], []
        reason = "the same error on every rank: a common cause, no rank began it"
        if len(lost) > 0.25 * len(view.ranks):
            score -= 0.06
            reason = "the same error on every rank that was heard of: most likely a common cause"
            missing.append(f"Whether ranks {compress(lost)} met the error too: their logs.")
    elif one_host:
        reason = "the same error on every rank of one host and on no other"
    elif len(ranks) > 1:
        earliest = _clearly_first(group, clocks)
        if earliest:
            ranks, hosts = [earliest.rank], view.hosts_of([earliest.rank])
            reason = "the first of several ranks with this error, by the clock"
            score -= 0.06
        else:
            score -= 0.05
    if signature and signature.scope is Scope.NODE and len(hosts) == 1 and len(ranks) > 1 and len(view.hosts) > 1:
        ranks = view.ranks_on(hosts[0]) or ranks
        reason = "the fault is this host's, so all its ranks share it"
    if signature and signature.scope is Scope.JOB and not _alone(view, ranks):
        ranks, hosts = [], []
    score -= 0.25 * min(place, 2) if total > 1 else 0.0
    proofs = [_proof(own) for own in sorted(group, key=lambda own: own.order)[:3]]
    return Hypothesis(
        cause=cause, score=score, reason=reason, ranks=ranks, hosts=hosts, proofs=proofs, signature=signature,
        captures=lead.hit.captures if lead.hit else {}, traceback=lead.traceback, whole_job=everyone,
        missing=missing,
    )  # fmt: skip


def _alone(view: CaseView, ranks: list[int]) -> bool:
    """Whether one rank met what concerns the whole job, and others were hit only by its end: then it began there."""
    return len(ranks) == 1 and any(rank not in ranks for rank in (*view.waiting, *view.bereft))


def _torn_off(view: CaseView, own: Own) -> float:
    """What it costs that the log ends within the message of an exception: whole, it might tell more, or of others' failure."""
    story = view.stories.get(own.rank)
    if story is None or story.torn is None or own.traceback is None or story.torn.source != own.place.source:
        return 0.0
    ended = own.traceback.last_order
    after = [hit for hit in story.hits if hit.place.source == own.place.source and hit.place.order > ended]
    if story.torn.order - ended > _TAIL or after:
        return 0.0
    name = own.traceback.original.exception.rsplit(".", 1)[-1]  # itself perhaps torn
    vague = any(whole.startswith(name) for whole in ("RuntimeError", "ValueError", *OF_THE_GROUP))
    return 0.28 if vague or not own.traceback.original.message else 0.14


def _clearly_first(group: list[Own], clocks: Clocks) -> Own | None:
    """The rank that had the error before the others by more than clocks may differ, if there is one."""
    times = sorted((seconds, own.rank, own) for own in group if (seconds := clocks.seconds(own.place)) is not None)
    if len(times) < len(group) or len(times) < 2:
        return None
    if Counter(own.key for own in group).most_common(1)[0][1] != len(group):
        return None
    first = times[0][2]
    clear = all(
        seconds - times[0][0] > max(SURE, clocks.doubt(first.place, own.place)) for seconds, _, own in times[1:]
    )
    return first if clear else None


def _proof(own: Own) -> Proof:
    if own.hit:
        return Proof(own.hit.place, Role.ROOT, own.hit.signature.id)
    assert own.traceback
    return Proof(own.traceback.original.end, Role.ROOT)
