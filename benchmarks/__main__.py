"""How fast Firstfault is, beside others that do the same work, all in one run.

    make bench                      everything; writes docs/performance.md
    make bench-quick                the same on a tenth of the data; writes nothing
    make bench BENCH="--peers"      also the tools that diagnose offline, on the cases of the tests

The last lines are the figures, `name: number`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.contest import contest
from benchmarks.measure import MEGA
from benchmarks.section import Section, figure_lines
from benchmarks.whole import growth, large_job, storm
from knowledge.catalogue import load_catalogue

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
PARTS = ("search", "job", "storm", "growth")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the data (default 1: about 3 GB in all)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, of which the best counts (default 3)")
    parser.add_argument("--only", choices=PARTS, action="append", help="run only this part; may be repeated")
    parser.add_argument("--peers", action="store_true", help="also compare with tools that diagnose offline")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.parent.name}/{PAGE.name}")
    options = parser.parse_args()
    if options.scale <= 0 or options.rounds < 1:
        parser.error("nothing to measure")
    parts, rounds, scale = options.only or PARTS, options.rounds, options.scale
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    began = time.perf_counter()
    sections: list[Section] = []
    with tempfile.TemporaryDirectory(prefix="firstfault-bench-") as name:
        folder = Path(name)
        if "search" in parts:
            sections.append(contest(folder, int(1000 * MEGA * scale), rounds, load_catalogue()))
        if "job" in parts:
            sections.append(large_job(folder, max(2, round(1024 * scale)), rounds))
        if "storm" in parts:
            sections.append(storm(folder, int(500 * MEGA * scale), rounds))
        if "growth" in parts:
            sections.append(growth(folder, max(2000, int(64_000 * scale)), rounds))
    if options.peers:
        from benchmarks.peers import compare

        sections.append(compare())
    where = (
        f"{os.cpu_count()} cores, Python {sys.version.split()[0]} on {sys.platform}, load {load:.1f} when it began, "
        f"{time.perf_counter() - began:.0f} s in all, scale {scale:g}"
    )
    page = f"{HEADING}{where}.\n\n" + "\n".join(section.markdown() for section in sections)
    figures = figure_lines(sections)
    if options.write:
        PAGE.write_text(f"{page}\n## Figures\n\n```\n{figures}\n```\n", encoding="utf-8")
    print(page)
    print(figures)


HEADING = """# Performance

Written by `make bench`; `make bench-quick` does the same on a tenth of the data and writes nothing. Every number comes
from one run on one machine, so compare within it: ratios hold elsewhere, seconds do not. CPU seconds are user and
system time of all processes, and the best of the rounds counts; wall seconds suffer from whatever else runs.

"""

if __name__ == "__main__":
    main()
