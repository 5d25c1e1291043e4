"""The pages that list codes: Xid, SXid and NVLink; signals, exit codes and job states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby

from bot.cli.markdown import cell
from knowledge.tables.exits import SHELL, exit_codes, job_states, signals, slurm_codes
from knowledge.tables.xids import (
    ACTIONS,
    GENERATIONS,
    Action,
    LinkRule,
    LinkUnit,
    Sxid,
    Xid,
    link_bits,
    link_units,
    switch_units,
    sxids,
    xids,
)

Link = Callable[[str], str]

XID = """\
# Xid and SXid

What the NVIDIA driver writes to the kernel's log about a GPU (`NVRM: Xid (PCI:0000:5d:00): 79, …`) and about an NVSwitch
(`SXid (PCI:0000:05:00.0): 12028, Non-fatal, …`), every number that NVIDIA documents. The same stands in the terminal:
`firstfault explain xid 79`, `firstfault explain sxid 12028`, or with the whole line, whose words are then decoded.

"""

EXITS = """\
# Signals, exit codes and job states

How a process or a job ended. The same stands in the terminal: `firstfault explain exit code 137`,
`firstfault explain SIGBUS`, `firstfault explain 0:125`, `firstfault explain OUT_OF_MEMORY`.

"""


def xid_page(link: Link) -> str:
    """The page of Xid, SXid and NVLink, as Markdown ending in a newline."""
    rows = xids().values()
    follow = [row for row in rows if row.consequence]
    new, old = [row for row in rows if row.gpus], [row for row in rows if not row.gpus]
    full = partial(_xid, link=link)
    parts = [
        _table("Only consequences", "These never begin a failure. Read what stands before them.", _HEAD, map(_follows, follow)),
        _table("Xid", "", _FULL_HEAD, map(full, new)),
        _table("Xid of older GPUs and desktops", "No data-centre GPU of today reports them.", _FULL_HEAD, map(full, old)),
        _nvlink5(),
        _nvlink4(),
        *_switches(),
    ]  # fmt: skip
    return XID + "\n".join(parts)


_HEAD = ("Xid", "name", "follows from", "do")
_FULL_HEAD = ("Xid", "name", "means", "at fault", "do first", "GPUs", "entry")


def _table(
    title: str, text: str, head: Sequence[str], rows: Iterator[Sequence[str]] | map[Sequence[str]], level: int = 2
) -> str:
    lines = ["#" * level + f" {title}", ""]
    lines += [text, ""] if text else []
    lines += [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _do(action: Action, advice: str) -> str:
    first = ACTIONS[action]
    return " ".join(filter(None, (f"{first[:1].upper()}{first[1:]}.", advice)))


def _follows(row: Xid) -> Sequence[str]:
    return (str(row.number), cell(row.name), ", ".join(map(str, row.follows)), cell(row.advice))


def _xid(row: Xid, link: Link) -> Sequence[str]:
    fault = "only follows" if row.consequence else row.nature.value
    return (
        str(row.number),
        cell(row.name),
        cell(row.means),
        cell(f"{fault}: {row.tell}" if row.tell else fault),
        cell(_do(row.action, row.advice)),
        "all" if row.gpus == GENERATIONS else ", ".join(row.gpus) or "older",
        "<br>".join(map(link, row.entries)),
    )


def _nvlink5() -> str:
    text = (
        "The line names the unit, the severity, the link and two numbers: `RLW_SRC_TRACK Nonfatal XC1 i0 Link 03 (intrInfo "
        "errorStatus …)`. `XC1` reaches into other processes, `i1` is injected. Bits 20 to 25 of intrInfo are the reason of a "
        "link event; errorStatus is read bit by bit. The unit is also the low bits of intrInfo, ten before driver R575, seven since."
    )
    rows = (_rule(unit, rule) for unit in link_units() for rule in unit.rules)
    return _table(
        "NVLink 5: Xid 144 to 150", text, ("Xid", "unit", "value", "severity", "at fault", "means", "do"), rows
    )


def _rule(unit: LinkUnit, rule: LinkRule) -> Sequence[str]:
    values = [f"{status:#x}" for status in sorted(rule.statuses)]
    values += [f"reason {number}, {why}" for number, why in rule.reasons.items()]
    names = f"{' or '.join(unit.units)} ({unit.codes['before_r575']:#x}, {unit.codes['since_r575']:#x})"
    severity = rule.severity.value + (", or fatal" if rule.promoted else "")
    value = cell("; ".join(values) or "any")
    do = cell(_do(rule.action, rule.advice))
    return (str(unit.xid), cell(names), value, severity, rule.nature.value, cell(rule.means), do)


def _nvlink4() -> str:
    text = (
        "Seven words stand behind the link's number: `NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, …)`. On GPUs of "
        "the Hopper generation words 1, 3, 4 and 5 count; a bit that stands nowhere here belongs in a report to the vendor."
    )
    rows = (
        (str(row.word), ", ".join(map(str, row.bits)), cell(row.means), cell(ACTIONS[row.action]))
        for row in link_bits()
    )
    return _table("NVLink up to 4: the words of Xid 74", text, ("word", "bits", "means", "do"), rows)


def _switches() -> Iterator[str]:
    yield (
        "## SXid\n\nThe line's own word, Fatal or Non-fatal, decides for one event; the class here is the usual one. Codes with ¹ are "
        "explained in NVIDIA's Fabric Manager guide, the others stand only in the driver.\n"
    )
    units: Mapping[str, str] = switch_units()
    for unit, rows in groupby(sxids().values(), key=lambda row: row.unit):
        title = unit[:1].upper() + unit[1:]
        yield _table(title, units[unit], ("SXid", "name", "usually", "do first"), map(_sxid, rows), level=3)


def _sxid(row: Sxid) -> Sequence[str]:
    return (
        f"{row.number}{'¹' if row.in_guide else ''}",
        cell(row.name),
        row.severity.value,
        cell(_do(row.action, row.advice)),
    )


def exits_page() -> str:
    """The page of signals, exit codes and job states, as Markdown ending in a newline."""
    told = {True: "somebody else", False: "itself"}
    parts = [
        _table(
            "Signals", "", ("signal", "shell, pod", "torchrun", "sacct", "srun says", "ended by", "means", "cause"),
            (
                (row.name, str(SHELL + row.number), str(-row.number), f"0:{row.number}", cell(row.word), told[row.told], cell(row.means), row.cause)
                for row in signals().values()
            ),
        ),
        _table(
            "Exit codes", "Above 128 a shell means a signal. Every other code is the program's own.", ("code", "used by", "means"),
            ((str(row.code), ", ".join(row.by), cell(row.means)) for row in exit_codes().values()),
        ),
        _table(
            "Slurm's own marks in ExitCode", "", ("ExitCode", "means"),
            ((f"0:{row.number}", cell(row.means)) for row in slurm_codes().values()),
        ),
        _table(
            "Job states", "", ("state", "short", "scheduler", "outcome", "means", "cause"),
            (
                (row.state, row.short, row.scheduler, row.kind.value, cell(row.means), row.cause or "")
                for row in job_states().values()
            ),
        ),
    ]  # fmt: skip
    return EXITS + "\n".join(parts)
