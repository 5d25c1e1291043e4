"""Writes an incident as a case: `logs/`, `job.json`, and what people said was true in `truth.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bot.casefile.anonymous import Anonymous
from knowledge.diagnosis import Diagnosis
from storage.blobs import BlobStore
from storage.incidents import IncidentView
from storage.tables import Action, ActionKind

_KEPT = (
    "scheduler job_id attempt partition state reason exit_code signal nodes world_size ranks_per_node started_at ended_at "
    "time_limit_seconds"
).split()


async def write_case(view: IncidentView, actions: Sequence[Action], blobs: BlobStore, folder: Path) -> bool:
    """Write the case into `folder`, which is made; return whether somebody has judged it.

    Raises FileExistsError where `folder` holds something, LookupError for an incident without a diagnosis.
    """
    if view.diagnosis is None:
        raise LookupError("it has not been diagnosed yet; nothing is known to be true of it")
    diagnosis = Diagnosis.model_validate(view.diagnosis.document)
    anonymous = _names(view, diagnosis)
    (folder / "logs").mkdir(parents=True)
    for log in view.logs:
        target = folder / "logs" / anonymous.name(log.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(anonymous.log(await blobs.get(log.blob)))
    facts = {name: view.job[name] for name in _KEPT if view.job.get(name) not in (None, [], "")}
    _write(folder / "job.json", anonymous.facts(facts))
    truth, judged = _truth(diagnosis, actions)
    _write(folder / "truth.json", anonymous.facts(truth))
    return judged


def _names(view: IncidentView, diagnosis: Diagnosis) -> Anonymous:
    job, dossier = view.job, (view.diagnosis.dossier if view.diagnosis else None) or {}
    hosts = [*job.get("nodes", []), *diagnosis.initiating.hosts, *diagnosis.suspect_nodes]
    hosts += [str(account.get("host") or "") for account in dossier.get("ranks", [])]
    hosts += [str(source.get("host") or "") for source in dossier.get("sources", [])]
    hosts += [evidence.host or "" for evidence in diagnosis.evidence]
    hosts += [report.reporter for report in view.reports]
    people = [str(job.get("user") or ""), str(job.get("account") or "")]
    others = {str(job.get("name") or ""): "training-job", view.cluster: "cluster"}
    return Anonymous(hosts, people, others)


def _truth(diagnosis: Diagnosis, actions: Sequence[Action]) -> tuple[dict[str, Any], bool]:
    """What was true: the diagnosis, where people did not say otherwise; the last word counts."""
    cause, ranks, hosts = diagnosis.cause.id, diagnosis.initiating.ranks, diagnosis.initiating.hosts
    verdicts = [action for action in actions if action.kind in (ActionKind.RIGHT, ActionKind.WRONG)]
    said = verdicts[-1] if verdicts else None
    corrected = said.detail if said is not None and said.kind == ActionKind.WRONG else {}
    others_hosts: Any = "any" if "ranks" in corrected else [sorted(hosts)]
    return {
        "outcome": diagnosis.outcome.value,
        "causes": [corrected.get("cause", cause)],
        "ranks": [sorted(corrected.get("ranks", ranks))],
        "hosts": others_hosts,
        "needs_missing_fact": False,
        "judged": "corrected" if corrected else said.kind if said is not None else "nobody has judged this verdict",
        "note": corrected.get("note", ""),
    }, said is not None


def _write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")
