"""Cases with less evidence: what a site would have had if something had not been collected, or not to the end.

What happened stays what it was, so the truth of the whole case holds; only naming nobody is right too. Every change is the same each time it is made.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from knowledge.reading.bundle import name_source
from knowledge.signature import SourceKind
from tests.accuracy.cases import Case, Names

Change = Callable[[Path, Case], bool]
"""Changes a copy of a case in place; False where there was nothing to change, or nothing would be left."""

_NODE_KINDS = (SourceKind.KERNEL, SourceKind.NODE)
_LAUNCHER = re.compile(r"^(?:launcher|torchrun|mpirun|agent|slurm-)[\w.-]*$")
_TIME = re.compile(
    rb"(?m)^(?P<before>(?:\[rank\d+\]:|\d+:|\[\d+,\d+\]<std\w+>:)? ?)"
    rb"(?:\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?[ :]*|\[?[IWEF]?\d{4} \d\d:\d\d:\d\d(?:\.\d+)? ?)"
)


def _logs(copy: Path) -> list[Path]:
    return sorted(file for file in (copy / "logs").rglob("*") if file.is_file())


def _kind(file: Path, copy: Path) -> SourceKind | None:
    return name_source(file.relative_to(copy / "logs").as_posix(), file).kind


def _drop(copy: Path, unwanted: Callable[[Path], bool]) -> bool:
    files = _logs(copy)
    dropped = [file for file in files if unwanted(file)]
    if not dropped or len(dropped) == len(files):
        return False
    for file in dropped:
        file.unlink()
    return True


def without_job_facts(copy: Path, _case: Case) -> bool:
    """The scheduler was not asked."""
    known = (copy / "job.json").is_file() and bool(_logs(copy))
    (copy / "job.json").unlink(missing_ok=True)
    return known


def without_node_logs(copy: Path, _case: Case) -> bool:
    """Nobody could read kernel logs and node reports."""
    return _drop(copy, lambda file: _kind(file, copy) in _NODE_KINDS)


def without_launcher(copy: Path, _case: Case) -> bool:
    """The launcher's own output is lost."""
    return _drop(copy, lambda file: bool(_LAUNCHER.match(file.name)))


def with_windows_line_ends(copy: Path, _case: Case) -> bool:
    """Logs went through a tool that ends lines with a carriage return."""
    for file in _logs(copy):
        if file.suffix not in (".json", ".pkl"):
            file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    return True


def _ranks(copy: Path) -> list[Path]:
    return [file for file in _logs(copy) if _kind(file, copy) is SourceKind.RANK]


def cut_to(part: float) -> Change:
    """Every rank's log ends after `part` of its bytes: the disk was full, or they were copied too early."""

    def change(copy: Path, _case: Case) -> bool:
        files = _ranks(copy)
        for file in files:
            data = file.read_bytes()
            file.write_bytes(data[: int(len(data) * part)])
        return bool(files)

    return change


def one_cut_to(part: float) -> Change:
    """Only the log of the rank that began it is cut: its host died before the end was written."""

    def change(copy: Path, case: Case) -> bool:
        for file in (culprits := _of_culprit(copy, case)):
            data = file.read_bytes()
            file.write_bytes(data[: int(len(data) * part)])
        return bool(culprits)

    return change


def _of_culprit(copy: Path, case: Case) -> list[Path]:
    ranks = case.truth.ranks
    began = {rank for ranks in (ranks if ranks != "any" else ()) for rank in ranks}
    files = [(file, name_source(file.name, file).rank) for file in _ranks(copy)]
    return [file for file, rank in files if str(rank) in began] if len(began) == 1 and len(files) > 2 else []


