"""Secrets that a name announces in other ways than `name=value`, and what looks like one and is none."""

from __future__ import annotations

import pytest

from knowledge.redaction import redact_bytes

VALUE = "a9Zq7xK2mW4tY6uR8pL3nJ5h"


@pytest.mark.parametrize(
    "line",
    [
        f"WANDB_API_KEY   {VALUE}",
        f"<s3:secretKey>{VALUE}</s3:secretKey>",
        f"the access token is {VALUE}",
        f"Cookies: {{'session': '{VALUE}'}}",
        f"api_key=SecretStr('{VALUE}')",
        f"password: b'{VALUE}'",
        f"ldapsearch -x -D cn=reader -w {VALUE} -b dc=example",
        f"smbclient //filer/data -U reader%{VALUE}",
        f"GET /data?signature={VALUE}&part=1",
        f"whsec_{VALUE}",
        f"SG.{VALUE}.{VALUE}{VALUE}",
    ],
)
def test_a_secret_that_is_told_otherwise_is_replaced(line: str) -> None:
    assert VALUE not in redact_bytes(line.encode()).decode()


@pytest.mark.parametrize(
    "line",
    [
        'MountVolume.SetUp failed for volume "hf-token" : secret "hf-token-v2" not found',
        "job_credential: expired",
        "the token is invalid",
        "STORE_KEY default_pg",
        "ncclCommInitRank comm 0x55d0c01f rank 3 nranks 8 commId 0x7b1c9a7713aa2f01",
        "GPU-8f0c1d2e-1111-2222-3333-444455556666",
        "tokens per second 12345678901234567890123",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    ],
)
def test_what_only_sounds_like_one_stays(line: str) -> None:
    assert redact_bytes(line.encode()).decode() == line
