"""Clicks that arrive twice, at once, late, on old messages, or while something is slow: none lost, none counted twice."""

from __future__ import annotations

import asyncio
import time

import pytest

from bot.slack.actions import GONE, NOT_OURS
from bot.slack.contract import SlackMessage
from storage.database import Database
from storage.tables import ActionKind, Episode
from tests.slack import scenes
from tests.slack.patience import until
from tests.slack.team import (
    Team,
    app,
    changes,
    database,
    episode_id,
    key,
    migrated,
    over_http,
    repository,
    team,
)
from tests.slack.workspace import CHANNEL

__all__ = ["app", "changes", "database", "episode_id", "key", "migrated", "over_http", "repository", "team"]


@pytest.mark.parametrize(
    ("deed", "value"),
    [("acknowledge", None), ("assign", "U0BOB"), ("mute", "8h"), ("rediagnose", None), ("right", None)],
)
async def test_a_click_that_slack_delivers_three_times_counts_once(team: Team, deed: str, value: str | None) -> None:
    await team.slack.click(team.ts, deed, value, retry=2)
    await team.stored()
    await asyncio.sleep(0.2)
    assert len(await team.actions()) == 1
    assert len(team.changes) == 1
    assert len(team.slack.responses) <= 1


async def test_a_submission_that_slack_delivers_twice_counts_once(team: Team) -> None:
    await team.slack.click(team.ts, "resolve", retry=1)  # the second trigger is spent, and no second modal opens
    (view,) = await until(lambda: team.slack.views.opened)
    await team.slack.submit(view, {"reason": "fixed"}, retry=1)
    await team.stored()
    await team.slack.click(team.ts, "wrong", retry=1)
    await until(lambda: len(team.slack.views.opened) == 2)
    await team.slack.submit(team.slack.views.opened[1], {"cause": "nic-fault"}, retry=1)
    kinds = [action.kind for action in await team.stored(2)]
    assert kinds == [ActionKind.RESOLVE, ActionKind.WRONG]
    await until(lambda: len(team.slack.called("views.open")) == 4 and team.slack.workspace.ephemerals)
    assert len(team.slack.views.opened) == 2
    assert len(team.slack.workspace.ephemerals) == 1
    assert team.slack.responses == []


async def test_of_two_people_the_slower_one_hears_who_was_faster(team: Team) -> None:
    await asyncio.gather(
        team.slack.click(team.ts, "acknowledge", user="U0ALICE"), team.slack.click(team.ts, "acknowledge", user="U0BOB")
    )
    (action,) = await team.stored()
    (answer,) = await until(lambda: team.slack.responses)
    assert answer["text"] == f"<@{action.user}> acknowledged it already."
    assert len(team.changes) == 1


async def test_a_button_of_an_older_message_still_works(team: Team) -> None:
    seen_before = dict(team.message)
    await team.slack.click(team.ts, "acknowledge", user="U0BOB")
    await team.stored()
    await team.tell()
    await team.slack.click(team.ts, "acknowledge", message=seen_before)
    assert (await until(lambda: team.slack.responses))[0]["text"] == "<@U0BOB> acknowledged it already."
    await team.slack.click(team.ts, "right", message=seen_before)
    assert len(await team.stored(2)) == 2


async def test_an_incident_that_is_gone_says_so(team: Team, database: Database) -> None:
    async with database.writing() as session:
        await session.delete(await session.get_one(Episode, team.episode_id))
    await team.slack.click(team.ts, "acknowledge")
    assert (await until(lambda: team.slack.responses))[0]["text"] == GONE


async def test_a_button_that_is_not_ours_changes_nothing(team: Team) -> None:
    shown = {"type": "button", "action_id": "acknowledge", "text": {"type": "plain_text", "text": "x"}}
    foreign = {**team.message, "blocks": [{"type": "actions", "block_id": "other", "elements": [shown]}]}
    await team.slack.click(team.ts, "acknowledge", message={**foreign, "attachments": []})
    assert (await until(lambda: team.slack.responses))[0]["text"] == NOT_OURS
    assert await team.actions() == []


