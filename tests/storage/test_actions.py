"""What people do is stored with who and when, once a click, and the episode is told again."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from storage.actions import Click, Done
from storage.repository import Repository
from storage.tables import ActionKind, EpisodeState
from storage.types import utc_now
from tests.storage.conftest import Failures

LEASE = timedelta(seconds=60)


@pytest.fixture
async def episode_id(failures: Failures, repository: Repository) -> str:
    """An episode that was told."""
    episode_id = await failures.episode(await failures.fail())
    view = await repository.episodes.claim(LEASE)
    assert view is not None
    await repository.episodes.told(episode_id, view.episode.revision, [], None)
    assert await repository.episodes.claim(LEASE) is None
    await repository.episodes.release_all()  # an episode is told once a second at most
    return episode_id


def click(episode_id: str, key: str = "k1", user: str = "U0ALICE") -> Click:
    return Click(key, episode_id, user, user.removeprefix("U0").lower(), "C1")


async def test_a_click_changes_the_episode_and_has_it_told(repository: Repository, episode_id: str) -> None:
    outcome = await repository.actions.acknowledge(click(episode_id))
    assert (outcome.done, outcome.episode.state) == (Done.DONE, EpisodeState.ACKNOWLEDGED)
    assert outcome.episode.acknowledged_at is not None
    view = await repository.episodes.claim(LEASE)
    assert view is not None
    assert [(action.kind, action.user, action.user_name) for action in view.actions] == [
        (ActionKind.ACKNOWLEDGE, "U0ALICE", "alice")
    ]


async def test_a_click_that_arrives_twice_counts_once(repository: Repository, episode_id: str) -> None:
    outcomes = [await repository.actions.judge(click(episode_id), right=True) for _ in range(2)]
    assert [outcome.done for outcome in outcomes] == [Done.DONE, Done.AGAIN]
    assert len(await repository.actions.of(episode_id)) == 1


async def test_the_first_of_two_people_acknowledges(repository: Repository, episode_id: str) -> None:
    outcomes = await asyncio.gather(
        repository.actions.acknowledge(click(episode_id, "k1", "U0ALICE")),
        repository.actions.acknowledge(click(episode_id, "k2", "U0BOB")),
    )
    assert sorted(outcome.done for outcome in outcomes) == [Done.DONE, Done.NOTHING]
    winner = next(outcome.episode.acknowledged_by for outcome in outcomes if outcome.done is Done.DONE)
    assert (await repository.episodes.view(episode_id)).episode.acknowledged_by == winner


async def test_assign_resolve_and_reopen(repository: Repository, episode_id: str) -> None:
    await repository.actions.assign(click(episode_id, "k1"), "U0BOB")
    resolved = (await repository.actions.resolve(click(episode_id, "k2", "U0BOB"), "fixed", "new image")).episode
    assert (resolved.state, resolved.assignee, resolved.resolved_by) == (EpisodeState.RESOLVED, "U0BOB", "U0BOB")
    assert (resolved.resolution, resolved.note) == ("fixed", "new image")
    opened = (await repository.actions.reopen(click(episode_id, "k3"))).episode
    assert (opened.state, opened.resolved_by, opened.resolution) == (EpisodeState.OPEN, None, None)
    assert (await repository.actions.reopen(click(episode_id, "k4"))).done is Done.NOTHING


async def test_a_mute_holds_in_its_channel_until_its_end_and_is_told_then(
    repository: Repository, episode_id: str
) -> None:
    await repository.actions.mute(click(episode_id, "k1"), timedelta(hours=8))
    await repository.actions.mute(click(episode_id, "k2"), timedelta(hours=1))
    view = await repository.episodes.view(episode_id)
    assert set(view.mutes) == {"C1"}
    mute = view.mutes["C1"]
    assert mute.user == "U0ALICE"
    assert timedelta(minutes=59) < mute.until - utc_now() <= timedelta(hours=1)
    assert (await repository.actions.unmute(click(episode_id, "k3"))).done is Done.DONE
    assert (await repository.episodes.view(episode_id)).mutes == {}
    assert (await repository.actions.unmute(click(episode_id, "k4"))).done is Done.NOTHING


async def test_diagnose_again_makes_the_incident_due(repository: Repository, episode_id: str) -> None:
    while await repository.diagnoses.claim(LEASE):
        pass
    await repository.diagnoses.release_all()
    await repository.actions.rediagnose(click(episode_id))
    claimed = await repository.diagnoses.claim(LEASE)
    assert claimed is not None
    assert claimed.incident.episode_id == episode_id


async def test_a_correction_is_kept(repository: Repository, episode_id: str) -> None:
    await repository.actions.judge(click(episode_id), right=False, correction={"ranks": [3], "cause": "gpu-oom"})
    (action,) = await repository.actions.of(episode_id)
    assert (action.kind, action.detail) == (ActionKind.WRONG, {"ranks": [3], "cause": "gpu-oom"})


async def test_an_episode_that_is_gone_is_an_error(repository: Repository) -> None:
    with pytest.raises(LookupError):
        await repository.actions.acknowledge(click("0" * 32))


async def test_an_episode_is_told_once_a_second_at_most(repository: Repository, episode_id: str) -> None:
    view = await repository.episodes.view(episode_id)
    await repository.episodes.told(episode_id, view.episode.revision, [], None)
    await repository.actions.acknowledge(click(episode_id))
    assert await repository.episodes.claim(LEASE) is None
    free = await repository.episodes.next_due()
    assert free is not None
    assert timedelta() < free - utc_now() <= timedelta(seconds=1)
