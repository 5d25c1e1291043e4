"""`firstfault report`: send the logs of a failed job of any scheduler, as its hook would have."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pydantic import ValidationError

from bot.cli.hook_run import call
from knowledge.job import JobFacts


def run(logs: Path, job: Path | None, bot: str | None, token_file: Path | None) -> int:
    """Send the folder `logs` and the facts in the file `job` (see docs/reporting.md).

    Exit status: 0 the incident's id was printed, 1 it could not be sent, 2 a path, a file or an option is wrong.
    """
    if not logs.is_dir():
        print(f"firstfault: {logs} is no folder; --logs wants one with the job's logs", file=sys.stderr)
        return 2
    try:
        facts = json.loads(job.read_text("utf-8")) if job else {}
        JobFacts.model_validate(facts)
    except (OSError, ValueError, ValidationError) as error:
        print(f"firstfault: {job} is no job.json: {str(error).splitlines()[0]}; see docs/reporting.md", file=sys.stderr)
        return 2
    facts.setdefault("scheduler", "other")
    facts.setdefault("job_id", f"{logs.resolve().name}-{int(time.time())}")
    facts.setdefault("state", "FAILED")
    files: dict[str, Path | str] = {"job.json": json.dumps(facts), "logs": logs.resolve()}
    return call(bot, token_file, "--replay", "{folder}", files=files)
