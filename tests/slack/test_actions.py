"""What people do with an incident: stored with who and when, shown to everybody, answered where it was asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.slack import modals
from bot.telling.drafts import drafts
from bot.telling.status import Surroundings
from knowledge.causes import load_causes
from storage.tables import ActionKind, EpisodeState, Mute
from storage.types import utc_now
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


async def test_acknowledge_is_stored_with_who_and_shown_to_all(team: Team) -> None:
    await team.slack.click(team.ts, "acknowledge", user="U0BOB")
    (action,) = await team.stored()
    assert (action.kind, action.user, action.user_name) == (ActionKind.ACKNOWLEDGE, "U0BOB", "bob")
    assert len(team.changes) == 1
    await team.tell()
    assert "acknowledge" not in team.offered()
    assert "Acknowledged by <@U0BOB>" in team.message["text"]
    assert team.slack.responses == []  # the message says it all
    timeline = team.slack.workspace.thread(team.ts)[-1]
    assert "bob acknowledged it" in timeline["text"]


async def test_assign_gives_it_to_a_person(team: Team) -> None:
    await team.slack.click(team.ts, "assign", "U0ALICE", user="U0BOB")
    await team.stored()
    assert (await team.episode()).assignee == "U0ALICE"
    await team.tell()
    assert "Assigned to <@U0ALICE>" in team.message["text"]


@pytest.mark.parametrize(("choice", "hours"), [("1h", 1), ("8h", 8), ("7d", 168)])
async def test_mute_says_alone_until_when(team: Team, choice: str, hours: int) -> None:
    await team.slack.click(team.ts, "mute", choice)
    await team.stored()
    view = await team.repository.episodes.view(team.episode_id)
    left = view.mutes[CHANNEL].until - utc_now()
    assert timedelta(hours=hours) - timedelta(minutes=1) < left <= timedelta(hours=hours)
    (answer,) = await until(lambda: team.slack.responses)
    assert answer["response_type"] == "ephemeral"
    assert answer["replace_original"] is False
    assert "Muted in this channel until <!date^" in answer["text"]
    await team.tell()
    assert "unmute" in team.offered()
    await team.slack.click(team.ts, "unmute")
    await team.stored(2)
    await team.tell()
    assert "mute" in team.offered()


async def test_what_happened_while_muted_begins_no_message_later(team: Team) -> None:
    view = await team.repository.episodes.view(team.episode_id)
    mute = Mute(fingerprint=view.episode.fingerprint, channel=CHANNEL, user="U0BOB", until=utc_now())
    around = Surroundings(team.poster.link, None)
    assert not all(draft.only_edit for draft in drafts(view, around))
    assert all(draft.only_edit for draft in drafts(replace(view, unwanted={CHANNEL: mute}), around))


async def test_rediagnose_has_the_incident_claimed_again(team: Team) -> None:
    await team.slack.click(team.ts, "rediagnose")
    await team.stored()
    claimed = await team.repository.diagnoses.claim(timedelta(seconds=60))
    assert claimed is not None
    assert claimed.incident.episode_id == team.episode_id
    assert "diagnosed again" in (await until(lambda: team.slack.responses))[0]["text"]


async def test_thumbs_up_is_kept(team: Team) -> None:
    await team.slack.click(team.ts, "right")
    (action,) = await team.stored()
    assert action.kind == ActionKind.RIGHT
    assert "Thank you" in (await until(lambda: team.slack.responses))[0]["text"]


async def test_resolve_asks_how_and_tells_all(team: Team) -> None:
    await team.slack.click(team.ts, "resolve", user="U0BOB")
    (view,) = await until(lambda: team.slack.views.opened)
    answer = await team.slack.submit(view, {"reason": "node-drained", "note": "ticket <4711>\x00"}, user="U0BOB")
    assert "response_action" not in answer
    (action,) = await team.stored()
    assert (action.kind, action.detail) == (
        ActionKind.RESOLVE,
        {"resolution": "node-drained", "note": "ticket <4711>"},
    )
    await team.tell()
    assert "Resolved by <@U0BOB>" in team.message["text"]
    assert "node drained, “ticket &lt;4711&gt;”" in team.message["text"]
    assert team.offered()[0] == "reopen"
    await team.slack.click(team.ts, "reopen")
    await team.stored(2)
    assert (await team.episode()).state == EpisodeState.OPEN


async def test_other_needs_a_word(team: Team) -> None:
    await team.slack.click(team.ts, "resolve")
    (view,) = await until(lambda: team.slack.views.opened)
    answer = await team.slack.submit(view, {"reason": "other", "note": " \n"})
    assert answer["errors"] == {"note": "Say in a few words what it was."}
    assert await team.actions() == []
    await team.slack.submit(view, {"reason": "other", "note": "the power was cut"})
    (action,) = await team.stored()
    assert action.detail["note"] == "the power was cut"


async def test_thumbs_down_asks_what_would_be_right(team: Team) -> None:
    await team.slack.click(team.ts, "wrong")
    (view,) = await until(lambda: team.slack.views.opened)
    await team.slack.submit(view, {"cause": "nic-fault", "ranks": "ranks 3, 8 - 10", "note": "switch log"})
    (action,) = await team.stored()
    assert action.kind == ActionKind.WRONG
    assert action.detail == {"cause": "nic-fault", "ranks": [3, 8, 9, 10], "note": "switch log"}
    (answer,) = await until(lambda: team.slack.workspace.ephemerals)
    assert (answer["user"], answer["channel"]) == ("U0ALICE", CHANNEL)
    assert "Noted" in answer["text"]


@pytest.mark.parametrize(
    ("given", "block", "words"),
    [
        ({}, "note", "at least one thing"),
        ({"ranks": "the third"}, "ranks", "such as 3, 8-15"),
        ({"ranks": "9-3"}, "ranks", "9-3 is no range"),
        ({"ranks": "0-99999"}, "ranks", "no range of at most 4,096"),
        ({"ranks": ", ".join(f"{n}000-{n}999" for n in range(1, 7))}, "ranks", "At most 4,096"),
    ],
)
async def test_what_cannot_be_read_is_sent_back_with_words(
    team: Team, given: dict[str, str | None], block: str, words: str
) -> None:
    await team.slack.click(team.ts, "wrong")
    (view,) = await until(lambda: team.slack.views.opened)
    answer = await team.slack.submit(view, given)
    assert list(answer["errors"]) == [block]
    assert words in answer["errors"][block]
    assert await team.actions() == []


def test_every_cause_can_be_chosen() -> None:
    (cause,) = (block for block in modals.correction("e", "C", None)["blocks"] if block["block_id"] == modals.CAUSE)
    offered = {option["value"] for group in cause["element"]["option_groups"] for option in group["options"]}
    assert offered == set(load_causes())
