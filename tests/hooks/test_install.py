"""`firstfault hook install slurm`: shown, applied, checked, renewed and taken away, in a staged root."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bot.cli.hook import PLACE, run
from bot.cli.hook_run import HOOK
from bot.cli.slurm_conf import naming
from tests.hooks.intake import Intake

HERE = os.uname().nodename.split(".")[0]
TOKEN = "hook-test-not-a-token"
SITE = f"""ClusterName=rehearsal
SlurmctldHost=head-01(10.0.0.1)
SlurmUser=slurm
SlurmdLogFile=/var/log/slurm/slurmd-%n.log
SlurmctldLogFile=/var/log/slurm/slurmctld.log
NodeName={HERE} CPUs=4
# Epilog=/commented/out
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc/slurm").mkdir(parents=True)
    (tmp_path / "etc/slurm/slurm.conf").write_text(SITE)
    (tmp_path / "token").write_text(TOKEN + "\n")
    return tmp_path


def conf(root: Path) -> str:
    return (root / "etc/slurm/slurm.conf").read_text()


def firstfault(root: Path, deed: str, bot: str | None = "https://ff.example.com", **more: bool) -> int:
    token = root / "token" if bot else None
    return run(bot=bot, token_file=token, slurm_conf=root / "etc/slurm/slurm.conf", root=root,
               controller=more.get("controller"), deed=deed)  # fmt: skip


def checked(root: Path) -> int:
    """`--check`, with a spool of the staged root and no Slurm commands."""
    settings = root / "etc/firstfault/hook.conf"
    if "spool" not in settings.read_text():
        settings.write_text(settings.read_text() + f"spool = {root}/var/spool/firstfault\nslurm_bin = {root}\n")
    return firstfault(root, "check", bot=None)


def installed(root: Path) -> Path:
    return root / PLACE.relative_to("/")


