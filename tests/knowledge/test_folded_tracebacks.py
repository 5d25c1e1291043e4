"""Tracebacks that a program's logger writes as one string of a JSON record."""

from __future__ import annotations

import json
from collections.abc import Callable

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]


def record(rank: int, raised: str) -> str:
    text = f"Traceback (most recent call last):\n{raised}"
    return json.dumps({"level": "ERROR", "rank": rank, "msg": "giving up", "exc_info": text}) + "\n"


def in_call(function: str) -> str:
    return (
        f'  File "/app/train.py", line 9, in fit\n    dist.{function}(x)\n  File "/opt/torch/distributed/distributed_c10d.py", line 5, '
        f"in {function}\n    work.wait()\nRuntimeError: [/src/unbound_buffer.cc:129] Timed out waiting 9000ms for send operation to complete"
    )


def test_the_rank_that_stood_in_another_collective_is_found(verdict: Verdict) -> None:
    start = '{{"level": "INFO", "rank": {rank}, "msg": "rank {rank} of 4"}}\n'
    logs = {
        f"worker_{rank}.jsonl": start.format(rank=rank)
        + record(rank, in_call("barrier" if rank == 1 else "all_reduce"))
        for rank in range(4)
    }
    said = verdict(logs)
    assert (said.cause.id, said.initiating.ranks) == ("collective-mismatch", [1])


def test_an_exception_that_no_entry_knows_is_read_with_its_message(verdict: Verdict) -> None:
    raised = '  File "/app/train.py", line 9, in plan\n    raise Odd("no \\"plan\\"")\napp.Odd: no plan for step 7'
    said = verdict(
        {"worker_2.jsonl": record(2, raised), "worker_0.jsonl": '{"level": "INFO", "rank": 0, "msg": "step 6"}\n'}
    )
    assert said.cause.id == "app-exception"
    assert "no plan for step 7" in said.cause.summary
