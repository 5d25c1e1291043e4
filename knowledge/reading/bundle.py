"""What was handed in: files and folders, and what their names say about rank, host and attempt."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

from pydantic import ValidationError

from knowledge.errors import UnreadableEvidence
from knowledge.job import JobFacts
from knowledge.reading.archives import archive_kind
from knowledge.reading.compressed import LogStream, count_lines, open_log
from knowledge.reading.flight_recorder import is_dump
from knowledge.signature import SourceKind

MAX_FILES = 20_000
_DEEPEST = 64  # folders inside each other; logs lie in a few
_LARGEST_JOB = 16 << 20  # bytes
_SKIPPED = re.compile(r"(?:^|/)(?:\.|README)|\.(?:py|pyc|pt|pth|bin|safetensors|ckpt|npy|npz|png|jpg|so|tar|zip|core)$")

_HOST = r"(?P<host>[A-Za-z][A-Za-z0-9.-]*?)"
_NAMES: tuple[tuple[SourceKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (SourceKind.NODE, rf"(?:^|[-_.])nvidia-smi[-_.]{_HOST}\.(?:log|txt|out)$"),
        (
            SourceKind.NODE,
            rf"^(?:node-)?{_HOST}[-_.](?:nvidia-smi|fabricmanager|dcgm[\w-]*|journal)\.(?:log|txt|out|csv)$",
        ),
        (SourceKind.KERNEL, rf"^(?:node-)?{_HOST}[-_.](?:dmesg|kernel|kern|console|serial)\.(?:log|txt|out)$"),
        (SourceKind.KERNEL, rf"^(?:dmesg|kern|kernel|journal-k)[-_.]{_HOST}\.(?:log|txt|out)$"),
        (SourceKind.KERNEL, r"^(?:dmesg|kern|kernel)\b[\w.-]*$"),
        (SourceKind.NODE, rf"^(?:journal|fabricmanager|dcgm-health|dcgm|slurmd|mmfs)[-_.]{_HOST}\.(?:log|txt|out)$"),
        (SourceKind.SCHEDULER, r"^(?:slurmctld|scheduler|sacct|slurmdbd)\b"),
        (
            SourceKind.KUBERNETES,
            r"(?:events|describe|get-pods|kubectl-get|pods?-status)[\w.-]*\.(?:txt|log|ya?ml|json)$",
        ),
        (SourceKind.KUBERNETES, r"^kubectl-(?:describe|get)"),
        (SourceKind.LAUNCHER, rf"^(?:agent|node\d+)[-_]{_HOST}\.(?:log|txt|out|err)$"),
        (SourceKind.LAUNCHER, r"^(?:launcher|torchrun|mpirun|agent)[\w.-]*$"),
    )
)
_RANK = re.compile(
    r"(?:^|[^a-z])ranks?[-_.]?(?P<rank>\d{1,6})(?!\d)|^(?:(?:out|err|stdout|stderr|train|task)[-_.]|logs?[-_]|proc(?:ess)?[-_.]?|r)(?P<task>\d{1,6})(?:\.|$)"
)
_ATTEMPT = re.compile(r"attempt[-_]?(?P<attempt>\d{1,3})(?!\d)")
_TORCHRUN_FOLDER = re.compile(r"attempt_\d+/(?P<local>\d{1,3})/(?:(?:stdout|stderr)\.log|error\.json)$")
_RANK_FOLDER = re.compile(r"(?:^|/)(?:[\w.-]*[^a-z])?rank[-_.]?(?P<rank>\d{1,6})/[^/]*$")
_HOST_FOLDER = re.compile(r"[A-Za-z][A-Za-z0-9.-]*$")
_NO_HOST = re.compile(
    r"(?i)(?:attempt|rank|local|restart|run|job|step|epoch|try|stage|phase|part|proc|process|task|group|exp|version|v|log|seed|fold|trial|shard|split)s?[-.]?\d*$"
)
_NO_HOST_OUTPUT = re.compile(
    r"(?i)(?:slurm|out|err|output|stdout|stderr|train|training|launcher|agent|torchrun|mpi(?:run)?|srun|worker|pod|console|nohup)[-.]?\d*$"
)
_HOST_BEFORE_RANK = re.compile(r"^(?P<host>[A-Za-z][A-Za-z0-9-]*?\d)[-_.](?:global[-_]?)?rank[-_.]?\d")
_LAST_PART = re.compile(r"(?<=\w)-\w{1,3}$")
_NUMBER = re.compile(r"\d+")


OF_ONE_HOST = (SourceKind.KERNEL, SourceKind.NODE)
"""Kinds of source in which a node speaks, not its ranks."""


@dataclass(slots=True, eq=False)
class Source:
    """One file of evidence, the same as another of its name. `name` is how people are told of it; `kind` is None until its content was seen."""

    name: str
    path: Path
    kind: SourceKind | None = None
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    attempt: int | None = None
    folder_host: str | None = None  # a host's name that only the folder tells
    _lines: dict[int, int] = field(default_factory=dict, repr=False)  # that end before some offsets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def open(self) -> LogStream:
        """Open for reading bytes, unpacked. Raises UnreadableEvidence, here or while reading."""
        return open_log(self.path)

    def lines_before(self, offset: int) -> int:
        """How many lines end in the first `offset` unpacked bytes. Raises UnreadableEvidence."""
        if offset not in self._lines:
            self._lines[offset] = count_lines(self.path, offset) if offset else 0
        return self._lines[offset]


@dataclass(slots=True)
class Bundle:
    """Everything that is known about one failed job attempt."""

    sources: list[Source]
    job: JobFacts
    dumps: list[Source] = field(default_factory=list)  # of flight recorders, not logs
    packed: list[str] = field(default_factory=list)  # what is missing because nobody unpacked it, in sentences


def name_source(name: str, path: Path) -> Source:
    """Make a Source from its name relative to the logs folder; what the name does not say stays None."""
    source = Source(name=name, path=path)
    base = name.rsplit("/", 1)[-1]
    for suffix in (".gz", ".zst"):
        base = base.removesuffix(suffix)
    attempt = _ATTEMPT.search(name)
    if attempt:
        source.attempt = int(attempt["attempt"])
    folder = _TORCHRUN_FOLDER.search(name)
    if folder:
        source.local_rank = int(folder["local"])
        return source
    for kind, pattern in _NAMES:
        found = pattern.search(base)
        if found:
            source.kind = kind
            source.host = found.groupdict().get("host")
            return source
    found = _RANK.search(base)
    if found:
        source.rank = int(found["rank"] or found["task"])
        source.kind = SourceKind.RANK
    elif found := _RANK_FOLDER.search(name):
        source.rank, source.kind = int(found["rank"]), SourceKind.RANK
    return source


def may_be_host(name: str) -> bool:
    """Whether a name may be a host's: it begins with a letter, ends with a number, and is no word for something else."""
    return (
        bool(_HOST_FOLDER.match(name))
        and name[-1:].isdigit()
        and not _NO_HOST.match(name)
        and not _NO_HOST_OUTPUT.match(name)
    )


