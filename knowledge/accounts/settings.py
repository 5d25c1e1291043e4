"""What the logs tell of the run itself: versions, environment, size, checkpoints written and read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from knowledge.accounts.ends import read_ends
from knowledge.accounts.quoting import moment
from knowledge.attribution.view import CaseView
from knowledge.diagnosis import Diagnosis
from knowledge.dossier import Said, Setting
from knowledge.reading.bundle import Source
from knowledge.reading.clocks import parse_time
from knowledge.reading.text import MAX_LINE, pieces
from knowledge.redaction import redact
from knowledge.signature import SourceKind

MAX_SETTINGS = 120
_HEAD, _TAIL = 64 << 10, 256 << 10  # bytes of a log that are searched
_ALL = 4 << 20  # bytes of all logs together
_VALUES = 4  # different values of one name
_SAVES = 8  # checkpoints told of: the last ones
_MAX_VALUE = 160
_ABOUT_CHECKPOINTS = ("checkpoint", "resumed")

_FILES = 128
_LINES = 4000  # lines of a part that are looked at
_HINTS = (
    b"ersion", b"torch", b"orld", b"WORLD_SIZE", b"NCCL_", b"CUDA_", b"TORCH_", b"GLOO_", b"UCX_", b"FI_", b"OMP_",
    b"XLA_", b"JAX_", b"heckpoint", b"ckpt", b"esum", b"estor", b"Kernel Module", b"Using network", b"Bootstrap",
)  # fmt: skip
_NAMES = (
    "torch|pytorch|nccl|cuda|cudnn|driver|python|transformers|accelerate|deepspeed|lightning|megatron|jax|jaxlib|triton"
    "|ray|mpi|openmpi|ucx|flash[-_]attn|xformers|numpy"
)
_VERSION = re.compile(
    rf"(?i)(?<![\w./-])(?P<name>{_NAMES})(?:(?:[ _-]version)?['\"]?(?:==|[ =:]{{1,3}})| version:? )['\"]?v?"
    r"(?P<value>\d{1,4}\.\d{1,4}(?:\.\d[\w.-]{0,20})?(?:\+[\w.]{1,20})?)(?![\w.]*[:/])"
)
_MODULE = re.compile(r"NVIDIA UNIX \S+ (?:Open )?Kernel Module +(?:for \S+ +)?(?P<value>\d{3}\.[\d.]+)")
_ENVIRONMENT = re.compile(
    r"(?<![\w/])(?P<name>(?:NCCL|CUDA|TORCH|PYTORCH|GLOO|UCX|FI|OMP|XLA|JAX|RAY|HF)_[A-Z][A-Z0-9_]{1,40})"
    r"(?:['\"]?[=:] ?| set by environment to | set to )['\"]?(?P<value>[^\s'\",;.]{1,100}(?:\.[^\s'\",;.]{1,40}){0,6})"
)
_SIZE = re.compile(r"(?i)\bworld[ _]?size['\"]?[ =:]{1,3}(?P<value>\d{1,7})\b")
_NETWORK = re.compile(r"NCCL INFO (?:NET/)?(?P<value>Using network \w+|Bootstrap *: Using \S+)")
_SAVED = re.compile(
    r"(?i)\b(?:saved|wrote|written|successfully saved|save complete)\b.{0,40}?\b(?:checkpoint|ckpt|shard|state)"
    r"|\b(?:checkpoint|ckpt)\b.{0,60}?\b(?:saved|written|wrote|complete[d]?|committed)\b"
)
_SAVING = re.compile(r"(?i)\b(?:saving|writing)\b.{0,30}\b(?:checkpoint|ckpt)|\bcheckpoint\b.{0,20}\bstart(?:ed|ing)\b")
_RESUMED = re.compile(
    r"(?i)\b(?:resum(?:ed|ing)|restor(?:ed|ing)|load(?:ed|ing))\b(?=.{0,60}(?:checkpoint|ckpt|step|\.pt\b|\bfrom\b)).{0,30}?\bfrom\b"
    r"|\b(?:load(?:ed|ing)|restor(?:ed|ing))\b.{0,20}\b(?:checkpoint|ckpt)"
)
_FAILED = re.compile(
    r"(?i)\b(?:fail(?:ed|ure)?|error|retry\w*|cannot|could not|missing|mismatch|corrupt\w*|no such|usewarning)\b"
)
_PIECE = re.compile(r"(?<![\w/.])(?P<done>\d{1,6})(?:/| of )(?P<of>\d{1,6})(?![\w/])")
_STEP = re.compile(r"(?i)(?:\b(?:global[_ ]?)?step|\biter(?:ation)?|checkpoint|ckpt)[-_ =:]{0,2}(?P<step>\d{1,9})\b")
_PATH = re.compile(r"(?P<path>(?:[a-z0-9]+:/)?(?:/?[\w.+@-]+)?(?:/[\w.+@=-]+)+/?|[\w-]+\.(?:pt|pth|ckpt|safetensors))")


def find_settings(view: CaseView, diagnosis: Diagnosis) -> list[Setting]:
    """The settings that the logs tell, each value with the first line that tells it, of checkpoints the last.

    Raises UnreadableEvidence.
    """
    found: dict[tuple[str, str], Setting] = {}
    values: Counter[str] = Counter()
    saves: dict[tuple[str, str], Setting] = {}
    for source, offset, data in _texts(view, diagnosis):
        for setting in _in_text(view, source, offset, data):
            key = (setting.name, setting.value)
            if setting.name.startswith("checkpoint"):
                saves.pop(key, None)
                saves[key] = setting
            elif key not in found and values[setting.name] < _VALUES:
                values[setting.name] += 1
                found[key] = setting
    return [*list(found.values())[: MAX_SETTINGS - _SAVES], *list(saves.values())[-_SAVES:]]


def _texts(view: CaseView, diagnosis: Diagnosis) -> Iterator[tuple[Source, int, bytes]]:
    left = _ALL
    for source in _telling_first(view, diagnosis):
        for offset, data in read_ends(source, min(left, _HEAD), min(left, _TAIL)):
            left -= len(data)
            yield source, offset, data
        if left <= 0:
            return


def _telling_first(view: CaseView, diagnosis: Diagnosis) -> list[Source]:
    """Rank 0 and those that began it, streams of many ranks, one rank of each host; then the others."""
    began = {0, *diagnosis.initiating.ranks}
    hosts: set[str | None] = set()

    def place(source: Source) -> int:
        if source.rank is None:
            return 3 if source.kind in (SourceKind.KERNEL, SourceKind.NODE, SourceKind.SCHEDULER) else 1
        host = source.host or view.host_of(source.rank)
        first = host not in hosts
        hosts.add(host)
        return 0 if source.rank in began else 2 if first else 4

    return sorted(view.case.sources, key=place)[:_FILES]


def _in_text(view: CaseView, source: Source, offset: int, data: bytes) -> Iterator[Setting]:
    counted = number = 0
    for start in _hinted(data):
        number += data.count(b"\n", counted, start)
        counted = start
        stop = data.find(b"\n", start)
        for piece in pieces(data[start : stop if stop >= 0 else len(data)][:MAX_LINE]):
            for name, value in dict.fromkeys(_settings(piece)):
                line = source.lines_before(offset) + number + 1
                said = Said(source=source.name, line=line, text=piece, time=_time(view, piece))
                yield Setting(name=name, value=value, said=said)


def _hinted(data: bytes) -> list[int]:
    """Where lines begin in which a setting may stand."""
    starts: set[int] = set()
    for hint in _HINTS:
        at = data.find(hint)
        while at >= 0 and len(starts) < _LINES:
            starts.add(data.rfind(b"\n", 0, at) + 1)
            at = data.find(hint, max(at + 1, data.find(b"\n", at)))
    return sorted(starts)


def told(setting: Setting) -> bool:
    """Whether the redacted line still tells the value: a secret is none."""
    return setting.name.startswith(_ABOUT_CHECKPOINTS) or setting.value in setting.said.text


def _time(view: CaseView, line: str) -> datetime | None:
    when = view.case.job.started_at or view.case.job.ended_at
    found = parse_time(line, when.year if when else 1970)
    return moment(found.seconds) if found and (found.dated or when) else None


def _settings(line: str) -> Iterator[tuple[str, str]]:
    for found in _VERSION.finditer(line):
        name = found["name"].lower().replace("-", "_")
        yield {"pytorch": "torch"}.get(name, name), found["value"].rstrip(".-")
    for pattern, name in ((_MODULE, "driver"), (_SIZE, "world size"), (_NETWORK, "network")):
        yield from ((name, found["value"]) for found in pattern.finditer(line))
    for found in _ENVIRONMENT.finditer(line):
        yield found["name"], found["value"]
    if about := _about_checkpoint(line):
        yield about, redact(_what(line))


def _about_checkpoint(line: str) -> str:
    if _FAILED.search(line) or 'File "' in line:
        return ""
    if _RESUMED.search(line):
        return "resumed from"
    piece = _PIECE.search(line)
    if piece and int(piece["of"]) > int(piece["done"]) and _SAVED.search(line):
        return "checkpoint begun"
    return "checkpoint" if _SAVED.search(line) else "checkpoint begun" if _SAVING.search(line) else ""


def _what(line: str) -> str:
    """`step 4000, /ckpt/step_4000`: as much of it as the line tells."""
    step, path = _STEP.search(line), _PATH.search(_PIECE.sub("", line))
    piece = _PIECE.search(line)
    told = [f"step {step['step']}" if step else "", f"part {piece[0]}" if piece else "", path["path"] if path else ""]
    return ", ".join(part for part in told if part)[:_MAX_VALUE]
