"""The odd one out: the rank that was somewhere else than all the others when the job came to its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from knowledge.attribution.hypothesis import Hypothesis, Proof
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Role
from knowledge.reading.evidence import Place, Stack, Traceback

_COLLECTIVES = (
    "all_reduce", "allreduce", "barrier", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor",
    "broadcast", "all_to_all", "all_to_all_single", "gather", "scatter", "reduce", "send", "recv", "monitored_barrier",
    "broadcast_object_list", "all_gather_object",
)  # fmt: skip
_BACKWARD = "_engine_run_backward"


def propose(view: CaseView) -> Iterator[Hypothesis]:
    """Compare in which collective each rank was when it gave up, and where each living process stood."""
    yield from _other_collective(view)
    yield from _other_stack(view)


def collective_of(traceback: Traceback) -> str | None:
    """The collective in which a rank waited, by the frames of its traceback."""
    names = [frame.function for frame in traceback.frames]
    for name in reversed(names):
        if name in _COLLECTIVES or name == _BACKWARD:
            return name
    return None


def _other_collective(view: CaseView) -> Iterator[Hypothesis]:
    where: dict[int, tuple[str, Place]] = {}
    for rank, story in view.stories.items():
        if rank in view.own or not story.tracebacks:
            continue
        last = story.tracebacks[-1]
        if (name := collective_of(last)) and not view.handled(story, last.end, last.last_order):
            where[rank] = (name, last.end)
    calls = Counter(name for name, _ in where.values())
    if len(calls) < 2:
        return
    (usual, many), *_ = calls.most_common(1)
    odd = sorted(rank for rank, (name, _) in where.items() if name != usual)
    if len(odd) * 2 >= many + len(odd) or many < 2:
        return
    name = where[odd[0]][0]
    early = usual == _BACKWARD and name == "barrier"
    proofs = [Proof(where[rank][1], Role.ROOT) for rank in odd[:2]]
    proofs += [Proof(place, Role.CASCADE) for call, place in where.values() if call == usual][:1]
    yield Hypothesis(
        cause="uneven-data" if early else "collective-mismatch", score=0.84, ranks=odd, hosts=view.hosts_of(odd), proofs=proofs,
        reason=f"it stood in {name}() while {many} others stood in {usual.strip('_')}()",
    )  # fmt: skip


def _other_stack(view: CaseView) -> Iterator[Hypothesis]:
    """With a stack of every rank: the one that is in no collective is the one that the others wait for."""
    stacks = {rank: story.stacks for rank, story in view.stories.items() if story.stacks}
    if len(stacks) < 2:
        return
    outside = sorted(rank for rank, found in stacks.items() if not any(in_collective(stack) for stack in found))
    if not outside or len(outside) * 2 > len(stacks):
        return
    yield Hypothesis(
        cause="rank-hang", score=0.9, reason="its stack shows it outside any collective, while the others wait in one", ranks=outside,
        hosts=view.hosts_of(outside), proofs=[Proof(stacks[rank][-1].place, Role.ROOT) for rank in outside[:2]],
    )  # fmt: skip


def in_collective(stack: Stack) -> bool:
    """Whether a process stood in a collective, or in a backward that holds one."""
    return any(name in _COLLECTIVES or name == _BACKWARD for name in stack.functions)