def _place(sources: Sequence[Source], nodes: Collection[str]) -> None:
    """Give files their folder's name as host, where folders are hosts: one holds a kernel's log, is a node of the
    job's, or lies beside others that differ from it by numbers only.
    """
    _place_by_names(sources)
    folders: dict[str, list[Source]] = {}
    for source in sources:
        above, slash, _ = source.name.rpartition("/")
        folder = above.rpartition("/")[2]
        if slash and _HOST_FOLDER.match(folder) and not _NO_HOST.match(folder):
            folders.setdefault(above, []).append(source)
    shapes = Counter(_NUMBER.sub("#", above) for above in folders)
    telling = [above for above, within in folders.items() if any(map(_of_one_host, within))]
    stems = {_LAST_PART.sub("", above) for above in telling}
    kin = len(telling) > 1 and len(stems) == 1 and stems != set(telling)  # `dgx-a` and `dgx-b`
    for above, within in folders.items():
        folder, shape = above.rpartition("/")[2], _NUMBER.sub("#", above)
        numbered = "#" in shape.rpartition("/")[2]
        of_one = above in telling
        if folder in nodes or (numbered and (of_one or shapes[shape] > 1)) or (of_one and kin):
            for source in within:
                if source.host is None:
                    source.host = source.folder_host = folder


def _place_by_names(sources: Sequence[Source]) -> None:
    """Give ranks' files the host before the rank in their names, where it is not the same for all: `n3-rank12.log`."""
    told: dict[str, dict[str, list[Source]]] = {}
    for source in sources:
        found = _HOST_BEFORE_RANK.match(source.name.rpartition("/")[2]) if source.rank is not None else None
        if found and source.host is None and may_be_host(found["host"]):
            told.setdefault(_NUMBER.sub("#", found["host"]), {}).setdefault(found["host"], []).append(source)
    for hosts in told.values():
        for host, named in hosts.items() if len(hosts) > 1 else ():
            for source in named:
                source.host = host


def _of_one_host(source: Source) -> bool:
    return source.kind in OF_ONE_HOST and source.host is None


def _walk(folder: Path) -> Iterator[Path]:
    for name in sorted(_names(folder, ""), key=lambda name: name.split("/")):
        if not _SKIPPED.search(name):
            yield folder / name


