"""The outbox knows of each message what it should say, what it says, and whether it may have been said."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlmodel import select

from storage.database import Database
from storage.outbox import Claimed, Draft, queue
from storage.repository import Repository
from storage.tables import Outgoing
from storage.types import utc_now
from tests.storage.conftest import Failures

LEASE = timedelta(seconds=60)
NO_TIME = timedelta()


@pytest.fixture
async def episode_id(failures: Failures) -> str:
    return await failures.episode(await failures.fail())


async def say(database: Database, episode_id: str, text: str, channel: str = "C1", *, only_edit: bool = False) -> None:
    async with database.writing() as session:
        await queue(session, episode_id, Draft(f"k-{channel}", channel, {"text": text}, only_edit=only_edit))


async def claim(repository: Repository, *besides: str) -> Claimed:
    claimed = await repository.outbox.claim(LEASE, besides)
    assert claimed is not None
    return claimed


async def test_a_message_is_sent_once(repository: Repository, database: Database, episode_id: str) -> None:
    await say(database, episode_id, "it failed")
    claimed = await claim(repository)
    assert (claimed.content, claimed.in_doubt, claimed.posted) == ({"text": "it failed"}, False, None)
    assert await repository.outbox.claim(LEASE) is None
    await repository.outbox.sent(claimed, "C1", "1700000000.000100")
    assert await repository.outbox.claim(LEASE) is None
    view = await repository.episodes.view(episode_id)
    assert [(message.channel, message.ts) for message in view.lead.messages] == [("C1", "1700000000.000100")]


async def test_new_words_edit_the_message_and_the_same_words_do_nothing(
    repository: Repository, database: Database, episode_id: str
) -> None:
    await say(database, episode_id, "1 of 2 nodes")
    await repository.outbox.sent(await claim(repository), "C1", "1.1")
    await say(database, episode_id, "1 of 2 nodes")
    assert await repository.outbox.claim(LEASE) is None
    await say(database, episode_id, "2 of 2 nodes", only_edit=True)
    claimed = await claim(repository)
    assert claimed.posted is not None
    assert (claimed.posted.ts, claimed.content) == ("1.1", {"text": "2 of 2 nodes"})


async def test_words_that_change_while_sending_are_sent_next(
    repository: Repository, database: Database, episode_id: str
) -> None:
    await say(database, episode_id, "old")
    claimed = await claim(repository)
    await say(database, episode_id, "newer")
    await say(database, episode_id, "newest")
    await repository.outbox.sent(claimed, "C1", "1.1")
    again = await claim(repository)
    assert (again.content, again.posted is not None) == ({"text": "newest"}, True)
    await repository.outbox.sent(again, "C1", "1.1")
    assert await repository.outbox.claim(LEASE) is None


async def test_after_a_crash_while_sending_the_message_is_in_doubt(
    repository: Repository, database: Database, episode_id: str
) -> None:
    await say(database, episode_id, "it failed")
    before = await claim(repository)
    await repository.outbox.resume()
    after = await claim(repository)
    assert after.in_doubt
    assert after.attempted_at == before.attempted_at
    await repository.outbox.adopted(after, "C1", "1.1")
    assert await repository.outbox.claim(LEASE) is None


async def test_a_message_adopted_with_old_words_is_edited(
    repository: Repository, database: Database, episode_id: str
) -> None:
    await say(database, episode_id, "old")
    await claim(repository)
    await say(database, episode_id, "new")
    await repository.outbox.resume()
    await repository.outbox.adopted(await claim(repository), "C1", "1.1")
    claimed = await claim(repository)
    assert claimed.posted is not None
    assert claimed.content == {"text": "new"}


async def test_refused_for_certain_is_not_in_doubt(repository: Repository, database: Database, episode_id: str) -> None:
    await say(database, episode_id, "it failed")
    await repository.outbox.later(await claim(repository), NO_TIME, "ratelimited", in_doubt=False)
    assert not (await claim(repository)).in_doubt


async def test_a_busy_channel_does_not_hold_up_another(
    repository: Repository, database: Database, episode_id: str
) -> None:
    await say(database, episode_id, "first", "C1")
    await say(database, episode_id, "second", "C2")
    assert (await claim(repository, "C1")).channel == "C2"
    assert await repository.outbox.claim(LEASE, ["C1"]) is None


async def test_a_refused_message_is_kept_visible_and_tried_again(
    repository: Repository, database: Database, episode_id: str
) -> None:
    await say(database, episode_id, "it failed")
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
    repository: Repository, database: Database, episode_id: str
) -> None:
    await say(database, episode_id, "old")
    await repository.outbox.sent(await claim(repository), "C1", "1.1")
    await say(database, episode_id, "new")
    await repository.outbox.lost(await claim(repository))
    claimed = await claim(repository)
    assert (claimed.posted, claimed.in_doubt) == (None, False)
    await repository.outbox.sent(claimed, "C1", "2.2")
    assert [message.ts for message in (await repository.episodes.view(episode_id)).lead.messages] == ["2.2"]


async def reply(database: Database, episode_id: str, text: str) -> None:
    async with database.writing() as session:
        await queue(session, episode_id, Draft("k-C1/evidence", "C1", {"text": text}, parent_key="k-C1"))


async def test_a_reply_waits_for_the_message_above_it(
    repository: Repository, database: Database, episode_id: str
) -> None:
    await reply(database, episode_id, "the line")
    assert await repository.outbox.claim(LEASE) is None
    assert await repository.outbox.next_due() is None
    await say(database, episode_id, "it failed")
    parent = await claim(repository)
    assert (parent.key, parent.thread) == ("k-C1", None)
    assert await repository.outbox.claim(LEASE) is None
    await repository.outbox.sent(parent, "C1", "1.1")
    assert (await claim(repository)).thread == "1.1"


async def test_first_messages_go_before_replies_and_know_how_many_wait(
    repository: Repository, database: Database, episode_id: str
) -> None:
    await say(database, episode_id, "it failed")
    await repository.outbox.sent(await claim(repository), "C1", "1.1")
    await reply(database, episode_id, "the line")
    async with database.writing() as session:
        for number in range(3):
            await queue(session, episode_id, Draft(f"other-{number}", "C1", {"text": "it failed, too"}))
    seen = [await claim(repository) for _ in range(4)]
    assert [each.key for each in seen] == ["other-0", "other-1", "other-2", "k-C1/evidence"]
    assert seen[0].behind == 2


async def test_nothing_is_posted_before_its_time_even_after_a_restart(
    repository: Repository, database: Database, episode_id: str
) -> None:
    morning = utc_now() + timedelta(hours=5)
    async with database.writing() as session:
        await queue(session, episode_id, Draft("k-C1", "C1", {"text": "it failed"}, not_before=morning))
    await repository.outbox.resume()
    assert await repository.outbox.claim(LEASE) is None
    assert await repository.outbox.next_due() == morning


async def test_a_message_of_no_episode_is_queued_once(repository: Repository) -> None:
    assert not await repository.outbox.knows("digest/C1/2026-W48")
    await repository.outbox.queue(Draft("digest/C1/2026-W48", "C1", {"text": "a quiet week"}))
    await repository.outbox.sent(await claim(repository), "C1", "1.1")
    await repository.outbox.queue(Draft("digest/C1/2026-W48", "C1", {"text": "a quiet week"}))
    assert await repository.outbox.claim(LEASE) is None
    assert await repository.outbox.knows("digest/C1/2026-W48")


async def test_what_was_never_posted_is_withdrawn_with_its_thread(
    repository: Repository, database: Database, episode_id: str
) -> None:
    await say(database, episode_id, "it failed")
    await repository.outbox.queue(Draft("k-C1/evidence", "C1", {"text": "the line"}, parent_key="k-C1"), episode_id)
    await say(database, episode_id, "folded into another message", only_edit=True)
    assert await repository.outbox.claim(LEASE) is None
    assert not await repository.outbox.knows("k-C1/evidence")
    await say(database, episode_id, "it failed after all")
    assert (await claim(repository)).content == {"text": "it failed after all"}


async def test_what_may_have_arrived_is_not_withdrawn(
    repository: Repository, database: Database, episode_id: str
) -> None:
    await say(database, episode_id, "it failed")
    claimed = await claim(repository)
    await say(database, episode_id, "folded into another message", only_edit=True)
    await repository.outbox.later(claimed, NO_TIME, "Unreachable", in_doubt=True)
    assert (await claim(repository)).in_doubt


async def test_a_message_held_back_is_neither_late_nor_waiting_and_goes_out_when_it_becomes_urgent(
    repository: Repository,
) -> None:
    morning = utc_now() + timedelta(hours=9)
    held = Draft("k", "C1", {"text": "it failed"}, not_before=morning)
    await repository.outbox.queue(held)
    assert await repository.outbox.claim(LEASE) is None
    backlog = await repository.outbox.backlog()
    assert (backlog.waiting, backlog.lag) == (0, 0.0)
    await repository.outbox.queue(replace(held, not_before=None))
    claimed = await claim(repository)
    assert 0 <= claimed.late < 60


async def test_a_message_that_was_held_back_overnight_is_not_called_late(
    repository: Repository, database: Database
) -> None:
    await repository.outbox.queue(Draft("k", "C1", {"text": "it failed"}, not_before=utc_now() + timedelta(hours=9)))
    async with database.writing() as session:
        row = (await session.scalars(select(Outgoing))).one()
        assert row.queued_at == row.due_at
