"""`firstfault doctor`: a line a check, a remedy for each fault, and an exit status for scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, firstfault

__all__ = ["firstfault"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "firstfault.toml"
    file.write_text(f'data_dir = "{tmp_path / "data"}"\n[slack]\nmode = "console"\n[listen]\nport = 0\n')
    return file


def test_where_nothing_fails_the_status_is_zero(firstfault: Run, config: Path) -> None:
    result = firstfault("doctor", "--config", config)
    assert (result.returncode, result.stderr) == (0, "")
    assert "ok    catalogue" in result.stdout
    assert "warn  public_url" in result.stdout
    assert "→ " in result.stdout.split("warn  public_url")[1].splitlines()[1]


def test_a_wrong_setting_is_a_finding(firstfault: Run, config: Path) -> None:
    config.write_text('[slack]\nmode = "socket"\n[listen]\nport = "many"\n')
    result = firstfault("doctor", "--config", config)
    assert result.returncode == 1
    assert result.stdout.count("fail  settings") == 2
    assert "listen.port" in result.stdout
    assert "Traceback" not in result.stderr


def test_programs_get_json(firstfault: Run, config: Path) -> None:
    document = json.loads(firstfault("doctor", "--config", config, "--json").stdout)
    assert document["ok"] is True
    assert {"check", "level", "detail", "remedy"} == document["findings"][0].keys()
    assert {finding["level"] for finding in document["findings"]} == {"ok", "warn"}
