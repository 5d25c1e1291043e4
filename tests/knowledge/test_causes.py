"""Every cause can be explained and acted upon, also when nobody can be named."""

import re
import subprocess

import pytest

from knowledge.causes import Cause, load_causes
from knowledge.diagnosis import Restart
from knowledge.redaction import redact
from knowledge.signature import Nature

CAUSES = list(load_causes().values())
EACH = pytest.mark.parametrize("cause", CAUSES, ids=[cause.id for cause in CAUSES])

NOTHING_SAYS_WHY = [
    *("rank-hang", "silent-exit", "dataloader-worker-killed", "killed-unknown", "cuda-unknown-error", "peer-lost"),
    *("rdma-retry-exceeded", "nccl-error", "collective-timeout", "missing-rank", "coordinator-died", "terminated"),
    *("actor-died", "unknown"),
]


def test_the_causes_are_read_once_and_cannot_be_changed() -> None:
    assert load_causes() is load_causes()
    with pytest.raises(TypeError):
        load_causes()["none"] = CAUSES[0]  # type: ignore[index]


@EACH
def test_the_summary_reads_well_whatever_is_known(cause: Cause) -> None:
    named = [cause.sentence("3", "gpu-n17"), cause.sentence("1–3, 7"), cause.sentence("", "gpu-n17")]

    for sentence in [*named, cause.sentence()]:
        assert re.fullmatch(r"[A-Z/].*[^.]\.", sentence) or sentence.startswith("gpu-n17"), sentence
        assert not re.search(r"[{}]|  | ,", sentence)
        assert len(sentence) <= 160
    if "{" in cause.summary:
        assert "rank 3 on gpu-n17" in named[0].lower()
        assert "ranks 1–3, 7" in named[1].lower()
        assert "gpu-n17" in named[2]
        assert "rank 3" not in cause.sentence()


@EACH
def test_the_title_can_head_a_message(cause: Cause) -> None:
    assert re.fullmatch(r"[A-Z].{4,56}[^.!]", cause.title)


@EACH
def test_advice_is_specific_and_short(cause: Cause) -> None:
    for step in cause.fix:
        assert 20 <= len(step) <= 260, step
        assert step.endswith((".", ")."))
    for check in cause.verify:
        assert len(check.run) <= 200
        assert "\n" not in check.run
        assert check.expect


@EACH
def test_advice_has_no_places_to_fill(cause: Cause) -> None:
    for text in [*cause.fix, *(check.run + check.expect for check in cause.verify), cause.summary_unnamed]:
        assert "{" not in text
        assert "}" not in text


@EACH
def test_commands_can_be_pasted_into_a_shell(cause: Cause) -> None:
    for check in cause.verify:
        checked = subprocess.run(["bash", "-n", "-c", check.run], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr


@EACH
def test_advice_survives_redaction(cause: Cause) -> None:
    text = cause.model_dump_json()

    assert redact(text) == text


@pytest.mark.parametrize("cause", NOTHING_SAYS_WHY)
def test_a_cause_that_explains_nothing_names_the_fact_that_would(cause: str) -> None:
    fact = load_causes()[cause].fact_that_decides

    assert re.search(r"`[^`]+`|add |Add ", fact), "says how to get the fact"
    assert fact.split(".")[0].startswith(("Whether", "Which", "How", "What", "Who", "The"))


@EACH
def test_hardware_is_not_restarted_in_place(cause: Cause) -> None:
    if cause.nature is Nature.HARDWARE:
        assert cause.restart is Restart.ELSEWHERE
        assert cause.node_suspect
