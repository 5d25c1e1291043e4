"""Which failures share one message: attempts and tasks of a job, the same failure again, storms."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from storage.actions import Click
from storage.folding import Folding, Placing, Reach
from storage.repository import Repository
from storage.types import utc_now
from tests.storage.conftest import Failures

ALICE = "U0ALICE"


def click(episode_id: str, key: str = "1", channel: str = "C1") -> Click:
    return Click(key, episode_id, ALICE, "alice", channel)


@pytest.mark.parametrize(("one", "other"), [("48213_1", "48213_2"), ("48213+0", "48213+1"), ("48213", "48213.batch")])
async def test_parts_of_one_job_are_one_episode_whatever_they_died_of(failures: Failures, one: str, other: str) -> None:
    first = await failures.fail(one, fingerprint="f1", cause="gpu-oom")
    second = await failures.fail(other, fingerprint="f2", cause="data-error")
    assert await failures.episode(first) == await failures.episode(second) != ""


async def test_tasks_of_an_array_are_one_episode_by_their_own_numbers_too(failures: Failures) -> None:
    first = await failures.fail("48213", fingerprint="f1", cause="gpu-oom")
    second = await failures.fail("48214", fingerprint="f2", cause="data-error", part_of="48213")
    third = await failures.fail("48215", fingerprint="f3", cause="data-error", user="bob")
    assert await failures.episode(first) == await failures.episode(second) != await failures.episode(third)


async def test_the_last_attempt_of_a_job_leads(repository: Repository, failures: Failures) -> None:
    first = await failures.fail(attempt=0, fingerprint="f1", cause="gpu-lost")
    second = await failures.fail(attempt=1, fingerprint="f2", cause="checkpoint-corrupt")
    view = await repository.episodes.view(await failures.episode(first))
    assert (view.lead.incident.id, view.episode.cause, view.member_count) == (second, "checkpoint-corrupt", 2)


async def test_among_tasks_of_an_array_the_first_leads(repository: Repository, failures: Failures) -> None:
    first = await failures.fail("48213_1")
    await failures.fail("48213_2")
    assert (await repository.episodes.view(await failures.episode(first))).lead.incident.id == first


async def test_the_same_failure_of_the_same_person_is_one_episode(failures: Failures) -> None:
    assert await failures.episode(await failures.fail("1")) == await failures.episode(await failures.fail("2"))


async def test_the_same_mistake_of_two_people_is_two(failures: Failures) -> None:
    ours = await failures.fail("1", user="alice")
    theirs = await failures.fail("2", user="bob")
    assert await failures.episode(ours) != await failures.episode(theirs)


async def test_what_nobody_understood_is_never_called_the_same(failures: Failures) -> None:
    one = await failures.fail("1", cause="unknown")
    other = await failures.fail("2", cause="unknown")
    assert await failures.episode(one) != await failures.episode(other)


async def test_a_broken_node_is_one_episode_for_everybody_and_another_node_is_another(failures: Failures) -> None:
    lost: dict[str, Any] = {"cause": "gpu-lost", "reach": Reach.NODE}
    ours = await failures.fail("1", user="alice", hosts=("gpu-n17",), **lost)
    theirs = await failures.fail("2", user="bob", hosts=("gpu-n17",), **lost)
    elsewhere = await failures.fail("3", user="alice", hosts=("gpu-n03",), **lost)
    assert await failures.episode(ours) == await failures.episode(theirs) != await failures.episode(elsewhere)


async def test_a_broken_file_server_is_one_episode_for_everybody(failures: Failures) -> None:
    site: dict[str, Any] = {"cause": "stale-file-handle", "reach": Reach.SITE}
    ours = await failures.fail("1", user="alice", **site)
    theirs = await failures.fail("2", user="bob", **site)
    assert await failures.episode(ours) == await failures.episode(theirs)


async def test_failures_for_other_channels_are_never_mixed(failures: Failures) -> None:
    """What is told in a private channel alone must not show up in another one."""
    site: dict[str, Any] = {"cause": "stale-file-handle"}
    public = await failures.fail("1", placing=Placing(("C1",), Reach.SITE), **site)
    private = await failures.fail("2", placing=Placing(("G0SECRET",), Reach.SITE), **site)
    both = await failures.fail("3", placing=Placing(("C1", "G0SECRET"), Reach.SITE), **site)
    assert len({await failures.episode(each) for each in (public, private, both)}) == 3


async def test_after_it_was_resolved_it_is_a_new_episode_that_knows_the_old(
    repository: Repository, failures: Failures
) -> None:
    first = await failures.episode(await failures.fail("1", hosts=("gpu-n17",)))
    await repository.actions.resolve(click(first), "node drained", "ticket 7")
    second = await failures.episode(await failures.fail("2", hosts=("gpu-n17",)))
    assert second != first
    view = await repository.episodes.view(second)
    assert view.previous is not None
    assert (view.previous.id, view.previous.resolved_by, view.previous.resolution) == (first, ALICE, "node drained")
    assert view.resolver == "alice"
    assert (view.seen["C1"].count, view.seen["C1"].nodes) == (2, ("gpu-n17",))
    assert view.seen["C1"].last_before is not None


async def test_after_the_window_it_is_a_new_episode(repository: Repository, failures: Failures) -> None:
    at_once = Placing(("C1",), folding=Folding(window=timedelta()))
    first = await failures.episode(await failures.fail("1", placing=at_once))
    second = await failures.episode(await failures.fail("2", placing=at_once))
    view = await repository.episodes.view(second)
    assert view.previous is not None
    assert view.previous.id == first != second


async def test_while_muted_it_joins_the_old_episode_whatever_its_age(
    repository: Repository, failures: Failures
) -> None:
    at_once = Placing(("C1",), folding=Folding(window=timedelta()))
    first = await failures.episode(await failures.fail("1", placing=at_once))
    await repository.actions.mute(click(first), timedelta(hours=1))
    assert await failures.episode(await failures.fail("2", placing=at_once)) == first
    await repository.actions.unmute(click(first, "2"))
    assert await failures.episode(await failures.fail("3", placing=at_once)) != first


async def test_what_happened_while_muted_is_no_news_when_the_mute_ends(
    repository: Repository, failures: Failures
) -> None:
    await repository.actions.mute(click(await failures.episode(await failures.fail("1"))), timedelta(hours=1))
    bobs = await failures.episode(await failures.fail("2", user="bob"))
    await repository.actions.unmute(click(bobs, "2"))
    view = await repository.episodes.view(bobs)
    assert (set(view.mutes), set(view.unwanted)) == (set(), {"C1"})
    assert await failures.episode(await failures.fail("3", user="bob")) == bobs
    assert (await repository.episodes.view(bobs)).unwanted == {}, "it happened again"


async def storm(
    failures: Failures, jobs: int, cause: str = "stale-file-handle", reach: Reach = Reach.SITE
) -> list[str]:
    """Let jobs of different people fail of one cause, each in words of its own; return their incidents."""
    return [
        await failures.fail(str(number), user=f"user{number}", fingerprint=f"f{number}", cause=cause, reach=reach)
        for number in range(jobs)
    ]


async def test_many_jobs_with_one_cause_become_one_storm(repository: Repository, failures: Failures) -> None:
    calm = await storm(failures, 4)
    assert len({await failures.episode(incident) for incident in calm}) == 4
    old = [await failures.episode(incident) for incident in calm]
    incidents = [
        *calm,
        await failures.fail("99", user="zoe", fingerprint="f99", cause="stale-file-handle", reach=Reach.SITE),
    ]
    assert {await failures.episode(incident) for incident in incidents} == {old[0]}
    view = await repository.episodes.view(old[0])
    assert (view.member_count, view.episode.merged_id) == (5, None)
    assert [(await repository.episodes.view(each)).episode.merged_id for each in old[1:]] == [old[0]] * 3


async def test_later_failures_join_the_storm_and_clicks_on_its_parts_reach_it(
    repository: Repository, failures: Failures
) -> None:
    parts = [await failures.episode(incident) for incident in await storm(failures, 4)]
    await storm(failures, 6)
    late = await failures.fail("100", user="yan", fingerprint="f3", cause="stale-file-handle", reach=Reach.SITE)
    assert await failures.episode(late) == parts[0]
    outcome = await repository.actions.acknowledge(click(parts[3]))
    assert (outcome.episode.id, outcome.episode.acknowledged_by) == (parts[0], ALICE)


async def test_mistakes_of_many_people_are_no_storm(failures: Failures) -> None:
    incidents = await storm(failures, 8, cause="data-error", reach=Reach.OWNER)
    assert len({await failures.episode(incident) for incident in incidents}) == 8


async def test_an_attempt_that_went_well_is_told(repository: Repository, failures: Failures) -> None:
    episode = await failures.episode(await failures.fail(attempt=0))
    await failures.fail(attempt=1, outcome="not-a-failure", cause="none", fingerprint="")
    assert (await repository.episodes.view(episode)).episode.recovered_by == "attempt 2"
    await failures.fail(attempt=2, fingerprint="f2")
    view = await repository.episodes.view(episode)
    assert (view.episode.recovered_by, view.lead.incident.attempt) == (None, 2)


async def test_a_failure_that_was_none_after_all_lets_another_lead(repository: Repository, failures: Failures) -> None:
    first = await failures.fail("48213_1")
    second = await failures.fail("48213_2", fingerprint="f2", cause="gpu-oom")
    await failures.fail("48213_1", outcome="not-a-failure", cause="none", fingerprint="")
    view = await repository.episodes.view(await failures.episode(second))
    assert (view.lead.incident.id, view.episode.cause) == (second, "gpu-oom")
    assert [member.id for member in view.members] == [second]
    assert await failures.episode(first) == view.episode.id


async def test_a_channel_counts_only_what_it_was_told(repository: Repository, failures: Failures) -> None:
    secret = Placing(("G0SECRET",), Reach.SITE)
    for number in range(3):
        await failures.fail(str(number), hosts=("gpu-secret",), placing=secret)
    episode = await failures.episode(await failures.fail("9", hosts=("gpu-n17",)))
    seen = (await repository.episodes.view(episode)).seen
    assert (set(seen), seen["C1"].count, seen["C1"].nodes, seen["C1"].last_before) == ({"C1"}, 1, ("gpu-n17",), None)


async def held(repository: Repository, episode_id: str) -> dict[str, str]:
    return (await repository.episodes.view(episode_id)).episode.holds


async def test_so_many_failures_alike_are_told_at_once_though_each_alone_would_wait(
    repository: Repository, failures: Failures
) -> None:
    morning = {"C1": utc_now() + timedelta(hours=9)}
    quiet = Placing(("C1",), Reach.SITE, morning, urgent_from=3)
    first = await failures.episode(await failures.fail("1", placing=quiet))
    await failures.fail("2", placing=quiet)
    assert await held(repository, first)
    await failures.fail("3", placing=quiet)
    assert not await held(repository, first)


async def test_a_failure_that_need_not_wait_lets_its_episode_be_told(
    repository: Repository, failures: Failures
) -> None:
    morning = {"C1": utc_now() + timedelta(hours=9)}
    first = await failures.episode(await failures.fail("1", placing=Placing(("C1",), holds=morning)))
    await failures.fail("2", placing=Placing(("C1",), holds=morning))
    assert await held(repository, first)
    await failures.fail("3", placing=Placing(("C1",)))
    assert not await held(repository, first)


async def test_what_turns_out_to_be_another_failure_is_told_by_itself(
    repository: Repository, failures: Failures
) -> None:
    first = await failures.episode(await failures.fail("1"))
    other = await failures.fail("2")
    assert await failures.episode(other) == first
    await failures.fail("2", fingerprint="f2", cause="gpu-lost", hosts=("gpu-n17",), reach=Reach.NODE)
    alone = await failures.episode(other)
    assert alone != first
    assert (await repository.episodes.view(alone)).episode.cause == "gpu-lost"
    assert (await repository.episodes.view(first)).member_count == 1


async def test_a_task_of_an_array_stays_with_the_others_whatever_it_died_of(failures: Failures) -> None:
    first = await failures.episode(await failures.fail("48213_1"))
    task = await failures.fail("48213_2")
    await failures.fail("48213_2", fingerprint="f2", cause="gpu-lost")
    assert await failures.episode(task) == first
