"""Parsed YAML kept as JSON in the user's cache folder: a hundred times faster to read, never needed to be right."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class MalformedYamlError(ValueError):
    """A file is no YAML; the message says where and why."""


def parse_yaml(path: Path) -> Any:
    """Parse one YAML file. Raises MalformedYamlError."""
    import yaml  # needed only where nothing is kept

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 - a safe loader either way
    except yaml.YAMLError as error:
        raise MalformedYamlError(str(error)) from error


def parse_all(paths: Sequence[Path]) -> list[Any]:
    """Parse YAML files, or take what was parsed before if none has changed (name, size, time) since.

    Raises MalformedYamlError.
    """
    kept = _place_of(paths)
    try:
        documents = json.loads(kept.read_bytes())
    except (OSError, ValueError):
        documents = None
    if isinstance(documents, list) and len(documents) == len(paths):
        return documents
    documents = [parse_yaml(path) for path in paths]
    _keep(kept, documents)
    return documents


def _place_of(paths: Sequence[Path]) -> Path:
    stats = [(str(path), (stat := path.stat()).st_size, stat.st_mtime_ns) for path in paths]
    key = hashlib.sha256(repr(stats).encode()).hexdigest()[:24]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "firstfault"
    return folder / f"{key}.json"


def _keep(kept: Path, documents: list[Any]) -> None:
    """Write the file whole or not at all; a folder that cannot be written costs only time."""
    import tempfile

    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=kept.parent, suffix=".tmp", delete=False) as draft:
            json.dump(documents, draft)
        Path(draft.name).replace(kept)
        for old in sorted(kept.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            old.unlink(missing_ok=True)
    except (OSError, TypeError):
        return


_KEPT = 16  # files; older versions' are removed
