"""The manifests ask for what the code uses, and for nothing else."""

from __future__ import annotations

from importlib import resources
from typing import Any

import pytest
import yaml

from bot.slack.app import EVENTS_PATH
from bot.slack.commands import COMMAND


def manifest(transport: str) -> dict[str, Any]:
    """Read a manifest as it is shipped."""
    text = resources.files("bot.slack").joinpath(f"manifest-{transport}.yaml").read_text(encoding="utf-8")
    parsed: dict[str, Any] = yaml.safe_load(text)
    return parsed


@pytest.mark.parametrize("transport", ["socket", "http"])
def test_scopes_are_those_that_posting_finding_and_the_command_need(transport: str) -> None:
    assert set(manifest(transport)["oauth_config"]["scopes"]["bot"]) == {
        "chat:write",
        "commands",
        "channels:history",
        "groups:history",
    }


@pytest.mark.parametrize("transport", ["socket", "http"])
def test_the_words_fit_slacks_limits(transport: str) -> None:
    shown = manifest(transport)["display_information"]
    assert len(shown["name"]) <= 35
    assert len(shown["description"]) <= 140
    assert 174 <= len(shown["long_description"]) <= 4_000


@pytest.mark.parametrize("transport", ["socket", "http"])
def test_the_command_is_the_one_that_is_answered(transport: str) -> None:
    (command,) = manifest(transport)["features"]["slash_commands"]
    assert command["command"] == COMMAND


def test_socket_mode_needs_no_address() -> None:
    socket = manifest("socket")
    assert socket["settings"]["socket_mode_enabled"] is True
    assert "url" not in socket["features"]["slash_commands"][0]


def test_http_mode_calls_the_events_path() -> None:
    http = manifest("http")
    assert http["settings"]["socket_mode_enabled"] is False
    addresses = [http["features"]["slash_commands"][0]["url"], http["settings"]["interactivity"]["request_url"]]
    assert all(address.startswith("https://") and address.endswith(EVENTS_PATH) for address in addresses)
