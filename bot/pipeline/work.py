"""What a worker process does: one case on disk in, one diagnosis out."""

from __future__ import annotations

from pathlib import Path

from knowledge import diagnose
from knowledge.catalogue import load_catalogue
from knowledge.diagnosis import CauseFound, Diagnosis, Outcome
from knowledge.errors import UnreadableEvidence


def prepare() -> None:
    """Load what every diagnosis needs, so that the first one is as fast as the others."""
    load_catalogue()


def diagnose_folder(folder: Path) -> str:
    """Return the diagnosis of the case in `folder`, as JSON. Evidence that says nothing gives an honest blank."""
    try:
        diagnosis = diagnose([folder])
    except UnreadableEvidence:
        wanted = "The job's output: no readable log file has arrived. See the hook's own log on the nodes for what it could not read."
        diagnosis = blank("No log of this job has arrived that says anything.", [wanted])
    return diagnosis.model_dump_json(by_alias=True)


def blank(summary: str, missing: list[str]) -> Diagnosis:
    """Return the diagnosis of a failure about which nothing can be said."""
    cause = CauseFound(id="unknown", layer="unknown", title="Cause not found", summary=summary)
    return Diagnosis(outcome=Outcome.FAILED, cause=cause, missing=missing)
