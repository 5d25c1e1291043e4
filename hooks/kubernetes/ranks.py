"""Which pod holds which ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hooks.kubernetes.api import Object
from hooks.kubernetes.kinds import Groups, Kind, inside
from hooks.kubernetes.taken import without_predecessors

_MOST = 1 << 20
_GPU = re.compile(r"(?:/gpu|/mig-[\w.-]+|/neuron|/neuroncore|/tpu|\.com/gaudi)$")
_PROCESSES = re.compile(r"--nproc[-_]per[-_]node[= ]+(\d{1,3})(?!\S)|(?:^|\s)--num[-_]gpus[= ]+(\d{1,3})(?!\S)")
_PROCESSES_ENV = ("PET_NPROC_PER_NODE", "NPROC_PER_NODE")
_NODE_RANK_ENV = ("PET_NODE_RANK", "NODE_RANK", "GROUP_RANK")
_NUMBER_AT_END = re.compile(r"-(\d{1,6})$")


@dataclass(frozen=True, slots=True)
class Seat:
    """A pod's place: its number among the pods that train (None: it trains nothing, or nobody tells), and its ranks."""

    pod: Object
    group: str
    number: int | None
    ranks: int  # how many it holds, at least 1 where it has a number
    launches: bool = False  # its log holds the words of others

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.pod["metadata"]["name"])

    @property
    def uid(self) -> str:
        """The pod's id."""
        return str(self.pod["metadata"]["uid"])

    @property
    def made(self) -> str:
        """When the pod was made, as the API writes it."""
        return str(self.pod["metadata"].get("creationTimestamp") or "")

    @property
    def node(self) -> str:
        """The node it was put on; empty where it found none."""
        return str(inside(self.pod, "spec", "nodeName") or "")

    @property
    def rank(self) -> int | None:
        """The pod's rank, where it holds exactly one."""
        return self.number if self.ranks == 1 else None


@dataclass(frozen=True, slots=True)
class Seating:
    """All pods of a workload, those with a number first and in order."""

    seats: Sequence[Seat]
    world_size: int | None
    ranks_per_node: int | None
    nodes: list[str]  # in the order of their ranks


def seat(kind: Kind, item: Object, pods: Sequence[Object]) -> Seating:
    """Give every pod of a workload its place, by labels that its controller wrote, or by its environment."""
    groups, quiet = _groups(kind, item), kind.quiet(item)
    digits = {id(pod): _digits(kind, pod) for pod in pods}
    by_group: dict[str, list[Sequence[int]]] = {}
    for pod in pods:
        found = digits[id(pod)]
        if found:
            by_group.setdefault(_group(kind, pod), []).append(found)
    sizes = {name: size for name, size in groups if name not in quiet}
    for name in sorted(by_group):
        if name not in sizes and name not in quiet:
            sizes[name] = len({tuple(found) for found in by_group[name]})
    before, first = {}, 0
    for name, size in sizes.items():
        before[name], first = first, first + size
    seats = []
    for pod in pods:
        group, found = _group(kind, pod), digits[id(pod)]
        number = None
        if found and group in before:
            number = before[group] + _count(found, by_group[group], sizes[group])
        elif group not in quiet:
            number = _from_environment(pod)
        if number is None and len(pods) == 1 and group not in quiet:
            number = 0
        launches = number is None and group in kind.launching
        seats.append(Seat(pod, group, number, _slots(kind, item) or ranks_in(pod), launches))
    seats.sort(key=lambda each: (each.number is None, each.number or 0, each.made, each.name))
    return Seating(seats, *_shape(seats, first))


def newest(seats: Sequence[Seat]) -> list[Seat]:
    """Without pods that another replaced, in the order of their numbers."""
    numbered = {each.number: each for each in sorted(seats, key=lambda each: each.made) if each.number is not None}
    others = {
        each.name: each for each in without_predecessors(each for each in seats if each.number is None)
    }  # by name: the later of two is the one there is
    return [*(numbered[number] for number in sorted(numbered)), *(others[name] for name in sorted(others))]


def held(seats: Sequence[Seat]) -> dict[str, range]:
    """The ranks of each pod by its uid, where all hold as many; not of pods that another replaced."""
    placed = [each for each in newest(seats) if each.number is not None]
    if len({each.ranks for each in placed}) != 1:
        return {}
    return {each.uid: range((each.number or 0) * each.ranks, ((each.number or 0) + 1) * each.ranks) for each in placed}


def replaced(seats: Sequence[Seat]) -> frozenset[str]:
    """The uids of pods that another one replaced."""
    return frozenset(each.uid for each in seats) - {each.uid for each in newest(seats)}


def names_apart(seats: Sequence[Seat]) -> dict[str, str]:
    """What each pod is called by its uid: its name, and more where a later pod bears the same one."""
    bearers = {each.name: each.uid for each in sorted(seats, key=lambda each: each.made)}
    return {
        each.uid: each.name if bearers[each.name] == each.uid else f"{each.name}.replaced-{each.uid[:8]}"
        for each in seats
    }


