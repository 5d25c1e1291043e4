"""The manifests ask for what the code uses, and docs and doctor explain all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.app import EVENTS_PATH
from bot.slack.commands import COMMAND
from bot.slack.scopes import APP_SCOPE, EVENTS, METHODS, SCOPES, SHORTCUT

ROOT = Path(__file__).parents[2]
TRANSPORTS = ["socket", "http"]
ANOTHER_WORD = {"files.uploadV2": "files_upload_v2"}  # where slack_sdk's method is not the API's with underscores


def manifest(transport: str) -> dict[str, Any]:
    """Read a manifest as it is shipped."""
    text = resources.files("bot.slack").joinpath(f"manifest-{transport}.yaml").read_text(encoding="utf-8")
    parsed: dict[str, Any] = yaml.safe_load(text)
    return parsed


def sources() -> Iterator[tuple[Path, str]]:
    for path in (ROOT / "bot").rglob("*.py"):
        yield path, path.read_text(encoding="utf-8")


def sdk_names() -> dict[str, str]:
    """The methods that slack_sdk offers, by their names in Python; each as Slack calls it, where we know it."""
    known = {ANOTHER_WORD.get(method, method.replace(".", "_")): method for method in METHODS}
    namespaces = ("api", "apps", "assistant", "auth", "chat", "conversations", "files", "reactions", "users", "views")
    offered = [name for name in dir(AsyncWebClient) if name.split("_")[0] in namespaces and "_" in name]
    return {name: known.get(name, "") for name in [*offered, *known]}


def addresses(value: Any) -> Iterator[str]:
    """Every http address in a manifest."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from addresses(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from addresses(inner)
    elif isinstance(value, str) and value.startswith("http"):
        yield value


def without_addresses(value: Any) -> Any:
    """A manifest with what the transport decides taken out."""
    if isinstance(value, dict):
        kept = {key: without_addresses(inner) for key, inner in value.items() if key not in {"url", "request_url"}}
        return {key: inner for key, inner in kept.items() if key != "socket_mode_enabled"}
    return [without_addresses(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_scopes_are_those_that_are_explained_in_their_order(transport: str) -> None:
    assert manifest(transport)["oauth_config"]["scopes"]["bot"] == [scope.name for scope in SCOPES]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_events_are_those_that_are_listened_to(transport: str) -> None:
    assert manifest(transport)["settings"]["event_subscriptions"]["bot_events"] == list(EVENTS)


def test_each_event_has_the_scope_it_needs() -> None:
    assert {scope for scope in EVENTS.values() if scope} <= {scope.name for scope in SCOPES}


def test_each_method_that_is_called_has_its_scopes() -> None:
    allowed = {scope.name for scope in SCOPES}
    names = sdk_names()
    for path, text in sources():
        for name in re.findall(r"\.(\w+)\(", text):
            if name in names:
                assert names[name], f"{path}: {name} is called, and bot/slack/scopes.py does not know its scopes"
                assert set(METHODS[names[name]]) <= allowed, f"{path}: {name} needs a scope that the manifest lacks"


def test_each_event_that_is_handled_is_subscribed_to() -> None:
    subscribed = {event.split(".")[0] for event in EVENTS}
    for path, text in sources():
        for event in re.findall(r"\.event\(\s*\"(\w+)\"", text):
            assert event in subscribed, f"{path} waits for {event}, which the manifest does not subscribe to"


def test_no_scope_is_asked_for_that_nothing_needs() -> None:
    by_events = {scope for scope in EVENTS.values() if scope}
    by_methods = {scope for scopes in METHODS.values() for scope in scopes}
    by_hand = {"commands", "assistant:write"}  # the command and the shortcut; the agent panel of the manifest
    assert {scope.name for scope in SCOPES} <= by_events | by_methods | by_hand


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_words_fit_slacks_limits(transport: str) -> None:
    parts = manifest(transport)
    shown, panel = parts["display_information"], parts["features"]["agent_view"]
    assert len(shown["name"]) <= 35
    assert len(shown["description"]) <= 140
    assert 174 <= len(shown["long_description"]) <= 4_000
    assert len(panel["agent_description"]) <= 300
    assert 1 <= len(panel["suggested_prompts"]) <= 4
    assert all(prompt.keys() == {"title", "message"} for prompt in panel["suggested_prompts"])


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_command_and_the_shortcut_are_the_ones_that_are_answered(transport: str) -> None:
    features = manifest(transport)["features"]
    (command,) = features["slash_commands"]
    (shortcut,) = features["shortcuts"]
    assert command["command"] == COMMAND
    assert len(command["description"]) <= 2_000
    assert (shortcut["type"], shortcut["callback_id"]) == ("message", SHORTCUT)
    assert len(shortcut["description"]) <= 150


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_people_can_write_to_the_app_and_see_its_home(transport: str) -> None:
    home = manifest(transport)["features"]["app_home"]
    assert home["home_tab_enabled"]
    assert home["messages_tab_enabled"]
    assert not home["messages_tab_read_only_enabled"]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_retired_assistant_is_not_asked_for(transport: str) -> None:
    assert "assistant_view" not in manifest(transport)["features"]


def test_socket_mode_needs_no_address() -> None:
    socket = manifest("socket")
    assert socket["settings"]["socket_mode_enabled"] is True
    assert list(addresses(socket)) == []


def test_http_mode_calls_the_events_path_for_commands_clicks_and_events() -> None:
    http = manifest("http")
    assert http["settings"]["socket_mode_enabled"] is False
    found = list(addresses(http))
    assert len(found) == 3
    assert all(address.startswith("https://") and address.endswith(EVENTS_PATH) for address in found)


def test_the_two_differ_in_nothing_but_the_transport() -> None:
    assert without_addresses(manifest("socket")) == without_addresses(manifest("http"))


def test_the_documentation_explains_each_scope_and_event() -> None:
    text = (ROOT / "docs" / "slack.md").read_text(encoding="utf-8")
    rows = {row[0]: row for row in re.findall(r"^\| `([a-z:._]+)` \|([^|]+)\|([^|]+)\|$", text, re.MULTILINE)}
    for scope in SCOPES:
        _, why, without = rows[scope.name]
        assert why.strip() == scope.why
        assert without.strip() == scope.without + (" (required)" if scope.required else "")
    assert APP_SCOPE in rows
    assert all(f"`{event}`" in text for event in EVENTS)
