"""Who writes into one source: learned from the head of the file, asked for every line."""

from __future__ import annotations

import re
from collections import Counter

from knowledge.reading import identity
from knowledge.reading.bundle import Source
from knowledge.reading.evidence import CaseEvidence, Process
from knowledge.reading.kinds import recognise
from knowledge.reading.prefixes import Habits, Prefix, learn_habits, may_begin, strip_prefix
from knowledge.reading.text import lines_of, pieces
from knowledge.signature import SourceKind

_SAMPLE_RANK, _SAMPLE = 6 << 10, 256 << 10  # bytes at the head from which a file is judged
_INLINE_RANK = re.compile(r"rank(?<!\wrank)[ =:](?P<rank>\d{1,6})\b")  # begins with letters, which are found fast
_BARE_RANK = re.compile(r"\[Rank (?P<rank>\d{1,6})\]")
_PYTHON_LOG_PID = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +(?P<pid>\d+) ")
_AGENT = re.compile(
    r"^(?:srun|slurmstepd|mpirun|prterun|torchrun)[\w-]*: |^[IWEF]\d{4} [\d:.]+ +\d+ torch/distributed/(?:run|elastic|launcher)"
)
_RESTARTS = re.compile(r"^\s*restart_count=(?P<attempt>\d{1,3})$")
_DESCRIBED = re.compile(r"^Name: +(?P<pod>[\w.-]+)$")
_ON_NODE = re.compile(r"^Node: +(?P<node>[A-Za-z][\w.-]*)")
_POD_IN_EVENT = re.compile(r"\bpod/(?P<pod>[\w.-]+)")
_POD_IN_LIST = re.compile(r"^(?P<pod>[a-z0-9][a-z0-9.-]+) +\d+/\d+ +[A-Z]\w+ ")
_POD_DONE = re.compile(r"^\S+ +(?P<ready>\d+)/\d+ +(?:Completed|Succeeded) ")
_POD_IN_NAME = re.compile(r"describe[-_](?P<pod>[a-z0-9][\w.-]*?)\.(?:txt|log|ya?ml)$")
_HOST_OF_POD = re.compile(r"Successfully assigned (?:[\w-]+/)?(?P<pod>[\w.-]+) to (?P<node>[\w.-]+)")
_STARTED = "Started container"  # the kubelet's event
_NODE_RANK = re.compile(r"\b(?:NODE_RANK|node[_-]rank|machine_rank)[= ]+(?P<node>\d{1,5})\b")
_NODE_RANK_WORDS = ("NODE_RANK", "node_rank", "node-rank", "machine_rank")
_HEAD = 160  # characters in which a line may tell its own rank

KINDS_OF_RANKS = (SourceKind.RANK, SourceKind.COMBINED, SourceKind.LAUNCHER, None)
"""Kinds of source in which ranks speak."""