def _shape(seats: Sequence[Seat], pods: int) -> tuple[int | None, int | None, list[str]]:
    placed = [each for each in newest(seats) if each.number is not None]
    nodes = list(dict.fromkeys(each.node for each in (placed or seats) if each.node))
    each_holds = {each.ranks for each in placed}
    if not placed or len(each_holds) != 1:
        return None, None, nodes
    per_pod = each_holds.pop()
    world = max(pods, max(each.number or 0 for each in placed) + 1) * per_pod
    numbers: dict[str, set[int]] = {}
    for each in placed:
        numbers.setdefault(each.node, set()).add(each.number or 0)
    on_node = {len(found) for found in numbers.values()}
    per_node = on_node.pop() * per_pod if len(on_node) == 1 and "" not in numbers else None
    return (world if world <= _MOST else None), per_node, nodes


def _slots(kind: Kind, item: Object) -> int:
    told = inside(item, "spec", *kind.slots) if kind.slots else None
    return told if isinstance(told, int) and 0 < told <= 1024 else 0


def is_accelerator(resource: object) -> bool:
    """Whether a resource's name is one of an accelerator."""
    return _GPU.search(str(resource)) is not None


def main_container(pod: Object) -> str:
    """The container that trains: the one with accelerators, or that the pod calls its default, or the first."""
    containers = inside(pod, "spec", "containers") or ()
    names = [str(each.get("name")) for each in containers]
    with_gpu = [
        str(each.get("name"))
        for each in containers
        if any(is_accelerator(name) for name in inside(each, "resources", "limits") or {})
    ]
    default = _label(pod, "kubectl.kubernetes.io/default-container")
    if len(with_gpu) == 1:
        return with_gpu[0]
    return default if default in names else names[0] if names else ""


def ranks_in(pod: Object) -> int:
    """How many ranks a pod holds: what its command or environment says, else its accelerators, else one."""
    accelerators = 0
    for container in inside(pod, "spec", "containers") or ():
        words = " ".join(str(word) for word in [*(container.get("command") or ()), *(container.get("args") or ())])
        found = _PROCESSES.search(words)
        told = (found[1] or found[2]) if found else next(filter(None, (_env(container, n) for n in _PROCESSES_ENV)), "")
        if told.isdecimal() and 0 < int(told) <= 1024:
            return int(told)
        for name, amount in (inside(container, "resources", "limits") or {}).items():
            if is_accelerator(name) and str(amount).isdecimal():
                accelerators += int(amount)
    return max(1, min(accelerators, 1024))


def _groups(kind: Kind, item: Object) -> Groups:
    """What a custom kind's spec says of its groups; nothing where it makes no sense."""
    try:
        return list(kind.groups(item))
    except (AttributeError, KeyError, TypeError, ValueError):
        return ()


def _label(pod: Object, name: str) -> str:
    for where in ("labels", "annotations"):
        found = inside(pod, "metadata", where, name)
        if found is not None:
            return str(found)
    return ""


def _group(kind: Kind, pod: Object) -> str:
    return next((found.lower() for name in kind.group_labels if (found := _label(pod, name))), "")


def _digits(kind: Kind, pod: Object) -> Sequence[int]:
    """A pod's number in its group as its labels count it; empty where they do not."""
    if kind.numbered_by_name:
        found = _NUMBER_AT_END.search(str(pod["metadata"]["name"])) if _group(kind, pod) != "launcher" else None
        return [int(found[1])] if found else [0]
    told = [text for name in kind.index_labels if (text := _label(pod, name))]
    if told and all(text.isdecimal() and len(text) <= 7 for text in told):
        return [int(text) for text in told]
    if kind.group_labels and kind.index_labels and not told and _group(kind, pod):
        found = _NUMBER_AT_END.search(str(pod["metadata"]["name"]))
        return [int(found[1])] if found else ()
    return ()


def _count(digits: Sequence[int], all_of_group: Sequence[Sequence[int]], size: int) -> int:
    """Put digits together: the second of two counts within the first."""
    if len(digits) < 2:
        return digits[0]
    jobs = 1 + max(found[0] for found in all_of_group)
    width = 1 + max(found[-1] for found in all_of_group)
    if size % jobs == 0:
        width = max(width, size // jobs)
    return digits[0] * width + digits[-1]


def _from_environment(pod: Object) -> int | None:
    for container in inside(pod, "spec", "containers") or ():
        for name in (*_NODE_RANK_ENV, "RANK"):
            told = _env(container, name)
            if told.isdecimal() and len(told) <= 7:
                return int(told)
    return None


def _env(container: Object, name: str) -> str:
    value: Any = next((each.get("value") for each in container.get("env") or () if each.get("name") == name), None)
    return str(value) if value is not None else ""
