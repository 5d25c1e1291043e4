"""`firstfault hook install slurm` on a machine that has the hook: a new release, another address, another token."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from bot.cli.hook_settings import renewed
from tests.hooks.intake import Intake
from tests.hooks.test_install import TOKEN, firstfault, installed, root

__all__ = ["root"]

OWN = f"""# ours since 2024
[hook]
url = https://old.example.com
token = {TOKEN}
# where the ranks write
globs = logs/%j/*.err
log_file = /var/log/firstfault.log
report_preempted = yes
"""


@pytest.fixture
def settings(root: Path) -> Path:
    """What an operator has made of the settings on a machine that has the hook."""
    firstfault(root, "apply")
    path = root / "etc/firstfault/hook.conf"
    path.write_text(OWN)
    return path


def test_another_address_and_token_leave_the_operators_lines_as_they_are(
    root: Path, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "token").write_text("hook-test-renewed-not-a-token")
    capsys.readouterr()
    assert firstfault(root, "show") == 0
    told = capsys.readouterr().out
    assert f"would change url and token in {settings} (" in told
    assert "its other lines stay\n    url = https://ff.example.com\n    token = (from the token file)\n" in told
    assert "renewed" not in told
    assert settings.read_text() == OWN
    assert firstfault(root, "apply") == 0
    assert f"changed url and token in {settings} (" in capsys.readouterr().out
    assert settings.read_text() == OWN.replace("old.", "ff.").replace(TOKEN, "hook-test-renewed-not-a-token")
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600


def test_a_token_alone_may_be_renewed(root: Path, settings: Path) -> None:
    (root / "token").write_text("hook-test-renewed-not-a-token")
    from bot.cli.hook import run

    conf = root / "etc/slurm/slurm.conf"
    assert run(bot=None, token_file=root / "token", slurm_conf=conf, root=root, controller=None, deed="apply") == 0
    assert settings.read_text() == OWN.replace(TOKEN, "hook-test-renewed-not-a-token")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[hook]\ntoken_file = /etc/t\nurl: https://a\n", "[hook]\ntoken = T\nurl = https://b\n"),
        ("[hook]\nglobs = x\n", "[hook]\ntoken = T\nurl = https://b\nglobs = x\n"),
        ("[hook]", "[hook]\ntoken = T\nurl = https://b\n"),
        ("[hook]\r\nURL=https://a\r\nwait = 5m\r\ntoken=t", "[hook]\r\nurl = https://b\r\nwait = 5m\r\ntoken = T\r\n"),
        ("[hook]\n url = https://a\n wait = 5m\n", "[hook]\n token = T\n url = https://b\n wait = 5m\n"),
        ("[hook]\n[other]\nurl = x\n", "[hook]\ntoken = T\nurl = https://b\n[other]\nurl = x\n"),
        (
            "[hook]\nurl =\n  # moved\n  https://a\ntoken = t\n",
            "[hook]\nurl = https://b\n  # moved\ntoken = T\n",
        ),
        ("[hook] ; ours\nurl = https://a\n token = x\n", "[hook] ; ours\ntoken = T\nurl = https://b\n"),
        (
            "[hook]\n  wait = 5m\nurl = https://a\ntoken = t\n",
            "[hook]\n  wait = 5m\nurl = https://b\ntoken = T\n",
        ),
        ("[hook]\nglobs =\n  url = /b\n", "[hook]\ntoken = T\nurl = https://b\nglobs =\n  url = /b\n"),
    ],
    ids=[
        "token_file",
        "neither",
        "nothing",
        "Windows",
        "indented",
        "another section",
        "a value on the next line",
        "a remark behind the section",
        "less and less indented",
        "another's value that looks like it",
    ],
)
def test_however_the_settings_are_written_only_these_two_change(before: str, after: str) -> None:
    change = renewed(before, "https://b", "T")
    assert change
    assert change.text == after
    assert renewed(after, "https://b", "T") is None


def test_settings_without_their_section_are_not_guessed_at(
    root: Path, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.write_text("url = https://old.example.com\n")
    assert firstfault(root, "apply") == 2
    assert f"{settings} has no section [hook]" in capsys.readouterr().err
    assert settings.read_text() == "url = https://old.example.com\n"


def test_what_has_to_be_done_next_is_one_command_a_line_and_only_where_it_has_to(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    firstfault(root, "apply")
    first = [line.partition("#")[0].strip() for line in capsys.readouterr().out.partition("next  ")[2].splitlines()[1:]]
    assert first[:2] == ["systemctl restart slurmctld", "scontrol reconfigure"]
    assert first[2].endswith(f"firstfault hook install slurm --check --slurm-conf {root}/etc/slurm/slurm.conf")
    assert Path(first[2].split()[0]).is_absolute()
    installed(root).write_text("#!/bin/sh\n# an older release\n")
    firstfault(root, "apply", bot=None)
    again = capsys.readouterr().out
    assert "next  nothing has to be restarted:" in again
    assert "systemctl" not in again


@pytest.mark.parametrize("known", [True, False])
def test_a_preview_says_when_the_service_would_take_no_report(
    root: Path, intake: Intake, capsys: pytest.CaptureFixture[str], known: bool
) -> None:
    if not known:
        (root / "token").write_text("hook-test-of-another-service")
    assert firstfault(root, "show", bot=intake.url) == 0
    told = capsys.readouterr().out
    assert ("note  from here the service takes no report" in told) is not known
    assert ("HTTP 401 unknown-token" in told) is not known
    assert firstfault(root, "show", bot="http://127.0.0.1:9") == 0
    assert "refused" in capsys.readouterr().out
