"""What the doctor says of Slack, against a strict fake."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.doctor.finding import Finding, Level
from bot.doctor.slack import examine_slack
from bot.settings import Settings
from bot.slack.scopes import SCOPES
from tests.slack.fake import FakeSlack
from tests.slack.workspace import APP_TOKEN, BOT_TOKEN, CHANNEL

Make = Callable[..., Settings]


@pytest.fixture
def settings(slack: FakeSlack) -> Make:
    """Settings for the fake; the table `[slack]` by keywords, routes as they stand in the file."""

    def make(*channels: str, **more: Any) -> Settings:
        table = {"channel": CHANNEL, "bot_token": BOT_TOKEN, "app_token": APP_TOKEN, "api_url": slack.base_url, **more}
        return Settings.model_validate({"slack": table, "routes": [{"channels": channels}] if channels else []})

    return make


async def examined(settings: Settings, **more: Any) -> dict[str, Finding]:
    findings = await examine_slack(settings, **more)
    assert len({finding.check for finding in findings}) == len(findings)
    assert all(finding.remedy for finding in findings if finding.level is not Level.OK)
    return {finding.check: finding for finding in findings}


async def test_a_workspace_in_order_has_nothing_to_say_against(slack: FakeSlack, settings: Make) -> None:
    found = await examined(settings())
    assert {finding.level for finding in found.values()} == {Level.OK}
    assert found.keys() == {"slack token", "scopes", "clock", "app token", f"channel {CHANNEL}", "events"}


async def test_it_changes_nothing(slack: FakeSlack, settings: Make) -> None:
    await examined(settings("C0ELSEWHERE"))
    assert {call.method for call in slack.calls} == {"auth.test", "apps.connections.open", "conversations.info"}
    assert slack.sockets == []
    assert slack.workspace.messages() == []


@pytest.mark.parametrize(
    ("more", "check", "remedy"),
    [
        ({"bot_token": "xoxb-wrong"}, "slack token", "slack.bot_token"),
        ({"bot_token": APP_TOKEN}, "slack token", "bot token (xoxb-…) here"),
        ({"app_token": "xapp-wrong"}, "app token", "connections:write"),
        ({"app_token": BOT_TOKEN}, "app token", "connections:write"),
    ],
)
async def test_a_wrong_token_fails_with_its_remedy(
    settings: Make, more: dict[str, str], check: str, remedy: str
) -> None:
    finding = (await examined(settings(**more)))[check]
    assert finding.level is Level.FAIL
    assert remedy in finding.remedy
    assert "wrong" not in finding.detail + finding.remedy  # no token is repeated


@pytest.mark.parametrize("scope", [scope for scope in SCOPES if scope.name != "channels:read"], ids=lambda it: it.name)
async def test_a_missing_scope_says_what_does_not_work(slack: FakeSlack, settings: Make, scope: Any) -> None:
    slack.workspace.missing_scopes.add(scope.name)
    found = await examined(settings())
    finding = found[f"scope {scope.name}"]
    assert finding.level is (Level.FAIL if scope.required else Level.WARN)
    assert scope.without in finding.detail
    assert "scopes" not in found


async def test_channels_cannot_be_looked_at_without_their_scope_and_that_is_no_fault(
    slack: FakeSlack, settings: Make
) -> None:
    slack.workspace.missing_scopes.add("channels:read")
    finding = (await examined(settings()))[f"channel {CHANNEL}"]
    assert finding.level is Level.WARN


@pytest.mark.parametrize(
    ("channel", "detail", "remedy"),
    [
        ("C0ELSEWHERE", "not in #elsewhere", "/invite"),
        ("G0SECRET", "private", "/invite"),
        ("C0OLD", "archived", "another channel"),
        ("C0NOWHERE", "no such channel", "check the id"),
    ],
)
async def test_every_channel_of_the_settings_is_looked_at(
    settings: Make, channel: str, detail: str, remedy: str
) -> None:
    found = await examined(settings(channel))
    assert found[f"channel {CHANNEL}"].level is Level.OK
    assert found[f"channel {channel}"].level is Level.FAIL
    assert detail in found[f"channel {channel}"].detail
    assert remedy in found[f"channel {channel}"].remedy


async def test_a_limited_rate_ends_the_look_at_channels(slack: FakeSlack, settings: Make) -> None:
    slack.fail("conversations.info", "429", seconds=7)
    found = await examined(settings("C0ELSEWHERE", "C0OLD"))
    assert "7 s" in found[f"channel {CHANNEL}"].remedy
    assert len(slack.called("conversations.info")) == 1


@pytest.mark.parametrize(
    ("ahead", "mode", "level"),
    [
        (timedelta(seconds=5), "socket", Level.OK),
        (timedelta(minutes=2), "socket", Level.WARN),
        (-timedelta(minutes=2), "http", Level.WARN),
        (timedelta(minutes=10), "socket", Level.WARN),
        (-timedelta(minutes=10), "http", Level.FAIL),
    ],
)
async def test_the_clock_is_held_against_slacks(settings: Make, ahead: timedelta, mode: str, level: Level) -> None:
    more = {"mode": mode, "signing_secret": "secret"}
    found = await examined(settings(**more), now=lambda: datetime.now(UTC) + ahead)
    assert found["clock"].level is level
    if level is not Level.OK:
        assert ("ahead of" if ahead > timedelta(0) else "behind") in found["clock"].detail


async def test_events_that_cannot_arrive_are_named(slack: FakeSlack, settings: Make) -> None:
    slack.workspace.missing_scopes.add("groups:history")
    finding = (await examined(settings()))["events"]
    assert finding.level is Level.WARN
    assert finding.detail.startswith("message.groups")


async def test_http_needs_no_app_token(slack: FakeSlack, settings: Make) -> None:
    assert "app token" not in await examined(settings(mode="http", signing_secret="secret"))
    assert slack.called("apps.connections.open") == []


async def test_slack_being_away_is_one_finding(settings: Make) -> None:
    found = await examined(settings(api_url="http://127.0.0.1:9/api/"))
    assert found.keys() == {"slack token"}
    assert found["slack token"].level is Level.FAIL
    assert "https" in found["slack token"].remedy


async def test_the_console_needs_no_slack(slack: FakeSlack, settings: Make) -> None:
    found = await examined(settings(mode="console"))
    assert found["slack"].level is Level.OK
    assert slack.calls == []


async def test_names_of_channels_are_only_text(slack: FakeSlack, settings: Make) -> None:
    slack.workspace.channels[CHANNEL].name = "evil\x1b[31m\nname"
    assert "\x1b" not in (await examined(settings()))[f"channel {CHANNEL}"].detail
