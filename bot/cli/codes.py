"""What a number says: Xid, SXid, CUDA errors, signals, exit codes and job states, told from the tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from knowledge.causes import load_causes
from knowledge.signature import Nature
from knowledge.tables.cuda import CudaError, cuda_error, cuda_errors
from knowledge.tables.exits import Kind, exit_codes, job_state, signal_of, signals, slurm_codes
from knowledge.tables.xids import (
    ACTIONS,
    GENERATIONS,
    LinkBits,
    LinkRule,
    Severity,
    Sxid,
    Xid,
    decode_nvlink4,
    decode_nvlink5,
    link_units,
    switch_units,
    sxids,
    xids,
)

GENERAL = "xid-other"
"""Speaks for the Xids that have no entry of their own, and knows less of them than the table."""

_XID = re.compile(r"(?:nvrm:? *)?(?P<switch>s?)xid[ :#=-]*(?P<number>\d{1,6})", re.IGNORECASE)
_CUDA = re.compile(r"cuda(?:[ _-]?(?:error|failure|code))?[ :#=-]*(?P<number>\d{1,4})", re.IGNORECASE)
_CUDA_NAME = re.compile(r"cudaError[A-Z]\w+|CUDA_ERROR_[A-Z_]+")
_EXIT = re.compile(r"(?:exit|return)(?:ed)?(?:[ _-]?(?:code|status|with))*[ :=]*(?P<code>-?\d{1,3})", re.IGNORECASE)
_SIGNAL = re.compile(r"signal[ :=]*(?P<number>\d{1,2})|(?P<name>SIG[A-Z0-9]{2,8})", re.IGNORECASE)
_SACCT = re.compile(r"(?:sacct|slurm|exitcode)?[ :=]*(?P<code>\d{1,3}):(?P<signal>\d{1,3})", re.IGNORECASE)
_STATE = re.compile(r"(?:(?:slurm|job|sacct)[ _-]?)?state[ :=]*(?P<any>[\w+]+)|(?P<name>[A-Z_]{4,}\+?)", re.IGNORECASE)
_LINE = re.compile(r"(?P<switch>S?)Xid \([^)]{4,40}\): (?P<number>\d{1,5})\b")
_NUMBER = re.compile(r"-?\d{1,6}")
_VENDOR_ERROR = 129  # of an RDMA card whose retries are used up
_NVLINK5 = re.compile(
    r"\): (?P<xid>14[4-9]|150),.{0,80}?\b(?P<unit>[A-Z][A-Z0-9_/]{2,40}) (?P<severity>Fatal|Nonfatal) XC\d i\d+ "
    r"Link +(?P<link>-?\d+) \((?P<info>0x[0-9a-fA-F]{1,8}) (?P<status>0x[0-9a-fA-F]{1,8})"
)
_NVLINK4 = re.compile(r"\): 74,.{0,120}?link (?P<link>\d+)\((?P<words>0x[0-9a-fA-F]+(?:, 0x[0-9a-fA-F]+){0,6})\)")

_NATURE = {
    Nature.HARDWARE: "Hardware.",
    Nature.SOFTWARE: "Software.",
    Nature.CONFIGURATION: "A setting or an installation.",
    Nature.EITHER: "Hardware or software.",
}
_SEVERITY = {
    Severity.ALWAYS_FATAL: "Always fatal: the switch itself is lost.",
    Severity.FATAL: "Mostly fatal for the link and what used it.",
    Severity.LINK_FATAL: "Fatal for the link; drain and reset the GPU.",
    Severity.NON_FATAL: "Mostly not fatal.",
}
_KIND = {
    Kind.WELL: "Nothing failed.",
    Kind.FAILED: "The job failed.",
    Kind.STOPPED: "Somebody's decision ended it.",
    Kind.UNFINISHED: "The job has not ended, or comes back.",
}


@dataclass(frozen=True, slots=True)
class Told:
    """A code in words."""

    title: str
    note: str  # the code as people write it
    facts: Sequence[tuple[str, str]]  # heading, text
    entries: Sequence[str] = field(default=())  # of the catalogue, which speak for it
    captures: Mapping[str, str] = field(default_factory=dict)  # what the code itself fills in an entry's sentences


def asked(text: str) -> Told | str | None:
    """Tell what a code that somebody typed stands for; a string says why there is no answer, None that it is no code."""
    if found := _XID.fullmatch(text):
        number, switch = int(found["number"]), bool(found["switch"])
        return (of_sxid if switch else of_xid)(number) or _unknown("SXid" if switch else "Xid", number)
    if found := _CUDA.fullmatch(text):
        number = int(found["number"])
        error = cuda_errors().get(number)
        return of_cuda(error) if error else f"CUDA has no error {number}."
    if _CUDA_NAME.fullmatch(text) and (error := cuda_error(text)):
        return of_cuda(error)
    if _NUMBER.fullmatch(text):
        return _bare(int(text))
    return _ending(text)


def _bare(number: int) -> Told | str:
    """Tell what a number may stand for, where nobody says whose number it is."""
    found: dict[str, Told] = {}
    if error := cuda_errors().get(number):
        found[f"cuda {number}"] = of_cuda(error)
    if xid := of_xid(number):
        found[f"xid {number}"] = xid
    if number == _VENDOR_ERROR:
        title = "RDMA retries used up: the far end did not acknowledge"
        found[f"vendor err {number}"] = Told(title, f"vendor err {number}", (), ("nccl-ib-retry-exceeded",))
    ended = _of_signal(-number) if number < 0 else _of_exit(number)
    if isinstance(ended, Told):
        found[f"exit code {number}"] = ended
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        return (
            f"Neither a GPU nor CUDA nor the end of a process has a number {number}; give the line in which it stands."
        )
    return Told(f"{number} may be", "ask with the word before it", [(form, told.title) for form, told in found.items()])


def of_xid(number: int) -> Told | None:
    """Tell what an Xid means; None: NVIDIA documents no such number."""
    row = xids().get(number)
    if row is None:
        return None
    entries = [entry for entry in row.entries if entry != GENERAL]
    return Told(row.name, f"Xid {number}", list(_xid_facts(row)), entries, {"xid": str(number)})


def of_sxid(number: int) -> Told | None:
    """Tell what an SXid means; None: NVIDIA documents no such number."""
    row = sxids().get(number)
    if row is None:
        return None
    fatal = row.severity is not Severity.NON_FATAL
    entries = ("sxid-fatal", "sxid-nonfatal") if fatal else ("sxid-nonfatal", "sxid-fatal")
    return Told(
        f"NVSwitch, {row.unit}: {row.name}", f"SXid {number}", list(_sxid_facts(row)), entries, {"xid": str(number)}
    )


def of_cuda(error: CudaError) -> Told:
    """Tell what a number of CUDA stands for."""
    names = ", ".join(filter(None, (error.runtime, error.driver)))
    note = f"CUDA error {error.number}, {error.runtime}: {error.text}"
    return Told(error.text, note, [("Names", names)], (error.entry,), {"detail": error.text})


def of_line(line: str) -> Told | None:
    """Tell what the Xid or SXid of a line of the kernel's log says, with its words decoded."""
    found = _LINE.search(line)
    if not found:
        return None
    told = (of_sxid if found["switch"] else of_xid)(int(found["number"]))
    decoded = list(_decoded(line))
    return Told(told.title, told.note, decoded or told.facts, told.entries) if told else None


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _unknown(word: str, number: int) -> str:
    listed = sxids() if word == "SXid" else xids()
    return (
        f"{word} {number} is not among the {len(listed)} that NVIDIA documents ({min(listed)} to {max(listed)}). "
        "A newer driver may know it; read the rest of the line and what stands before it."
    )


