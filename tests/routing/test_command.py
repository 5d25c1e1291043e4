"""`firstfault route test`: a dry run that says which rule decides, and why the others do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

RULES = """
[slack]
channel = "C0MAIN"

[[routes]]
name = "iron"
layer = "gpu-hardware"
channels = ["C0OPS"]

[[routes]]
name = "language models"
account = "llm-*"
channels = ["C0LLM", "C0NIGHTLY"]

[routing.quiet.C0LLM]
hours = "22:00-07:00"
zone = "Europe/Zurich"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Rules without any token: none is needed to try them."""
    file = tmp_path / "firstfault.toml"
    file.write_text(RULES)
    return file


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "job.json"
    facts = {"job_id": "48213", "name": "llama-70b", "account": "llm-core", "user": "alice", "world_size": 16}
    file.write_text(json.dumps(facts))
    return file


def test_a_job_alone_is_routed_by_its_facts(firstfault: Run, config: Path, job: Path) -> None:
    result = firstfault("route", "test", job, "--config", config, "--at", "2026-12-03T03:12+0100")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "job 48213 llama-70b: unknown (unknown), severity medium: unknown on 16 ranks",
        "  - route 1 (iron): does not match: layer is unknown, not gpu-hardware",
        "  + route 2 (language models): matched: account is llm-core",
        "→ C0LLM  route 2 (language models); quiet until 2026-12-03 06:00 UTC",
        "→ C0NIGHTLY  route 2 (language models)",
    ]


def test_a_folder_is_diagnosed_first(firstfault: Run, config: Path, recording: Path) -> None:
    result = firstfault("route", "test", recording, "--config", config)
    assert result.returncode == 0
    assert "index-out-of-range (application)" in result.stdout
    assert result.stdout.endswith(
        "→ C0MAIN  the default channel\nwarning: no route matched; the default channel was used\n"
    )


def test_a_diagnosis_and_a_job_together_are_one_failure(
    firstfault: Run, config: Path, job: Path, tmp_path: Path
) -> None:
    verdict = tmp_path / "verdict.json"
    cause = {"id": "gpu-lost", "layer": "gpu-hardware", "title": "GPU fell off the bus", "summary": "…"}
    verdict.write_text(json.dumps({"schema": 1, "outcome": "failed", "cause": cause}))
    result = firstfault("route", "test", job, verdict, "--config", config)
    assert "severity high: hardware failed" in result.stdout
    assert "  - route 2 (language models): not reached: route 1 (iron) decided" in result.stdout
    assert result.stdout.endswith("→ C0OPS  route 1 (iron)\n")


def test_a_job_that_did_not_fail_says_so(firstfault: Run, config: Path, tmp_path: Path) -> None:
    verdict = tmp_path / "verdict.json"
    cause = {"id": "none", "layer": "none", "title": "-", "summary": "-"}
    verdict.write_text(json.dumps({"outcome": "not-a-failure", "cause": cause}))
    assert firstfault("route", "test", verdict, "--config", config).stdout.startswith("The job did not fail")


def test_words_of_the_job_cannot_steer_the_terminal(firstfault: Run, config: Path, tmp_path: Path) -> None:
    hostile = {"name": "\x1b[2J\x1b]0;owned\x07evil", "account": "llm-\x1b[31m", "comment": "slack-channel=\x1b[31mC0X"}
    file = tmp_path / "job.json"
    file.write_text(json.dumps(hostile))
    result = firstfault("route", "test", file, "--config", config)
    assert result.returncode == 0
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "not readable as JSON"), ('{"outcome": "exploded", "cause": {}}', "outcome"), ('{"nodes": 7}', "nodes")],
)
def test_a_file_that_is_neither_is_named(
    firstfault: Run, config: Path, tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "job.json"
    file.write_text(content)
    result = firstfault("route", "test", file, "--config", config)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_file_and_a_wrong_rule_are_told(firstfault: Run, config: Path, job: Path) -> None:
    missing = firstfault("route", "test", job.with_name("gone.json"), "--config", config)
    assert missing.returncode == 2
    assert "gone.json" in missing.stderr
    config.write_text(RULES.replace('"C0OPS"', '"#ops"'))
    wrong = firstfault("route", "test", job, "--config", config)
    assert wrong.returncode == 2
    assert "routes no. 1.channels no. 1: give the channel's id" in wrong.stderr
