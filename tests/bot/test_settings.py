"""A wrong setting names itself and stops the start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.settings import ClusterToken, SettingsInvalidError, SlackMode, load


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith("FIRSTFAULT_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIRSTFAULT_SLACK__MODE", "console")


def test_the_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text('[slack]\nmode = "http"\nchannel = "C0FILE"\n[listen]\nport = 1234\n')
    monkeypatch.setenv("FIRSTFAULT_CONFIG", str(file))
    monkeypatch.setenv("FIRSTFAULT_LISTEN__PORT", "4321")
    settings = load()
    assert (settings.slack.mode, settings.slack.channel) == (SlackMode.CONSOLE, "C0FILE")
    assert settings.listen.port == 4321


def test_a_file_of_the_usual_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "firstfault.toml").write_text('[clusters.alps]\ntoken = "0123456789abcdef"\n')
    assert load().clusters["alps"].read() == "0123456789abcdef"


def test_clusters_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_CLUSTERS__ALPS__TOKEN", "0123456789abcdef")
    assert load().clusters["alps"].read() == "0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("FIRSTFAULT_SLAK__MODE", "console", "unknown setting FIRSTFAULT_SLAK__MODE"),
        ("FIRSTFAULT_SLACK__MOOD", "good", r"slack.mood (FIRSTFAULT_SLACK__MOOD): is not a known setting"),
        ("FIRSTFAULT_SLACK__MODE", "telepathy", "slack.mode (FIRSTFAULT_SLACK__MODE): Input should be 'socket'"),
        ("FIRSTFAULT_SLACK__MODE", "socket", "slack.channel, slack.bot_token, slack.app_token must be set"),
        ("FIRSTFAULT_SLACK__MODE", "http", "slack.channel, slack.bot_token, slack.signing_secret must be set"),
        ("FIRSTFAULT_LISTEN__PORT", "many", "listen.port (FIRSTFAULT_LISTEN__PORT): Input should be a valid integer"),
        ("FIRSTFAULT_LIMITS__LOG_BYTES", "-1", "limits.log_bytes (FIRSTFAULT_LIMITS__LOG_BYTES): Input should be"),
        ("FIRSTFAULT_CLUSTERS", "{", "clusters"),
        ("FIRSTFAULT_CLUSTERS__ALPS__TOKEN_FILE", "", "clusters.alps"),
        ("FIRSTFAULT_CONFIG", "/nowhere.toml", "/nowhere.toml does not exist"),
    ],
)
def test_a_wrong_setting_names_itself(monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str) -> None:
    monkeypatch.setenv(name, value)
    if name.endswith("TOKEN_FILE"):
        monkeypatch.setenv("FIRSTFAULT_CLUSTERS__ALPS__TOKEN", "0123456789abcdef")
    with pytest.raises(SettingsInvalidError) as caught:
        load()
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_channels_name_is_not_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_SLACK__MODE", "http")
    monkeypatch.setenv("FIRSTFAULT_SLACK__CHANNEL", "#general")
    monkeypatch.setenv("FIRSTFAULT_SLACK__BOT_TOKEN", "xoxb-test-not-a-token")
    monkeypatch.setenv("FIRSTFAULT_SLACK__SIGNING_SECRET", "test-signing-secret")
    with pytest.raises(SettingsInvalidError, match="must be the channel's id"):
        load()


def test_a_wrong_secret_is_not_repeated_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_CLUSTERS", '{"alps": {"tokn": "very-secret-token"}}')
    with pytest.raises(SettingsInvalidError) as caught:
        load()
    assert "clusters.alps.tokn" in str(caught.value)
    assert "very-secret-token" not in str(caught.value)


@pytest.mark.parametrize("text", ["slack = [", "\x00"])
def test_a_file_that_is_no_toml_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    (tmp_path / "firstfault.toml").write_text(text)
    with pytest.raises(SettingsInvalidError, match=r"firstfault\.toml is not valid TOML"):
        load()


def test_what_kubernetes_tells_every_pod_is_not_taken_for_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("FIRSTFAULT_SERVICE_PORT_HTTP", "80")
    monkeypatch.setenv("FIRSTFAULT_PORT", "tcp://10.0.0.1:80")
    monkeypatch.setenv("FIRSTFAULT_PORT_80_TCP_ADDR", "10.0.0.1")
    assert load().listen.port == 8642


def test_a_token_can_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef\n")
    assert ClusterToken(token_file=tmp_path / "token").read() == "0123456789abcdef"


@pytest.mark.parametrize("content", ["short", "has spaces in the middle of it", ""])
def test_a_weak_token_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    with pytest.raises(SettingsInvalidError, match="16 to 200"):
        ClusterToken(token_file=tmp_path / "token").read()


def test_serve_stops_with_one_line_and_status_2(tmp_path: Path) -> None:
    environment = {**os.environ, "FIRSTFAULT_LISTEN__PORT": "many"}
    command = [sys.executable, "-m", "bot.cli", "serve"]
    root = Path(__file__).parents[2]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=root, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("firstfault: listen.port (FIRSTFAULT_LISTEN__PORT):")
    assert len(ended.stderr.splitlines()) == 1


def test_who_only_wants_the_database_needs_no_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("FIRSTFAULT_")]:
        monkeypatch.delenv(name)
    config = tmp_path / "firstfault.toml"
    config.write_text(f'data_dir = "{tmp_path / "kept"}"\nslack = {{ mode = "socket", channel = "C0TRAINFAIL" }}\n')
    with pytest.raises(SettingsInvalidError, match="bot_token"):
        load(config)
    settings = load(config, for_slack=False)
    assert (settings.data_dir, settings.slack.channel) == (tmp_path / "kept", "C0TRAINFAIL")