def _xid_facts(row: Xid) -> Iterator[tuple[str, str]]:
    yield "Means", row.means
    yield "At fault", " ".join(filter(None, (_NATURE[row.nature], row.tell)))
    follows = ", ".join(map(str, row.follows))
    if row.consequence:
        yield "Only a consequence", f"It never begins a failure; it follows from Xid {follows}."
    elif follows:
        yield "May be a consequence", f"It often follows from Xid {follows}; look for one before it."
    yield "Do", f"{_sentence(ACTIONS[row.action])}. {row.advice}"
    units = [" or ".join(found.units) for found in link_units() if found.xid == row.number]
    if units:
        yield "Units", ", ".join(units)
    if not row.gpus:
        yield "Reported by", "No data-centre GPU of today (Ampere or later)."
    elif row.gpus != GENERATIONS:
        yield "Reported by", ", ".join(row.gpus)
    if row.advised_since:
        yield "Beside it", f"An Xid 154 that says what the GPU needs, from driver {row.advised_since} on."


def _sxid_facts(row: Sxid) -> Iterator[tuple[str, str]]:
    yield "Where", switch_units()[row.unit]
    yield "How bad", f"{_SEVERITY[row.severity]} The line's own word (Fatal, Non-fatal) decides."
    yield "Do", " ".join(filter(None, (f"{_sentence(ACTIONS[row.action])}.", row.advice)))
    if not row.in_guide:
        yield "Source", "The driver's list of codes; the Fabric Manager guide does not explain it."


