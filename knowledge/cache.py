"""Parsed YAML kept as JSON in the user's cache folder: a hundred times faster to read, never needed to be right."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_yaml(path: Path) -> Any:
    """Parse one YAML file. Raises yaml.YAMLError."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - a safe loader either way


def parse_all(paths: Sequence[Path]) -> list[Any]:
    """Parse YAML files, or take what was parsed before if none has changed (name, size, time) since."""
    stats = [(str(path), (stat := path.stat()).st_size, stat.st_mtime_ns) for path in paths]
    key = hashlib.sha256(repr(stats).encode()).hexdigest()[:24]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "firstfault"
    kept = folder / f"{key}.json"
    try:
        documents = json.loads(kept.read_bytes())
    except (OSError, ValueError):
        documents = None
    if isinstance(documents, list) and len(documents) == len(paths):
        return documents
    documents = [parse_yaml(path) for path in paths]
    _keep(kept, documents)
    return documents


def _keep(kept: Path, documents: list[Any]) -> None:
    """Write the file whole or not at all; a folder that cannot be written costs only time."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=kept.parent, suffix=".tmp", delete=False) as draft:
            json.dump(documents, draft)
        Path(draft.name).replace(kept)
        for old in sorted(kept.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            old.unlink(missing_ok=True)
    except (OSError, TypeError):
        return


_KEPT = 6  # files; older versions' are removed
