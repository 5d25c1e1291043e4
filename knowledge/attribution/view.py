"""The evidence, arranged for questions: which ranks there are, where they live, what each said and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import gcd

from knowledge.attribution.gaps import Gaps
from knowledge.attribution.notation import bus_key
from knowledge.attribution.troubles import Own, troubles_of
from knowledge.reading.evidence import CaseEvidence, Exit, Hit, Place, Pulse, RankStory, Traceback
from knowledge.reading.exits import counting
from knowledge.reading.progress import occupation, says_got_over
from knowledge.signature import Says, Scope, SignatureRole, SourceKind

_LOCAL_KINDS = (SourceKind.KERNEL, SourceKind.NODE, SourceKind.SCHEDULER, SourceKind.KUBERNETES)
_GOES_ON = 8  # progress lines of whichever rank after an error of nobody, from which it ended nothing
_MOST = 1 << 17  # ranks; a world size beyond is taken for a misreading


@dataclass
class CaseView:
    """The last attempt of a case, arranged."""

    case: CaseEvidence
    attempt: int
    stories: dict[int, RankStory]
    exits: dict[int, Exit] = field(default_factory=dict)  # the most telling exit of each rank

    @cached_property
    def gaps(self) -> Gaps:
        """What the evidence of this attempt lacks."""
        return Gaps(self)

    @property
    def pulse(self) -> Pulse:
        """The attempt's signs of life, from whichever rank."""
        return self.case.pulses.get(self.attempt) or Pulse()

    @cached_property
    def ranks(self) -> list[int]:
        """Every rank that is known to exist."""
        known = set(self.stories) | set(self.case.processes) | set(self.exits)
        if self.case.world_size and self.case.world_size <= _MOST:
            known = {rank for rank in known if rank < self.case.world_size} | set(range(self.case.world_size))
        return sorted(known)

    @cached_property
    def numbered(self) -> Sequence[int]:
        """Every rank that must exist, also those that nothing was heard of: ranks count from 0."""
        last = max(self.ranks, default=-1)
        return range(last + 1) if last < _MOST else self.ranks

    def host_of(self, rank: int) -> str | None:
        """The host of a rank: by its own words, the launcher's, the scheduler's layout, or its neighbours'."""
        return self._told_host(rank) or self._layout.get(rank)

    def _told_host(self, rank: int) -> str | None:
        known = self.case.processes.get(rank)
        if known and known.host:
            return known.host
        ended = self.exits.get(rank)
        if ended and ended.host and ended.host not in ("localhost", "127.0.0.1"):
            return ended.host
        story = self.stories.get(rank)
        return story.last.host if story and story.last else None

    @cached_property
    def _layout(self) -> dict[int, str]:
        """Hosts of ranks that nobody tells, where ranks lie in equal blocks on the hosts that are told."""
        job = self.case.job
        if job.ranks_per_node and job.nodes:
            return {
                rank: job.nodes[at] for rank in self.numbered if (at := rank // job.ranks_per_node) < len(job.nodes)
            }
        told = {rank: host for rank in self.ranks if (host := self._told_host(rank))}
        size = self._block_size(len(set(told.values())))
        blocks: dict[int, str] = {}
        for rank, host in told.items():
            if size and blocks.setdefault(rank // size, host) != host:
                return {}
        if not size or len(set(blocks.values())) < len(blocks):
            return {}
        return {rank: blocks[rank // size] for rank in self.numbered if rank // size in blocks}

    def _block_size(self, hosts: int) -> int:
        """Ranks of a host, where they can be told: from local ranks, or from the number of hosts; else 0."""
        pairs = [(process.rank, process.local_rank) for process in self.case.processes.values()]
        pairs += [(rank, ended.local_rank) for rank, ended in self.exits.items()]
        bases = {rank - local for rank, local in pairs if local is not None and rank >= local}
        if size := gcd(*bases):
            return size
        count = len(self.ranks)
        if hosts < 2 or count % hosts or self.ranks != list(range(count)):
            return 0
        size = count // hosts
        seen = {len(ranks) for ranks in self._told_blocks.values()}
        unplaced = any(rank in self.stories and not self._told_host(rank) for rank in self.ranks)
        equal = len(seen) == 1 and 1 < min(seen) < size
        return 0 if equal and unplaced else size  # equal blocks, and ranks on hosts that nobody tells

    @cached_property
    def _told_blocks(self) -> dict[str, list[int]]:
        blocks: dict[str, list[int]] = {}
        for rank in self.ranks:
            if host := self._told_host(rank):
                blocks.setdefault(host, []).append(rank)
        return blocks

    @cached_property
    def _by_host(self) -> dict[str, list[int]]:
        table: dict[str, list[int]] = {}
        for rank in self.numbered:
            host = self.host_of(rank)
            if host:
                table.setdefault(host, []).append(rank)
        return table

    @cached_property
    def _aliases(self) -> dict[str, str]:
        """Other names of a host: pod ↔ node, address → host, short name → full."""
        names: dict[str, str] = {}
        names.update(self.case.addresses)
        for pod, node in self.case.pod_nodes.items():
            names[pod] = node
            names[node] = pod
        job = self.case.job
        if job.ranks_per_node and job.nodes:
            for index, node in enumerate(job.nodes):
                rank = index * job.ranks_per_node
                known = self.case.processes.get(rank)
                if known and known.host and known.host != node:
                    names[node] = known.host
                    names.setdefault(known.host, node)
        for host in list(self._by_host):
            short = host.split(".")[0]
            if short != host and not short.isdigit():
                names[short] = host
        return names

    def ranks_on(self, host: str | None) -> list[int]:
        """The ranks of a host, by any of its names, or of a pod, by its name."""
        if host is None:
            return []
        pod = self.case.pods.get(host)
        if pod and pod.ranks is not None:
            return list(pod.ranks)
        if within := self._in_pods(host):
            return within
        if host in self._by_host:
            return self._by_host[host]
        other = self._aliases.get(host)
        if other and other in self._by_host:
            return self._by_host[other]
        short = host.split(".")[0]
        return next(
            (ranks for name, ranks in self._by_host.items() if name.split(".")[0] == short and not short.isdigit()), []
        )

    def _in_pods(self, host: str) -> list[int]:
        """The ranks that call their host by the name or address of a pod that is `host`, or runs on it."""
        pods = [pod for pod in self.case.pods.values() if host in (pod.name, pod.node, pod.address)]
        names = dict.fromkeys(name for pod in pods for name in (pod.name, pod.address) if name)
        return sorted(rank for name in names for rank in self._by_host.get(name, ()))

    @cached_property
    def hosts(self) -> list[str]:
        """Hosts that ranks are known to live on."""
        return list(self._by_host)

    def is_foreign(self, host: str) -> bool:
        """Whether a node is none of the job's, of which the scheduler names all, as their ranks call them."""
        nodes = {node.split(".")[0] for node in self.case.job.nodes}
        names = {name.split(".")[0] for name in self._by_host}
        return bool(
            host and names and names <= nodes and host.split(".", maxsplit=1)[0] not in nodes | self._aliases.keys()
        )

    def node_under(self, host: str) -> str | None:
        """The node that a pod, by its name or address, ran on, where the scheduler or the events tell."""
        if host in self.case.pod_nodes:
            return self.case.pod_nodes[host]
        if host in self.nodes_by_address:
            return self.nodes_by_address[host]
        other = self._aliases.get(host)
        return other if other in self.case.job.nodes and host not in self.case.job.nodes else None

    @cached_property
    def nodes_by_address(self) -> dict[str, str]:
        """Nodes by the addresses of the pods on them."""
        return {pod.address: pod.node for pod in self.case.pods.values() if pod.address and pod.node}

    def busy_with(self, ranks: Iterable[int]) -> tuple[str, Place] | None:
        """What the first of `ranks` that tells said it was doing, in its last words: the cause, and where it stands."""
        for rank in ranks:
            story = self.stories.get(rank)
            for place in reversed(story.words if story else []):
                if cause := occupation(place.text):
                    return cause, place
        return None

    def hosts_of(self, ranks: Iterable[int]) -> list[str]:
        """The hosts of some ranks, each once, in order."""
        return list(dict.fromkeys(host for rank in ranks if (host := self.host_of(rank))))

    def rank_of_hit(self, hit: Hit) -> int | None:
        """The rank that a node's or a scheduler's line is about: by pid, by GPU address, by task."""
        if hit.place.rank is not None and hit.place.source.kind not in _LOCAL_KINDS:
            return hit.place.rank
        host = hit.captures.get("host") or hit.place.host
        local = self.ranks_on(host) or (self.ranks if len(self.hosts) <= 1 else [])
        pid = hit.number("pid")
        for rank in local:
            process = self.case.processes.get(rank)
            if process and pid and process.pid == pid:
                return rank
            ended = self.exits.get(rank)
            if ended and pid and ended.pid == pid:
                return rank
        if pid and (unknown := self._rank_without_pid(local)) is not None:
            return unknown
        bus = hit.captures.get("bus")
        if bus:
            placed = self._rank_of_bus(bus_key(bus), local)
            if placed is not None:
                return placed
        device = hit.number("device")
        if device is not None and hit.place.source.kind in _LOCAL_KINDS:
            for rank in local:
                process = self.case.processes.get(rank)
                if process and process.local_rank == device:
                    return rank
        task = hit.number("task")
        if task is not None and task in self.ranks:
            return task
        return None

    def _rank_without_pid(self, local: list[int]) -> int | None:
        """The only rank of a host whose process id is not known, when all others' are: a foreign pid is its."""
        known = [rank for rank in local if (process := self.case.processes.get(rank)) and process.pid]
        rest = [rank for rank in local if rank not in known]
        return rest[0] if len(rest) == 1 and len(known) > 1 else None

    def _rank_of_bus(self, wanted: str, local: list[int]) -> int | None:
        """The rank whose GPU has an address; also the only one whose GPU is not known when all others' are."""
        buses = {
            rank: bus_key(process.bus) for rank in local if (process := self.case.processes.get(rank)) and process.bus
        }
        for rank, bus in buses.items():
            if bus == wanted:
                return rank
        rest = [rank for rank in local if rank not in buses]
        return rest[0] if len(rest) == 1 and len(local) > 1 else None

    def rank_of_local(self, local: int) -> int | None:
        """The rank with a local rank that did not merely suffer from others, if there is only one."""
        candidates = {
            found.rank for found in self.exits.values() if found.local_rank == local and found.rank is not None
        }
        candidates |= {process.rank for process in self.case.processes.values() if process.local_rank == local}
        if not candidates and len({*self.hosts, *self._hosts_of_logs}) <= 1:
            return local
        blameless = {rank for rank in candidates if not self.suffered(rank)}
        return next(iter(blameless)) if len(blameless) == 1 else None

    @cached_property
    def _hosts_of_logs(self) -> set[str]:
        return {source.host for source in self.case.sources if source.host and source.kind not in _LOCAL_KINDS}

    def suffered(self, rank: int) -> bool:
        """Whether a rank's own words tell of others' failure."""
        story = self.stories.get(rank)
        return story is not None and any(hit.signature.role is SignatureRole.CASCADE for hit in story.hits)

    # -- what ranks said

    @cached_property
    def waiting(self) -> dict[int, list[Hit]]:
        """Ranks that were alive in a collective and gave up waiting."""
        return self._saying(Says.WAITING)

    @cached_property
    def bereft(self) -> dict[int, list[Hit]]:
        """Ranks that lost a peer."""
        return self._saying(Says.PEER_GONE)

    def _saying(self, says: Says) -> dict[int, list[Hit]]:
        found: dict[int, list[Hit]] = {}
        for rank, story in self.stories.items():
            hits = [hit for hit in story.hits if says in hit.signature.says]
            if hits:
                found[rank] = hits
        return found

    def handled(self, story: RankStory, end: Place, order: int) -> bool:
        """Whether training went on after a line (the last one of its message is `order`): then it killed nobody.

        Words that training is done prove it only after a warning that says so itself: a job script may always end on them.
        """
        finished = story.finished if story.rank >= 0 else self.pulse.finished
        if (
            finished is not None
            and finished.source == end.source
            and finished.order > order
            and says_got_over(end.text)
        ):
            return True
        if story.rank >= 0:
            later = [story.last_progress] if story.last_progress else []
        else:
            later = [place for place in self.pulse.recent if end.local is None or place.local == end.local]
        if any(place.source != end.source or place.order <= order for place in later):
            return False
        return len(later) >= (1 if story.rank >= 0 or end.local is not None else _GOES_ON)

    def survived(self, place: Place) -> bool:
        """Whether whoever wrote into this source went on for long, or came to its end, after a line: then it ended nothing."""
        later = sum(beat.source == place.source and beat.order > place.order for beat in self.pulse.recent)
        finished = self.pulse.finished
        ended = finished is not None and finished.source == place.source and finished.order > place.order
        return later >= _GOES_ON or (ended and later > 0)

    @cached_property
    def own(self) -> dict[int, list[Own]]:
        """Each rank's own troubles, unhandled ones only, in the order they were written."""
        return {rank: found for rank, story in self.stories.items() if (found := self._own(story))}

    def _own(self, story: RankStory) -> list[Own]:
        whole = [traceback for traceback in story.tracebacks if not _told_better(traceback, story)]
        return troubles_of(story.rank, story.hits, whole, partial(self.handled, story))

    @cached_property
    def unattributed(self) -> list[Own]:
        """Troubles in streams that do not tell whose they are; `rank` is -1."""
        nobody = RankStory(rank=-1, attempt=self.attempt)
        nobody.hits = [
            hit
            for hit in self.case.hits
            if self._anonymous(hit.place)
            and (hit.signature.scope is not Scope.JOB or hit.signature.role is SignatureRole.CASCADE)
        ]
        nobody.tracebacks = [traceback for traceback in self.case.tracebacks if self._anonymous(traceback.end)]
        return self._own(nobody)

    def _anonymous(self, place: Place) -> bool:
        return place.rank is None and place.attempt == self.attempt and place.source.kind not in _LOCAL_KINDS


def _told_better(traceback: Traceback, story: RankStory) -> bool:
    """Whether a file ends within a traceback's last line, and another file of the rank has it whole."""
    torn = story.torn
    if torn is None or torn.source != traceback.end.source or torn.order > traceback.last_order:
        return False
    return any(other.end.source != torn.source and other.frames == traceback.frames for other in story.tracebacks)


def view_case(case: CaseEvidence, attempt: int | None = None) -> CaseView:
    """Arrange one attempt of a case; None: the last."""
    last = case.last_attempt
    attempt = last if attempt is None else attempt
    counted = counting(case) if attempt else set()
    launchers = [found for found in case.exits if found.by != "kubernetes"]
    numbered = attempt < last or any(
        found.place.attempt == attempt or found.place.source in counted for found in launchers
    )
    stories = {rank: story for (number, rank), story in case.stories.items() if number == attempt}
    exits: dict[int, Exit] = {}
    agents = any(found.by == "torchrun" for found in case.exits)
    for found in case.exits:
        if agents and found.by == "srun":
            continue  # its tasks are the nodes' agents, not ranks
        of_last = found.by == "kubernetes"
        if found.rank is None or ((numbered or of_last) and found.place.attempt != attempt):
            continue
        known = exits.get(found.rank, found)
        kept = found if _telling(found) > _telling(known) else known
        kept.host = kept.host or known.host or found.host
        exits[found.rank] = kept
    view = CaseView(case, attempt, stories)
    # an agent stops all workers where one fails: when training goes on after its words, it started them again
    view.exits = {rank: end for rank, end in exits.items() if end.by != "torchrun" or not view.survived(end.place)}
    return view


def _telling(found: Exit) -> tuple[bool, bool]:
    return (found.first, found.code != -15)
