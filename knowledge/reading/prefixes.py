"""What launchers write in front of a line: ranks, hosts and arrival times.

Prefixes nest (a container's time, then srun's label, then torchrun's role), so they are stripped in rounds. Forms that
could be ordinary text (`3: `, `host: `, `[3] `) are believed only in files that use them throughout; see `Habits`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from knowledge.reading.syslog import split_job_line
from knowledge.reading.wrapped import unwrap

_ARRIVAL = re.compile(
    r"^(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)):? (?:std(?:out|err) [FP] )?"
)
_MPIRUN = re.compile(
    r"^(?:[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]+ \d{4})?"
    r"\[(?:[\w.-]+@)?\d+,(?:mpirank:)?(?P<rank>\d+)(?:,(?P<host>[\w.-]+))?\]<std(?:out|err|diag)>: ?"
)
_MPIRUN_BARE = re.compile(r"^\[(?:\d+,(?=\d+\])|(?=\d+\]<))(?P<rank>\d+)\](?:<std(?:out|err)>)?: ?")
_ROLE = re.compile(r"^\[(?:default|[a-z_]*worker|trainer)(?P<local>\d+)\]: ?")
_ANY_ROLE = re.compile(r"^\[(?P<role>(?!rank\d)[A-Za-z][A-Za-z_-]{0,24})(?P<local>\d{1,3})\]: ?")  # torchrun --role gpu
_RAY = re.compile(
    r"^\((?P<actor>[A-Za-z_][\w.:]*)(?:\([\w./:-]{1,80}\)| [A-Z]{2,3}\d+)?(?: rank=(?P<rank>\d+))?,? ?pid=(?P<pid>\d+)(?:, ip=(?P<ip>[\d.]+))?\) ?"
)
_SKYPILOT = re.compile(r"^\([\w.-]{1,63}, rank=\d+, pid=\d+(?:, ip=(?P<ip>[\d.]+))?\) ?")  # and the rank of a node
_POD = re.compile(r"^\[pod/(?P<pod>[\w.-]+)/[\w.-]+\] ?")
_GLOBAL = re.compile(
    r"^\[rank(?P<rank>\d+)\](?::\[rank(?P=rank)\])*:? ?(?=.)"
)  # by PyTorch, and by whoever tells it again
_LABEL = re.compile(r"^ *(?P<rank>\d{1,6})(?::(?!\d\d:\d\d)|[>|](?= )) ?")  # and no time of day
_HYDRA = re.compile(r"^\[(?P<rank>\d{1,6})\] ")
_BRACKETS = re.compile(r"^\[(?P<local>\d{1,6})\]: ?")
_CLOCK = r"[\[(]?(?:\d{4}[-/]\d\d[-/]\d\d[ T])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?[\])]?:? (?:\| )?"
_TIMED = re.compile(rf"^{_CLOCK}(?P<own>\[rank\d|Traceback |  |[A-Za-z_][\w.]*(?::|$))?")
"""A time in front of a line, and whether what follows cannot stand behind the time of a logger's record."""
_TAG = re.compile(
    rf"^(?:{_CLOCK})?(?!\[rank\d+\])"
    r"[\[(<](?:(?:[Rr]ank|RANK|[Tt]ask|TASK)[ _:=#-]?(?P<rank>\d{1,6})"
    r"|(?:[Ww]orker|WORKER|[Pp]roc(?:ess)?|PROC|[Tt]rainer|[Ll]ocal)[ _:=#-]?(?P<local>\d{1,6}))"
    r"(?:/\d+)?[\])>]:? ?(?:\| ?)?"
)
_RECORD = re.compile(
    r"(?<![A-Za-z0-9])(?<!local[_ -])(?:(?P<word>[Rr]ank(?![ =:])|RANK|[Pp]rocess|[Pp]roc|PROC)[ _:=#-]?|(?P<letter>rk|[rRpP]))"
    r"(?P<rank>\d{1,5})(?=[\])>|:,;\s]|$)"
)
"""How a site's own logger calls a rank at the head of its records, in ways that no other reader of lines knows."""
_BEGINS_RECORD = re.compile(r"^[\[(<+]?\d|^[\[(<](?!rank\d)|^(?:DEBUG|INFO|WARN|ERROR|[DIWE]\d{4} )")
_FEW = 12  # lines of a file by which it is judged whether its site has ways of its own
_HEAD = 80  # characters of a record in which its rank stands
_HOST = re.compile(r"^(?P<host>[A-Za-z][A-Za-z0-9.-]{1,62}|\d{1,3}(?:\.\d{1,3}){3}): ")
_COLUMN = re.compile(
    r"^(?P<pod>(?!rank|local|step|epoch|iter)[a-z][a-z0-9.]*[-_][a-z0-9._-]*) "
    r"(?:(?!step|epoch|iter|rank|loss|info|warn|err|debug|is|has|was)[a-z][a-z0-9-]*|\s*\|) "
)
_AMBIGUOUS = re.compile(
    rf"(?:{_ARRIVAL.pattern[1:]})?(?:(?P<label> *\d{{1,6}}(?::(?!\d\d:\d\d)|[>|](?= )) ?)|(?P<hydra>\[\d{{1,6}}\] )|(?P<brackets>\[\d{{1,6}}\]: ?)"
    r"|(?P<host>[A-Za-z][A-Za-z0-9.-]{1,62}|\d{1,3}(?:\.\d{1,3}){3}): )"
)
_NOT_HOSTS = frozenset(
    "srun slurmstepd WARNING INFO ERROR Error Warning wandb error warning File Note NOTE python bash sh "
    "libibverbs mpirun prterun Traceback Exception terminate kernel info debug FATAL fatal Fabric Status Events Name "
    "time host rank exitcode torchrun accelerate deepspeed CRITICAL DEBUG hint help".split()
)


