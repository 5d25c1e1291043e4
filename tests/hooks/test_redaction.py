"""Nothing secret leaves the node."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from knowledge.redaction import PLACEHOLDER
from tests.knowledge.test_redaction import KEPT, KEPT_OVER_LINES, OVER_LINES
from tests.knowledge.test_redaction import SECRETS as SECRETS_OF_THE_SERVICE

SECRETS = {
    "aws-key": "found AKIAABCDEFGHIJKLMNOP in the environment",
    "hf-token": "login with hf_AbCdEfGhIjKlMnOpQrSt",
    "openai-key": "Incorrect API key provided: sk-proj-abcDEF1234567890abcd",
    "github-token": "cloning with ghp_abcdefghij0123456789ABCD",
    "gitlab-token": "cloning with glpat-abcdefghij0123456789",
    "slack-token": "xoxb-test-not-a-token",
    "slack-hook": "POST https://hooks.slack.com/services/T00/B00/notarealhook",
    "jwt": "got eyJhbGciOiJub25lIn0.eyJzdWIiOiJub2JvZHkifQ.c2lnbmF0dXJl",
    "wandb-key": "wandb: login 0123456789abcdef0123456789abcdef01234567",
    "credential": "Authorization: Bearer abcdef0123456789",
    "signature": "GET https://bucket/x?X-Amz-Signature=0123456789abcdef",
    "password": "connecting to postgresql://trainer:hunter22@db:5432/runs",
    "email": "run of alice.example+ml@example.com",
    "munge-credential": "MUNGE:AwQFAABnotARealCredential0123:",
    "private-key": '{"pem": "-----BEGIN PRIVATE KEY-----\\nMIIBnotakey0123456789\\n-----END PRIVATE KEY-----"}',
}
VALUES = re.compile(
    "AKIAABC|hf_AbC|sk-proj|ghp_|glpat-|xoxb-|notarealhook|eyJ|0123456789|abcdef|hunter22|alice|AwQFAAB|MIIB|pass,w"
)


@pytest.fixture
def redact(hook: Any) -> Any:
    return hook.Redaction("hook-test-not-a-token")


@pytest.mark.parametrize("kind", SECRETS)
def test_each_kind_of_secret_becomes_a_placeholder(redact: Any, kind: str) -> None:
    clean = redact(SECRETS[kind].encode()).decode()
    assert f"[redacted:{kind}:" in clean
    assert not VALUES.search(PLACEHOLDER.sub("", clean))


@pytest.mark.parametrize(
    "line",
    ["password=hunter22", 'DB_PASSWORD="hunter22"', "{'api_key': 'hunter22'}", "secret: hunter22", "--password hunter22",
     "export AWS_SECRET_ACCESS_KEY=hunter22/hunter22", "auth_token=hunter22", "password=hunter22,x", "passwd => hunter22",
     "token=hunter22hunter22hunter22"],
)  # fmt: skip
def test_a_name_that_says_secret_hides_its_value(redact: Any, line: str) -> None:
    assert "hunter" not in redact(line.encode()).decode()


@pytest.mark.parametrize(
    "line",
    [
        "num_tokens=1048576 tokens per second: 5123.2",
        "pad_token='<|endoftext|>' eos_token_id=2",
        "pwd=/home/alice/run",
        "root@gpu-n17.cluster.local rank 3",
        "[rank3]:[E1130 08:05:38.123456789 ProcessGroupNCCL.cpp:632] Watchdog caught collective operation timeout",
        "NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, GPU has fallen off the bus.",
        "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "KeyError: 'transformer.h.0.attn.weight'",
        "slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-11-30T08:05:46 ***",
    ],
)
def test_what_a_diagnosis_needs_stays(redact: Any, line: str) -> None:
    assert redact(line.encode()).decode() == line


SAMPLES = [*SECRETS_OF_THE_SERVICE, *OVER_LINES]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(("secret", "frame"), SAMPLES, ids=[frame for _, frame in SAMPLES])
def test_what_the_service_would_hide_does_not_even_reach_it(
    redact: Any, secret: str, frame: str, encoding: str
) -> None:
    text = f"rank 3 starts\n{frame.format(secret)}\nrank 3 ends\n".encode(encoding)
    clean = redact(text)
    assert secret not in clean.replace(b"\0", b"").decode("latin-1")
    assert clean.count(b"\n") == text.count(b"\n")
    assert redact(clean) == clean


@pytest.mark.parametrize("text", [*KEPT, *KEPT_OVER_LINES])
def test_what_the_service_would_keep_reaches_it(redact: Any, text: str) -> None:
    assert redact(text.encode()).decode() == text


@pytest.mark.parametrize("unseen", [b"\0", b"\x1b[31m", b"\x08"])
def test_characters_that_nobody_sees_hide_no_secret_wherever_they_stand(redact: Any, unseen: bytes) -> None:
    line = b"rank 3: got hf_abcdefghijklmnopqrstuvwxyz0123456789 and AKIAIOSFODNN7EXAMPLE"
    for at in range(len(line) + 1):
        clean = PLACEHOLDER.sub("*", redact(line[:at] + unseen + line[at:]).replace(unseen, b"").decode())
        assert clean == "rank 3: got * and *", at


TORN = [
    ("qZ7xK9vB2m", "password = {}"),
    ("qZ7xK9vB2m", "> Authorization: Bearer {}"),
    ("qZ7xK9vB2m", "+ docker login -u train -p {} registry"),
    ("qZ7x K9vB 2m", '"password": "{}", "port": 5432'),
    ("hf_qZ7xK9vB2mW4tY6u", "got {} here"),
    ("qZ7xK9vB2m", "password:\n  {}\nport: 5432"),
    ("qZ7xK9vB2m", "- name: WANDB_API_KEY\n  value: {}\n"),
]


@pytest.mark.parametrize("newlines", [True, False], ids=["many lines", "one endless line"])
@pytest.mark.parametrize(("secret", "frame"), TORN, ids=[frame for _, frame in TORN])
def test_a_long_log_may_be_cut_anywhere(
    hook: Any, redact: Any, secret: str, frame: str, newlines: bool, tmp_path: Path
) -> None:
    """What is left out between the parts that are sent may begin and end at any byte of a secret and of its name."""
    log, text = tmp_path / "rank-0.log", frame.format(secret)
    step = "step 41 loss 2.31\n" if newlines else "step 41 loss 2.31 "
    for place in (512, 2000, 3072):  # where the head ends, where a window is, where the tail begins
        for shift in range(len(text) + 8):
            before = (step * 400)[: place - shift] if place != 2000 else step * 90 + " " * shift + "Error " + " " * 40
            whole = before + text + (step * 400)[: 4096 - len(before) - len(text)]
            log.write_text(whole)
            with log.open("rb") as file:
                sent = redact(hook.trim(file.fileno(), os.fstat(file.fileno()).st_size, 2048, 1 << 20, redact.fit))
            left = PLACEHOLDER.sub("", sent.decode())
            assert not any(secret[at : at + 4] in left for at in range(len(secret) - 3)), (place, shift, left)


def test_names_of_logs_lose_their_secrets_and_nothing_else(redact: Any) -> None:
    assert redact.name("n1/slurm-48213.out") == "n1/slurm-48213.out"
    clean = redact.name("runs/hf_abcdefghijklmnopqrstuvwxyz0123456789/rank-2.err")
    assert re.fullmatch(r"runs/redacted-hf-token-[0-9a-f]{4}/rank-2\.err", clean)
    assert redact.name(clean) == clean


def test_facts_lose_their_secrets_also_in_lists(redact: Any) -> None:
    facts = redact.words({"comment": "password=hunter22", "nodes": ["gpu-n1", "password=hunter22"], "attempt": 2})
    assert "hunter" not in str(facts)
    assert facts["nodes"][0] == "gpu-n1"
    assert facts["attempt"] == 2


def test_a_private_key_goes_line_by_line_and_the_evidence_after_it_stays(redact: Any) -> None:
    body = "\n".join(f"0: MIIEowIBAAKCAQEAnotArealKey{n:036d}" for n in range(3))
    text = f"0: -----BEGIN RSA PRIVATE KEY-----\n{body}\n0: -----END RSA PRIVATE KEY-----\n0: RuntimeError: boom\n"
    clean = redact(text.encode()).decode()
    assert "MIIE" not in clean
    assert clean.count("\n") == text.count("\n")
    assert clean.endswith("0: RuntimeError: boom\n")


def test_a_key_whose_begin_was_trimmed_away_is_still_hidden(redact: Any) -> None:
    assert b"Qx9" not in redact(b"Qx9" + b"aB3dE5gH7jK" * 5 + b"aB3dE5\n-----END PRIVATE KEY-----\n")


def test_equal_secrets_look_equal_on_every_node_of_a_site_and_different_elsewhere(hook: Any) -> None:
    here, there = hook.Redaction("token-of-site-a"), hook.Redaction("token-of-site-b")
    lines = [f"password=secret-number-{n}".encode() for n in range(20)]
    assert [here(line) for line in lines] == [hook.Redaction("token-of-site-a")(line) for line in lines]
    assert [here(line) for line in lines] != [there(line) for line in lines]


def test_redacting_twice_changes_nothing_more(redact: Any) -> None:
    once = redact("\n".join(SECRETS.values()).encode())
    assert redact(once) == once


def test_any_bytes_survive(redact: Any) -> None:
    assert redact(bytes(range(256)) * 3) == bytes(range(256)) * 3


@pytest.mark.parametrize(
    "piece", [b"eyJ", b"-eyJ", b"a" * 64, b"password", b"--", b"://", b"@a", b"a.", b"wandb", b"sk-", b"token=", b" "]
)
def test_hostile_text_costs_linear_time(redact: Any, piece: bytes) -> None:
    def seconds(size: int) -> float:
        began = time.process_time()
        redact(piece * (size // len(piece)))
        return time.process_time() - began

    seconds(1 << 14)
    assert seconds(1 << 19) < 64 * max(seconds(1 << 16), 0.002)
