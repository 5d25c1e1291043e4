"""The digest on its way: from the outbox to a Slack that knows charts, and to one that does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.digest.calendar import Schedule
from bot.digest.task import Digests
from bot.metrics import Metrics
from bot.outbox import Sender
from bot.settings import Outbox as OutboxSettings
from bot.slack.poster import SlackPoster, web_client
from bot.wake import Wake
from storage.blobs import BlobStore
from storage.database import Database
from storage.outbox import Outbox
from tests.digest.week import CHANNEL, MONDAY_AFTER, ZURICH
from tests.slack import blockkit
from tests.slack.fake import FakeSlack
from tests.slack.workspace import BOT_TOKEN


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack() as server:
        yield server


async def posted(slack: FakeSlack, digests: Digests, database: Database, folder: Path) -> list[dict[str, Any]]:
    """Look for what is due and send it, twice, as the service does in two minutes; return the channel's messages."""
    outbox = Outbox(database)
    poster = SlackPoster(web_client(BOT_TOKEN, slack.base_url))
    sender = Sender(outbox, poster, OutboxSettings(), Metrics(), Wake(), BlobStore(folder))
    for _ in range(2):
        await digests.look()
        while (claimed := await outbox.claim(timedelta(seconds=60))) is not None:
            await sender.handle(claimed)
    return slack.workspace.messages(CHANNEL)


def service(database: Database) -> Digests:
    return Digests(database, [Schedule(CHANNEL, 0, 9, 0, ZURICH)], now=lambda: MONDAY_AFTER)


async def test_it_stands_in_the_channel_once(slack: FakeSlack, filled: Database, tmp_path: Path) -> None:
    [message] = await posted(slack, service(filled), filled, tmp_path)
    assert message["text"].startswith("📊 30 training failures")
    assert message["attachments"] == []
    assert [block["type"] for block in message["blocks"]][3:5] == ["data_visualization", "table"]


async def test_an_old_workspace_gets_it_once_in_letters(
    slack: FakeSlack, filled: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(blockkit._BLOCKS, "data_visualization")
    [message] = await posted(slack, service(filled), filled, tmp_path)
    assert {block["type"] for block in message["blocks"]} == {"header", "rich_text", "section", "context"}
    assert len(slack.called("chat.postMessage")) == 2
    assert await service(filled).refuses_charts(CHANNEL)
