"""`firstfault route test`: where a failure would be told, and why, without telling it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from bot.cli import output
from bot.routing.router import Fit, Router, Targets
from bot.settings import Settings, SettingsInvalidError, load
from bot.slack.escape import literal
from knowledge import diagnose
from knowledge.causes import load_causes
from knowledge.diagnosis import CauseFound, Diagnosis, Outcome
from knowledge.errors import UnreadableEvidence
from knowledge.job import JobFacts
from knowledge.reading.bundle import open_bundle

_SECRETS = ("BOT_TOKEN", "APP_TOKEN", "SIGNING_SECRET")
_MOST = 8 << 20  # bytes of a document that is read


def run(paths: Sequence[Path], config: Path | None, at: datetime | None, incidents: int) -> int:
    """Print where the failure in `paths` goes at `at` (default: now); return the exit status.

    Exit status: 0 there is an answer, 2 a setting or a path is wrong.
    """
    try:
        settings = _settings(config)
        job, diagnosis = read(paths)
    except (SettingsInvalidError, UnreadableEvidence) as error:
        for line in str(error).splitlines():
            print(f"firstfault: {line}", file=sys.stderr)
        return 2
    now = at or datetime.now(UTC)
    if now.tzinfo is None:
        now = now.astimezone()
    output.write("\n".join(_lines(Router(settings), job, diagnosis, now, incidents)) + "\n")
    return 0


def read(paths: Sequence[Path]) -> tuple[JobFacts, Diagnosis]:
    """Return job and diagnosis from files and folders; what no file says is unknown.

    A folder or a log is diagnosed; a JSON document is a diagnosis or `job.json`, told apart by what stands in it.

    Raises:
        UnreadableEvidence: a path is missing, or holds neither.
    """
    job, diagnosis = JobFacts(), None
    evidence = []
    for path in paths:
        document = _document(path)
        if document is None:
            evidence.append(path)
            continue
        try:
            if "outcome" in document and "cause" in document:
                diagnosis = Diagnosis.model_validate(document)
            else:
                job = JobFacts.model_validate(document)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise UnreadableEvidence(f"{path}: {where}: {first['msg']}") from None
    if evidence:
        diagnosis = diagnose(evidence)
        found = open_bundle(evidence).job
        job = found if found != JobFacts() else job
    return job, diagnosis or _unknown()


def _document(path: Path) -> dict[str, object] | None:
    """Return the JSON object in a file, or None where it is evidence instead."""
    if path.suffix != ".json" or not path.is_file() or path.stat().st_size > _MOST:
        return None
    try:
        parsed = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UnreadableEvidence(f"{path} is not readable as JSON: {error}") from None
    return parsed if isinstance(parsed, dict) else None


def _unknown() -> Diagnosis:
    cause = load_causes()["unknown"]
    found = CauseFound(id=cause.id, layer=cause.layer, title=cause.title, summary=cause.summary_unnamed)
    return Diagnosis(outcome=Outcome.FAILED, cause=found)


def _lines(router: Router, job: JobFacts, diagnosis: Diagnosis, now: datetime, incidents: int) -> Iterator[str]:
    targets = router.targets(job, diagnosis, now, incidents=incidents)
    if diagnosis.outcome is Outcome.NOT_A_FAILURE:
        yield "The job did not fail: nobody is told. If it had failed:"
    yield f"{_who(job)}: {diagnosis.cause.id} ({diagnosis.cause.layer}), {targets.why[0]}"
    for judged in router.judge(job, diagnosis, incidents=incidents):
        mark = "+" if judged.fit is Fit.MATCHED else "-"
        yield f"  {mark} {judged.title}: {judged.fit}: {judged.why}"
    yield from _goal(targets)
    for warning in (*targets.warnings, *router.warnings()):
        yield f"warning: {warning}"


def _who(job: JobFacts) -> str:
    parts = [f"job {job.job_id}" if job.job_id else "a job", job.name or ""]
    return literal(" ".join(part for part in parts if part), 100)


def _goal(targets: Targets) -> Iterator[str]:
    if not targets.channels:
        yield "told nowhere: a route without channels decided; it stays on the list of incidents"
    for channel, why in zip(targets.channels, _reasons(targets), strict=True):
        yield f"→ {channel}  {why}"


def _reasons(targets: Targets) -> Iterator[str]:
    for channel in targets.channels:
        yield "; ".join(
            line.removeprefix(f"{channel}: ") for line in targets.why[1:] if line.startswith(f"{channel}: ")
        )


@contextmanager
def _without_secrets() -> Iterator[None]:
    """Stand in for tokens that are not at hand: nothing is sent here."""
    missing = [name for part in _SECRETS if (name := f"FIRSTFAULT_SLACK__{part}") not in os.environ]
    os.environ.update(dict.fromkeys(missing, "not needed"))
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


def _settings(config: Path | None) -> Settings:
    with _without_secrets():
        return load(config)
