"""The whole road from paths to a diagnosis."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge.catalogue import load_catalogue
from knowledge.diagnosis import Diagnosis, Stats
from knowledge.errors import UnreadableEvidence
from knowledge.reading.bundle import open_bundle
from knowledge.reading.reader import read_evidence

if TYPE_CHECKING:
    from knowledge.attribution.view import CaseView
    from knowledge.dossier import Dossier


@contextmanager
def _uncollected() -> Iterator[None]:
    """A diagnosis makes many objects and no cycles: looking for cycles all the time would cost a quarter of it."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@_uncollected()
def run(paths: Sequence[Path]) -> Diagnosis:
    """Read, weigh, report. See `knowledge.diagnose`."""
    return _weigh(paths)[0]


@_uncollected()
def examine(paths: Sequence[Path]) -> tuple[Diagnosis, Dossier]:
    """Read, weigh, report, and keep what answers are made of. See `knowledge.examine`."""
    from knowledge.accounts import compile_dossier  # who only wants the diagnosis need not load it

    diagnosis, view = _weigh(paths)
    return diagnosis, compile_dossier(view, diagnosis)


def _weigh(paths: Sequence[Path]) -> tuple[Diagnosis, CaseView]:
    began = time.perf_counter()
    bundle = open_bundle(paths)
    evidence = read_evidence(bundle, load_catalogue(), meanwhile=_load_reasoning)
    if not evidence.bytes and not bundle.job.state and not evidence.refused:
        raise UnreadableEvidence(f"nothing to read in {', '.join(map(str, paths))}: empty, or damaged from the start")
    from knowledge.attribution import outcome
    from knowledge.attribution.earlier import look_back
    from knowledge.attribution.view import view_case
    from knowledge.report import report, tell_earlier, unread

    view = view_case(evidence)
    hypotheses = outcome.conclude(view)
    diagnosis = report(view, hypotheses)
    if hypotheses and (earlier := look_back(evidence, hypotheses[0])):
        tell_earlier(diagnosis, earlier)
    diagnosis.missing += [*evidence.refused, *unread(evidence.job)]
    diagnosis.stats = Stats(bytes=evidence.bytes, lines=evidence.lines, seconds=round(time.perf_counter() - began, 4))
    return diagnosis, view


def _load_reasoning() -> None:
    """Import what is needed once all is read; other processes read meanwhile."""
    import knowledge.attribution.outcome
    import knowledge.report  # noqa: F401
