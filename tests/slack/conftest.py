"""A fake Slack for every test that asks for one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.slack.fake import FakeSlack


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    """A strict fake Slack on a free port, without pacing."""
    async with FakeSlack() as server:
        yield server
