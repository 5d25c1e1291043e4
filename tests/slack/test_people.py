"""A scheduler's user to a person in Slack: by the table, by e-mail, or not at all."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from structlog.testing import capture_logs

from bot.slack import people as module
from bot.slack.api import web_client
from bot.slack.people import People
from tests.slack.fake import FakeSlack
from tests.slack.workspace import BOT_TOKEN


class Clock:
    """A clock under the test's control, in seconds."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def people(
    slack: FakeSlack, clock: Clock, table: Mapping[str, str] | None = None, domain: str | None = "example.test"
) -> People:
    return People(web_client(BOT_TOKEN, slack.base_url), table or {}, domain, clock)


async def test_the_table_names_a_person_and_slack_is_not_asked(slack: FakeSlack, clock: Clock) -> None:
    assert await people(slack, clock, {"svc-train": "U0BOB"}).slack_id("svc-train") == "U0BOB"
    assert slack.calls == []


async def test_the_table_may_name_an_address(slack: FakeSlack, clock: Clock) -> None:
    known = people(slack, clock, {"svc-train": "Bob@Example.test"}, domain=None)
    assert await known.slack_id("svc-train") == "U0BOB"


async def test_else_the_user_s_address_is_looked_up_once(slack: FakeSlack, clock: Clock) -> None:
    known = people(slack, clock)
    assert [await known.slack_id("alice") for _ in range(50)] == ["U0ALICE"] * 50
    assert [call.arguments["email"] for call in slack.called("users.lookupByEmail")] == ["alice@example.test"]


async def test_without_a_domain_nobody_is_guessed(slack: FakeSlack, clock: Clock) -> None:
    assert await people(slack, clock, domain=None).slack_id("alice") is None
    assert slack.calls == []


@pytest.mark.parametrize("user", [None, "", "alice@evil.test", "alice bob", "../alice", "a" * 65, "<@U0BOB>", "U0BOB"])
async def test_what_is_no_user_name_makes_no_address(slack: FakeSlack, clock: Clock, user: str | None) -> None:
    assert await people(slack, clock).slack_id(user) is None
    assert [call.arguments["email"] for call in slack.calls] in ([], ["u0bob@example.test"])


async def test_who_is_not_found_is_asked_for_again_after_an_hour(slack: FakeSlack, clock: Clock) -> None:
    known = people(slack, clock)
    assert await known.slack_id("carol") is None
    assert await known.slack_id("carol") is None
    assert len(slack.called("users.lookupByEmail")) == 1
    slack.workspace.users["U0CAROL"] = {
        "id": "U0CAROL", "name": "carol", "real_name": "Carol", "email": "carol@example.test"
    }  # fmt: skip
    clock.now += module.UNKNOWN_SECONDS + 1
    assert await known.slack_id("carol") == "U0CAROL"


async def test_who_was_found_is_asked_for_again_after_a_day(slack: FakeSlack, clock: Clock) -> None:
    known = people(slack, clock)
    await known.slack_id("alice")
    clock.now += module.KNOWN_SECONDS + 1
    await known.slack_id("alice")
    assert len(slack.called("users.lookupByEmail")) == 2


@pytest.mark.parametrize("scope", ["users:read.email"])
async def test_without_the_scope_nobody_is_mentioned_and_the_log_says_so_once(
    slack: FakeSlack, clock: Clock, scope: str
) -> None:
    slack.workspace.missing_scopes.add(scope)
    known = people(slack, clock)
    with capture_logs() as logs:
        assert await known.slack_id("alice") is None
        assert await known.slack_id("bob") is None
        clock.now += module.REFUSED_SECONDS + 1
        assert await known.slack_id("alice") is None
    assert len(logs) == 1
    assert scope in logs[0]["reason"]
    assert len(slack.called("users.lookupByEmail")) == 2


async def test_a_scope_that_was_added_is_noticed(slack: FakeSlack, clock: Clock) -> None:
    slack.workspace.missing_scopes.add("users:read.email")
    known = people(slack, clock)
    assert await known.slack_id("alice") is None
    slack.workspace.missing_scopes.clear()
    clock.now += module.REFUSED_SECONDS + 1
    assert await known.slack_id("alice") == "U0ALICE"


async def test_the_rate_limit_is_obeyed_for_everybody(slack: FakeSlack, clock: Clock) -> None:
    slack.fail("users.lookupByEmail", "429", seconds=30)
    known = people(slack, clock)
    assert await known.slack_id("alice") is None
    assert await known.slack_id("bob") is None
    assert len(slack.called("users.lookupByEmail")) == 1
    clock.now += 31
    assert await known.slack_id("alice") == "U0ALICE"


async def test_slack_being_away_costs_one_call_a_minute(clock: Clock) -> None:
    known = People(web_client(BOT_TOKEN, "http://127.0.0.1:9/api/"), {}, "example.test", clock)
    with capture_logs() as logs:
        assert await known.slack_id("alice") is None
        assert await known.slack_id("alice") is None
    assert len(logs) == 1


@pytest.mark.parametrize("flag", ["deleted", "is_bot"])
async def test_who_has_left_or_is_no_person_is_not_mentioned(
    slack: FakeSlack, clock: Clock, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = slack.workspace.user_by_email
    monkeypatch.setattr(
        slack.workspace, "user_by_email", lambda arguments: {"user": {**found(arguments)["user"], flag: True}}
    )
    assert await people(slack, clock).slack_id("alice") is None


async def test_only_so_many_people_are_remembered(
    slack: FakeSlack, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    known = people(slack, clock)
    for user in ("alice", "bob", "carol", "dave", "alice"):
        await known.slack_id(user)
    assert [call.arguments["email"].split("@")[0] for call in slack.calls] == ["alice", "bob", "carol", "dave", "alice"]


async def test_a_person_stands_for_users_of_the_table_and_the_own_address(slack: FakeSlack, clock: Clock) -> None:
    table = {"svc-train": "U0ALICE", "alice2": "alice@example.test", "bob": "U0ALICE"}
    assert await people(slack, clock, table).scheduler_users("U0ALICE") == ("svc-train", "alice2", "bob", "alice")


async def test_a_user_whom_the_table_gives_to_another_is_not_the_person_s_own(slack: FakeSlack, clock: Clock) -> None:
    assert await people(slack, clock, {"alice": "U0BOB"}).scheduler_users("U0ALICE") == ()
    assert await people(slack, clock, {"alice": "U0BOB"}).scheduler_users("U0BOB") == ("alice", "bob")


async def test_an_address_elsewhere_is_nobody_s_user(slack: FakeSlack, clock: Clock) -> None:
    assert await people(slack, clock, domain="other.test").scheduler_users("U0ALICE") == ()
    assert await people(slack, clock).scheduler_users("U0NOBODY") == ()
