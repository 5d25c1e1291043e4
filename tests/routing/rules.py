"""Rules, jobs and diagnoses to try them with."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from typing import Any

from bot.routing.router import Router, Targets
from bot.settings import Settings
from knowledge.causes import load_causes
from knowledge.diagnosis import CauseFound, Collateral, Diagnosis, Outcome
from knowledge.job import JobFacts

NOON = datetime(2026, 12, 2, 12, tzinfo=UTC)  # a Wednesday
MAIN = "C0MAIN"


def settings(text: str = "") -> Settings:
    """Settings without Slack, as if `text` stood in the file. Raises ValidationError."""
    given: dict[str, Any] = tomllib.loads(text)
    return Settings.model_validate({"slack": {"mode": "console", "channel": MAIN}, **given})


def router(text: str = "") -> Router:
    return Router(settings(text))


def job(**facts: Any) -> JobFacts:
    """A job of 16 ranks on a cluster named alps."""
    return JobFacts.model_validate({"cluster": "alps", "job_id": "48213", "world_size": 16, **facts})


def failed(cause: str = "collective-timeout", **more: Any) -> Diagnosis:
    """A diagnosis of a cause that exists."""
    known = load_causes()[cause]
    found = CauseFound(id=cause, layer=known.layer, title=known.title, summary=known.summary_unnamed)
    return Diagnosis(outcome=Outcome.FAILED, cause=found, **more)


def collateral(count: int) -> Collateral:
    return Collateral(count=count)


def told(text: str, facts: JobFacts | None = None, diagnosis: Diagnosis | None = None, **more: Any) -> Targets:
    """Where the rules of `text` tell a failure at noon, or `now`."""
    now = more.pop("now", NOON)
    return router(text).targets(facts or job(), diagnosis or failed(), now, **more)
