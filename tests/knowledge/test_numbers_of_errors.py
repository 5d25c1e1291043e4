"""Linux's numbers of errors tell the cause where their words are cut off or in another language."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge.diagnosis import Diagnosis

Verdict = Callable[..., Diagnosis]

RAISED = (
    'step 9 loss 2\nTraceback (most recent call last):\n  File "{file}", line 66, in save\n    write(it)\n{error}\n'
)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("OSError: [Errno 28] Auf dem Gerät ist kein Speicherplatz mehr verfügbar", "disk-full"),
        ("OSError: [Errno 24] Too many op", "fd-limit"),
        ("OSError: [Errno 122] Débordement du quota d'espace disque", "quota-exceeded"),
        ("OSError: [Errno 117] Die Struktur muss bereinigt werden", "storage-io-error"),
        ("OSError: [Errno 99] no number that tells", "app-exception"),
    ],
)
def test_the_number_tells_the_cause(verdict: Verdict, error: str, cause: str) -> None:
    assert verdict({"rank0.log": RAISED.format(file="/app/train.py", error=error)}).cause.id == cause


@pytest.mark.parametrize(
    ("file", "cause"),
    [("/usr/lib/python3.11/multiprocessing/popen_fork.py", "thread-limit"), ("/app/socket.py", "app-exception")],
)
def test_a_resource_that_is_unavailable_is_a_process_where_one_was_started(
    verdict: Verdict, file: str, cause: str
) -> None:
    error = "BlockingIOError: [Errno 11] Ressource temporairement non disponible"
    assert verdict({"rank0.log": RAISED.format(file=file, error=error)}).cause.id == cause


def test_two_words_for_one_lack_are_one_cause(verdict: Verdict) -> None:
    logs = {}
    for rank in range(4):
        host = "w1" if rank > 1 else "w0"
        words = {2: "OSError: [Errno 5] Input/output error", 3: "OSError: [Errno 117] Structure needs cleaning"}.get(
            rank, "RuntimeError: [/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.9]:1234."
        )
        logs[f"rank-{rank}.log"] = f"rank={rank} world_size=4 host={host} pid={rank}\n" + RAISED.format(
            file="/app/t.py", error=words
        )
    said = verdict(logs)
    assert (said.cause.id, said.initiating.ranks, said.initiating.hosts) == ("storage-io-error", [2, 3], ["w1"])


def test_what_the_program_calls_a_warning_is_no_sure_end(verdict: Verdict) -> None:
    torn = "PytorchStreamReader failed reading zip archive: failed finding central directory"
    said = verdict({"rank0.log": f"step 1000 loss 2\nWARNING ckpt: step_400 looks torn ({torn})"})
    assert said.confidence < 0.8
    assert said.missing


def test_a_credential_that_a_node_refuses_is_a_matter_of_clocks_or_keys(verdict: Verdict) -> None:
    said = verdict(
        {"slurm-20.out": "srun: error: Task launch for StepId=20.0 failed on node t4: Invalid job credential\n"}
    )
    assert (said.cause.id, said.initiating.hosts) == ("certificate-or-clock", ["t4"])