@dataclass(slots=True)
class Prefix:
    """What was in front of a line."""

    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    pod: str | None = None
    tagged: bool = False  # `[rankN]:` was there: the process itself says which rank it is


@dataclass(slots=True, frozen=True)
class Habits:
    """The ambiguous prefix forms that a file uses throughout."""

    label: bool = False  # srun --label: `3: `
    hydra: bool = False  # MPICH and Intel MPI: `[3] `
    brackets: bool = False  # torchrun with a prefix of the site's own: `[3]: `
    host: bool = False  # pdsh: `node7: `
    column: bool = False  # stern and docker compose: `trainer-0 pytorch `, `trainer-0  | `
    tag: bool = False  # a launcher of the site's own: `21:47:38 [worker 1] `
    clock: bool = False  # a time that somebody put in front of every line
    record: str = ""  # how records of the site's own logger call a rank: `21:47:38 - train.rank1 - INFO - `
    own: bool = False  # any of the last three
    role: str = ""  # a role of torchrun's workers that is none of the usual
    wrapped: bool = False  # a collector's JSON round each line


def learn_habits(lines: Sequence[str]) -> Habits:
    """Decide from a sample of clean lines which ambiguous prefixes a file uses."""
    total = labels = hydras = brackets = wrapped = 0
    hosts: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    for whole in lines:
        if not whole or whole.isspace():
            continue
        total += 1
        first = whole[0]
        record = unwrap(whole) if first == "{" else None
        wrapped += record is not None
        if "a" <= first <= "z" and (found := _COLUMN.match(whole)):
            pods[found["pod"]] += 1
        found = _AMBIGUOUS.match(record.text if record else whole)
        if not found:
            continue
        kind = found.lastgroup
        if kind == "label":
            labels += 1
        elif kind == "hydra":
            hydras += 1
        elif kind == "brackets":
            brackets += 1
        elif (host := found["host"]) not in _NOT_HOSTS and not host.endswith(("Error", "Warning", "Exception")):
            hosts[host] += 1
    enough = max(2, total // 2)
    clock, tag, called = _own_habits(lines)
    role = _roles(lines)
    return Habits(
        label=labels >= enough,
        hydra=hydras >= enough,
        brackets=brackets >= enough,
        host=sum(count for count in hosts.values() if count > 1) >= max(3, total * 6 // 10),
        column=sum(count for count in pods.values() if count > 1) >= max(3, total * 6 // 10),
        clock=clock,
        tag=tag,
        record=called,
        own=clock or tag or bool(called),
        role=role,
        wrapped=wrapped >= enough,
    )


def _own_habits(lines: Sequence[str]) -> tuple[bool, bool, str]:
    """What a site's own tools put in front of lines (see `Habits`): a time, a tag, the word for a rank.

    A few lines tell whether there is anything of the kind.
    """
    few = _some(lines)
    begun = [line for line in few if line[0] in "[(<+" or line[0].isdigit() or line[0] in "DIWE"]
    clock = _most(_TIMED, begun, few, 0.9) and _most(_TIMED, lines, lines, 0.9)  # the few may be of one logger alone
    tag = _most(_TAG, begun, few, 0.8) and _most(_TAG, lines, lines, 0.8)
    if not any(_RECORD.search(line, 0, _HEAD) for line in begun):
        return clock, tag, ""
    records = [line for line in lines if _BEGINS_RECORD.match(line)]
    called: dict[str, list[int]] = {}
    for line in records:
        if told := _RECORD.search(line, 0, _HEAD):
            called.setdefault(_word(told), []).append(int(told["rank"]))
    usual = (word for word, ranks in called.items() if 2 * len(ranks) > len(records) and _tells(set(ranks)))
    return clock, tag, next(usual, "")


def _some(lines: Sequence[str]) -> list[str]:
    """A few lines from all over a file, not always of the same of several loggers that take turns."""
    stride = next(stride for stride in count(1 + len(lines) // _FEW) if stride % 2 and stride % 3)
    return [line for line in lines[::stride] if line and not line.isspace()]


def _most(form: re.Pattern[str], lines: Sequence[str], of: Sequence[str], share: float) -> bool:
    """Whether as many `lines` have a form as are a share of those that are not blank among `of`, three at least."""
    total = sum(bool(line) and not line.isspace() for line in of)
    return sum(form.match(line) is not None for line in lines) >= max(3, int(total * share))


def _roles(lines: Sequence[str]) -> str:
    """The role before the local ranks in front of many lines, which begin with 0 and have no gap."""
    few = _some(lines)
    if 4 * sum(_ANY_ROLE.match(line) is not None for line in few) <= len(few):
        return ""
    told: dict[str, set[int]] = {}
    for found in filter(None, map(_ANY_ROLE.match, lines)):
        told.setdefault(found["role"], set()).add(int(found["local"]))
    role, locals_ = max(told.items(), key=lambda one: len(one[1]))
    return role if 0 in locals_ and _tells(locals_) else ""


def _word(found: re.Match[str]) -> str:
    return found["word"] or found["letter"]


def _tells(ranks: set[int]) -> bool:
    """Whether numbers are those of all ranks that write into a file: several, without a gap."""
    return len(ranks) > 1 and max(ranks) - min(ranks) == len(ranks) - 1


def may_begin(line: str, habits: Habits) -> bool:
    """Whether `strip_prefix` may find something in front of a line: quick, and never wrong when it says no."""
    first = line[:1]
    if first == "[" or first == "(" or habits.label or habits.host or habits.column or habits.wrapped or habits.own:
        return True
    return line[10:11] == "T" if first.isdigit() else line[3:4] == " "


def strip_prefix(line: str, habits: Habits) -> tuple[Prefix, str]:
    """Split a clean line into what launchers put in front of it and the program's own text."""
    prefix = Prefix()
    if not may_begin(line, habits):
        return prefix, line
    if habits.wrapped and (record := unwrap(line)):
        prefix.host, prefix.pod, line = record.host, record.pod, record.text
    if (line[3:4] == " " or line[10:11] == "T") and (logged := split_job_line(line)):
        prefix.host, line = logged
    if habits.tag and (tag := _TAG.match(line)):
        if tag["rank"]:
            prefix.rank = int(tag["rank"])
        else:
            prefix.local_rank = int(tag["local"])
        line = line[tag.end() :]
    elif habits.clock and (timed := _TIMED.match(line)) and timed["own"]:
        line = line[timed.start("own") :]
    for _ in range(4):
        first = line[:1]
        found: re.Match[str] | None = None
        if first == "[":
            if line[1:2] == "r" and (found := _GLOBAL.match(line)):
                prefix.rank = int(found["rank"])
                prefix.tagged = True
            elif found := _MPIRUN.match(line) or _MPIRUN_BARE.match(line):
                prefix.rank = int(found["rank"])
                prefix.host = found.groupdict().get("host") or prefix.host
            elif found := _ROLE.match(line) or (_ANY_ROLE.match(line) if habits.role else None):
                prefix.local_rank = int(found["local"])
            elif found := _POD.match(line):
                prefix.pod = found["pod"]
            elif habits.hydra and (found := _HYDRA.match(line)):
                prefix.rank = int(found["rank"])
            elif habits.brackets and (found := _BRACKETS.match(line)):
                prefix.local_rank = int(found["local"])
        elif first == "(":
            if found := _RAY.match(line):
                prefix.pid = int(found["pid"])
                prefix.host = found["ip"] or prefix.host
                if found["rank"]:
                    prefix.rank = int(found["rank"])
            elif found := _SKYPILOT.match(line):
                prefix.host = found["ip"] or prefix.host
        elif habits.label and (found := _LABEL.match(line)):
            if prefix.rank is None:
                prefix.rank = int(found["rank"])
        elif first.isdigit():
            found = _ARRIVAL.match(line) if line[10:11] == "T" else None
            if found is None and habits.host and prefix.host is None and (found := _HOST.match(line)):
                prefix.host = found["host"]
        elif first.isalpha():
            found = _MPIRUN.match(line) if line[3:4] == " " else None  # a date
            if found:
                prefix.rank = int(found["rank"])
            elif habits.column and prefix.pod is None and (found := _COLUMN.match(line)):
                prefix.pod = found["pod"]
            elif (
                habits.host and prefix.host is None and (found := _HOST.match(line)) and found["host"] not in _NOT_HOSTS
            ):
                prefix.host = found["host"]
            else:
                found = None
        if not found or found.end() == 0:
            break
        line = line[found.end() :]
        if prefix.tagged:
            break
    if habits.record and prefix.rank is None and _BEGINS_RECORD.match(line):
        told = _RECORD.search(line, 0, _HEAD)
        prefix.rank = int(told["rank"]) if told and _word(told) == habits.record else None
    return prefix, line
