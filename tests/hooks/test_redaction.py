"""Nothing secret leaves the node."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from knowledge.redaction import PLACEHOLDER

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
    "private-key": '{"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIBnotakey0123456789\\n-----END PRIVATE KEY-----"}',
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
