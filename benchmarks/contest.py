"""Who finds the catalogue's literals in a gigabyte of healthy log with the least CPU: we, ripgrep, or just reading it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.corpus import read_only, scan, write_corpus
from benchmarks.measure import MEGA, Cost, cheapest, cheapest_program
from benchmarks.section import Section
from knowledge.catalogue import Catalogue

_NAMED = re.compile(r"\(\?P<\w+>")
_NEEDLESS = re.compile(r"\\([^\w\\.+*?()|\[\]{}^$#&~-])")  # escapes that ripgrep refuses
_NOT_IN_RUST = re.compile(r"\(\?[=!<]|\(\?P=|\\Z|\(\?\(")  # looking round and back references
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

    costs: dict[str, Cost] = {"reading alone, blocks of 4 MiB": cheapest(rounds, lambda: read_only(path))}
    if shutil.which("grep"):
        command = ["grep", "-a", "-F", "-f", str(literals), str(path)]
        costs["grep -F -f literals"], _ = cheapest_program(1, command, (0, 1))
    theirs: list[str] = []
    if program := ripgrep():
        command = [program, "-a", "-N", "-j1"]
        patterns, left_out = regexes(catalogue, folder)
        by_literal = "ripgrep -j1 -F -f literals"
        costs[by_literal], found = cheapest_program(rounds, [*command, "-F", "-f", str(literals), str(path)], (0, 1))
        lines = set(found.decode("utf-8", "replace").split("\n"))
        assert all(fault in lines for fault in planted), "ripgrep missed a planted fault: the contest is not fair"
        by_regex = f"ripgrep -j1 --no-unicode -f regexes (without {left_out} that look around)"
        costs[by_regex], _ = cheapest_program(1, [*command, *_LIMITS, "-f", str(patterns), str(path)], (0, 1))
        theirs = [by_literal, by_regex]
    confirmed = scan(path, catalogue)
    missed = [fault for fault in planted if fault not in confirmed]
    assert not missed, f"planted, but not found: {missed[:3]}"
    ours = "**Firstfault: search, cut lines, confirm**"
    costs[ours] = cheapest(rounds, lambda: scan(path, catalogue))
    path.unlink()

    speeds = {name: size / MEGA / cost.cpu for name, cost in costs.items()}
    limit = next(iter(speeds.values()))
    figures = {"scan_share_of_read": speeds[ours] / limit}
    if theirs:
        figures = {"scan_vs_ripgrep": speeds[ours] / max(speeds[name] for name in theirs), **figures}
    return Section(
        "Search",
        f"{size / MEGA:,.0f} MB of healthy training log in seven dialects, {len(planted)} planted faults (all found by "
        f"ripgrep and by us) and a near miss in each MB; {len(catalogue.entries)} entries with {len(words)} literals. "
        "MB per second of CPU, the best of the rounds. Ours is the way that `firstfault diagnose` takes through a large "
        "file, with all regexes tried on candidate lines; ripgrep gets the same literals, or the same regexes, and only "
        "prints lines. `scan_vs_ripgrep` compares with the faster of the two.",
        ["", "MB per CPU second", "of reading", "Firstfault is … times as fast"],
        [
            [name, f"{speed:,.0f}", f"{speed / limit:.1%}", f"{speeds[ours] / speed:.2f}"]
            for name, speed in speeds.items()
        ],
        figures,
    )


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
