"""Who is who: start-up lines that tie a rank to its host, process, local rank, GPU and address."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

_WORDS = (
    "NCCL ", "world_size", "nranks", "GLOBAL_RANK", " of ", "world_rank", "Bootstrap : Using", "spawned with", "WORLD_SIZE",
    "num_processes", "num_workers", "rocess index: ", "TF_CONFIG", " (local_rank: ",
)  # fmt: skip

_BANNER_RANK = re.compile(r"(?<![A-Za-z_])(?:global_)?(?:rank|RANK)[\"']?[=: ]+(?P<rank>\d+)")
_WORLD = re.compile(r"(?:world_size|nranks|world size|WORLD_SIZE)[\"']?[=: ]+(?P<size>\d+)")
_LOCAL = re.compile(r"(?:local_rank|LOCAL_RANK)[\"']?[=: ]+(?P<local>\d+)")
_HOST = re.compile(r"(?:host(?:name)?|node)(?:=|[\"']: ?[\"'])(?P<host>[\w.-]+)")
_PID = re.compile(r"pid(?:[= ]|[\"']: ?)(?P<pid>\d+)")
_FRACTION = re.compile(
    r"(?:(?<![A-Za-z_])[Rr]ank[ :=]+|^[Pp]rocess )(?P<rank>\d+)(?: ?/ ?|,? size[ :=]+)(?P<size>\d+)\b(?! ?[/%])",
    re.MULTILINE,
)
_FRACTIONS = tuple(re.compile(word + r"[ :=]+\d+(?: ?/|,? size)") for word in ("ank", "rocess"))
"""Where `_FRACTION` may match; found faster, as they begin with letters."""
_PARTS = frozenset(
    "tp dp pp ep cp sp mp local node group machine shard model data tensor pipeline expert parallel".split()
)
"""Words before `rank` that make it the number in a part of the job."""
_JSON = re.compile(r"^\{.{0,1000}?\"(?:global_)?rank\": ?(?P<rank>\d+)\b")
_RECORDS = 4  # of a rank that are looked at: a logger writes them all alike
_ACCELERATE = re.compile(r"^Process index: (?P<rank>\d+)$")
_JAX = re.compile(r"\bprocess_(?:id|index)[ :=]+(?P<rank>\d+),? num_processes[ :=]+(?P<size>\d+)")
_TENSORFLOW = re.compile(r"task_type = 'worker', task_id = (?P<rank>\d+), num_workers = (?P<size>\d+)")
_OF = re.compile(
    r"\brank (?P<rank>\d+) of (?P<size>\d+)(?: on (?P<host>[A-Za-z][\w.-]*))?(?:,? pid (?P<pid>\d+))?(?:,? local rank (?P<local>\d+))?"
)
_LIGHTNING = re.compile(r"GLOBAL_RANK: (?P<rank>\d+), MEMBER: \d+/(?P<size>\d+)")
_RAY = re.compile(
    r"\((?:node_id=\w{1,80}, )?ip=(?P<ip>[\d.]+), pid=(?P<pid>\d+)\) world_rank=(?P<rank>\d+), local_rank=(?P<local>\d+)"
)
_TORCHRUN_TABLE = re.compile(r"^\s*rank\s+: (?P<rank>\d+) \(local_rank: (?P<local>\d+)\)$")
_NCCL = re.compile(r"(?P<host>[^\s:\[\]]+):(?P<pid>\d+):\d+ \[(?P<device>-?\d+)\] ")
_NCCL_INIT = re.compile(
    r"rank (?P<rank>\d+) nranks (?P<size>\d+) cudaDev (?P<device>\d+)(?:.*?busId (?P<bus>[0-9a-fA-F]+))?"
)
_BOOTSTRAP = re.compile(r"Bootstrap ?: ?Using (?P<interface>[\w.-]+):(?P<ip>[\d.]+)<")
_NCCL_TESTS = re.compile(
    r"^#\s+Rank\s+(?P<rank>\d+) Group\s+\d+ Pid\s+(?P<pid>\d+) on\s+(?P<host>\S+) device\s+(?P<device>\d+)"
)
_SPAWNED = re.compile(r"process (?P<pid>\d+) spawned with command: .*--local_rank=(?P<local>\d+)")
_TF_CONFIG = re.compile(r"TF_CONFIG.{0,4000}[\"']type[\"']: ?[\"']worker[\"'], ?[\"']index[\"']: ?(?P<rank>\d{1,6})\b")


@dataclass(slots=True)
class Introduction:
    """What one line says about one process; what it does not say is None."""

    rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    local_rank: int | None = None
    pid: int | None = None
    bus: str | None = None
    address: str | None = None
    interface: str | None = None


def nccl_process(text: str) -> tuple[str, int] | None:
    """Host and pid in front of an NCCL line, or None."""
    found = _NCCL.search(text[:120])
    return (found["host"], int(found["pid"])) if found else None


def rank_of_record(text: str) -> int | None:
    """The rank that a line of JSON says it is from, or None."""
    found = _JSON.match(text)
    return int(found["rank"]) if found else None


def may_introduce(text: str) -> bool:
    """Whether `introduce` may find something in a line: quick, and seldom wrong."""
    return any(word in text for word in _WORDS) or text[:1] in ("#", "{") or _FRACTION.search(text) is not None


def introducing(lines: Sequence[str]) -> frozenset[int]:
    """The indices of lines that may introduce a process or a pod, whatever stands in front of them."""
    text = "\n".join(lines)
    ends = [*accumulate(len(line) + 1 for line in lines)]
    found = set()
    for word in (*_WORDS, "#", "Successfully assigned"):
        at = text.find(word)
        while at >= 0:
            line = bisect_right(ends, at)
            found.add(line)
            at = text.find(word, ends[line])
    for form in _FRACTIONS:
        found.update(bisect_right(ends, one.start()) for one in form.finditer(text))
    records: Counter[int] = Counter()
    for number, record in enumerate(lines):
        if record[:1] == "{" and (rank := rank_of_record(record)) is not None and records[rank] < _RECORDS:
            records[rank] += 1
            found.add(number)
    return frozenset(found)


def introduce(text: str) -> Introduction | None:
    """Read one line for which `may_introduce` holds."""
    if " of " in text and (found := _OF.search(text)):
        return Introduction(
            int(found["rank"]), int(found["size"]), found["host"], _int(found["local"]), _int(found["pid"])
        )
    if text[:1] == "{" and (found := _JSON.match(text)):
        world = _WORLD.search(text)
        return _banner(text, int(found["rank"]), int(world["size"]) if world else None)
    if "GLOBAL_RANK" in text and (found := _LIGHTNING.search(text)):
        return Introduction(int(found["rank"]), int(found["size"]))
    if "world_rank" in text and (found := _RAY.search(text)):
        return Introduction(int(found["rank"]), None, found["ip"], int(found["local"]), int(found["pid"]))
    if text[:1] == "#" and (found := _NCCL_TESTS.search(text)):
        return Introduction(int(found["rank"]), None, found["host"], int(found["device"]), int(found["pid"]))
    if "(local_rank: " in text and (found := _TORCHRUN_TABLE.search(text)):
        return Introduction(int(found["rank"]), local_rank=int(found["local"]))
    if "spawned with" in text and (found := _SPAWNED.search(text)):
        return Introduction(local_rank=int(found["local"]), pid=int(found["pid"]))
    if "rocess" in text and (found := _ACCELERATE.search(text)):
        return Introduction(int(found["rank"]))
    if "TF_CONFIG" in text and (found := _TF_CONFIG.search(text)):
        return Introduction(int(found["rank"]))
    if "num_" in text and (found := _JAX.search(text) or _TENSORFLOW.search(text)):
        return Introduction(int(found["rank"]), int(found["size"]))
    process = nccl_process(text)
    if process and (found := _NCCL_INIT.search(text)):
        bus = found["bus"]
        return Introduction(
            int(found["rank"]), int(found["size"]), process[0], int(found["device"]), process[1],
            f"{bus[:-5].zfill(4)}:{bus[-5:-3].zfill(2)}:00" if bus and len(bus) > 3 else None,
        )  # fmt: skip
    if process and (found := _BOOTSTRAP.search(text)):
        return Introduction(host=process[0], pid=process[1], address=found["ip"], interface=found["interface"])
    if process:
        return Introduction(host=process[0], pid=process[1])
    world, rank = _WORLD.search(text), _BANNER_RANK.search(text)
    if rank and world:
        return _banner(text, int(rank["rank"]), int(world["size"]))
    if found := _FRACTION.search(text):
        number, size = int(found["rank"]), int(found["size"])
        before = re.split(r"[^A-Za-z]+", text[: found.start()].lower().rstrip(" -_"))[-1]
        return _banner(text, number, size) if number < size and before not in _PARTS else None
    return None


def _banner(text: str, rank: int, size: int | None) -> Introduction:
    local, host, pid = _LOCAL.search(text), _HOST.search(text), _PID.search(text)
    return Introduction(
        rank, size, host["host"] if host else None, int(local["local"]) if local else None,
        int(pid["pid"]) if pid else None,
    )  # fmt: skip


def _int(text: str | None) -> int | None:
    return int(text) if text else None
