"""Secrets leave the text, everything a diagnosis needs stays, and no line is slow."""

import base64
import random
import time

import pytest

from knowledge.redaction import PLACEHOLDER, redact, redact_bytes, redact_name

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
    ("session=abc123; theme=dark", "> Cookie: {}"),
    ("sid=s%3Aabc123; Path=/; HttpOnly", "Set-Cookie: {}"),
    ("session=abc123", "{{'Accept': '*/*', 'Cookie': '{}', 'User-Agent': 'x'}}"),
    ("hunter2", "+ curl -sS -u train:{} https://data.example.org/shard"),
    ("hunter2", "curl --user train:{} -o x"),
    ("hunter2", "curl -sutrain:{} x"),
    ("hunter2", "+ docker login -u train -p {} images.example.org"),
    ("hunter2", "['podman', 'login', '-p', '{}', 'registry']"),
    ("hunter2", "sshpass -p {} ssh gpu-n1"),
    ("hunter2", "sshpass -p'{}' ssh gpu-n1"),
    ("hunter2", "mysql -h db -utrain -p{} runs"),
    ("hunter2", "redis-cli -h cache -a {} ping"),
    ("glpat-abcdefghij0123456789", "clone {}"),
    ("glrt-abcdefghij0123456789", "clone {}"),
    ("sk-ant-api03-abcDEF1234567890", "Anthropic said no to {}"),
    ("GOCSPX-abcdefghijklmnopqrstuvwx", "client {}"),
    ("dapi0123456789abcdef0123456789abcdef", "mlflow at {}"),
    ("dckr_pat_abcdefghijklmnopqrstuvwx1", "pull with {}"),
    ("hvs.abcdefghijklmnopqrstuvwxyz0123", "vault {}"),
    ("eyJhcGlfYWRkcmVzcyI6Imh0dHBzOi8vYXBwIn0=", "neptune: {} is no valid token"),
    ("abcdefghijklmnop", "export COMET_API_KEY={}"),
    ("abcdefghij", "declare -x MLFLOW_TRACKING_TOKEN='{}'"),
    ("abcdefghij", "NEPTUNE_API_TOKEN={}"),
    ("abcdefghij", "environ({{'HOME': '/home/alice', 'WANDB_API_KEY': '{}', 'RANK': '3'}})"),
    ("abc", '{{"name": "HF_TOKEN", "value": "{}"}}'),
    ("hunter2", "  DB_PASSWORD:                         {}"),
    ("abcdefghijklmnopqrst", "https://discord.com/api/webhooks/123456/{}"),
]

OVER_LINES = [
    ("hunter2", "database:\n  password:\n    {}\n  port: 5432"),
    ("hunter2", '{{\n  "password":\n    "{}",\n  "port": 5432\n}}'),
    ("hunter2", "0: secret:\r\n0:   {}\r\n0: step 3"),
    ("hunter2", "12:00:01 password:\n12:00:02   {}\n12:00:02 step 3"),
    ("hunter two", "password: |\n  {}\nport: 5432"),
    ("abc", "env:\n- name: WANDB_API_KEY\n  value: {}\n- name: RANK\n  value: '3'"),
    ("abc", '"name": "WANDB_API_KEY",\n"value": "{}"\n'),
    ("hunter2", "['train.py',\n '--db-password',\n '{}',\n '--lr', '0.1']"),
    ("hunter2", "args:\n- --wandb-key\n- {}\n- --lr"),
    ("abcdefgh12", "access_token:\n\n  {}\nstep 3"),
]

