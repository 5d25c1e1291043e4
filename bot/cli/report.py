"""`firstfault report`: send the logs of a failed job of any scheduler, as its hook would have."""

from __future__ import annotations

import json
import sys
import time
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bot.cli.hook_run import call
from bot.intake.wire import Opening
from knowledge.job import JobFacts


def run(logs: Path, job: Path | None, bot: str | None, token_file: Path | None) -> int:
    """Send the folder `logs` and the facts in the file `job` (see docs/reporting.md).

    Exit status: 0 the incident's id was printed, 1 it could not be sent, 2 a path, a file or an option is wrong.
    """
    if not logs.is_dir():
        print(f"firstfault: {logs} is no folder; --logs wants one with the job's logs", file=sys.stderr)
        return 2
    if not any(path.is_file() for path in logs.rglob("*")):
        print(f"firstfault: {logs} holds no file; --logs wants a folder with the job's logs", file=sys.stderr)
        return 2
    try:
        facts = _facts(job) if job else {}
        for name in sorted(facts.keys() - JobFacts.model_fields.keys()):
            near = get_close_matches(name.lower(), JobFacts.model_fields, n=1)
            meant = f", did you mean {near[0]}?" if near else ""
            print(f"firstfault: {job}: {name!r:.100} is no field and is left out{meant}", file=sys.stderr)
        facts = {
            "scheduler": "other",
            "job_id": f"{logs.resolve().name}-{int(time.time())}",
            "state": "FAILED",
            **facts,
        }
        _check(facts)
    except ValueError as error:
        print(f"firstfault: {job}: {error}; see docs/reporting.md", file=sys.stderr)
        return 2
    files: dict[str, Path | str] = {"job.json": json.dumps(facts), "logs": logs.resolve()}
    return call(bot, token_file, "--replay", "{folder}", files=files)


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
    return {name: value for name, value in facts.items() if value is not None}


def _check(facts: dict[str, Any]) -> None:
    """Raises ValueError with each field that the service would not take."""
    named = {name: facts[name] for name in ("scheduler", "job_id", "attempt") if name in facts}
    try:
        Opening.model_validate({"schema": 1, "reporter": "here", "role": "node", "job": facts, **named})
    except ValidationError as error:
        wrong = {
            ".".join(str(part) for part in each["loc"] if part != "job"): each["msg"].removeprefix("Value error, ")
            for each in error.errors()
        }
        raise ValueError("; ".join(f"{field}: {why}" for field, why in wrong.items())) from None
