"""Clicks: acknowledged within three seconds, stored once, answered where they were made, and shown to everybody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from slack_bolt.async_app import AsyncApp

from bot.slack import modals
from bot.slack.actions import GONE, NOT_OURS, register
from bot.slack.app import EVENTS_PATH, build_app, events_handler
from bot.slack.commands import Commands
from bot.slack.connection import SocketConnection
from bot.slack.contract import SlackMessage
from bot.slack.poster import SlackPoster, web_client
from bot.telling.drafts import drafts
from bot.telling.status import Surroundings
from knowledge.causes import load_causes
from storage.database import Database
from storage.diagnoses import Verdict
from storage.folding import Placing
from storage.incidents import Key, Pace, ReporterRole, Told
from storage.repository import Repository
from storage.tables import Action, ActionKind, Episode, EpisodeState
from storage.types import utc_now
from tests.slack import samples, scenes
from tests.slack.fake import FakeSlack
from tests.slack.patience import until
from tests.slack.workspace import APP_TOKEN, BOT_TOKEN, CHANNEL, SIGNING_SECRET
from tests.storage.conftest import database, key, migrated, repository

__all__ = ["database", "key", "migrated", "repository"]

NOW = Pace(first=timedelta(0), quiet=timedelta(0), patience=timedelta(0))


@dataclass
class Team:
    """An episode that is told in a channel, and the people who click there."""

    slack: FakeSlack
    repository: Repository
    poster: SlackPoster
    episode_id: str
    changes: list[float] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)  # ts by key

    @property
    def ts(self) -> str:
        """Where the episode's message stands."""
        return self.told[f"{self.episode_id}/{CHANNEL}"]

    @property
    def message(self) -> dict[str, Any]:
        """The episode's message as it stands in the channel."""
        return next(message for message in self.slack.workspace.messages() if message["ts"] == self.ts)

    async def tell(self) -> None:
        """Post or edit everything, as the herald and the outbox do together."""
        view = await self.repository.episodes.view(self.episode_id)
        for draft in drafts(view, Surroundings(None, self.poster.link, "U0ALICE")):
            if "blocks" not in draft.content:
                continue
            message = SlackMessage(**draft.content)
            if draft.key in self.told:
                await self.poster.update(CHANNEL, self.told[draft.key], message)
            else:
                thread = self.told[draft.parent_key] if draft.parent_key else None
                self.told[draft.key] = (await self.poster.post(CHANNEL, message, draft.key, thread)).ts

    async def actions(self) -> list[Action]:
        return await self.repository.actions.of(self.episode_id)

    async def stored(self, count: int = 1) -> list[Action]:
        """Wait until so many actions are stored."""

        async def enough() -> list[Action]:
            found = await self.actions()
            return found if len(found) >= count else []

        found: list[Action] = await until(enough)
        assert len(found) == count
        return found

    async def episode(self) -> Episode:
        return (await self.repository.episodes.view(self.episode_id)).episode

    def offered(self) -> list[str]:
        """What can be clicked now."""
        blocks = [*self.message["blocks"], *self.message["attachments"][0]["blocks"]]
        return [each["action_id"] for block in blocks if block["type"] == "actions" for each in block["elements"]]


@pytest.fixture
async def episode_id(repository: Repository, key: Key) -> str:
    """The lost GPU, diagnosed and placed."""
    job, diagnosis, _ = samples.gpu_lost()
    told = Told("gpu-n01", ReporterRole.NODE, job.model_dump(mode="json"))
    incident_id = await repository.incidents.open(key, told, NOW)
    revision = (await repository.incidents.view(incident_id)).incident.revision
    document = diagnosis.model_dump(mode="json", by_alias=True)
    verdict = Verdict("failed", diagnosis.cause.id, diagnosis.fingerprint, document, initiating=("gpu-n17",))
    await repository.diagnoses.store(incident_id, revision, verdict, Placing((CHANNEL,)), NOW)
    episode = (await repository.incidents.view(incident_id)).incident.episode_id
    assert episode is not None
    return episode


@pytest.fixture
def changes() -> list[float]:
    """When somebody was told that something changed."""
    return []


@pytest.fixture
def app(slack: FakeSlack, repository: Repository, changes: list[float]) -> AsyncApp:
    """The Bolt app with all buttons and modals."""
    app = build_app(web_client(BOT_TOKEN, slack.base_url), Commands(), SIGNING_SECRET)
    register(app, repository, lambda: changes.append(time.monotonic()))
    return app


@pytest.fixture
async def team(
    slack: FakeSlack, app: AsyncApp, repository: Repository, episode_id: str, changes: list[float]
) -> AsyncIterator[Team]:
    """The message stands in the channel and the app listens over Socket Mode."""
    socket = SocketConnection(app, APP_TOKEN)
    await socket.start()
    await until(lambda: slack.sockets)
    team = Team(slack, repository, SlackPoster(web_client(BOT_TOKEN, slack.base_url)), episode_id, changes)
    await team.tell()
    yield team
    await socket.stop()


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


@pytest.fixture
async def over_http(team: Team, app: AsyncApp) -> AsyncIterator[Team]:
    """The same, but Slack sends signed requests."""
    service = web.Application()
    service.router.add_post(EVENTS_PATH, events_handler(app, SIGNING_SECRET))
    runner = web.AppRunner(service)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    team.slack.http_address = f"http://127.0.0.1:{runner.addresses[0][1]}{EVENTS_PATH}"
    yield team
    await runner.cleanup()


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
