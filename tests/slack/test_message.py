"""The message that a person gets at three in the morning."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from slack_sdk.models.blocks import Block

from bot.slack.contract import IncidentStatus, SlackMessage, State
from bot.slack.message import HEADLINE_BLOCKS, MAX_BLOCKS, MAX_CHARACTERS, MAX_TEXT, render
from bot.slack.poster import wire
from bot.slack.terminal import as_text
from knowledge.diagnosis import Collateral, Diagnosis, Evidence, Initiating, Outcome, Restart, Role, VerifyStep
from knowledge.job import JobFacts
from tests.slack import blockkit, samples, scenes
from tests.slack.test_escape import HOSTILE


def shown(message: SlackMessage) -> str:
    """What a person reads, without wrapping."""
    return as_text(message, width=10_000)


def accepted(message: SlackMessage) -> None:
    """Fail unless Slack's limits, ours, and the SDK's own validator are content."""
    content = wire(message)
    assert blockkit.problems(content["blocks"]) == []
    assert blockkit.attachment_problems(content["attachments"]) == []
    assert blockkit.message_problems(content["blocks"], content["attachments"]) == []
    assert len(message.blocks) <= MAX_BLOCKS
    assert len(json.dumps(message.blocks, ensure_ascii=False)) <= MAX_CHARACTERS
    assert 0 < len(message.text) <= MAX_TEXT
    for block in message.blocks:
        parsed = Block.parse(block)
        assert parsed is not None, f"the SDK knows no {block['type']}"
        parsed.validate_json()
    json.dumps(content).encode()


def inert(message: SlackMessage) -> None:
    """Fail if anything but our own link is live."""
    assert blockkit.live(message.text) == []
    for text in blockkit.parsed_texts(message.blocks):
        assert [found for found in blockkit.live(text) if not found.startswith(f"<{samples.URL}|")] == []


@pytest.mark.parametrize("sample", samples.ALL, ids=lambda sample: sample.__name__)
def test_every_kind_of_failure_fits_slack(sample: Any) -> None:
    message = render(*sample())
    accepted(message)
    inert(message)
    assert len(message.blocks) - HEADLINE_BLOCKS <= 5  # Slack may fold what is longer beside the bar


def test_a_lost_gpu_is_told_from_the_headline_to_the_proof() -> None:
    job, diagnosis, status = samples.gpu_lost()
    standing = "Confidence 97 % (very high) · 3rd time since 2 Nov · 37 of 64 nodes have reported"
    assert shown(render(job, diagnosis, status)) == "\n".join(
        [
            "| 🔴 llama-70b-pretrain failed after 6 h 12 m",
            "|",
            "| Slurm 48213 · 512 ranks on 64 nodes · alice · cluster alps",
            "|",
            "| GPU fell off the bus on gpu-n17 (rank 137)",
            f"| {diagnosis.cause.summary} 511 other ranks failed only because of it.",
            "|",
            "| Proof: gpu-n17/kern.log:812 · rank 137 · 09:01:58 UTC",
            "|     NVRM: Xid (PCI:0000:1b:00): 79, pid=201133, name=python, GPU has fallen off the bus.",
            "| gpu-n17/rank-137.err:5123 · rank 137",
            "|     torch.AcceleratorError: CUDA error: unspecified launch failure",
            "| Fix:",
            "|   1. Drain gpu-n17: scontrol update nodename=gpu-n17 state=drain reason=xid79",
            "|   2. Restart from the last checkpoint on other nodes.",
            "|   3. Power-cycle gpu-n17; if the GPU is still missing, open a hardware case with the nvidia-bug-report.",
            "| Verify:",
            "|   - ssh gpu-n17 nvidia-smi -L | wc -l → 8",
            "| Restart: safe on other nodes, without gpu-n17",
            "|",
            f"| {standing} · Incident: {samples.URL}",
        ]
    )


def test_the_fallback_text_alone_tells_the_story() -> None:
    text = render(*samples.gpu_lost()).text
    for part in (
        "🔴 llama-70b-pretrain failed after 6 h 12 m",
        "GPU fell off the bus on gpu-n17 (rank 137)",
        "511 other ranks failed only because of it.",
        "GPU has fallen off the bus.",
        "Fix 1: Drain gpu-n17",
        "Restart: safe on other nodes",
        "Confidence 97 %",
    ):
        assert part in text


def test_what_cannot_be_told_is_said_with_the_fact_that_would_decide() -> None:
    message = shown(render(*samples.cannot_tell()))
    assert "Nobody can be named from what has arrived." in message
    assert "What would decide it: The log of rank 8 on gpu-n21" in message
    assert "Confidence 31 % (low)" in message
    assert message.index("What would decide it") < message.index("Fix:")


def test_a_named_cause_of_low_confidence_is_called_a_guess() -> None:
    job, diagnosis, status = samples.gpu_lost()
    message = shown(render(job, diagnosis.model_copy(update={"confidence": 0.4}), status))
    assert "Perhaps: GPU fell off the bus" in message


def test_a_time_limit_is_in_the_headline_and_accuses_nobody() -> None:
    message = shown(render(*samples.time_limit()))
    assert "sft-13b hit its time limit after 1 d" in message
    assert "attempt 2" in message
    assert "No single rank began it." in message


def test_a_job_that_did_not_fail_is_grey_and_advises_nothing() -> None:
    job, diagnosis, status = samples.time_limit()
    update = {"outcome": Outcome.NOT_A_FAILURE, "fix": [], "verify": [], "missing": []}
    message = render(job, diagnosis.model_copy(update=update), status)
    accepted(message)
    assert "ended without a failure" in shown(message)
    assert "Restart" not in shown(message)
    assert message.colour == "#9e9e9e"


@pytest.mark.parametrize(
    ("state", "emoji", "colour"),
    [
        (State.OPEN, "🔴", "#c62828"),
        (State.ACKNOWLEDGED, "🟠", "#daa038"),
        (State.RESOLVED, "🟢", "#2eb886"),
        (State.MUTED, "⚪", "#9e9e9e"),
    ],
)
def test_state_shows_in_emoji_colour_and_word(state: State, emoji: str, colour: str) -> None:
    job, diagnosis, _ = samples.gpu_lost()
    message = render(job, diagnosis, IncidentStatus(state=state))
    header = message.blocks[0]["text"]["text"]
    assert message.colour == colour
    assert header.startswith(emoji)
    assert header.endswith("6 h 12 m" if state is State.OPEN else f"· {state}")


@pytest.mark.parametrize(
    ("collateral", "initiating", "world", "sentence"),
    [
        (Collateral(count=511), Initiating(ranks=[3]), 512, "511 other ranks failed only because of it."),
        (Collateral(count=1), Initiating(ranks=[3]), 2, "1 other rank failed only because of it."),
        (Collateral(ranks=[5], count=1), Initiating(ranks=[3]), 2, "Rank 5 failed only because of it."),
        (Collateral(), Initiating(ranks=[3]), 4, "No other rank is known to have failed."),
        (Collateral(count=7), Initiating(), 8, "7 ranks only report that another failed."),
        (Collateral(count=1), Initiating(), 8, "1 rank only reports that another failed."),
        (Collateral(count=1536), Initiating(hosts=["a"]), None, "1\u202f536 other ranks failed only because of it."),
    ],
)
def test_collateral_is_one_true_sentence(
    collateral: Collateral, initiating: Initiating, world: int | None, sentence: str
) -> None:
    _, diagnosis, status = samples.gpu_lost()
    update = {"collateral": collateral, "initiating": initiating}
    assert sentence in shown(render(JobFacts(world_size=world), diagnosis.model_copy(update=update), status))


@pytest.mark.parametrize("world", [None, 1])
def test_nothing_is_said_of_other_ranks_when_none_is_known(world: int | None) -> None:
    _, diagnosis, status = samples.gpu_lost()
    update = {"collateral": Collateral(), "initiating": Initiating(ranks=[0])}
    message = shown(render(JobFacts(world_size=world), diagnosis.model_copy(update=update), status))
    assert "other rank" not in message


def test_long_rank_and_host_lists_are_compressed() -> None:
    job, diagnosis, status = samples.gpu_lost()
    ranks, hosts = [*range(8, 16), 40, 41, *range(100, 500, 2)], [f"n{number}" for number in range(30)]
    message = shown(
        render(job, diagnosis.model_copy(update={"initiating": Initiating(ranks=ranks, hosts=hosts)}), status)
    )
    assert "n0, n1, n2 and 27 more (ranks 8–15, 40, 41, 100, 102, 104, 106 and 196 more)" in message


def test_nothing_known_of_the_job_is_still_a_message() -> None:
    message = render(JobFacts(), Diagnosis.model_validate(_BARE), IncidentStatus())
    accepted(message)
    assert "🔴 A job failed" in shown(message)


def test_times_that_cannot_be_compared_are_left_out() -> None:
    job = JobFacts(name="x", started_at=datetime(2026, 1, 1), ended_at=datetime(2026, 1, 2, tzinfo=UTC))  # noqa: DTZ001
    assert shown(render(job, Diagnosis.model_validate(_BARE), IncidentStatus())).startswith("| 🔴 x failed\n")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_in_every_field_is_inert_and_fits(text: str) -> None:
    job = JobFacts(scheduler=text, cluster=text, job_id=text, name=text, user=text, nodes=[text], world_size=9)
    diagnosis = Diagnosis.model_validate(
        {
            "outcome": "failed",
            "cause": {"id": text, "layer": text, "title": text, "summary": text},
            "initiating": {"ranks": [1], "hosts": [text] * 9},
            "confidence": 0.9,
            "evidence": [Evidence(source=text, line=1, host=text, text=text, role=Role.ROOT)] * 9,
            "missing": [text] * 9,
            "fix": [text] * 9,
            "verify": [VerifyStep(run=text, expect=text)] * 9,
            "suspect_nodes": [text] * 9,
            "restart": Restart.ELSEWHERE,
        }
    )
    for confidence in (0.9, 0.1):
        for url in (samples.URL, text):
            message = render(job, diagnosis.model_copy(update={"confidence": confidence}), IncidentStatus(url=url))
            accepted(message)
            inert(message)


def test_of_lines_that_differ_only_in_numbers_one_is_proof_enough() -> None:
    job, diagnosis, status = samples.gpu_lost()
    line = diagnosis.evidence[0]
    same = [line.model_copy(update={"line": n, "text": f"{n}: NVRM: Xid 79 on GPU {n}"}) for n in range(5)]
    message = shown(render(job, diagnosis.model_copy(update={"evidence": [*same, diagnosis.evidence[1]]}), status))
    assert message.count("NVRM: Xid 79") == 1
    assert "unspecified launch failure" in message


def test_of_many_jobs_one_place_is_an_example_unless_all_share_it() -> None:
    job, diagnosis, status = samples.gpu_lost()
    many = replace(status, members=scenes.storm_members(30), member_count=30)
    message = render(job, diagnosis, many)
    assert "GPU fell off the bus, for example on gpu-n17 (rank 137)" in shown(message)
    assert "for example on gpu-n17" in message.text
    one_node = replace(many, members=tuple(replace(each, where="gpu-n17") for each in many.members))
    assert "| GPU fell off the bus on gpu-n17\n" in shown(render(job, diagnosis, one_node))


def test_words_between_backticks_are_code_in_steps() -> None:
    job, diagnosis, status = samples.gpu_lost()
    message = render(job, diagnosis.model_copy(update={"fix": ["run `nvidia-smi -q` twice", "an odd ` stays"]}), status)
    steps = _list(message)
    assert steps[0]["elements"][1] == {"type": "text", "text": "nvidia-smi -q", "style": {"code": True}}
    assert steps[1]["elements"] == [{"type": "text", "text": "an odd ` stays"}]


def _list(message: SlackMessage) -> list[dict[str, Any]]:
    elements = [element for block in message.blocks for element in block.get("elements", [])]
    found: list[dict[str, Any]] = next(each for each in elements if each.get("style") == "ordered")["elements"]
    return found


_BARE = {"outcome": "failed", "cause": {"id": "unknown", "layer": "unknown", "title": "Cause unknown", "summary": ""}}
