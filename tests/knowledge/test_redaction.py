"""Secrets leave the text, everything a diagnosis needs stays, and no line is slow."""

import base64
import random
import time

import pytest

from knowledge.redaction import PLACEHOLDER, redact, redact_bytes

HEX40 = "0123456789abcdef0123456789abcdef01234567"

SECRETS = [
    ("AKIAIOSFODNN7EXAMPLE", "key {}"),
    ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AKIAIOSFODNN7EXAMPLE {}"),
    ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_access_key = {}"),
    ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SECRET_ACCESS_KEY={}"),
    ("AIzaSyA-1234567890abcdefghijklmnopqrstu", "GET /v1?key={}"),
    ("ya29.a0AfB_byC1234567890abcdef", "gcloud said {}"),
    ("abcd+/efgh==", "AccountName=x;AccountKey={};EndpointSuffix=y"),
    ("Abc8Q~abcdefghij-ABCDEFGHIJ.0123456789", "client {}"),
    ("abcdefghij%3D", "https://x.blob.example.net/c?sv=1&sig={}&se=1"),
    ("hf_abcdefghijklmnopqrstuvwxyz0123456789", "login with {} failed"),
    ("sk-proj-abcDEF1234567890_12345", "Incorrect API key provided: {}."),
    ("ghp_0123456789abcdefABCDEF0123456789abcd", "clone https://{}@github.com/o/r"),
    ("github_pat_11ABCDEFG0123456789_abcdefghijklmnop", "{}"),
    ("xoxb-test-not-a-token", "using {}"),
    (HEX40, "WANDB_API_KEY={}"),
    (HEX40, "wandb login --relogin {}"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcDEF123", "cookie {}"),
    ("abcdefgh12345", "Authorization: Bearer {}"),
    ("dXNlcjpwYXNz", "authorization: Basic {}"),
    ("dXNlcjpwYXNz", "sent Basic {} to the proxy"),
    ("abcdef", "curl -H 'Authorization: token {}'"),
    ("abcdefgh12345678", "headers: bearer {}"),
    ("s3cr@t", "postgres://train:{}@db.example.org:5432/x"),
    ("pa55", "redis://:{}@cache:6379"),
    ("hunter2", "password={}"),
    ("hunter2", "Password: {}"),
    ("hunter 2, with space", '"password": "{}", "x": 1'),
    ("hunter2", '{{\\"password\\": \\"{}\\"}}'),
    ("swordfish", "passwd: {}"),
    ("ab,cd", "PGPASSWORD={} psql"),
    ("xyz123", "client_secret={}&grant=1"),
    ("abc123", "token={}"),
    ("a1b2c3d4e5f6", "token: {}"),
    ("abc", 'accessToken: "{}"'),
    ("abc", "api_key: {}"),
    ("abc", "Namespace(lr=0.1, api_key='{}', x=2)"),
    ("abcdef", "['train.py', '--wandb_key', '{}']"),
    ("hunter2", "mysql --password {} -e x"),
    ("hunter2", "machine api.example.org login user password {}"),
    ("T000/B000/abcdEFGH", "https://hooks.slack.com/services/{}"),
    ("AwQFAAC1234567890abcdefgh==", "MUNGE:{}:"),
    ("alice.b@example.com", "mail <{}>, please"),
    ("hf_abcdefghijklmnopqrstuvwxyz0123456789", '{{"log": "one line\\n{}"}}'),
    ("AKIAIOSFODNN7EXAMPLE", "\\u0022{}\\u0022"),
    ("ghp_0123456789abcdefABCDEF0123456789abcd", "next=%3D{}%26b"),
    ("hunter2", "GET /login?next=x%3Fpassword%3D{} HTTP/1.1"),
    ("hunter2", "dsn=postgres%3A%2F%2Ftrain%3A{}%40db.example.org%3A5432"),
    ("hunter2", '\\\\\\"password\\\\\\": \\\\\\"{}\\\\\\"'),
    ("hunter2", "DB_PASS={} FORWARD_PASS=3"),
]

COLOURED = [
    "\x1b[33mpassword\x1b[0m=\x1b[32m'hunter2'\x1b[0m and more",
    "password\x1b[0m: \x1b[1;32mhunter2\x1b[0m and more",
    "key \x1b[32mAKIAIOSFODNN7EXAMPLE\x1b[0m and more",
]

KEPT = [
    "\x1b[33mloss\x1b[0m=\x1b[32m2.31\x1b[0m",
    "tokens=4096 n_tokens=12 tokens/s: 1234 max_tokens=5 tokens per second per gpu: 4000.1",
    "IndexError: token id 50257 is out of range; token=50257 token: 50257",
    "pad_token=[PAD] eos_token='</s>' bos_token: <s> pad_token_id=0 mask_token='[MASK]'",
    f"git commit {HEX40}",
    "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-8f6f1d0e-1234-5678-9abc-def012345678)",
    "NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, GPU has fallen off the bus.",
    "gpu-n17:12345:12399 [0] NCCL INFO comm 0x55f0 rank 0 nranks 8 cudaDev 0 busId 1b000 commId 0x9d0bb3d4b5a1d7d8",
    "NET/IB: Got completion from peer 10.0.0.3<51234> with status=12 opcode=0 len=0 vendor err 129",
    "tcp://10.0.0.1:29500 http://[::1]:8080/x torchrun --rdzv-endpoint=gpu-n1:29500",
    "s3://bucket/shards/dGhpc2lzYXNoYXJkbmFtZQ-00001-of-00512.tar",
    "json.decoder.JSONDecodeError: Unexpected token: line 1 column 5",
    "PWD=/home/alice/train OLDPWD=/",
    'MountVolume.SetUp failed for volume "w" : secret "wandb-api-key" not found',
    "ssh: root@gpu-n17.cluster.local: Permission denied (publickey,password).",
    "Basic operations only, bearer token missing",
    "tensor([50257, 3]) tensor(0.1, device='cuda:0') loss=0.1 key_cache=3 key=value",
    "wandb: W&B API key is configured. Use `wandb login --relogin` to force relogin",
    "token=None password= secret=${SECRET} api_key=*** password_file=/run/secrets/pw",
    "time per token: 12.5ms, loss_per_token=3.25e-4",
    "[prterun-n1-1234@1,3]<stderr>: pull image@sha256:0123456789abcdef",
    'missing keys: ["layers.0.weight"], store key default_pg/0//cuda//0, key: worker/attempt_0/default/0',
    "SeqNum=1234, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000",
]

PEM = [
    "-----BEGIN RSA PRIVATE KEY-----",
    "Proc-Type: 4,ENCRYPTED",
    "",
    base64.b64encode(bytes(range(48))).decode(),
    base64.b64encode(bytes(range(60, 108))).decode(),
    "aBcD1w==",
    "-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("line", COLOURED)
def test_colours_hide_no_secret(line: str) -> None:
    cleaned = redact(line)
    assert "hunter2" not in cleaned
    assert "EXAMPLE" not in cleaned
    assert cleaned.endswith(" and more")


@pytest.mark.parametrize(("secret", "frame"), SECRETS, ids=[frame for _, frame in SECRETS])
def test_a_secret_leaves_the_line_and_the_words_around_it_stay(secret: str, frame: str) -> None:
    cleaned = redact(frame.format(secret))

    assert secret not in cleaned
    assert PLACEHOLDER.search(cleaned)
    before, after = frame.format("\0").split("\0")
    assert cleaned.endswith(after)
    if "AKIA" not in before:
        assert cleaned.startswith(before)


@pytest.mark.parametrize("line", KEPT)
def test_what_a_diagnosis_needs_is_not_touched(line: str) -> None:
    assert redact(line) == line


def test_a_private_key_leaves_line_by_line() -> None:
    text = "\n".join(["loading", *PEM, "step 12 loss 3.25"])

    cleaned = redact(text).split("\n")

    assert len(cleaned) == len(PEM) + 2
    assert cleaned[0] == "loading"
    assert cleaned[-1] == "step 12 loss 3.25"
    assert all(PLACEHOLDER.fullmatch(line) for line in cleaned[4:7])


def test_a_private_key_written_into_one_line_of_json_leaves() -> None:
    cleaned = redact('{"private_key": "' + "\\n".join(PEM) + '", "type": "service_account"}')

    assert not any(line in cleaned for line in PEM[3:6])
    assert '"type": "service_account"' in cleaned


def test_a_line_of_a_private_key_is_known_on_its_own() -> None:
    assert PLACEHOLDER.fullmatch(redact(PEM[3]))


def test_a_key_that_is_cut_off_does_not_hide_the_lines_after_it() -> None:
    text = "\n".join([*PEM[:4], "RuntimeError: boom", "rank 3 exits"])

    assert redact(text).endswith("\nRuntimeError: boom\nrank 3 exits")


def test_equal_secrets_stay_equal_and_different_ones_different() -> None:
    one, two, other = redact("password=hunter2 x\npasswd: hunter2\npassword=hunter3").split("\n")

    assert PLACEHOLDER.findall(one) == PLACEHOLDER.findall(two)
    assert PLACEHOLDER.findall(one) != PLACEHOLDER.findall(other)


def test_a_salt_changes_the_digits() -> None:
    assert redact("password=hunter2", salt=b"a") != redact("password=hunter2", salt=b"b")
    assert redact("password=hunter2", salt=b"a" * 64) != redact("password=hunter2")


def test_a_forged_placeholder_hides_nothing() -> None:
    assert "leak" not in redact("password=[redacted:password:12ab]leak")


def test_names_without_end_quote_hide_the_rest_of_the_line_only() -> None:
    assert redact("password='abc def\nnext").split("\n")[1] == "next"


def _mixtures(seed: int, count: int) -> list[str]:
    """Lines put together at random from secrets, harmless words, rests of both and separators."""
    chance = random.Random(seed)
    parts = [frame.format(secret) for secret, frame in SECRETS] + KEPT + PEM
    glue = [
        "",
        " ",
        ",",
        "'",
        '"',
        "=",
        ":",
        "\\",
        "\n",
        "\r",
        "@",
        "/",
        "[redacted:password:12ab]",
        "\x00",
        "é",
        "\udc80",
    ]
    texts = []
    for _ in range(count):
        text = ""
        for _ in range(chance.randint(1, 6)):
            part = chance.choice(parts)
            begin = chance.randrange(len(part) + 1)
            text += chance.choice([part, part[begin:], part[:begin]]) + chance.choice(glue)
        texts.append(text)
    return texts


@pytest.mark.parametrize("seed", range(4))
def test_redacting_twice_changes_nothing_and_no_line_comes_or_goes(seed: int) -> None:
    for text in _mixtures(seed, 400):
        once = redact(text)
        assert redact(once) == once, text
        assert once.count("\n") == text.count("\n")
        assert once.count("\r") == text.count("\r")


@pytest.mark.parametrize("seed", range(2))
def test_any_bytes_survive(seed: int) -> None:
    chance = random.Random(seed)
    for text in _mixtures(seed, 100):
        noise = chance.randbytes(40).replace(b"@", b"").replace(b"\n", b"")
        data = text.encode("utf-8", "surrogateescape")
        assert redact_bytes(noise) == noise
        assert redact_bytes(data + b"\n" + noise).endswith(b"\n" + noise)
        assert redact_bytes(data) == redact(text).encode("utf-8", "surrogateescape")


HOSTILE = [
    *[
        "password=",
        'password="',
        'password=\\"',
        "password=,a",
        "password=[redacted:",
        "api_key=${",
        "_auth=",
        "pwd : ",
    ],
    *["token=", 'token="a ', "token=<", "token=1,", "--token ", "credentials: ", "eyJaaaaaaaaa-", "eyJaaaaaaaaa."],
    *["a@", "a.@", "@a.", "x@a.b.", "://a:", "://a:@", "bearer ", "authorization: ", "authorization: basic "],
    *["AKIA", "sk-", "xoxb-", "hf_", "8Q~", "MUNGE:a", "?sig=", "wandb login ", "wandb key 0123456789", "basic A="],
    *['"', "'", "\\", "-----BEGIN PRIVATE KEY-----", "[redacted:", "=", "\udc80", "0123456789abcdef", "Zz9", "a", "\r"],
]


@pytest.mark.parametrize("fragment", HOSTILE)
def test_a_hostile_line_of_a_megabyte_is_done_in_bounded_time(fragment: str) -> None:
    line = fragment * (1_000_000 // len(fragment))

    began = time.process_time()
    redact(line)
    redact("-----BEGIN PRIVATE KEY-----\n" + line + "!")

    assert time.process_time() - began < 4