async def test_an_answer_stays_in_the_thread_of_the_click(team: Team) -> None:
    reply = await team.poster.post(
        CHANNEL, SlackMessage(team.message["text"], team.message["blocks"], ""), "r", team.ts
    )
    buttons = team.message["attachments"][0]["blocks"][-1:]
    stored = team.slack.workspace.thread(team.ts)[-1] | {"blocks": buttons}
    await team.slack.click(reply.ts, "right", message=stored)
    assert (await until(lambda: team.slack.responses))[0]["thread_ts"] == team.ts
    await team.slack.click(reply.ts, "wrong", message=stored)
    (view,) = await until(lambda: team.slack.views.opened)
    await team.slack.submit(view, {"note": "no"})
    assert (await until(lambda: team.slack.workspace.ephemerals))[0]["thread_ts"] == team.ts


async def test_a_person_who_left_the_channel_is_not_answered_and_nothing_breaks(team: Team) -> None:
    await team.slack.click(team.ts, "wrong")
    (view,) = await until(lambda: team.slack.views.opened)
    team.slack.workspace.channels[CHANNEL].people.clear()
    await team.slack.submit(view, {"note": "no"})
    await team.stored()
    await until(lambda: team.slack.called("chat.postEphemeral"))


async def test_a_busy_database_keeps_nobody_from_clicking(team: Team, database: Database) -> None:
    """Acknowledged at once, and a modal open, while nothing can be stored; stored as soon as it can."""
    async with database.writing() as session:
        await session.get_one(Episode, team.episode_id, with_for_update=True)
        await team.slack.click(team.ts, "acknowledge")
        await team.slack.click(team.ts, "resolve")
        await until(lambda: team.slack.views.opened)
        await team.slack.submit(team.slack.views.opened[-1], {"reason": "fixed"})
    await team.stored(2)


async def test_acknowledgements_come_in_time_under_a_loaded_event_loop(team: Team) -> None:
    async def load() -> None:
        while True:
            time.sleep(0.02)  # noqa: ASYNC251  work that does not give way
            await asyncio.sleep(0)

    busy = [asyncio.create_task(load()) for _ in range(2)]
    try:
        clicks = [
            team.slack.click(team.ts, deed) for deed in ("acknowledge", "right", "rediagnose", "resolve", "wrong")
        ]
        await asyncio.gather(*clicks)
        await until(lambda: len(team.slack.views.opened) == 2, seconds=30)
    finally:
        for task in busy:
            task.cancel()
    assert team.slack.slowest < 3
    await team.stored(3)


async def test_over_http_it_is_the_same(over_http: Team) -> None:
    await over_http.slack.click(over_http.ts, "acknowledge", retry=1)
    await over_http.slack.click(over_http.ts, "resolve")
    (view,) = await until(lambda: over_http.slack.views.opened)
    assert (await over_http.slack.submit(view, {"reason": "other"}))["errors"]
    await over_http.slack.submit(view, {"reason": "fixed"})
    kinds = [action.kind for action in await over_http.stored(2)]
    assert kinds == [ActionKind.ACKNOWLEDGE, ActionKind.RESOLVE]


@pytest.mark.parametrize(
    ("deed", "value", "words"),
    [
        ("assign", "U0BOB", "<@U0BOB> has it already."),
        ("unmute", None, "not muted in this channel any more"),
        ("reopen", None, "It is open already."),
    ],
)
async def test_what_is_so_already_is_said(team: Team, deed: str, value: str | None, words: str) -> None:
    await team.slack.click(team.ts, "assign", "U0BOB")
    await team.stored()
    older = {"assign": scenes.lost_gpu(), "unmute": scenes.muted(), "reopen": scenes.resolved()}[deed]
    row = {**older.blocks[-1], "block_id": team.message["attachments"][0]["blocks"][-1]["block_id"]}
    await team.slack.click(team.ts, deed, value, message={**team.message, "attachments": [{"blocks": [row]}]})
    assert words in (await until(lambda: team.slack.responses))[0]["text"]
    assert len(await team.actions()) == 1


async def test_slack_being_slow_or_strict_loses_no_click(team: Team) -> None:
    team.slack.fail("views.open", "429")
    await team.slack.click(team.ts, "resolve")
    assert "click again" in (await until(lambda: team.slack.responses))[0]["text"]
    team.slack.fail("chat.postEphemeral", "error-before")
    await team.slack.click(team.ts, "wrong")
    (view,) = await until(lambda: team.slack.views.opened)
    await team.slack.submit(view, {"note": "no"})
    await team.stored()


async def test_a_trigger_that_ran_out_is_owned_up_to(team: Team) -> None:
    team.slack.views.trigger_seconds = -1
    await team.slack.click(team.ts, "resolve")
    assert "click again" in (await until(lambda: team.slack.responses))[0]["text"]
    assert team.slack.views.opened == []
