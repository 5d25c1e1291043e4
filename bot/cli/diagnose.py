"""`firstfault diagnose`: evidence in, a verdict on standard output, the outcome as exit status."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from enum import IntEnum
from pathlib import Path

from bot.cli import output
from knowledge import diagnose
from knowledge.diagnosis import Diagnosis, Outcome
from knowledge.errors import UnreadableEvidence
from knowledge.job import JobFacts
from knowledge.reading.bundle import open_bundle

STANDARD_INPUT = Path("-")


class Status(IntEnum):
    """What the command's exit status says."""

    FAILURE_DIAGNOSED = 0
    BAD_USAGE = 2
    NOT_A_FAILURE = 3


def run(paths: Sequence[Path], *, as_json: bool) -> Status:
    """Diagnose `paths`, print the result, and return the exit status."""
    with ExitStack() as stack:
        try:
            if any(map(_flows, paths)):
                import tempfile

                spool = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="firstfault-")))
                paths = [_spooled(path, spool, number) if _flows(path) else path for number, path in enumerate(paths)]
            diagnosis = diagnose(paths)
            text = _for_programs(diagnosis) if as_json else _for_people(diagnosis, open_bundle(paths).job)
        except UnreadableEvidence as error:
            print(f"firstfault: {error}", file=sys.stderr)
            return Status.BAD_USAGE
    output.write(text)
    return Status.FAILURE_DIAGNOSED if diagnosis.outcome is Outcome.FAILED else Status.NOT_A_FAILURE


def _flows(path: Path) -> bool:
    """Whether a path can be read only once: standard input, a named pipe, the shell's `<(command)`."""
    try:
        return path == STANDARD_INPUT or path.is_fifo()
    except OSError:  # whoever reads it will say what is wrong
        return False


def _spooled(path: Path, folder: Path, number: int) -> Path:
    """Keep as a file what can be read only once, since evidence is read more than once."""
    if path == STANDARD_INPUT and sys.stdin.isatty():
        print("Reading from this terminal; end with Ctrl-D.", file=sys.stderr)
    spooled = folder / ("stdin" if path == STANDARD_INPUT else f"pipe-{number}")
    with spooled.open("wb") as file, sys.stdin.buffer if path == STANDARD_INPUT else path.open("rb") as source:
        shutil.copyfileobj(source, file)
    return spooled


def _for_programs(diagnosis: Diagnosis) -> str:
    return diagnosis.model_dump_json(by_alias=True) + "\n"


def _for_people(diagnosis: Diagnosis, job: JobFacts) -> str:
    from bot import terminal  # not loaded for programs

    return terminal.render(diagnosis, job, width=output.width(), colour=output.coloured())
