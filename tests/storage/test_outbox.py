"""The outbox knows of each message what it should say, what it says, and whether it may have been said."""

from __future__ import annotations

from datetime import timedelta

import pytest

from storage.database import Database
from storage.incidents import Key, Pace, ReporterRole, Told
from storage.outbox import Claimed, Draft, queue
from storage.repository import Repository

NOW = Pace(*[timedelta()] * 3)
LEASE = timedelta(seconds=60)
NO_TIME = timedelta()


@pytest.fixture
async def incident_id(repository: Repository, key: Key) -> str:
    return await repository.incidents.open(key, Told("gpu-n01", ReporterRole.NODE), NOW)


async def say(database: Database, incident_id: str, text: str, channel: str = "C1", *, only_edit: bool = False) -> None:
    async with database.writing() as session:
        await queue(session, incident_id, Draft(f"k-{channel}", channel, {"text": text}, only_edit=only_edit))


async def claim(repository: Repository, *besides: str) -> Claimed:
    claimed = await repository.outbox.claim(LEASE, besides)
    assert claimed is not None
    return claimed


async def test_a_message_is_sent_once(repository: Repository, database: Database, incident_id: str) -> None:
    await say(database, incident_id, "it failed")
    claimed = await claim(repository)
    assert (claimed.content, claimed.in_doubt, claimed.posted) == ({"text": "it failed"}, False, None)
    assert await repository.outbox.claim(LEASE) is None
    await repository.outbox.sent(claimed, "C1", "1700000000.000100")
    assert await repository.outbox.claim(LEASE) is None
    view = await repository.incidents.view(incident_id)
    assert [(message.channel, message.ts) for message in view.messages] == [("C1", "1700000000.000100")]


async def test_new_words_edit_the_message_and_the_same_words_do_nothing(
    repository: Repository, database: Database, incident_id: str
) -> None:
    await say(database, incident_id, "1 of 2 nodes")
    await repository.outbox.sent(await claim(repository), "C1", "1.1")
    await say(database, incident_id, "1 of 2 nodes")
    assert await repository.outbox.claim(LEASE) is None
    await say(database, incident_id, "2 of 2 nodes", only_edit=True)
    claimed = await claim(repository)
    assert claimed.posted is not None
    assert (claimed.posted.ts, claimed.content) == ("1.1", {"text": "2 of 2 nodes"})


async def test_words_that_change_while_sending_are_sent_next(
    repository: Repository, database: Database, incident_id: str
) -> None:
    await say(database, incident_id, "old")
    claimed = await claim(repository)
    await say(database, incident_id, "newer")
    await say(database, incident_id, "newest")
    await repository.outbox.sent(claimed, "C1", "1.1")
    again = await claim(repository)
    assert (again.content, again.posted is not None) == ({"text": "newest"}, True)
    await repository.outbox.sent(again, "C1", "1.1")
    assert await repository.outbox.claim(LEASE) is None


async def test_after_a_crash_while_sending_the_message_is_in_doubt(
    repository: Repository, database: Database, incident_id: str
) -> None:
    await say(database, incident_id, "it failed")
    before = await claim(repository)
    await repository.outbox.resume()
    after = await claim(repository)
    assert after.in_doubt
    assert after.attempted_at == before.attempted_at
    await repository.outbox.adopted(after, "C1", "1.1")
    assert await repository.outbox.claim(LEASE) is None


async def test_a_message_adopted_with_old_words_is_edited(
    repository: Repository, database: Database, incident_id: str
) -> None:
    await say(database, incident_id, "old")
    await claim(repository)
    await say(database, incident_id, "new")
    await repository.outbox.resume()
    await repository.outbox.adopted(await claim(repository), "C1", "1.1")
    claimed = await claim(repository)
    assert claimed.posted is not None
    assert claimed.content == {"text": "new"}


async def test_refused_for_certain_is_not_in_doubt(
    repository: Repository, database: Database, incident_id: str
) -> None:
    await say(database, incident_id, "it failed")
    await repository.outbox.later(await claim(repository), NO_TIME, "ratelimited", in_doubt=False)
    assert not (await claim(repository)).in_doubt


async def test_a_busy_channel_does_not_hold_up_another(
    repository: Repository, database: Database, incident_id: str
) -> None:
    await say(database, incident_id, "first", "C1")
    await say(database, incident_id, "second", "C2")
    assert (await claim(repository, "C1")).channel == "C2"
    assert await repository.outbox.claim(LEASE, ["C1"]) is None


async def test_a_refused_message_is_kept_visible_and_tried_again(
    repository: Repository, database: Database, incident_id: str
) -> None:
    await say(database, incident_id, "it failed")
    await repository.outbox.refused(await claim(repository), timedelta(hours=1), "not_in_channel", "invite the app")
    assert await repository.outbox.claim(LEASE) is None
    backlog = await repository.outbox.backlog()
    assert [(each.channel, each.code, each.remedy) for each in backlog.refused] == [
        ("C1", "not_in_channel", "invite the app")
    ]
    assert backlog.waiting == 1
    assert backlog.lag >= 0
    await repository.outbox.resume()
    await repository.outbox.sent(await claim(repository), "C1", "1.1")
    assert (await repository.outbox.backlog()).refused == []


async def test_a_message_deleted_in_slack_is_posted_anew(
    repository: Repository, database: Database, incident_id: str
) -> None:
    await say(database, incident_id, "old")
    await repository.outbox.sent(await claim(repository), "C1", "1.1")
    await say(database, incident_id, "new")
    await repository.outbox.lost(await claim(repository))
    claimed = await claim(repository)
    assert (claimed.posted, claimed.in_doubt) == (None, False)
    await repository.outbox.sent(claimed, "C1", "2.2")
    assert [message.ts for message in (await repository.incidents.view(incident_id)).messages] == ["2.2"]
