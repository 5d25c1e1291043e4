"""Score a diagnoser on cases whose truth is known.

    python -m tests.accuracy.score [FOLDER …] [--command 'firstfault diagnose --json {case}'] [--out results.json]

Without --command the library is asked in this process. Printed are the wrong cases, one a line, and the figures.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowledge import diagnose
from tests.accuracy.cases import CASES, Case, find_cases
from tests.accuracy.judge import Verdict, judge

SURE = 0.8
"""From this confidence on, an answer is expected to be right nine times out of ten."""

Answer = dict[str, Any]
Diagnoser = Callable[[Path], Answer]


@dataclass(frozen=True)
class Result:
    """One case, answered and judged. `error` is empty where an answer came."""

    case: Case
    answer: Answer
    verdict: Verdict
    seconds: float
    error: str = ""

    @property
    def right(self) -> bool:
        return not self.error and self.verdict.right

    @property
    def sure(self) -> bool:
        return float(self.answer.get("confidence") or 0) >= SURE

    def line(self) -> str:
        """What was answered and what is true, in one line."""
        truth, named = self.case.truth, self.answer.get("initiating") or {}
        if self.error:
            return f"{self.case.name}: {self.error}"
        cause = (self.answer.get("cause") or {}).get("id")
        return (
            f"{self.case.name} [{','.join(self.verdict.wrong)}] said {self.answer.get('outcome')} {cause}"
            f" ranks={named.get('ranks')} hosts={named.get('hosts')} at {self.answer.get('confidence')};"
            f" true is {truth.outcome} {'|'.join(truth.causes)} ranks={truth.ranks} hosts={truth.hosts}"
        )


def ask_library(case: Path) -> Answer:
    """Diagnose in this process."""
    answer: Answer = json.loads(diagnose([case]).model_dump_json(by_alias=True))
    return answer


def ask_command(command: str, timeout: float = 60) -> Diagnoser:
    """Diagnose by a command in which `{case}` stands for the folder. The answer's exit status does not count."""

    def ask(case: Path) -> Answer:
        argv = [part.replace("{case}", str(case)) for part in shlex.split(command)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
        answer: Answer = json.loads(done.stdout)
        return answer

    return ask


def run(cases: Iterable[Case], ask: Diagnoser = ask_library) -> list[Result]:
    """Diagnose and judge `cases` one after the other; whatever an answer fails with becomes its `error`."""
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases:
            staged = case.stage(Path(scratch))
            began = time.perf_counter()
            try:
                answer, error = ask(staged), ""
            except Exception as failure:  # noqa: BLE001  any failure of the diagnoser is a result
                answer, error = {}, f"{type(failure).__name__}: {failure}"[:300]
            results.append(Result(case, answer, judge(case.truth, answer), time.perf_counter() - began, error))
    return results


def share(values: Iterable[bool | None]) -> float:
    """The part of `values` that is true, leaving out those not asked; 1 where nothing was asked."""
    asked = [value for value in values if value is not None]
    return sum(asked) / len(asked) if asked else 1.0


def figures(results: Sequence[Result]) -> dict[str, float]:
    """The shares that were right, and how long an answer took."""
    judged = [result.verdict for result in results]
    return {
        "cases": len(results),
        "everything right": share(result.right for result in results),
        "cause right": share(verdict.cause for verdict in judged),
        "initiating ranks right": share(verdict.ranks for verdict in judged),
        "initiating hosts right": share(verdict.hosts for verdict in judged),
        "failure or not, right": share(verdict.outcome for verdict in judged),
        f"right when confidence >= {SURE}": share(result.right for result in results if result.sure),
        "sure": share(result.sure for result in results),
        "errors": sum(bool(result.error) for result in results),
        "seconds, median": statistics.median(result.seconds for result in results),
        "seconds, longest": max(result.seconds for result in results),
    }


def table(results: Sequence[Result]) -> str:
    """The figures over all cases and for each folder of cases."""
    groups = sorted({result.case.folder.parent.name for result in results})
    columns = {"all": list(results)}
    columns |= {group: [result for result in results if result.case.folder.parent.name == group] for group in groups}
    told = {name: figures(column) for name, column in columns.items()}
    lines = [f"{'':32}" + "".join(f"{name:>12}" for name in columns)]
    lines += [
        f"{figure:32}" + "".join(f"{round(column[figure], 3):>12}" for column in told.values())
        for figure in told["all"]
    ]
    return "\n".join(lines)


def main() -> int:
    """Print the wrong cases and the figures; exit status 1 where an answer failed, 2 where there is no case."""
    parser = argparse.ArgumentParser(description="score a diagnoser on cases whose truth is known")
    parser.add_argument("folders", nargs="*", type=Path, default=[CASES])
    parser.add_argument("--command", help="ask this command, with {case} for the folder, and not the library")
    parser.add_argument("--out", type=Path, help="write all results there as JSON")
    options = parser.parse_args()

    cases = list(find_cases(options.folders))
    if not cases:
        sys.stderr.write(f"no truth.json below {', '.join(map(str, options.folders))}\n")
        return 2
    results = run(cases, ask_command(options.command) if options.command else ask_library)
    wrong = [result.line() for result in results if not result.right]
    sys.stdout.write("\n".join([*wrong, "", table(results), ""]))
    if options.out:
        rows = [{"case": result.case.name, "right": result.right, "answer": result.answer} for result in results]
        options.out.write_text(json.dumps({"figures": figures(results), "rows": rows}, indent=1), encoding="utf-8")
    return int(any(result.error for result in results))


if __name__ == "__main__":
    sys.exit(main())
