"""The web application: routes, and one shape for every error."""

from __future__ import annotations

import json
from collections.abc import Sequence

import structlog
from aiohttp import ClientConnectionResetError, web
from aiohttp.typedefs import Handler
from sqlalchemy.exc import SQLAlchemyError

from bot.intake.errors import IntakeError
from bot.intake.openapi import Operation, add_routes
from bot.metrics import Metrics
from bot.workers import WorkerCrashedError, WorkerTimeoutError

RETRY_SECONDS = 5

log = structlog.get_logger(__name__)


def build(operations: Sequence[Operation], metrics: Metrics) -> web.Application:
    """Return the application with `operations` as its routes."""

    @web.middleware
    async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await _answered(request, handler)
        resource = request.match_info.route.resource
        if resource is not None and resource.canonical.startswith("/v1/"):
            metrics.requests.labels(resource.canonical, response.status).inc()
        return response

    app = web.Application(middlewares=[answer_errors])
    add_routes(app, operations)
    return app


async def serve(app: web.Application, host: str, port: int) -> tuple[web.AppRunner, str]:
    """Listen, and return the runner to stop it by and the address. Raises OSError where the port is taken."""
    # Bodies are decompressed by the intake alone, which bounds what comes out.
    runner = web.AppRunner(app, access_log=None, auto_decompress=False, shutdown_timeout=10.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError:
        await runner.cleanup()
        raise
    bound = runner.addresses[0][1]
    return runner, f"http://{f'[{host}]' if ':' in host else host}:{bound}"


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except IntakeError as error:
        log.info("request refused", path=request.path, status=error.status, code=error.code, reason=error.message)
        return _problem(error)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        hint = "see /openapi.json for the routes"
        return _problem(IntakeError(error.status, error.reason.lower().replace(" ", "-"), error.reason, hint))
    except ClientConnectionResetError:
        raise
    except (SQLAlchemyError, OSError, WorkerCrashedError, WorkerTimeoutError) as error:
        log.error("request failed", path=request.path, error=f"{type(error).__name__}: {error}")
        return _problem(
            IntakeError(
                503,
                "not-now",
                "the service cannot store this now",
                "send it again later; the service's log says why",
                {"Retry-After": str(RETRY_SECONDS)},
            )
        )
    except Exception:
        log.exception("request failed", path=request.path)
        return _problem(IntakeError(500, "fault", "a fault of the service", "the service's log says more"))


def _problem(error: IntakeError) -> web.Response:
    # What is left of the body may be large and is not read, so the connection cannot be used again.
    response = web.Response(
        text=json.dumps(error.document()), status=error.status, content_type="application/json", headers=error.headers
    )
    if error.status in (408, 413, 415):
        response.force_close()
    return response
