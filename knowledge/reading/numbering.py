"""Ranks that only the names of files or the numbers of nodes tell: by what others of the same kind show them to mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from knowledge.reading.bundle import OF_ONE_HOST, Source, may_be_host
from knowledge.reading.evidence import CaseEvidence, Process
from knowledge.reading.roster import Roster
from knowledge.signature import SourceKind

_NUMBER = re.compile(r"\d{1,6}")
_NODES = re.compile(r"(?i)(?:^|[^a-z])(?:node|host|agent|machine)s?[-_.]?\d")  # whose numbers count nodes
_OF_A_NODE = re.compile(
    r"(?i)^(?:node-(?=.*\.)|(?:dmesg|kern|kernel|kmsg|console|serial|journal|journalctl|journal-k|syslog|messages|sel)[-_.])|"
    r"[-_.](?:dmesg|kern|kernel|kmsg|console|serial|journal|journalctl|syslog|messages|log|txt|out|gz|zst)$"
)  # what stands round a node's name in the name of its log
_OUTPUT = re.compile(r"(?i)^(?:(?:log|out|err|output|stdout|stderr|train|training|run|job)s?[-_])+")
_ATTEMPT = re.compile(r"attempt_\d+/\d+/[^/]*$")
_ENOUGH = 2  # files whose rank is known and equals a number in their name, from which the others' names are believed


def number(rosters: Sequence[Roster], case: CaseEvidence) -> None:
    """Give ranks to sources that nobody introduces himself in. `rosters` have learned their heads."""
    _by_folders(rosters)
    _by_names(rosters, case)
    _by_nodes(rosters, case)
    _by_elimination(rosters, case)
    _hosts_by_names(rosters)
    _nodes_by_names(rosters, case)
    _place(rosters, case)


def _place(rosters: Sequence[Roster], case: CaseEvidence) -> None:
    """A rank's own file lies on the host whose name stands in its own, where the host is known from elsewhere."""
    nodes = {roster.source.host for roster in rosters if roster.source.kind in (SourceKind.KERNEL, SourceKind.NODE)}
    nodes |= set(case.job.nodes)
    for source in (roster.source for roster in rosters):
        if source.rank is None or source.host is not None or source.kind is not SourceKind.RANK:
            continue
        words = set(re.split(r"[/_]|\.(?=\w+$)|(?<=\d)-(?=\d+\.)", source.name))
        here = [node for node in nodes if node and node in words]
        if len(here) == 1:
            source.host = here[0]
            known = case.processes.setdefault(source.rank, Process(source.rank))
            known.host = known.host or here[0]


def _by_folders(rosters: Sequence[Roster]) -> None:
    """torchrun keeps a folder for each local rank. Which ranks these are, other logs of the node tell that lie in or above
    it; where there is only one node, it needs no telling.
    """
    tops = {
        roster.source: _ATTEMPT.sub("", roster.source.name)
        for roster in rosters
        if roster.source.local_rank is not None
    }
    for source, top in tops.items():
        others = set(tops.values()) - {top}
        for folder in _upwards(top):
            if any(other.startswith(folder) for other in others):
                break
            near = [roster for roster in rosters if roster.source.name.startswith(folder)]
            firsts = {first for roster in near if (first := roster.first_rank) is not None}
            hosts = {roster.source.host for roster in near} - {None}
            if source.rank is None and len(firsts) == 1:
                source.rank = firsts.pop() + (source.local_rank or 0)
            if source.host is None and len(hosts) == 1:
                source.host = hosts.pop()
        if source.rank is None and not others:
            source.rank = source.local_rank


def _upwards(folder: str) -> Iterator[str]:
    """A folder, the one above it, and so on to the uppermost, whose name is empty."""
    while folder:
        yield folder
        folder = folder[: folder.rfind("/", 0, -1) + 1]
    yield ""


def _by_names(rosters: Sequence[Roster], case: CaseEvidence) -> None:
    """`worker-2.log` is rank 2 where `worker-0.log` and `worker-1.log` are ranks 0 and 1 by their own words, or where the
    numbers are just those of all ranks.
    """
    families: dict[str, list[tuple[Roster, list[int]]]] = {}
    for roster in rosters:
        source = roster.source
        if source.kind in (SourceKind.RANK, None) and not roster.speaks_for_many and not roster.nameless_locals:
            numbers = [int(found[0]) for found in _NUMBER.finditer(source.name)]
            families.setdefault(_NUMBER.sub("#", source.name), []).append((roster, numbers))
    for members in families.values():
        nameless = [(roster, numbers) for roster, numbers in members if roster.source.rank is None]
        if not nameless or len(members) < _ENOUGH:
            continue
        position = _position(members, case.world_size)
        if position is None:
            continue
        for roster, numbers in nameless:
            roster.source.rank, roster.source.kind = numbers[position], SourceKind.RANK
            case.processes.setdefault(numbers[position], Process(numbers[position], host=roster.source.host))


