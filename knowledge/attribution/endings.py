"""How processes ended: signals and exit codes that launchers report, for ranks that left no words of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from signal import SIGABRT

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.notation import compress
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Exit
from knowledge.signature import Says, Scope, SignatureRole
from knowledge.tables.exits import signals


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """One hypothesis for each way of ending that is not the launcher's own doing."""
    yield from _by_shell(view)
    groups: dict[int, list[Exit]] = {}
    for ended in _of_local_ranks(view):
        groups.setdefault(ended.code, []).append(ended)
    for rank, ended in view.exits.items():
        if _telling(view, rank, ended):
            groups.setdefault(ended.code, []).append(ended)
    if not groups and not view.exits and not view.own and not view.unattributed:
        groups = {ended.code: [ended] for ended in of_nobody(view)}
    tied = len(groups) > 1 and not any(ended.first for exits in groups.values() for ended in exits)
    for code, exits in groups.items():
        ranks = sorted({ended.rank for ended in exits if ended.rank is not None})
        cause = cause_of_code(code)
        score = 0.84 if len(ranks) == 1 else 0.6
        guessed = any(ended.last_spawned for ended in exits) and not view.stories
        if guessed:
            ranks = []
        if any(ended.last_spawned for ended in exits):
            score -= 0.12
        if code == -SIGABRT:
            score -= 0.2
        if code == 1:
            # an exception that was not kept: who raised it first is not known, unless all others tell of somebody else
            score = 0.5 if len(ranks) == 1 and _all_others_suffered(view, ranks[0]) else 0.3
        torn = [rank for rank in ranks if rank in view.gaps.torn]
        if torn:
            score -= 0.2
        if tied and ranks:
            score -= 0.2
        if len(ranks) > 1 and len(ranks) >= 0.75 * len(view.numbered):
            ranks, score = [], 0.4
        yield Hypothesis(
            cause=cause, score=score, reason=f"its process ended with {describe(code)} and it said nothing itself", ranks=ranks,
            hosts=view.hosts_of(ranks), proofs=[Proof(ended.place, Role.ROOT) for ended in exits[:2]],
            missing=[
                *([_WHO] if guessed else []), *([_ORDER] if tied and ranks else []),
                *(view.gaps.rest_of(rank) for rank in torn[:1]), *_missing(view, cause, ranks, code), *pod_logs(view, ranks),
            ],
            said=_told(code, ranks),
        )  # fmt: skip


def _by_shell(view: CaseView) -> Iterator[Hypothesis]:
    """An abort of which only the shell or the handler of signals tells, where nobody says a reason."""
    if view.own or view.unattributed or view.waiting or view.bereft or any(ended.code for ended in view.exits.values()):
        return
    told = [
        hit.place for hit in view.case.hits if hit.signature.id == "core-dumped-abort" and not view.survived(hit.place)
    ]
    if told:
        ranks = sorted({place.rank for place in told if place.rank is not None})
        yield Hypothesis(
            cause="native-abort", score=0.5, reason="its process was aborted, and nothing that was read says why", ranks=ranks,
            hosts=view.hosts_of(ranks), proofs=[Proof(place, Role.ROOT) for place in told[:2]],
            missing=["Why the process aborted itself: the lines that it wrote right before, or its core file (`coredumpctl gdb`)."],
        )  # fmt: skip


_ORDER = "Which of these processes ended first: the launcher's `Root Cause` block, or its words with a time each."

_WHO = "Which process ended so: its launcher names the command that it started last, whichever process it was; a log of each rank tells."


def of_nobody(view: CaseView) -> list[Exit]:
    """Endings that a parent told of its only child, or of one that it does not name."""
    return [
        ended
        for ended in view.case.exits
        if ended.rank is None
        and ended.local_rank is None
        and ended.by == "parent"
        and ended.place.attempt == view.attempt
    ]


def _of_local_ranks(view: CaseView) -> Iterator[Exit]:
    """Endings for which the launcher gave a local rank only, and it can be only one rank's."""
    for ended in view.case.exits:
        if ended.rank is None and ended.local_rank is not None and ended.place.attempt == view.attempt:
            if ended.by == "torchrun" and view.survived(ended.place):
                continue  # the agent started its workers again
            rank = view.rank_of_local(ended.local_rank)
            if rank is not None and rank not in view.exits and ended.code not in (0, -15, 143):
                ended.rank = rank
                if _telling(view, rank, ended):
                    yield ended