def without_half_the_ranks(copy: Path, case: Case) -> bool:
    """Half of the rank logs, taken at random, did not arrive."""
    files = _ranks(copy)
    lost = random.Random(case.name).sample(files, len(files) // 2)
    for file in lost:
        file.unlink()
    return bool(lost)


def without_the_culprits_log(copy: Path, case: Case) -> bool:
    """The log of the rank that began it did not arrive."""
    culprits = _of_culprit(copy, case)
    for file in culprits:
        file.unlink()
    return bool(culprits)


def without_times(copy: Path, _case: Case) -> bool:
    """Lines of ranks and launchers do not begin with a time."""
    changed = False
    for file in _logs(copy):
        if _kind(file, copy) in (SourceKind.RANK, SourceKind.LAUNCHER, None):
            data = file.read_bytes()
            bare = _TIME.sub(rb"\g<before>", data)
            changed = changed or bare != data
            file.write_bytes(bare)
    return changed


def _names(case: Case) -> list[str]:
    told = set() if case.truth.hosts == "any" else {host for hosts in case.truth.hosts for host in hosts}
    facts = case.folder / "job.json"
    if facts.is_file():
        told |= set(json.loads(facts.read_text(encoding="utf-8")).get("nodes") or [])
    return sorted((name for name in told if re.search(r"[A-Za-z]", name) and len(name) > 3), key=len, reverse=True)


def _renamed(name: str) -> str:
    return f"zq-{random.Random(name).randrange(16**5):05x}"


def with_other_host_names(copy: Path, case: Case) -> bool:
    """The same job on hosts of other names: nothing may hang on what they are called."""
    names = _names(case)
    if not names:
        return False
    whole = re.compile(
        rb"(?<![A-Za-z0-9])(?:" + b"|".join(re.escape(name.encode()) for name in names) + rb")(?![A-Za-z0-9])"
    )
    for file in [*_logs(copy), *copy.glob("job.json")]:
        file.write_bytes(whole.sub(lambda found: _renamed(found[0].decode()).encode(), file.read_bytes()))
    for file in _logs(copy):
        renamed = whole.sub(lambda found: _renamed(found[0].decode()).encode(), file.name.encode()).decode()
        file.rename(file.with_name(renamed))
    return True


CHANGES: dict[str, Change] = {
    "without job.json": without_job_facts,
    "without node logs": without_node_logs,
    "without the launcher": without_launcher,
    "Windows line ends": with_windows_line_ends,
    "rank logs cut at 60 %": cut_to(0.6),
    "rank logs cut at 80 %": cut_to(0.8),
    "rank logs cut at 95 %": cut_to(0.95),
    "culprit's log cut at 60 %": one_cut_to(0.6),
    "culprit's log cut at 90 %": one_cut_to(0.9),
    "half of the rank logs": without_half_the_ranks,
    "without the culprit's log": without_the_culprits_log,
    "without times": without_times,
    "other host names": with_other_host_names,
}
"""What is done to cases, by the name under which it is reported."""


def degrade(case: Case, copy: Path, change: str) -> Case | None:
    """Apply `change` to `copy`, a staged copy of `case`. Returns the case that it is now; None where it does not apply."""
    if not CHANGES[change](copy, case):
        return None
    hosts = _hosts(case.truth.hosts, _names(case)) if change == "other host names" else case.truth.hosts
    return Case(copy, replace(case.truth, ranks=_or_nobody(case.truth.ranks), hosts=_or_nobody(hosts)))


def _or_nobody(names: Names) -> Names:
    """With less evidence it is right to name nobody; naming somebody else is as wrong as before."""
    return "any" if names == "any" else [*names, []]


def _hosts(hosts: Names, names: list[str]) -> Names:
    if hosts == "any":
        return "any"
    return [[_renamed(name) if name in names else name for name in together] for together in hosts]


def degraded(case: Case, scratch: Path) -> Iterator[tuple[str, Case]]:
    """Every change that applies to `case`, each with the copy it was made to; the next one takes its place."""
    for change in CHANGES:
        changed = degrade(case, case.stage(scratch), change)
        if changed is not None:
            yield change, changed
