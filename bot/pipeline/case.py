"""An incident's evidence, laid out in a folder as `knowledge` reads it: `job.json` and `logs/…`."""

from __future__ import annotations

import json
from pathlib import Path

from storage.blobs import BlobStore
from storage.incidents import IncidentView


async def lay_out(view: IncidentView, blobs: BlobStore, folder: Path) -> None:
    """Write the evidence into `folder`, which is made. Raises FileNotFoundError where a blob is gone.

    Names of logs were checked when they came in; that they stay inside `folder` is checked again.
    """
    logs = (folder / "logs").resolve()
    logs.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps(view.job), encoding="utf-8")
    for log in view.logs:
        target = logs / log.name
        if not target.resolve().is_relative_to(logs):
            raise ValueError(f"the log {log.name!r} of incident {view.incident.id} leads out of its folder")
        await blobs.copy(log.blob, target)