def _position(members: Sequence[tuple[Roster, list[int]]], world_size: int | None) -> int | None:
    """Which number in the names is the rank."""
    for position in range(len(members[0][1])):
        told = [numbers[position] for _, numbers in members]
        known = [
            (numbers[position], rank)
            for roster, numbers in members
            if (rank := roster.claim if roster.source.rank is None else roster.source.rank) is not None
        ]
        agree = all(number == rank for number, rank in known)
        everyone = set(told) == set(range(world_size or 0)) and not _NODES.search(members[0][0].source.name)
        if len(set(told)) == len(told) and agree and (len(known) >= _ENOUGH or everyone):
            return position
    return None


def _by_nodes(rosters: Sequence[Roster], case: CaseEvidence) -> None:
    """Local ranks are ranks of a node whose number its log tells, where all nodes have equally many."""
    nameless = [roster for roster in rosters if roster.nameless_locals and roster.node_rank is not None]
    size = max((roster.nameless_locals for roster in nameless), default=0)
    nodes = {roster.node_rank for roster in nameless}
    if not size or len(nodes) != len(nameless) or (case.world_size and case.world_size % size):
        return
    for roster in nameless:
        _hold(roster, (roster.node_rank or 0) * size, size, case)


def _by_elimination(rosters: Sequence[Roster], case: CaseEvidence) -> None:
    """Local ranks of the one node that tells nothing are the ranks that the others leave, where all have equally many."""
    nodes = [roster for roster in rosters if roster.locals_seen > 1]
    size, hosts = nodes[0].locals_seen if nodes else 0, {roster.source.host for roster in nodes} - {None}
    if len(nodes) < 2 or len(hosts) < len(nodes) or any(roster.locals_seen != size for roster in nodes):
        return
    firsts = {roster.source: roster.rank_of_process(None, 0) for roster in nodes}
    nameless = [roster for roster in nodes if firsts[roster.source] is None]
    left = set(range(0, len(nodes) * size, size)) - set(firsts.values())
    if len(nameless) == len(left) == 1 and (case.world_size or len(nodes) * size) == len(nodes) * size:
        _hold(nameless[0], left.pop(), size, case)


def _hold(roster: Roster, first: int, size: int, case: CaseEvidence) -> None:
    """Let a source be that of the node with ranks from `first` on."""
    roster.be_node(first, size)
    for rank in range(first, first + size):
        known = case.processes.setdefault(rank, Process(rank))
        known.host = known.host or roster.source.host
        known.local_rank = rank - first


def _hosts_by_names(rosters: Sequence[Roster]) -> None:
    """`ws-8.log` and `ws-9.log` are two hosts' where each holds several ranks, and none tells where it was written."""
    families: dict[str, list[Source]] = {}
    for roster in rosters:
        stem = _stem(roster.source)
        if may_be_host(stem) and (roster.speaks_for_many or roster.locals_seen > 1):
            families.setdefault(_NUMBER.sub("#", roster.source.name), []).append(roster.source)
    for shape, sources in families.items():
        if shape.count("#") == 1 and len(sources) > 1 and not any(source.host for source in sources):
            for source in sources:
                source.host = _stem(source)


def _stem(source: Source) -> str:
    """What may be a host's name in a file's: without words for what is in it."""
    stem = source.name.rsplit("/", 1)[-1].split(".")[0]
    return shorter if may_be_host(shorter := _OUTPUT.sub("", stem)) else stem


def _nodes_by_names(rosters: Sequence[Roster], case: CaseEvidence) -> None:
    """`dmesg/gn014` and `gn014.kmsg` are node gn014's, where nothing in them tells which node speaks."""
    known = {process.host for process in case.processes.values()} | set(case.job.nodes)
    known |= {roster.source.host for roster in rosters if roster.source.kind not in OF_ONE_HOST}
    for source in (roster.source for roster in rosters):
        if source.kind not in OF_ONE_HOST or source.host is not None:
            continue
        stem, before = source.name.rsplit("/", 1)[-1], ""
        while stem != before and stem not in known:
            stem, before = _OF_A_NODE.sub("", stem), stem
        if stem in known or may_be_host(stem):
            source.host = stem
