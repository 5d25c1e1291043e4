"""The service's own log: structured, on standard error, with secrets taken out."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog
from structlog.types import EventDict, Processor

from bot.settings import Logging
from knowledge.redaction import redact


def configure(settings: Logging) -> None:
    """Send structlog's and the standard library's records to standard error, in the format of `settings`."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: list[Processor]
    if settings.format == "json":
        renderer = [structlog.processors.format_exc_info, _redacted, structlog.processors.JSONRenderer(default=str)]
    else:
        exceptions = structlog.dev.plain_traceback
        console = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=exceptions)
        renderer = [_redacted, console]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.level.upper())
    for chatty in ("alembic", "slack_sdk", "slack_bolt", "aiosqlite", "asyncio", "apscheduler", "httpx"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))


def _redacted(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return {name: redact(value) if isinstance(value, str) else value for name, value in event.items()}
