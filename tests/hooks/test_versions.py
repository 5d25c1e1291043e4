"""One file for every Python from 3.6 to 3.13."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import hooks
from tests.cluster.hooks import HOOK
from tests.hooks.conftest import INTERPRETERS
from tests.hooks.intake import Intake

ROOT = Path(hooks.__file__).parents[1]


def test_a_linter_that_knows_says_3_6_is_enough() -> None:
    found = subprocess.run(
        [Path(sys.executable).parent / "vermin", "--no-tips", "--target=3.6-", "--violations", HOOK],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout


def test_it_has_the_version_of_the_project(hook: Any) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == hook.VERSION


def test_the_example_of_a_configuration_says_the_defaults(hook: Any) -> None:
    parser = hook.configparser.ConfigParser(interpolation=None, default_section=None)
    parser.read(ROOT / "hooks" / "slurm" / "hook.conf")
    given = dict(parser.items("hook"))
    assert given == {**hook.DEFAULTS, "url": given["url"], "token_file": given["token_file"]}


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_a_recorded_job_is_sent_the_same_by_every_version(
    interpreter: str, config: Path, intake: Intake, tmp_path: Path
) -> None:
    logs = tmp_path / "case" / "logs"
    logs.mkdir(parents=True)
    (tmp_path / "case" / "job.json").write_text(
        '{"job_id": 48213, "nodes": ["n1", "n2"], "comment": "mail a@example.com"}'
    )
    (logs / "rank-2.err").write_text("RuntimeError: boom\npassword=hunter22\n")
    command = [interpreter, "-I", "-W", "error", str(HOOK), f"--config={config}", "--replay", str(tmp_path / "case")]
    sent = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (sent.returncode, sent.stderr) == (0, "")
    assert sent.stdout == f"incident inc-48213-0 {intake.url}/v1/incidents/inc-48213-0\n"
    seen = intake.job("48213")
    assert seen
    assert seen.reporters == {"n1"}
    assert "a@example.com" not in seen.closings[0]["job"]["comment"]
    assert seen.logs["rank-2.err"].startswith(b"RuntimeError: boom\npassword=[redacted:password:")
