"""The commands there are, and the version."""

from __future__ import annotations

import tomllib
from pathlib import Path

from .conftest import Run

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_project_s(firstfault: Run) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    result = firstfault("--version")
    assert (result.returncode, result.stdout) == (0, f"firstfault {version}\n")


def test_help_names_every_command(firstfault: Run) -> None:
    result = firstfault("--help")
    assert result.returncode == 0
    for command in ("diagnose", "serve", "demo", "cluster"):
        assert f"\n  {command}" in result.stdout


def test_a_wrong_setting_names_itself_and_stops_the_start(firstfault: Run, tmp_path: Path) -> None:
    settings = tmp_path / "firstfault.toml"
    settings.write_text('[slack]\nmode = "carrier pigeon"\n')
    result = firstfault("serve", "--config", settings)
    assert (result.returncode, result.stdout) == (2, "")
    assert "slack.mode" in result.stderr
    assert "Traceback" not in result.stderr
