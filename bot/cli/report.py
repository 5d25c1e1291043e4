"""`firstfault report`: send the logs of a failed job of any scheduler, as its hook would have."""

from __future__ import annotations

import json
import sys
import time
from difflib import get_close_matches
from pathlib import Path
from signal import Signals
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bot.cli.hook_run import call
from bot.intake.wire import Opening
from knowledge.job import JobFacts


def run(logs: Path, job: Path | None, bot: str | None, token_file: Path | None) -> int:
    """Send the folder `logs` and the facts in the file `job` (see docs/reporting.md).

    Exit status: 0 the incident's id was printed, 1 it could not be sent, 2 a path, a file or an option is wrong.
    """
    if not logs.is_dir():
        _tell(f"{logs} is no folder; --logs wants one with the job's logs")
        return 2
    if not any(path.is_file() for path in logs.rglob("*")):
        _tell(f"{logs} holds no file; --logs wants a folder with the job's logs")
        return 2
    try:
        facts = _facts(job) if job else {}
        for name in sorted(facts.keys() - JobFacts.model_fields.keys()):
            near = get_close_matches(name.lower(), JobFacts.model_fields, n=1)
            meant = f", did you mean {near[0]}?" if near else ""
            _tell(f"{job}: {name!r:.100} is no field and is left out{meant}")
        unnamed = "job_id" not in facts
        facts = {
            "scheduler": "other",
            "job_id": f"{logs.resolve().name}-{int(time.time())}",
            "state": "FAILED",
            **facts,
        }
        opening = _checked(facts)
    except ValueError as error:
        _tell(f"{job}: {error}; see docs/reporting.md")
        return 2
    for name in _unzoned(opening.job):
        _tell(f'{job}: {name} has no zone and is taken for UTC; "2026-11-30T08:05:38Z" or "…+01:00" says which')
    files: dict[str, Path | str] = {"job.json": json.dumps(facts), "logs": logs.resolve()}
    status = call(bot, token_file, "--replay", "{folder}", files=files)
    if status == 0:
        if unnamed:
            _tell(
                f"the job has no job_id and is now {facts['job_id']}: name one in --job, or the next call is another job"
            )
        _tell("the channel is told within seconds; the address answers with JSON, and only to who sends the token")
    return status


def _tell(line: str) -> None:
    """Say it beside the incident, which goes to programs."""
    print(f"firstfault: {line}", file=sys.stderr)


def _facts(job: Path) -> dict[str, Any]:
    """Raises ValueError where the file is no JSON object."""
    try:
        facts = json.loads(job.read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ValueError("is no text in UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is no JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(facts, dict):
        raise ValueError('must be one JSON object, such as {"job_id": "881", "exit_code": 1}')
    known = {name: value for name, value in facts.items() if value is not None}
    if isinstance(known.get("signal"), str):
        known["signal"] = _number(known["signal"])
    return known


def _number(signal: str) -> str | int:
    """The number of a signal that is named, such as SIGKILL or kill; anything else as it is."""
    name = signal.strip().upper()
    return next((int(each) for each in Signals if name in (each.name, each.name.removeprefix("SIG"))), signal)


def _checked(facts: dict[str, Any]) -> Opening:
    """What the service reads in them. Raises ValueError with each field that it would not take."""
    named = {name: facts[name] for name in ("scheduler", "job_id", "attempt") if name in facts}
    try:
        return Opening.model_validate({"schema": 1, "reporter": "here", "role": "node", "job": facts, **named})
    except ValidationError as error:
        wrong = {".".join(str(part) for part in each["loc"] if part != "job"): _why(each) for each in error.errors()}
        raise ValueError("; ".join(f"{field} {why}" for field, why in wrong.items())) from None


_WANTED = {
    "scheduler": 'must be one lower-case word, such as "lsf"',
    "job_id": "must have 1 to 200 characters, in one line",
    "signal": 'must be a number or a name, such as 9 or "SIGKILL"',
    "attempt": "must be a whole number from 0",
    "nodes": 'must be a list, such as ["gpu-n17", "gpu-n18"]',
    "unread": 'must be a list, such as ["gpu-n17: /scratch/7.out: Permission denied"]',
}
"""Of fields that want more than their type tells."""

_KINDS = {
    "int": "must be a whole number",
    "string": "must be text",
    "datetime": 'must be a time, such as "2026-11-30T08:05:38Z"',
}
"""By how pydantic's name of an error begins."""


def _why(error: ErrorDetails) -> str:
    fields = [str(part) for part in error["loc"] if part != "job"]
    return _WANTED.get(fields[0]) or _KINDS.get(error["type"].partition("_")[0]) or f"is refused: {error['msg']}"


def _unzoned(job: JobFacts) -> list[str]:
    """The times that were given without a zone."""
    times = {"started_at": job.started_at, "ended_at": job.ended_at}
    return [name for name, when in times.items() if when is not None and when.tzinfo is None]
