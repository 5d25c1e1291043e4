"""The dossier: every rank's account, the timeline, the logs and the run's settings, all quotable."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge import diagnose, examine
from knowledge.dossier import MAX_RANKS, Dossier, Part

CASES = Path(__file__).parents[1] / "cases"
SOME = ["injected/i001", "injected/i027", "reports/r010", "sequences/q03", "simulated/s008", "simulated/s042"]
TIMEOUT = (
    "[rank{rank}]:[E ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=1234, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds"
    " before timing out."
)
OOM = "[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.10 GiB"


def _job(folder: Path, ranks: int, guilty: int, extra: str = "") -> Path:
    logs = folder / "logs"
    logs.mkdir(parents=True)
    for rank in range(ranks):
        lines = [
            f"2026-03-01 03:00:00,000 INFO rank {rank} of {ranks} on gpu-n{rank // 8} pid {1000 + rank}",
            *(f"2026-03-01 03:00:{step:02d},000 INFO step {step} loss 2.5" for step in range(1, 10)),
            extra,
            (OOM if rank == guilty else TIMEOUT).format(rank=rank),
        ]
        (logs / f"rank-{rank}.log").write_text("\n".join(filter(None, lines)) + "\n", encoding="utf-8")
    return folder


def _line(case: Path, source: str, number: int) -> str:
    return (case / "logs" / source).read_bytes().split(b"\n")[number - 1].decode("utf-8", "replace")


def _quotes(dossier: Dossier) -> list[tuple[str, int, str]]:
    said = [line for account in dossier.ranks for line in (account.telling, account.last) if line]
    said += [setting.said for setting in dossier.settings]
    quoted = [(line.source, line.line, line.text) for line in said]
    return quoted + [(line.source, line.line, line.text) for line in dossier.timeline]


@pytest.mark.parametrize("name", SOME)
def test_examining_gives_the_same_diagnosis_as_diagnosing(name: str) -> None:
    case = CASES / name
    diagnosis, _ = examine([case])
    assert diagnosis.model_dump(exclude={"stats"}) == diagnose([case]).model_dump(exclude={"stats"})


@pytest.mark.parametrize("name", SOME)
def test_every_line_quoted_stands_where_it_says(name: str) -> None:
    _, dossier = examine([CASES / name])
    quotes = _quotes(dossier)
    assert quotes
    for source, number, text in quotes:
        words = [word for word in text.rstrip("…").split() if word.isalnum()][:6]
        line = _line(CASES / name, source, number)
        assert all(word in line for word in words), (source, number, text, line)


def test_each_rank_is_told_of_with_its_part_and_its_lines(tmp_path: Path) -> None:
    diagnosis, dossier = examine([_job(tmp_path, ranks=16, guilty=5)])
    assert diagnosis.initiating.ranks == [5]
    guilty, other = dossier.ranks[5], dossier.ranks[9]
    assert (guilty.part, guilty.host, guilty.step) == (Part.INITIATING, "gpu-n0", 9)
    assert guilty.telling
    assert (guilty.telling.source, guilty.telling.line) == ("rank-5.log", 11)
    assert (other.part, other.host) == (Part.COLLATERAL, "gpu-n1")
    assert other.telling
    assert "Watchdog caught collective operation timeout" in other.telling.text


def test_a_rank_that_nothing_has_arrived_of_is_silent(tmp_path: Path) -> None:
    case = _job(tmp_path, ranks=8, guilty=5)
    (case / "logs" / "rank-2.log").unlink()
    _, dossier = examine([case])
    assert dossier.ranks[2].part is Part.SILENT
    assert dossier.ranks[2].last is None


def test_the_timeline_begins_with_the_start_and_ends_with_the_consequences(tmp_path: Path) -> None:
    _, dossier = examine([_job(tmp_path, ranks=8, guilty=5)])
    texts = [line.text for line in dossier.timeline]
    died = next(number for number, text in enumerate(texts) if "OutOfMemoryError" in text)
    assert "INFO rank" in texts[0]
    assert any("step 9" in text for text in texts[:died])
    assert [line.time for line in dossier.timeline if line.time] == sorted(
        line.time for line in dossier.timeline if line.time
    )


def test_settings_are_read_with_the_line_that_tells_them(tmp_path: Path) -> None:
    told = [
        "PyTorch version: 2.4.0+cu121",
        "gpu-n0:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0",
        "NCCL version 2.20.5+cuda12.4",
        "2026-03-01 03:00:03,000 INFO saved checkpoint /ckpt/llama/step-4000",
        "2026-03-01 03:00:04,000 WARNING saving checkpoint step-4500 failed, retrying",
        "2026-03-01 03:00:05,000 INFO resuming from /ckpt/llama/step-3500",
    ]
    _, dossier = examine([_job(tmp_path, ranks=2, guilty=1, extra="\n".join(told))])
    found = {setting.name: setting for setting in dossier.settings}
    assert found["torch"].value == "2.4.0+cu121"
    assert found["nccl"].value == "2.20.5+cuda12.4"
    assert found["NCCL_SOCKET_IFNAME"].value == "eth0"
    assert found["checkpoint"].value == "step 4000, /ckpt/llama/step-4000"
    assert found["resumed from"].value == "step 3500, /ckpt/llama/step-3500"
    assert found["checkpoint"].said.line == 14


def test_secrets_do_not_enter_the_dossier(tmp_path: Path) -> None:
    secret = "hf_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z"
    case = _job(tmp_path, ranks=2, guilty=1, extra=f"HF_TOKEN={secret} NCCL_DEBUG=INFO")
    with (case / "logs" / "rank-0.log").open("a") as log:
        log.write(f"uploading with {secret}\n")
    _, dossier = examine([case])
    assert secret not in dossier.model_dump_json()
    assert "NCCL_DEBUG" in {setting.name for setting in dossier.settings}


def test_a_huge_job_is_folded_and_stays_small(tmp_path: Path) -> None:
    diagnosis, dossier = examine([_job(tmp_path, ranks=4200, guilty=4100)])
    assert diagnosis.initiating.ranks == [4100]
    assert len(dossier.ranks) == MAX_RANKS
    assert any(account.rank == 4100 and account.part is Part.INITIATING for account in dossier.ranks)
    assert "Of 4200 ranks" in dossier.omitted
    assert len(dossier.model_dump_json(by_alias=True)) < 1_000_000