KEPT_OVER_LINES = [
    "Password:\nRuntimeError: boom",
    "Password:\n[rank3]: RuntimeError: boom",
    "password:\n  port: 5432",
    "missing key:\n  layers.0.weight",
    "token:\n  50257\nstep",
    "credentials:\n  username: alice",
    "env:\n- name: RANK\n  value: '3'\n- name: HF_TOKEN\n  valueFrom:\n    secretKeyRef:\n      name: hf",
    "--no-token\nTraceback (most recent call last):",
    "secret:\n\n\n\n  checkpoint-1000",
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
    "docker run -p 8080:80 -u 1000:1000 image; ssh -p 2222 root@gpu-n17.example.com; mysql -p runs -P 3306",
    "curl -sS https://gpu-n1:8443/healthz; python -u train.py:3",
    "git@git.example.org:team/train.git at 0123456789abcdef0123456789abcdef01234567",
    "systemd: user@1000.service: Failed, nv-hostengine@0.service restarted, load actor@12.safetensors",
    "cookie: 0x7f21 magic cookie mismatch, cookies disabled",
    "Container image images.example.org/train@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "ncclUniqueId 0x9d0bb3d4b5a1d7d8 comm 0x55f0aa12 nranks 64 localRanks 8 - Init COMPLETE",
    "saved /ckpt/global_step12000/mp_rank_03_model_states.pt and checkpoint-12000/optimizer.bin",
    "HF_TOKEN:    <set to the key 'token' in secret 'hf'>  Optional: false",
    "TOKENIZERS_PARALLELISM=false TOKENIZER_PATH=/models/tok MAX_TOKENS=4096",
    '{"name": "MAX_TOKENS", "value": "4096"}, {"name": "NCCL_DEBUG", "value": "INFO"}',
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


@pytest.mark.parametrize(("secret", "frame"), OVER_LINES, ids=[frame for _, frame in OVER_LINES])
def test_a_secret_below_its_name_leaves_and_the_lines_around_it_stay(secret: str, frame: str) -> None:
    assert redact(frame.format(secret)) == frame.format("[redacted:password:0000]")


@pytest.mark.parametrize("text", KEPT_OVER_LINES)
def test_what_merely_follows_a_name_is_not_touched(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(("secret", "frame"), [*SECRETS, *OVER_LINES], ids=[frame for _, frame in SECRETS + OVER_LINES])
def test_utf_16_hides_no_secret(secret: str, frame: str, encoding: str) -> None:
    data = f"rank 3 starts\n{frame.format(secret)}\nrank 3 ends\n".encode(encoding)

    cleaned = redact_bytes(data)

    assert secret not in cleaned.replace(b"\0", b"").decode("latin-1")
    assert b"[redacted:" in cleaned
    assert cleaned.startswith("rank 3 starts".encode(encoding)), "lines without a secret stay as they are"
    assert cleaned.count(b"\n") == data.count(b"\n")


@pytest.mark.parametrize("unseen", ["\0", "\x1b[31m", "\x1b[0m", "\x08", "\x7f", "\x1b[1;38;5;196m"])
def test_characters_that_nobody_sees_hide_no_secret_wherever_they_stand(unseen: str) -> None:
    line = "rank 3: got hf_abcdefghijklmnopqrstuvwxyz0123456789 and AKIAIOSFODNN7EXAMPLE"
    for at in range(len(line) + 1):
        cleaned = redact(line[:at] + unseen + line[at:])
        assert cleaned.replace(unseen, "").startswith("rank 3: got [redacted:hf-token:0000] and [redacted:aws-key:"), at


def test_variables_that_only_nuls_part_are_told_apart() -> None:
    environ = b"HOME=/home/alice\0WANDB_API_KEY=abcdef\0RANK=3\0HF_X=hf_abcdefghijklmnopqrstuvwxyz0123456789\0"
    assert b"abcdef" not in redact_bytes(environ)


def test_a_log_looks_the_same_whether_it_is_short_or_long() -> None:
    padding = "step 41 loss 2.31\n" * 2000
    texts = [frame.format(secret) for secret, frame in [*SECRETS, *OVER_LINES]] + KEPT + KEPT_OVER_LINES + COLOURED
    for text in [*texts, "\n".join(PEM)]:
        assert redact(f"{padding}{text}\n") == f"{padding}{redact(text)}\n"
        assert redact(f"{text}\n{padding}") == f"{redact(text)}\n{padding}"


@pytest.mark.parametrize("name", ["slurm-48213.out", "n1/rank-2.err", "none_abc/attempt_0/3/stderr.log"])
def test_names_of_logs_stay(name: str) -> None:
    assert redact_name(name) == name


def test_a_secret_leaves_the_name_of_a_log() -> None:
    name = "runs/hf_abcdefghijklmnopqrstuvwxyz0123456789/alice@example.com.log/token=abc123.log"
    assert redact_name(name) == "runs/redacted-hf-token-0000/redacted-email-0000.log/token=redacted-password-0000.log"
    assert redact_name(redact_name(name)) == redact_name(name)


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
    one, two, other = redact("password=hunter2 x\npasswd: hunter2\npassword=hunter3", salt=b"a").split("\n")

    assert PLACEHOLDER.findall(one) == PLACEHOLDER.findall(two)
    assert PLACEHOLDER.findall(one) != PLACEHOLDER.findall(other)


def test_a_salt_changes_the_digits() -> None:
    assert redact("password=hunter2", salt=b"a") != redact("password=hunter2", salt=b"b")
    assert redact("password=hunter2", salt=b"a" * 64) != redact("password=hunter2")


def test_without_a_salt_the_digits_say_nothing_that_a_list_of_passwords_could_be_tested_against() -> None:
    assert {redact(f"password=hunter{n}") for n in range(100)} == {"password=[redacted:password:0000]"}


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
def test_a_hostile_line_is_done_in_bounded_time(fragment: str) -> None:
    line = fragment * (250_000 // len(fragment))
    redact("x" * 20_000)  # what is made once a process costs as much as a million characters

    began = time.process_time()
    redact(line)
    redact("-----BEGIN PRIVATE KEY-----\n" + line + "!")

    assert time.process_time() - began < 6
