"""What we know about failures, and the reasoning: evidence in, diagnosis out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge.diagnosis import Diagnosis

if TYPE_CHECKING:
    from knowledge.dossier import Dossier

__all__ = ["Diagnosis", "diagnose", "examine"]


def diagnose(paths: Sequence[Path]) -> Diagnosis:
    """Diagnose one job attempt from its files, or folders in the shape `job.json` + `logs/`.

    Raises knowledge.errors.UnreadableEvidence when a path is missing or unreadable or holds no log.
    """
    from knowledge.engine import run  # the catalogue and the matcher are loaded only by those who diagnose

    return run(paths)


def examine(paths: Sequence[Path]) -> tuple[Diagnosis, Dossier]:
    """As `diagnose`, together with the dossier from which further questions are answered."""
    from knowledge.engine import examine as road

    return road(paths)
