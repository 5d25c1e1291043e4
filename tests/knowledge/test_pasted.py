"""One cut log, as people paste it into a report: other bindings, older wordings, the launcher alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]


@pytest.mark.parametrize(
    ("last", "cause"),
    [
        (
            "RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)",
            "config-error",
        ),
        (
            "RuntimeError: Attempting to use the same CUDA device for multiple distinct roles/ranks within the same communicator.",
            "duplicate-gpu",
        ),
        (
            "AssertionError: hidden_size value from checkpoint (4096) is not equal to the input argument value (5120).",
            "config-mismatch",
        ),
        (
            "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect. Timed out task names:",
            "missing-rank",
        ),
    ],
)
def test_messages_in_the_words_of_other_libraries_are_known(verdict: Verdict, last: str, cause: str) -> None:
    traceback = 'Traceback (most recent call last):\n  File "/z/train.py", line 9, in main\n    go()\n'
    assert verdict({"out.log": traceback + last + "\n"}).cause.id == cause


def test_a_killed_command_explains_the_lost_daemon_of_its_pod(verdict: Verdict) -> None:
    lost = (
        "--------\nORTE has lost communication with a remote daemon.\n\n"
        "  HNP daemon   : [[5,0],0] on node bert-launcher\n  Remote daemon: [[5,0],1] on node bert-worker-2\n"
    )
    assert verdict({"launcher.log": lost}).cause.id == "node-failure"
    said = verdict({"launcher.log": "command terminated with exit code 137\n" + lost})
    assert (said.cause.id, said.initiating.hosts) == ("killed-unknown", ["bert-worker-2"])
    assert said.missing
