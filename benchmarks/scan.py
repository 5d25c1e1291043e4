"""How fast the catalogue is looked for in logs, beside ripgrep, grep and mere reading, in one run.

    python -m benchmarks.scan                       64 MB of healthy training log with planted faults
    python -m benchmarks.scan --megabytes 1000

The first part of `make bench` alone. Figures are MB per second of CPU time, which hold on a busy machine too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contest import contest
from benchmarks.measure import MEGA
from benchmarks.section import figure_lines
from knowledge.catalogue import load_catalogue


def main() -> None:
    """Search, and print who needed how long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=64, help="size of the corpus (default 64)")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each, of which the best counts (default 2)")
    options = parser.parse_args()
    if options.megabytes < 1 or options.rounds < 1:
        parser.error("nothing to measure")
    with tempfile.TemporaryDirectory(prefix="firstfault-scan-") as folder:
        section = contest(Path(folder), options.megabytes * MEGA, options.rounds, load_catalogue())
    print(section.markdown())
    print(figure_lines([section]))


if __name__ == "__main__":
    main()
