"""A bundle is written as a dictionary: file name → text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from knowledge import Diagnosis, diagnose
from knowledge.catalogue import load_catalogue
from knowledge.reading.bundle import open_bundle
from knowledge.reading.evidence import CaseEvidence
from knowledge.reading.reader import read_evidence

Files = Mapping[str, str | bytes]


@pytest.fixture
def bundle(tmp_path: Path) -> Callable[..., Path]:
    """Write files and scheduler facts as a case folder; return the folder."""

    def write(files: Files, **job: Any) -> Path:
        logs = tmp_path / "case" / "logs"
        for name, text in files.items():
            path = logs / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        if job:
            (tmp_path / "case" / "job.json").write_text(json.dumps(job))
        return tmp_path / "case"

    return write


@pytest.fixture
def verdict(bundle: Callable[..., Path]) -> Callable[..., Diagnosis]:
    """Diagnose files and scheduler facts."""

    def ask(files: Files, **job: Any) -> Diagnosis:
        return diagnose([bundle(files, **job)])

    return ask


@pytest.fixture
def evidence(bundle: Callable[..., Path]) -> Callable[..., CaseEvidence]:
    """Read files without judging them."""

    def read(files: Files, **job: Any) -> CaseEvidence:
        return read_evidence(open_bundle([bundle(files, **job)]), load_catalogue())

    return read
