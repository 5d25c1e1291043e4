"""A Slack for every test that asks for one: our own strict fake, or the emulator that others wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.slack.emulator import Emulator, emulator
from tests.slack.fake import FakeSlack
from tests.slack.npm import OfflineError


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    """A strict fake Slack on a free port, without pacing."""
    async with FakeSlack() as server:
        yield server


@pytest.fixture(scope="module")
def emulated() -> Iterator[Emulator]:
    """One emulator for all tests of a module; every test uses its own keys."""
    try:
        with emulator() as server:
            yield server
    except OfflineError as error:
        pytest.skip(str(error))
