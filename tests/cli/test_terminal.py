"""A diagnosis as text: it fits the terminal, says the whole story, and lets nothing out of a log steer it."""

from __future__ import annotations

import re

import pytest

from bot.terminal import MAX_EVIDENCE, render
from knowledge.diagnosis import (
    Alternative,
    CauseFound,
    Collateral,
    Diagnosis,
    Evidence,
    Initiating,
    Outcome,
    Restart,
    Role,
    Stats,
    VerifyStep,
)
from knowledge.job import JobFacts

COLOUR = re.compile(r"\x1b\[[0-9;]*m")

LOST_GPU = Diagnosis(
    outcome=Outcome.FAILED,
    cause=CauseFound(
        id="gpu-lost", layer="gpu-hardware", title="GPU fell off the bus", summary="GPU 1 of gpu-n17 left the PCIe bus."
    ),
    initiating=Initiating(ranks=[137], hosts=["gpu-n17"]),
    collateral=Collateral(count=511),
    confidence=0.97,
    evidence=[
        Evidence(source="rank-9.log", line=88, rank=9, text="Watchdog caught collective operation timeout", role=Role.CASCADE),
        Evidence(source="gpu-n17/kern.log", line=812, host="gpu-n17", text="NVRM: Xid (PCI:0000:1b:00): 79", role=Role.ROOT),
    ],
    alternatives=[Alternative(cause="nvlink-error", confidence=0.04, why_not="no NVLink message anywhere")],
    missing=["the node's BMC log"],
    fix=["Drain gpu-n17.", "Restart from the last checkpoint on other nodes."],
    verify=[VerifyStep(run="nvidia-smi -L | wc -l", expect="8")],
    restart=Restart.ELSEWHERE,
    suspect_nodes=["gpu-n17"],
    stats=Stats(bytes=1_234_567, lines=9876, seconds=0.41),
)  # fmt: skip
JOB = JobFacts(scheduler="slurm", job_id="48213", name="llama-70b-pretrain", user="alice", world_size=512)


def test_the_whole_story_stands_in_the_text() -> None:
    text = render(LOST_GPU, JOB)
    for part in (
        "✗ llama-70b-pretrain failed",
        "Slurm 48213 · 512 ranks · alice",
        "GPU fell off the bus on gpu-n17 (rank 137)",
        "511 other ranks failed only because of it.",
        "gpu-n17/kern.log:812",
        "NVRM: Xid (PCI:0000:1b:00): 79",
        "1. Drain gpu-n17.",
        "$ nvidia-smi -L | wc -l",
        "→ 8",
        "safe on other nodes, without gpu-n17",
        "97 % (very high)",
        "nvlink-error",
        "the node's BMC log",
        "1.2 MB, 9,876 lines read in 0.4 s",
    ):
        assert part in text


def test_the_root_comes_before_what_followed_from_it() -> None:
    text = render(LOST_GPU)
    assert text.index("Xid") < text.index("Watchdog")


def test_a_guess_is_called_one() -> None:
    unsure = LOST_GPU.model_copy(update={"confidence": 0.3})
    assert "Perhaps: GPU fell off the bus" in render(unsure)
    assert "Perhaps" not in render(LOST_GPU)


def test_who_cannot_be_named_is_not_left_out_silently() -> None:
    nobody = LOST_GPU.model_copy(update={"initiating": Initiating(), "collateral": Collateral()})
    assert "No single rank began it." in render(nobody)


def test_what_did_not_fail_gets_no_advice_on_restarting() -> None:
    text = render(
        Diagnosis(
            outcome=Outcome.NOT_A_FAILURE,
            cause=CauseFound(id="cancelled", layer="scheduler", title="Cancelled by a person", summary=""),
            confidence=0.9,
        )
    )
    assert text.startswith("✓")
    assert "Restart" not in text


@pytest.mark.parametrize("width", [40, 80, 100, 300])
def test_no_line_is_wider_than_the_terminal_but_commands_and_words_that_cannot_break(width: int) -> None:
    long = LOST_GPU.model_copy(update={"fix": ["drain the node and " * 30], "missing": ["word " * 60]})
    for line in render(long, JOB, width=width).split("\n"):
        assert len(line) <= min(width, 100) or line.startswith("  $ ")


def test_a_command_stays_on_one_line_to_be_copied() -> None:
    command = "srun -w gpu-n17 " + "nvidia-smi --query-gpu=index,pci.bus_id " * 5
    text = render(LOST_GPU.model_copy(update={"verify": [VerifyStep(run=command, expect="8")]}), width=60)
    assert f"  $ {command.strip()}\n" in text


def test_many_lines_of_proof_are_counted_not_shown() -> None:
    many = [LOST_GPU.evidence[1].model_copy(update={"line": number}) for number in range(1, MAX_EVIDENCE + 3)]
    text = render(LOST_GPU.model_copy(update={"evidence": many}))
    assert text.count("gpu-n17/kern.log:") == MAX_EVIDENCE
    assert "and 2 more lines" in text


def test_without_colour_no_escape_is_written_whatever_the_evidence_holds() -> None:
    hostile = "\x1b[31mred\x1b]8;;http://evil\x07link\x9b2J\x00\u202e\u2066\r\x85 end"
    everywhere = LOST_GPU.model_copy(
        update={
            "cause": CauseFound(id="x", layer="y", title=hostile, summary=hostile),
            "initiating": Initiating(hosts=[hostile]),
            "evidence": [Evidence(source=hostile, line=1, host="h", text=hostile, role=Role.ROOT)],
            "fix": [hostile],
            "verify": [VerifyStep(run=hostile, expect=hostile)],
            "missing": [hostile],
            "alternatives": [Alternative(cause=hostile, confidence=0.1, why_not=hostile)],
            "suspect_nodes": [hostile],
        }
    )
    job = JobFacts(name=hostile, user=hostile, job_id=hostile, cluster=hostile)

    plain = render(everywhere, job)
    assert [character for character in plain if not character.isprintable() and character != "\n"] == []
    assert plain.count("redlink") >= 12

    coloured = COLOUR.sub("", render(everywhere, job, colour=True))
    assert coloured == plain