def test_it_is_shown_first_and_nothing_is_written(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(root.rglob("*"))
    assert firstfault(root, "show") == 0
    told = capsys.readouterr().out
    assert f"Epilog={PLACE}\n" in told
    assert f"EpilogSlurmctld={PLACE}\n" in told
    assert f"JobCompType=jobcomp/script\n    JobCompLoc={PLACE}\n" in told
    assert TOKEN not in told
    assert sorted(root.rglob("*")) == before


def test_applied_it_is_one_hook_and_one_file_of_settings_that_only_its_user_reads(root: Path) -> None:
    assert firstfault(root, "apply") == 0
    assert installed(root).read_bytes() == HOOK.read_bytes()
    assert stat.S_IMODE(installed(root).stat().st_mode) == 0o755
    (settings,) = (root / "etc/firstfault").iterdir()
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    assert "url = https://ff.example.com\n" in settings.read_text()
    assert "slurmd_log = /var/log/slurm/slurmd-%n.log\n" in settings.read_text()
    assert stat.S_IMODE((root / "var/spool/firstfault").stat().st_mode) == 0o711
    assert conf(root).startswith(SITE)
    assert (root / "etc/slurm/slurm.conf.before-firstfault").read_text() == SITE


def test_applied_twice_it_is_there_once(root: Path) -> None:
    firstfault(root, "apply")
    once = conf(root)
    assert firstfault(root, "apply") == 0
    assert conf(root) == once


def test_a_new_release_replaces_the_one_file_and_keeps_the_settings(root: Path) -> None:
    firstfault(root, "apply")
    settings = (root / "etc/firstfault/hook.conf").read_text()
    installed(root).write_text("#!/bin/sh\n# an older release\n")
    assert firstfault(root, "apply", bot=None) == 0
    assert installed(root).read_bytes() == HOOK.read_bytes()
    assert (root / "etc/firstfault/hook.conf").read_text() == settings


def test_uninstalled_slurm_conf_is_what_it_was(root: Path) -> None:
    firstfault(root, "apply")
    (root / "var/spool/firstfault/waiting").touch()
    assert firstfault(root, "uninstall") == 0
    assert conf(root) == SITE
    assert not installed(root).exists()
    assert list((root / "etc/firstfault").iterdir()) == []
    assert (root / "var/spool/firstfault/waiting").exists()
    assert firstfault(root, "uninstall") == 0


def test_uninstalling_tells_of_what_was_there_and_of_nothing_else(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert firstfault(root, "uninstall") == 0
    assert capsys.readouterr().out == "nothing of the hook is here\n"
    firstfault(root, "apply")
    spool = root / "var/spool/firstfault"
    (user,) = spool.iterdir()
    for number in range(3):
        (user / f"{number}.report").touch()
    capsys.readouterr()
    assert firstfault(root, "uninstall") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"removed our lines from {root}/etc/slurm/slurm.conf",
        f"removed {installed(root)}",
        f"removed {root}/etc/firstfault/hook.conf",
        f"left {spool} with 3 reports; before this: {installed(root)} --flush",
    ]


@pytest.mark.parametrize(
    "text",
    ["", "\n", SITE.rstrip("\n"), SITE + "\n\n", SITE.replace("\n", "\r\n"), SITE + "# caf\udce9\n", "\n\n" + SITE],
    ids=[
        "empty",
        "a blank line",
        "no last newline",
        "blank lines at its end",
        "Windows",
        "Latin-1",
        "blank lines first",
    ],
)
def test_whatever_slurm_conf_was_it_is_again_byte_for_byte(root: Path, text: str) -> None:
    path, before = root / "etc/slurm/slurm.conf", text.encode("utf-8", "surrogateescape")
    path.write_bytes(before)
    for _ in range(2):
        assert firstfault(root, "apply") == 0
        assert path.read_bytes() != before
    assert firstfault(root, "uninstall") == 0
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["slurm.conf"]


def test_what_a_person_wrote_below_our_lines_stays(root: Path) -> None:
    firstfault(root, "apply")
    path = root / "etc/slurm/slurm.conf"
    path.write_text(path.read_text() + "KillWait=5\n")
    firstfault(root, "uninstall")
    assert conf(root) == SITE + "KillWait=5\n"


def test_a_link_to_slurm_conf_stays_a_link(root: Path) -> None:
    path, shared = root / "etc/slurm/slurm.conf", root / "shared.conf"
    path.rename(shared)
    path.symlink_to(shared)
    firstfault(root, "apply")
    assert path.is_symlink()
    assert "Epilog=/usr" in shared.read_text()


def test_an_epilog_of_an_included_file_is_seen(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "etc/slurm/hooks.conf").write_text("Epilog=/opt/site/epilog\n")
    (root / "etc/slurm/slurm.conf").write_text(SITE + "Include hooks.conf\n")
    assert firstfault(root, "apply") == 0
    assert "note  Epilog is /opt/site/epilog already" in capsys.readouterr().out
    assert "\nEpilog=" not in conf(root)


def test_a_sites_own_epilog_is_not_touched_but_told_of(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = root / "epilog.sh"
    script.write_text("#!/bin/sh\nclean-up\n")
    (root / "etc/slurm/slurm.conf").write_text(SITE + f"Epilog={script}\nJobCompType=jobcomp/elasticsearch\n")
    assert firstfault(root, "apply") == 0
    told = capsys.readouterr().out
    assert f"note  Epilog is {script} already: let it call {PLACE}" in told
    assert "JobCompType is jobcomp/elasticsearch already and stays" in told
    assert conf(root).count("Epilog=") == 2  # its comment and its own
    assert "jobcomp/script" not in conf(root)
    checked(root)
    assert "WRONG Epilog is" in capsys.readouterr().out
    script.write_text(f"#!/bin/sh\nclean-up\n{PLACE}\n")
    checked(root)
    assert "Epilog is" not in capsys.readouterr().out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_controller_that_is_a_node_too_has_settings_for_both_users(root: Path) -> None:
    text = SITE.replace("head-01(10.0.0.1)", HERE).replace("SlurmUser=slurm", "SlurmUser=nobody")
    (root / "etc/slurm/slurm.conf").write_text(text)
    assert firstfault(root, "apply") == 0
    owners = {path.name: path.owner() for path in (root / "etc/firstfault").iterdir()}
    assert owners == {"hook.conf": "root", "hook-nobody.conf": "nobody"}
    assert (root / "var/spool/firstfault/nobody").owner() == "nobody"
    assert "controller_log = /var/log/slurm/slurmctld.log" in (root / "etc/firstfault/hook-nobody.conf").read_text()


@pytest.mark.parametrize(
    ("bot", "token", "why"),
    [
        (None, TOKEN, "needs --bot URL"),
        ("ff.example.com", TOKEN, "--bot must be like"),
        ("https://me:secret@ff.example.com", TOKEN, "--bot must be like"),
        ("https://ff.example.com", "two words of a token", "must hold one token"),
        ("https://ff.example.com", "", "--token-file"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_is_written(
    root: Path, capsys: pytest.CaptureFixture[str], bot: str | None, token: str, why: str
) -> None:
    (root / "token").write_text(token) if token else (root / "token").unlink()
    before = sorted(root.rglob("*"))
    assert firstfault(root, "apply", bot) == 2
    assert why in capsys.readouterr().err
    assert sorted(root.rglob("*")) == before


def test_check_runs_the_installed_hook_against_the_service(
    root: Path, intake: Intake, capfd: pytest.CaptureFixture[str]
) -> None:
    firstfault(root, "apply", bot=intake.url)
    capfd.readouterr()
    assert checked(root) == 1
    told = capfd.readouterr().out
    assert "ok    Python 3" in told
    assert "answers and takes the token" in told
    assert "ok    clock is the service's" in told
    assert "WRONG scontrol ping" in told  # there is no Slurm in this root
    assert told.count("WRONG") == 1


def test_what_slurm_runs_with_is_read_from_its_own_words() -> None:
    config = (
        f"Epilog[0]               = {PLACE}\nEpilogMsgTime           = 2000 usec\nEpilogSlurmctld         = (null)\n"
    )
    assert naming(config + f"JobCompLoc              = {PLACE}\n", PLACE) == {"Epilog", "JobCompLoc"}
    assert naming(f"Epilog = {PLACE}.old\nProlog = {PLACE}\n", PLACE) == set()


def test_the_command_line_shows_it(root: Path) -> None:
    command = [
        "firstfault",
        "hook",
        "install",
        "slurm",
        "--slurm-conf",
        f"{root}/etc/slurm/slurm.conf",
        "--root",
        str(root),
    ]
    bin_folder = Path(sys.executable).parent
    told = subprocess.run([bin_folder / "firstfault", *command[1:], "--bot", "https://ff.example.com",
                           "--token-file", root / "token"], capture_output=True, text=True, check=True)  # fmt: skip
    assert "nothing was changed" in told.stdout
