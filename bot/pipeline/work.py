"""What a worker process does: one case on disk in, one diagnosis out."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from knowledge import examine
from knowledge.catalogue import load_catalogue
from knowledge.diagnosis import CauseFound, Diagnosis, Outcome
from knowledge.dossier import Dossier
from knowledge.errors import UnreadableEvidence
from knowledge.redaction import redact


def prepare() -> None:
    """Load what every diagnosis needs, so that the first one is as fast as the others."""
    load_catalogue()
    redact("x" * 20_000)


class Examined(BaseModel):
    """What a worker hands back: the diagnosis, and the dossier where there was something to read."""

    diagnosis: Diagnosis
    dossier: Dossier | None = None


def diagnose_folder(folder: Path) -> str:
    """Return what was found in the case in `folder`, as JSON of Examined. Evidence that says nothing gives an honest blank."""
    dossier: Dossier | None = None
    try:
        diagnosis, dossier = examine([folder])
    except UnreadableEvidence:
        wanted = "The job's output: no readable log file has arrived. See the hook's own log on the nodes for what it could not read."
        diagnosis = blank("No log of this job has arrived that says anything.", [wanted])
    return Examined(diagnosis=diagnosis, dossier=dossier).model_dump_json(by_alias=True)


def blank(summary: str, missing: list[str]) -> Diagnosis:
    """Return the diagnosis of a failure about which nothing can be said."""
    cause = CauseFound(id="unknown", layer="unknown", title="Cause not found", summary=summary)
    return Diagnosis(outcome=Outcome.FAILED, cause=cause, missing=missing)