def _names(folder: Path, before: str) -> Iterator[str]:
    if before.count("/") > _DEEPEST:
        return
    with suppress(PermissionError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _names(Path(entry.path), f"{before}{entry.name}/")
            elif _is_file(entry):
                yield before + entry.name


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link that leads to itself
        return False


def _shown(path: Path) -> str:
    """A path as text, also where its bytes are none, and other paths still look different."""
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


def _read_job(path: Path) -> JobFacts:
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST_JOB + 1)
        if len(text) > _LARGEST_JOB:
            raise UnreadableEvidence(f"{path} is not a job.json: larger than {_LARGEST_JOB >> 20} MiB")
        told = json.loads(text)
        if not isinstance(told, dict):
            raise UnreadableEvidence(f'{path} is not a job.json: it holds no object such as {{"state": "FAILED"}}')
        return _facts(told)
    except OSError as error:
        raise UnreadableEvidence(f"cannot read {path}: {error.strerror or error}") from error
    except RecursionError as error:
        raise UnreadableEvidence(f"{path} is not a job.json: it nests too deep") from error
    except (ValueError, ValidationError) as error:
        raise UnreadableEvidence(f"{path} is not a job.json: {str(error).splitlines()[0]}") from error


def _facts(told: dict[str, Any]) -> JobFacts:
    """Facts without those that make no sense, since all are optional."""
    try:
        return JobFacts.model_validate(told)
    except ValidationError as error:
        wrong = {part for found in error.errors() for part in found["loc"][:1]}
        if not wrong:
            raise
        return JobFacts.model_validate({name: value for name, value in told.items() if name not in wrong})


def _each_once(sources: Sequence[Source]) -> list[Source]:
    """Every file under one of its names only, its own rather than that of a link: what is read twice seems said twice."""
    kept: dict[tuple[int, int], Source] = {}
    for source in sources:
        try:
            status = source.path.stat()
        except OSError as error:
            raise UnreadableEvidence(f"cannot read {source.path}: {error.strerror or error}") from error
        # Some file systems number nothing: there, all are files of their own.
        known = kept.get(file := (status.st_dev, status.st_ino or id(source)))
        if known is None or (known.path.is_symlink() and not source.path.is_symlink()):
            kept[file] = source
    chosen = set(map(id, kept.values()))
    return [source for source in sources if id(source) in chosen]


def open_bundle(paths: Sequence[Path]) -> Bundle:
    """Find the evidence in `paths` (files, folders, or case folders with `job.json` and `logs/`).

    Raises UnreadableEvidence for a path that is missing or unreadable, and when there is no file at all.
    """
    sources: list[Source] = []
    job = JobFacts()
    for path in paths:
        try:
            mode = path.stat().st_mode
        except FileNotFoundError as error:
            raise UnreadableEvidence(f"no such file or folder: {path}") from error
        except OSError as error:
            raise UnreadableEvidence(f"cannot read {path}: {error.strerror or error}") from error
        if not (S_ISREG(mode) or S_ISDIR(mode)):
            raise UnreadableEvidence(f"{path} is neither a file nor a folder")
        if path.is_dir():
            try:
                next(path.iterdir(), None)
            except OSError as error:
                raise UnreadableEvidence(f"cannot read {path}: {error.strerror or error}") from error
            facts = path / "job.json"
            if facts.is_file():
                job = _read_job(facts)
            root = path / "logs" if (path / "logs").is_dir() else path
            for file in _walk(root):
                if file.name == "job.json":
                    continue
                sources.append(name_source(_shown(file.relative_to(root)), file))
        elif path.name == "job.json":
            job = _read_job(path)
        else:
            if kind := archive_kind(path):
                raise UnreadableEvidence(f"{path} is packed ({kind}); unpack it and name what comes out")
            sources.append(name_source(_shown(Path(path.name)), path))
        if len(sources) > MAX_FILES:
            raise UnreadableEvidence(f"more than {MAX_FILES} files below {path}; name the job's own folder")
    sources = _each_once(sources)
    _place(sources, job.nodes)
    if not sources and not job.state:
        raise UnreadableEvidence(f"no log files found in {', '.join(map(str, paths)) or 'nothing'}")
    bundle = Bundle(sources=[], job=job)
    for source in sources:
        if kind := archive_kind(source.path):
            bundle.packed.append(f"What {source.name} holds: it is packed ({kind}); unpack it first.")
        elif is_dump(source.path, source.name):
            bundle.dumps.append(source)
        elif not source.name.endswith(".pkl"):
            bundle.sources.append(source)
    if bundle.packed and not (bundle.sources or bundle.dumps or job.state):
        raise UnreadableEvidence(f"nothing can be read in {', '.join(map(str, paths))}. {bundle.packed[0]}")
    return bundle