class Roster:
    """The processes of one source, and the rules by which its lines are theirs."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.habits = Habits()
        self.attempt = source.attempt or 0
        self._by_pid: dict[int, int] = {}
        self._by_local: dict[int, set[int]] = {}
        self.claim: int | None = None  # the only rank that lines of the head speak of
        self._firsts: set[int] = set()  # ranks of local rank 0, by lines that tell both a rank and a local rank
        self._locals = 0  # local ranks seen in front of lines
        self.speaks_for_many = False  # ranks introduce themselves in it, more than one
        self.node_rank: int | None = None  # the number of this source's node among the job's
        self._pids: dict[int, list[int]] = {}  # by rank, in order: a new one is a new attempt
        found = _POD_IN_NAME.search(source.name)
        self._pod = found["pod"] if found and found["pod"] not in ("pods", "pod", "job", "jobs") else None

    def learn(self, case: CaseEvidence, siblings: int) -> None:
        """Read the head of the file: its kind and habits, and the start-up lines of its ranks.

        `siblings` is the number of sources that may each be one rank's.
        """
        with self.source.open() as stream:
            head = stream.read(_SAMPLE_RANK if self.source.kind is SourceKind.RANK else _SAMPLE)
        lines = lines_of(head) or [piece for raw in head.split(b"\n") for piece in pieces(raw)]
        self.habits = learn_habits(lines[:4000])
        ranks: Counter[int] = Counter()
        hosts: Counter[str] = Counter()
        introducing = identity.introducing(lines)
        for number, line in enumerate(lines):
            if number not in introducing and not may_begin(line, self.habits):
                continue
            prefix, text = strip_prefix(line, self.habits)
            if prefix.rank is not None:
                ranks[prefix.rank] += 1
            if prefix.local_rank is not None:
                if prefix.rank is not None:
                    self._firsts.add(prefix.rank - prefix.local_rank)
                self._locals = max(self._locals, prefix.local_rank + 1)
            if "Successfully assigned" in text and (found := _HOST_OF_POD.search(text)):
                case.pod_nodes[found["pod"]] = found["node"]
            if number in introducing and identity.may_introduce(text) and (who := identity.introduce(text)):
                self._meet(who, prefix, text, case, ranks, hosts)
        self.node_rank = _told_node_rank("\n".join(lines[:200]))
        self.source.kind = recognise(self.source, lines, ranks, self.habits)
        text = "\n".join(lines)
        claimed = {int(found["rank"]) for form in (_INLINE_RANK, _BARE_RANK) for found in form.finditer(text)}
        self.claim = next(iter(claimed)) if len(claimed) == 1 else None
        self.speaks_for_many = len(ranks) > 1
        if len(ranks) > 1:
            self.source.rank = None
        elif len(ranks) == 1 and (self.source.kind is SourceKind.RANK or siblings > 1):
            self.source.rank = next(iter(ranks))
            self.source.kind = self.source.kind or SourceKind.RANK
        if len(hosts) == 1:
            self._settle_host(next(iter(hosts)), case)
        if self.source.local_rank is not None and self.source.rank is None:
            self.source.rank = self._of_local(self.source.local_rank)

    def _settle_host(self, host: str, case: CaseEvidence) -> None:
        """What a process calls its host goes before what somebody called its folder."""
        source = self.source
        if source.folder_host not in (None, host):
            case.addresses[source.folder_host] = host
            source.host = host
        source.host = source.host or host

    def _meet(
        self,
        who: identity.Introduction,
        prefix: Prefix,
        text: str,
        case: CaseEvidence,
        ranks: Counter[int],
        hosts: Counter[str],
    ) -> None:
        rank = who.rank if who.rank is not None else prefix.rank
        if rank is None and self.source.kind is SourceKind.RANK:
            rank = self.source.rank
        if who.host:
            hosts[who.host] += 1
            if who.address:
                case.addresses[who.address] = who.host
                if who.interface:
                    case.interfaces[who.host] = (who.interface, who.address)
        if who.world_size and who.rank is not None:
            case.world_size = max(case.world_size or 0, who.world_size)
        if rank is None:
            return
        if who.rank is not None and not text.startswith("#"):
            ranks[rank] += 1
        known = case.processes.setdefault(rank, Process(rank))
        known.host = who.host or known.host or prefix.host
        known.pid = who.pid or known.pid
        known.bus = who.bus or known.bus
        known.address = who.address or known.address
        local = who.local_rank if who.local_rank is not None else prefix.local_rank
        if local is not None:
            known.local_rank = local
            self._by_local.setdefault(local, set()).add(rank)
        if who.pid:
            self._by_pid[who.pid] = rank

    def meet_again(self, text: str) -> None:
        """A rank that introduces itself as another process than before was started again: a new attempt. An agent of
        torchrun counts them itself.
        """
        if found := _RESTARTS.match(text):
            self.attempt = max(self.attempt, int(found["attempt"]))
            return
        who = identity.introduce(text)
        if who is None or who.rank is None or who.pid is None or "NCCL" in text:
            return
        pids = self._pids.setdefault(who.rank, [])
        if who.pid not in pids:
            pids.append(who.pid)
            self.attempt = max(self.attempt, len(pids) - 1)
        self._by_pid[who.pid] = who.rank

    def rank_of(self, prefix: Prefix, text: str) -> int | None:
        """The rank that wrote a line; None: an agent, the scheduler, or not told."""
        source = self.source
        if prefix.rank is not None:
            return None if _AGENT.match(text) else prefix.rank
        if source.kind not in KINDS_OF_RANKS:
            return None
        if prefix.local_rank is not None:
            rank = self._of_local(prefix.local_rank)
            return rank if rank is not None else _group_rank(text, prefix.local_rank, self._locals)
        if prefix.pid is not None and prefix.pid in self._by_pid:
            return self._by_pid[prefix.pid]
        if source.rank is not None:
            return source.rank
        process = identity.nccl_process(text) if "NCCL" in text else None
        if process:
            return self._by_pid.get(process[1])
        if _AGENT.match(text):
            return None
        if text[:1] == "{" and (recorded := identity.rank_of_record(text)) is not None:
            return recorded
        head = text[:_HEAD]
        found = _INLINE_RANK.search(head) if "ank" in head else None
        if found and "local_rank" not in head:
            return int(found["rank"])
        found = _PYTHON_LOG_PID.match(text)
        return self._by_pid.get(int(found["pid"])) if found else None

    def rank_of_process(self, pid: int | None, local: int | None) -> int | None:
        """The rank that a launcher means by a process id or a local rank."""
        if pid is not None and pid in self._by_pid:
            return self._by_pid[pid]
        return self._of_local(local) if local is not None else None

    @property
    def first_rank(self) -> int | None:
        """The rank of local rank 0, where all that this source tells is of one node."""
        source, firsts = self.source, set(self._firsts)
        firsts |= {rank - local for local, ranks in self._by_local.items() for rank in ranks}
        if source.rank is not None and source.local_rank is not None:
            firsts.add(source.rank - source.local_rank)
        return firsts.pop() if len(firsts) == 1 else None

    @property
    def locals_seen(self) -> int:
        """Local ranks in front of its lines."""
        return self._locals

    @property
    def nameless_locals(self) -> int:
        """Local ranks in front of its lines, where nothing in it tells which ranks these are; else 0."""
        return 0 if self._by_local else self._locals

    def be_node(self, first: int, size: int) -> None:
        """Take the local ranks of this source for the ranks from `first` on."""
        self._by_local = {local: {first + local} for local in range(size)}

    def _of_local(self, local: int) -> int | None:
        """The rank with a local rank, where this source holds one node only."""
        ranks = self._by_local.get(local, ())
        if not ranks and len(self._firsts) == 1:
            return max(self._firsts) + local
        return next(iter(ranks)) if len(ranks) == 1 else None

    def pod_of(self, text: str, case: CaseEvidence) -> str | None:
        """The pod that a line of Kubernetes' own words is about; `describe` names it once, above."""
        if found := _DESCRIBED.match(text):
            self._pod = found["pod"]
        elif self._pod and (found := _ON_NODE.match(text)):
            case.pod_nodes[self._pod] = found["node"]
        elif (found := _POD_IN_EVENT.search(text)) or (found := _POD_IN_LIST.match(text)):
            if _POD_DONE.match(text):
                case.pods_done.add(found["pod"])
            return self._note_start(found["pod"], text, case)
        return self._note_start(self._pod, text, case)

    def _note_start(self, pod: str | None, text: str, case: CaseEvidence) -> str | None:
        if pod and _STARTED in text:
            case.pods_started.add(pod)
        return pod


def _told_node_rank(head: str) -> int | None:
    """The only number of a node that the beginning of a file speaks of."""
    if not any(word in head for word in _NODE_RANK_WORDS):
        return None
    nodes = {int(found["node"]) for found in _NODE_RANK.finditer(head)}
    return nodes.pop() if len(nodes) == 1 else None


def _group_rank(text: str, local: int, locals_: int) -> int | None:
    """Before 2.3, PyTorch wrote `[Rank N]` and no group. It is the global rank only if it can have that local rank."""
    head = text[:_HEAD]
    found = _BARE_RANK.search(head) if "[Rank " in head and "[PG " not in head else None
    rank = int(found["rank"]) if found else -1
    return rank if rank >= 0 and locals_ and rank % locals_ == local else None
