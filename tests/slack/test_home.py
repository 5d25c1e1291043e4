"""The Home tab: what is mine, and what my own channels were told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from bot.slack.app import build_app
from bot.slack.commands import Commands
from bot.slack.connection import SocketConnection
from bot.slack.contract import Posted
from bot.slack.home import MAX_MINE, REFRESH, Home, register
from bot.slack.people import People
from bot.slack.poster import web_client
from storage.actions import Actions, Click
from storage.database import Database
from storage.history import Histories
from tests.digest import week
from tests.digest.week import CHANNEL, ELSEWHERE
from tests.slack import blockkit
from tests.slack.fake import FakeSlack
from tests.slack.patience import until
from tests.slack.told_week import database, told
from tests.slack.workspace import APP_TOKEN, BOT_TOKEN

__all__ = ["database", "told"]


@pytest.fixture
async def home(slack: FakeSlack, database: Database) -> AsyncIterator[Home]:
    """The tab of the running app; alice of the cluster is U0ALICE, bob is U0BOB."""
    for channel in slack.workspace.channels.values():
        channel.people.clear()
    carol = {"id": "U0CAROL", "name": "carol", "real_name": "Carol Example", "email": "carol@example.test"}
    slack.workspace.users["U0CAROL"] = carol
    client = web_client(BOT_TOKEN, slack.base_url)
    people = People(client, {"alice": "U0ALICE", "bob": "U0BOB"})
    shown = Home(client, Histories(database), people.scheduler_users, link, pause_seconds=0)
    app = build_app(client, Commands())
    register(app, shown)
    connection = SocketConnection(app, APP_TOKEN)
    await connection.start()
    await until(lambda: slack.sockets)
    yield shown
    await connection.stop()


def link(posted: Posted) -> str:
    return f"https://example.test/{posted.channel}/{posted.ts}"


async def opened(slack: FakeSlack, user: str = "U0ALICE") -> list[str]:
    """Open the tab and return its lines; it must be a view that Slack takes."""
    slack.views.homes.pop(user, None)
    await slack.open_home(user)
    view = await until(lambda: slack.views.homes.get(user))
    assert blockkit.view_problems({key: view[key] for key in ("type", "blocks")}) == []
    return lines(view)


def lines(view: dict[str, list[dict[str, object]]]) -> list[str]:
    texts = []
    for block in view["blocks"]:
        inner = block.get("text") or (block.get("elements") or [{}])[0]  # type: ignore[index]
        if isinstance(inner, dict) and block["type"] != "actions":
            texts.append(str(inner["text"]))
    return texts


async def test_my_failures_are_those_of_my_jobs(slack: FakeSlack, home: Home) -> None:
    shown = await opened(slack)
    assert shown[0] == "My failures"
    assert shown[1].startswith("*llama-70b* (1000): GPU fell off the bus (4 times)\nopen for ")
    assert "acknowledged by <@U0BOB> · owner alice · <https://example.test/C0TRAINFAIL/" in shown[1]
    assert shown[2:4] == ["Open in my channels", "Nothing else is open."]


async def test_what_is_assigned_to_me_is_mine(slack: FakeSlack, home: Home) -> None:
    shown = await opened(slack, "U0CAROL")
    assert shown[1].startswith("*eval* (5000): Disk full (3 times)\n")


async def test_members_of_a_channel_see_what_it_was_told(slack: FakeSlack, home: Home) -> None:
    slack.workspace.channels[CHANNEL].people = {"U0ALICE"}
    shown = await opened(slack)
    assert shown[3] == f"<#{CHANNEL}>"
    assert [each.split(":")[0] for each in shown[4:8]] == [
        "*vit-large* (2000)",
        "*whisper* (6000)",
        "*whisper* (7000)",
        "*eval* (5000)",
    ]


async def test_others_private_failures_are_not_shown(slack: FakeSlack, home: Home) -> None:
    slack.workspace.channels[CHANNEL].people = {"U0ALICE"}
    assert "vit-large* (16000)" not in json.dumps(await opened(slack))
    assert ELSEWHERE not in json.dumps(await opened(slack))
    # But bob's own job is his, wherever it was told.
    assert "*vit-large* (16000)" in json.dumps(await opened(slack, "U0BOB"))


async def test_without_the_scope_only_what_i_acted_on_is_shown(
    slack: FakeSlack, home: Home, database: Database
) -> None:
    slack.workspace.channels[CHANNEL].people = {"U0ALICE"}
    slack.workspace.missing_scopes.add("channels:read")
    assert (await opened(slack))[3] == "Nothing else is open."
    await Actions(database).acknowledge(Click("c1", "e-dark1", "U0ALICE", "alice", CHANNEL))
    shown = await opened(slack)
    assert shown[3] == "Where you have acted"
    assert shown[4].startswith("*whisper* (6000): ")


async def test_it_is_shown_anew_by_its_button_and_when_something_changed(
    slack: FakeSlack, home: Home, database: Database
) -> None:
    await opened(slack)
    await Actions(database).resolve(Click("c2", "e-gpu", "U0BOB", "bob", CHANNEL), "fixed")
    await slack.click_home(REFRESH)
    await until(lambda: "None of yours is open." in lines(slack.views.homes["U0ALICE"]))
    await Actions(database).reopen(Click("c3", "e-gpu", "U0BOB", "bob", CHANNEL))
    await home.changed()
    assert lines(slack.views.homes["U0ALICE"])[1].startswith("*llama-70b*")


async def test_a_storm_of_changes_is_shown_a_few_times_at_most(slack: FakeSlack, home: Home) -> None:
    await opened(slack)
    before = len(slack.called("views.publish"))
    await asyncio.gather(*(home.changed() for _ in range(50)))
    assert len(slack.called("views.publish")) - before == 2  # what came during the first showing needs a second


async def test_other_tabs_are_not_published(slack: FakeSlack, home: Home) -> None:
    await slack.open_home("U0ALICE", tab="messages")
    await slack.open_home("U0BOB")
    await until(lambda: slack.views.homes.get("U0BOB"))
    assert "U0ALICE" not in slack.views.homes


async def test_hundreds_of_failures_fit(slack: FakeSlack, home: Home, database: Database) -> None:
    slack.workspace.channels[CHANNEL].people = {"U0ALICE"}
    async with database.writing() as session:
        for number in range(150):
            kind = week.GPU if number % 2 else week.OOM
            told = week.Told(f"e-many{number}", kind, [week.at(20, 1)])
            await week.tell(session, 1, told, first_job=100_000 + number)
    shown = await opened(slack)
    assert sum(each.startswith("*llama-70b*") for each in shown) == MAX_MINE
    assert "… and 56 more." in shown
