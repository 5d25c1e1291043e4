"""The whole road from paths to a diagnosis."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from knowledge.attribution import outcome
from knowledge.attribution.earlier import look_back
from knowledge.attribution.view import CaseView, view_case
from knowledge.catalogue import load_catalogue
from knowledge.diagnosis import Diagnosis, Stats
from knowledge.dossier import Dossier
from knowledge.errors import UnreadableEvidence
from knowledge.reading.bundle import open_bundle
from knowledge.reading.reader import read_evidence
from knowledge.report import report, tell_earlier


def run(paths: Sequence[Path]) -> Diagnosis:
    """Read, weigh, report. See `knowledge.diagnose`."""
    return _weigh(paths)[0]


def examine(paths: Sequence[Path]) -> tuple[Diagnosis, Dossier]:
    """Read, weigh, report, and keep what answers are made of. See `knowledge.examine`."""
    from knowledge.accounts import compile_dossier  # who only wants the diagnosis need not load it

    diagnosis, view = _weigh(paths)
    return diagnosis, compile_dossier(view, diagnosis)


def _weigh(paths: Sequence[Path]) -> tuple[Diagnosis, CaseView]:
    began = time.perf_counter()
    bundle = open_bundle(paths)
    evidence = read_evidence(bundle, load_catalogue())
    if not evidence.bytes and not bundle.job.state and not evidence.refused:
        raise UnreadableEvidence(f"nothing to read in {', '.join(map(str, paths))}: empty, or damaged from the start")
    view = view_case(evidence)
    hypotheses = outcome.conclude(view)
    diagnosis = report(view, hypotheses)
    if hypotheses and (earlier := look_back(evidence, hypotheses[0])):
        tell_earlier(diagnosis, earlier)
    diagnosis.missing += evidence.refused
    diagnosis.stats = Stats(bytes=evidence.bytes, lines=evidence.lines, seconds=round(time.perf_counter() - began, 4))
    return diagnosis, view
