"""From an episode to what its messages should say: the parent message of each channel, and its thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import datetime

from bot.slack.contract import Posted, SlackFile
from bot.slack.message import render, render_merged
from bot.slack.thread import Reply, replies
from bot.telling.status import Surroundings, status
from knowledge.diagnosis import Diagnosis, Outcome, Role
from knowledge.dossier import Dossier
from knowledge.job import JobFacts
from storage.episodes import EpisodeView
from storage.outbox import Draft
from storage.tables import LogFile, OutgoingKind


def drafts(view: EpisodeView, around: Surroundings) -> Iterator[Draft]:
    """Yield what each message of the episode should say. Nothing where the lead was not diagnosed yet."""
    if view.lead.diagnosis is None:
        return
    for channel in view.episode.channels:
        if view.episode.merged_id is not None:
            yield _folded(view, channel, around)
        else:
            yield from _of_channel(view, channel, around)


def _folded(view: EpisodeView, channel: str, around: Surroundings) -> Draft:
    storm = view.elsewhere.get(channel)
    link = around.link(Posted(storm.channel, storm.ts)) if storm else None
    message = render_merged(JobFacts.model_validate(view.lead.job), link)
    return Draft(f"{view.episode.id}/{channel}", channel, asdict(message), only_edit=True)


def _of_channel(view: EpisodeView, channel: str, around: Surroundings) -> Iterator[Draft]:
    said = view.lead.diagnosis
    assert said is not None
    job, diagnosis = JobFacts.model_validate(view.lead.job), Diagnosis.model_validate(said.document)
    key, standing = f"{view.episode.id}/{channel}", status(view, channel, around)
    quiet = diagnosis.outcome is not Outcome.FAILED or channel in view.mutes or channel in view.unwanted
    held = view.episode.holds.get(channel)
    not_before = datetime.fromisoformat(held) if held else None
    yield Draft(
        key,
        channel,
        asdict(render(job, diagnosis, standing)),
        only_edit=quiet,
        not_before=not_before,
    )
    if diagnosis.outcome is not Outcome.FAILED:
        return
    dossier = Dossier.model_validate(said.dossier) if said.dossier else None
    history = [(each.version, Diagnosis.model_validate(each.document)) for each in view.versions]
    for reply in replies(job, diagnosis, standing, dossier, history, view.actions):
        yield replace(_reply(reply, key, channel, only_edit=quiet), not_before=not_before)
    log = _proving_log(view, diagnosis)
    if log is not None and not quiet:
        name = f"{view.lead.incident.id[:8]}-{log.name.replace('/', '-')}"[-120:]
        yield Draft(
            f"{key}/log",
            channel,
            {"name": name, "title": log.name, "blob": log.blob},
            parent_key=key,
            kind=OutgoingKind.FILE,
            not_before=not_before,
        )


def _reply(reply: Reply, parent: str, channel: str, *, only_edit: bool) -> Draft:
    kind = OutgoingKind.FILE if isinstance(reply.content, SlackFile) else OutgoingKind.MESSAGE
    return Draft(
        f"{parent}/{reply.part}", channel, asdict(reply.content), only_edit=only_edit, parent_key=parent, kind=kind
    )


def _proving_log(view: EpisodeView, diagnosis: Diagnosis) -> LogFile | None:
    """The log in which the line stands that proves most."""
    logs = {log.name: log for log in view.lead.logs}
    ordered = sorted(diagnosis.evidence, key=lambda evidence: evidence.role is not Role.ROOT)
    return next((logs[evidence.source] for evidence in ordered if evidence.source in logs), None)
