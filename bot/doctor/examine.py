"""All checks together, for the command and for the start of the service."""

from __future__ import annotations

import asyncio

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from bot.doctor.finding import Finding, Level
from bot.doctor.local import disk, examine_machine, routes
from bot.doctor.slack import examine_slack
from bot.settings import Settings

log = structlog.get_logger(__name__)


async def examine(settings: Settings) -> list[Finding]:
    """Return what is right and wrong with this machine and with Slack."""
    machine, slack = await asyncio.gather(examine_machine(settings), examine_slack(settings))
    return [*machine, *slack]


async def check_at_start(settings: Settings, client: AsyncWebClient | None = None) -> list[Finding]:
    """Log and return what is wrong, of what can be seen quickly; for a task beside the start. Never raises."""
    try:
        findings = [*routes(settings), *await asyncio.to_thread(disk, settings.data_dir)]
        findings += await examine_slack(settings, client)
    except Exception as error:  # noqa: BLE001 - a check that breaks must not end the service
        log.warning("the checks at the start broke", error=repr(error))
        return []
    wrong = [finding for finding in findings if finding.level is not Level.OK]
    for finding in wrong:
        tell = log.error if finding.level is Level.FAIL else log.warning
        tell("check failed", check=finding.check, detail=finding.detail, remedy=finding.remedy)
    return wrong