def _decoded(line: str) -> Iterator[tuple[str, str]]:
    if found := _NVLINK5.search(line):
        info, status = int(found["info"], 16), int(found["status"], 16)
        where = f"{found['unit']}, link {found['link']}"
        rules = decode_nvlink5(int(found["xid"]), found["unit"], info, status)
        for rule in rules:
            yield where, _rule(rule, reason=info >> 20 & 0x3F, fatal=found["severity"] == "Fatal")
        if not rules:
            yield where, f"NVIDIA documents no rule for intrInfo {found['info']} with errorStatus {found['status']}."
    elif found := _NVLINK4.search(line):
        words = [int(word, 16) for word in found["words"].split(", ")]
        rows = decode_nvlink4(words)
        for row in rows:
            yield f"Link {found['link']}, word {row.word}", _bits(row, words[row.word - 1])
        if not rows:
            yield f"Link {found['link']}", "No documented bit is set; report it to the vendor."


def _rule(rule: LinkRule, *, reason: int, fatal: bool) -> str:
    why = f"{_sentence(rule.reasons[reason])}. " if reason in rule.reasons else ""
    action = rule.promoted if rule.promoted and fatal else rule.action
    return " ".join(filter(None, (why + rule.means, f"{_sentence(ACTIONS[action])}.", rule.advice)))


def _bits(row: LinkBits, word: int) -> str:
    set_bits = ", ".join(str(bit) for bit in row.bits if word >> bit & 1)
    return f"Bit {set_bits}: {row.means}. {_sentence(ACTIONS[row.action])}."


def _ending(text: str) -> Told | str | None:
    if found := _SACCT.fullmatch(text):
        code, signal = int(found["code"]), int(found["signal"])
        if code and signal and text[0].isdigit():
            return None  # a time of day
        if signal in slurm_codes():
            row = slurm_codes()[signal]
            return Told(f"ExitCode {code}:{signal} of sacct", "no signal, but Slurm's own mark", [("Means", row.means)])
        return _of_signal(signal) if signal else _of_exit(code)
    if found := _EXIT.fullmatch(text):
        return _of_exit(int(found["code"]))
    if found := _SIGNAL.fullmatch(text):
        named = (number for number, row in signals().items() if row.name == (found["name"] or "").upper())
        return _of_signal(int(found["number"]) if found["number"] else next(named, 0))
    if found := _STATE.fullmatch(text):
        return _of_state(found["any"] or found["name"], exact=not found["any"])
    return None


def _of_exit(code: int) -> Told | str:
    signal = signal_of(code)
    if signal is not None:
        return _of_signal(signal)
    row = exit_codes().get(code)
    if row is None:
        return f"Exit code {code} means nothing by convention; the program chose it, and its own words say why."
    return Told(f"Exit code {code}", f"as {', '.join(row.by)} use it", [("Means", row.means)])


def _of_signal(number: int) -> Told | str:
    row = signals().get(number)
    if row is None:
        return "There is no such signal."
    forms = f"exit code {128 + number} in shells and pods, -{number} in torchrun, 0:{number} in sacct"
    who = "Somebody else ended the process." if row.told else "The process ended of itself."
    cause = load_causes()[row.cause]
    return Told(
        f"{row.name}: {row.word}", forms, [("Means", f"{row.means} {who}"), ("Cause", f"{cause.id}: {cause.title}")]
    )


def _of_state(word: str, *, exact: bool) -> Told | None:
    row = job_state(word)
    if row is None or (exact and word != row.state and not (word.endswith("+") and word.isupper())):
        return None
    facts = [("Means", f"{row.means} {_KIND[row.kind]}")]
    if row.cause:
        facts.append(("Cause", f"{row.cause}: {load_causes()[row.cause].title}"))
    return Told(f"Job state {row.state}", ", ".join(filter(None, (row.scheduler, row.short))), facts)
