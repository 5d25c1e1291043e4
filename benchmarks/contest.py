"""Who finds the catalogue's literals in a gigabyte of healthy log with the least CPU: we, ripgrep, or just reading it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from benchmarks.corpus import read_only, scan, write_corpus
from benchmarks.measure import MEGA, in_turn, run_program
from benchmarks.section import Section
from knowledge.catalogue import Catalogue

_NAMED = re.compile(r"\(\?P<\w+>")
_NEEDLESS = re.compile(r"\\([^\w\\.+*?()|\[\]{}^$#&~-])")  # escapes that ripgrep refuses
_NOT_IN_RUST = re.compile(r"\(\?[=!<]|\(\?P=|\\Z|\(\?\(")  # looking round and back references
_BY_LITERAL = "ripgrep -j1 -F -f literals"
_PLAIN = ("-a", "-N", "-j1")
_LIMITS = (
    "--no-unicode",
    "--regex-size-limit",
    "4G",
    "--dfa-size-limit",
    "1G",
)  # with Unicode it takes minutes to compile


def contest(folder: Path, size: int, rounds: int, catalogue: Catalogue) -> Section:
    """Write a corpus of `size` bytes into `folder`, let everybody search it, and compare what they find."""
    path = folder / "training.log"
    planted = write_corpus(path, size, catalogue)
    size = path.stat().st_size
    words = sorted({literal for entry in catalogue for literal in entry.literals} | catalogue.scanner.marks)
    literals = folder / "literals"
    literals.write_text("\n".join(words) + "\n", encoding="utf-8")

    reading, ours = "reading alone, blocks of 4 MiB", "**Firstfault: search, cut lines, confirm**"
    contestants: dict[str, Callable[[], object]] = {
        reading: lambda: read_only(path),
        ours: lambda: scan(path, catalogue),
    }
    slow: dict[str, Callable[[], object]] = {}  # run once
    if shutil.which("grep"):
        slow["grep -F -f literals"] = _program("grep", "-a", "-F", "-f", literals, path)
    if program := ripgrep():
        patterns, left_out = regexes(catalogue, folder)
        contestants[_BY_LITERAL] = _program(program, *_PLAIN, "-F", "-f", literals, path)
        slow[f"ripgrep -j1 --no-unicode -f regexes (without {left_out} that look around)"] = _program(
            program, *_PLAIN, *_LIMITS, "-f", patterns, path
        )
        found = run_program([program, *_PLAIN, "-F", "-f", str(literals), str(path)])[1].decode("utf-8", "replace")
        assert set(planted) <= set(found.split("\n")), "ripgrep missed a planted fault: the contest is not fair"
    assert set(planted) <= scan(path, catalogue).keys(), "a planted fault was not found"
    runs = in_turn(rounds, contestants)
    costs = {name: min(runs[name]) for name in contestants} | {
        name: min(in_turn(1, {name: work})[name]) for name, work in slow.items()
    }
    path.unlink()

    speeds = {name: size / MEGA / cpu for name, cpu in costs.items()}
    figures = {"scan_share_of_read": _ratio(runs[reading], runs[ours])}
    if program:
        figures = {"scan_vs_ripgrep": _ratio(runs[_BY_LITERAL], runs[ours]), **figures}
    return Section(
        "Search",
        f"{size / MEGA:,.0f} MB of healthy training log in seven dialects, {len(planted)} planted faults (all found by "
        f"ripgrep and by us) and a near miss in each MB; {len(catalogue.entries)} entries with {len(words)} literals. "
        "MB per second of CPU, the best of the rounds. Ours is the way that `firstfault diagnose` takes through a large "
        "file, with all regexes tried on candidate lines; ripgrep gets the same literals, or the same regexes, and only "
        "prints lines. The contestants run in turn, and the figures are the medians of the ratios of one turn: `scan_vs_ripgrep` "
        "to ripgrep with literals.",
        ["", "MB per CPU second", "of reading", "Firstfault is … times as fast"],
        [
            [name, f"{speed:,.0f}", f"{speed / speeds[reading]:.1%}", f"{speeds[ours] / speed:.2f}"]
            for name, speed in speeds.items()
        ],
        figures,
    )


def _program(*command: str | Path) -> Callable[[], object]:
    return lambda: run_program([str(word) for word in command], (0, 1))


def _ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    return median(their / our for their, our in zip(theirs, ours, strict=True))


def ripgrep() -> str | None:
    """The path of ripgrep, installed from the distribution where that can be done without asking; None without."""
    if not shutil.which("rg") and shutil.which("apt-get") and sys.platform == "linux":
        subprocess.run(["apt-get", "install", "-y", "-qq", "ripgrep"], capture_output=True, check=False)
    found = shutil.which("rg")
    if not found:
        print("ripgrep is not here (apt-get install ripgrep): compared with reading alone", file=sys.stderr)
    return found


def regexes(catalogue: Catalogue, folder: Path) -> tuple[Path, int]:
    """Write the catalogue's regexes as ripgrep understands them; return the file and how many it does not."""
    patterns = {_NEEDLESS.sub(r"\1", _NAMED.sub("(?:", regex)) for entry in catalogue for regex in entry.regex}
    usable = sorted(pattern for pattern in patterns if not _NOT_IN_RUST.search(pattern))
    path = folder / "regexes"
    path.write_text("\n".join(usable) + "\n", encoding="utf-8")
    return path, len(patterns) - len(usable)
