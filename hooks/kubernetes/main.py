"""The program `firstfault-watcher`."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import suppress

from hooks.kubernetes.api import Api, ApiError
from hooks.kubernetes.figures import Figures, serve
from hooks.kubernetes.lease import Lease
from hooks.kubernetes.service import Service
from hooks.kubernetes.settings import SettingError, Settings, parse
from hooks.kubernetes.watcher import Watcher


def main() -> None:
    """Run until SIGTERM. Exit status: 0 stopped, 1 something broke, 2 a setting is wrong."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        settings = parse(sys.argv[1:])
        settings.read_token()
        asyncio.run(_until_stopped(settings))
    except SettingError as error:
        sys.exit(_complain(error, 2))
    except (ApiError, OSError) as error:
        sys.exit(_complain(error, 1))


def _complain(error: Exception, status: int) -> int:
    print(f"firstfault-watcher: {error}", file=sys.stderr)  # noqa: T201
    return status


async def _until_stopped(settings: Settings) -> None:
    watching = asyncio.ensure_future(watch(settings))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, watching.cancel)
    with suppress(asyncio.CancelledError):
        await watching


async def watch(settings: Settings) -> None:
    """Watch, if there is a lease whenever it is ours, until cancelled. Raises ApiError where there is no way in."""
    api = await Api.connect(settings.kubeconfig, settings.context)
    service = Service(settings.service, settings.read_token)
    figures = Figures()
    current: list[Watcher] = []

    async def work() -> None:
        figures.leads.set(1)
        current[:] = [Watcher(api, service, settings, figures)]
        try:
            await current[0].run()
        finally:
            current.clear()
            figures.leads.set(0)

    # A replica that waits for the lease is as ready as it can be.
    runner = (
        await serve(
            figures, lambda: current[0].ready.is_set() if current else settings.lease is not None, *settings.listen
        )
        if settings.listen
        else None
    )
    try:
        if settings.lease:
            await Lease(api, *settings.lease, settings.identity, settings.lease_seconds).lead(work)
        else:
            await work()
    finally:
        if runner:
            await runner.cleanup()
        await service.close()
        await api.close()


if __name__ == "__main__":
    main()
