"""Where an incident is told, and with whose failures it may share a message."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from bot.routing.router import Router
from bot.settings import Settings
from bot.telling.reach import reach
from knowledge.diagnosis import Diagnosis, Outcome
from knowledge.job import JobFacts
from storage.folding import Placing
from storage.types import utc_now

log = structlog.get_logger(__name__)


def placing(settings: Settings) -> Callable[[JobFacts, Diagnosis], Placing]:
    """Return the function that places incidents by these settings."""
    router, folding, storm = Router(settings), settings.folding.rules, settings.routing.bounds.storm

    def place(job: JobFacts, diagnosis: Diagnosis) -> Placing:
        now = utc_now()
        targets = router.targets(job, diagnosis, now)
        waits = targets.holds and router.targets(job, diagnosis, now, incidents=storm).holds
        if diagnosis.outcome is Outcome.FAILED:
            for warning in targets.warnings:
                log.warning("routing", job_id=job.job_id, warning=warning)
        return Placing(
            channels=targets.channels,
            reach=reach(diagnosis.cause.id, diagnosis.cause.layer),
            holds=targets.holds,
            urgent_from=None if waits else storm,
            folding=folding,
        )

    return place