def _telling(view: CaseView, rank: int, ended: Exit) -> bool:
    """Whether this ending can be where it began: not a stop by the launcher, not the end of a rank that only waited."""
    if ended.code == 0 or (ended.code in (-15, 143) and not _stopped_alone(view, ended)):
        return False
    if not ended.first and ended.pid in _stopped_by_agents(view):
        return False
    if rank in view.waiting or rank in view.bereft:
        return False
    if rank in view.own:
        return False
    if view.suffered(rank) or (ended.code == -SIGABRT and _gave_up_nearby(view, ended)):
        return False
    return not (ended.code == 1 and not ended.first)


def _gave_up_nearby(view: CaseView, ended: Exit) -> bool:
    """Whether processes that do not tell their rank say, in the stream that tells of an abort, that they abort because time was up."""
    return any(
        hit.signature.role is SignatureRole.CASCADE
        and Says.WAITING in hit.signature.says
        and hit.place.rank is None
        and hit.place.source == ended.place.source
        and hit.place.attempt == view.attempt
        for hit in view.case.hits
    )


def _stopped_by_agents(view: CaseView) -> set[int | None]:
    """The processes that agents stopped while they still lived: whatever signal ended them, somebody else had failed."""
    hits = [hit for hit in view.case.hits if hit.signature.id == "torchrun-stops-siblings"]
    return {pid for hit in hits if hit.place.attempt == view.attempt and (pid := hit.number("pid")) is not None}


def _all_others_suffered(view: CaseView, rank: int) -> bool:
    """Whether every other rank that is known waited in vain, lost a peer, or was stopped."""
    others = [other for other in {*view.exits, *view.stories} if other != rank]
    stopped = [other for other in others if (ended := view.exits.get(other)) and ended.code == -15]
    suffered = [other for other in others if other in view.waiting or other in view.bereft]
    return bool(suffered) and {*suffered, *stopped} >= set(others)


def _stopped_alone(view: CaseView, ended: Exit) -> bool:
    """Whether an agent saw SIGTERM end this worker before it stopped any itself, and nobody had told the agent to stop."""
    told = any(
        hit.signature.cause == "terminated" and hit.signature.scope is Scope.JOB and hit.place.attempt == view.attempt
        for hit in view.case.hits
    )
    return ended.first and ended.by == "torchrun" and not told


def cause_of_code(code: int) -> str:
    """What it means that a process ended so and said nothing."""
    signal = signals().get(-code)
    return signal.cause if signal else "silent-exit"


def describe(code: int) -> str:
    """`-9` → "signal 9 (SIGKILL)"; 3 → "exit code 3"."""
    if code < 0:
        signal = signals().get(-code)
        return f"signal {-code}" + (f" ({signal.name})" if signal else "")
    return f"exit code {code}"


def pod_logs(view: CaseView, ranks: Collection[int]) -> list[str]:
    """The fact that is missing where nothing was read of what ranks said that have pods."""
    unheard = [rank for rank in ranks if rank not in view.stories or not view.stories[rank].lines]
    pods = [pod for pod in view.case.pods.values() if pod.ranks and not pod.replaced and pod.ranks[0] in unheard]
    return [f"What pod {pods[0].name} said: `kubectl logs {pods[0].name}`, while it is there."] if pods else []


def _told(code: int, ranks: list[int]) -> str:
    """What a signal says that is neither a crash nor a kill; "" for all else."""
    signal = signals().get(-code)
    if signal is None or signal.cause != "silent-exit":
        return ""
    who = f"Rank {ranks[0]} was" if len(ranks) == 1 else f"Ranks {compress(ranks)} were" if ranks else "A process was"
    return f"{who} ended by {describe(code)}. {signal.means}"


def _missing(view: CaseView, cause: str, ranks: list[int], code: int) -> list[str]:
    if cause == "silent-exit" and code < 0:
        return [
            f"Where {describe(code)} came from: `grep -rnE 'signal|alarm|kill' SOURCE`, and the job's --signal option."
        ]
    if cause != "killed-unknown":
        return []
    host = next(iter(view.hosts_of(ranks)), None) or "its host"
    return [
        f"Who sent SIGKILL. The kernel log of {host} decides: `journalctl -k --since '-2h' | grep -iE 'oom|killed process'`."
    ]
