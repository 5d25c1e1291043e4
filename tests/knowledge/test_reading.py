"""Reading: every line knows its rank, host, attempt and time, whatever wrote it."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import zstandard

from knowledge import diagnose
from knowledge.errors import UnreadableEvidence
from knowledge.reading.bundle import name_source, open_bundle
from knowledge.reading.clocks import parse_time
from knowledge.reading.compressed import open_log
from knowledge.reading.evidence import CaseEvidence
from knowledge.reading.exits import MOST
from knowledge.reading.prefixes import Habits, learn_habits, strip_prefix
from knowledge.reading.regions import ONE_RANK, read_regions
from knowledge.reading.text import MAX_LINE, clean, pieces
from knowledge.scanning import LiteralScanner
from knowledge.signature import SourceKind

Read = Callable[..., CaseEvidence]


def test_ansi_control_characters_and_nul_bytes_vanish() -> None:
    assert clean(b"\x00\x1b[31mboom\x1b[0m\x07 \x1b]0;title\x07end") == "boom end"


def test_bytes_that_are_no_text_survive_as_replacement_characters() -> None:
    assert clean(b"ok \xff\xfe end") == "ok �� end"


def test_a_line_of_a_megabyte_is_cut() -> None:
    assert len(clean(b"x" * 1_000_000)) == MAX_LINE


def test_a_progress_bar_is_many_lines() -> None:
    assert list(pieces(b"1%\r2%\rTraceback (most recent call last):\r\n")) == [
        "1%",
        "2%",
        "Traceback (most recent call last):",
    ]


@pytest.mark.parametrize(
    ("line", "rank", "local", "host", "rest"),
    [
        ("[rank3]: Traceback", 3, None, None, "Traceback"),
        ("[rank3]:[rank3]:   File", 3, None, None, "  File"),
        (
            "[rank3]:[E1203 04:11:08.95 ProcessGroupNCCL.cpp:1595] x",
            3,
            None,
            None,
            "[E1203 04:11:08.95 ProcessGroupNCCL.cpp:1595] x",
        ),
        ("[default5]:[rank21]: boom", 21, 5, None, "boom"),
        ("[1,7]<stderr>:boom", 7, None, None, "boom"),
        ("Mon Nov 30 08:35:21 2026[1,2]<stderr>:boom", 2, None, None, "boom"),
        ("[prterun-host-1234@1,6]<stdout>: boom", 6, None, None, "boom"),
        ("(RayTrainWorker pid=28322, ip=10.0.0.3) boom", None, None, "10.0.0.3", "boom"),
        ("2026-11-30T08:20:32.711112499Z [rank4]: boom", 4, None, None, "boom"),
        ("[pod/llm-worker-3/pytorch] boom", None, None, None, "boom"),
        ("boom", None, None, None, "boom"),
    ],
)
def test_prefixes_that_cannot_be_mistaken(
    line: str, rank: int | None, local: int | None, host: str | None, rest: str
) -> None:
    prefix, text = strip_prefix(line, Habits())
    assert (prefix.rank, prefix.local_rank, prefix.host, text) == (rank, local, host, rest)


def test_a_number_and_a_colon_are_a_rank_only_where_the_file_uses_them_throughout() -> None:
    labelled = [f"{rank:2}: step 10 loss 3.1" for rank in range(12)]
    assert learn_habits(labelled).label
    assert strip_prefix(" 7: boom", Habits(label=True))[0].rank == 7
    assert not learn_habits(["loading", "3: the third rule", "done", "bye"]).label
    assert strip_prefix("3: the third rule", Habits())[0].rank is None


def test_pdsh_writes_the_host_in_front() -> None:
    lines = [f"node0{n % 2 + 1}: step {n}" for n in range(10)]
    habits = learn_habits(lines)
    assert strip_prefix("node02: boom", habits)[0].host == "node02"


@pytest.mark.parametrize(
    ("line", "expected", "zoned"),
    [
        ("2026-03-01 04:00:00,123 - INFO", datetime(2026, 3, 1, 4, 0, 0, 123000, UTC), False),
        ("2026-03-01T04:00:00.5Z boom", datetime(2026, 3, 1, 4, 0, 0, 500000, UTC), True),
        ("2026-03-01T04:00:00+02:00 boom", datetime(2026, 3, 1, 2, 0, 0, 0, UTC), True),
        ("[rank3]:[E709 04:11:08.5 ProcessGroupNCCL.cpp:1] x", datetime(2026, 7, 9, 4, 11, 8, 500000, UTC), False),
        ("W1130 08:19:47.947000 20571 torch/x.py:1] y", datetime(2026, 11, 30, 8, 19, 47, 947000, UTC), False),
        ("[Wed Oct 22 15:25:45 2025] NVRM: x", datetime(2025, 10, 22, 15, 25, 45, 0, UTC), False),
        ("Oct 22 15:25:45 gpu-n17 kernel: x", datetime(2026, 10, 22, 15, 25, 45, 0, UTC), False),
    ],
)
def test_timestamps_of_every_writer(line: str, expected: datetime, zoned: bool) -> None:
    found = parse_time(line, year=2026)
    assert found is not None
    assert found.seconds == pytest.approx(expected.timestamp())
    assert found.zoned is zoned


NO_TIMES = ["no time here", "2026-13-45 99:99:99 x", "[1201841.112233] NVRM: x", ""]
NO_YEARS = ["[Sun Nov 30 10:10:10 0000] x", "0000-01-01 00:00:00 x", "9999-12-31T23:59:99-14:00 x"]


@pytest.mark.parametrize("line", [*NO_TIMES, *NO_YEARS])
def test_what_is_no_timestamp_is_none(line: str) -> None:
    found = parse_time(line, year=2026)
    assert found is None or found.seconds < 0


@pytest.mark.parametrize(
    ("name", "kind", "rank", "host", "attempt"),
    [
        ("rank-137.log", SourceKind.RANK, 137, None, None),
        ("attempt_1.rank-2.stderr.log", SourceKind.RANK, 2, None, 1),
        ("out.12", SourceKind.RANK, 12, None, None),
        ("dmesg-gpu-n17.txt", SourceKind.KERNEL, None, "gpu-n17", None),
        ("node-gpu-n17.dmesg.log", SourceKind.KERNEL, None, "gpu-n17", None),
        ("nvidia-smi-gpu-n17.txt", SourceKind.NODE, None, "gpu-n17", None),
        ("agent-gpu-n17.log", SourceKind.LAUNCHER, None, "gpu-n17", None),
        ("slurmctld.log", SourceKind.SCHEDULER, None, None, None),
        ("k8s-events.txt", SourceKind.KUBERNETES, None, None, None),
        ("slurm-48213.out", None, None, None, None),
    ],
)
def test_names_of_files_say_what_they_are(
    name: str, kind: SourceKind | None, rank: int | None, host: str | None, attempt: int | None
) -> None:
    source = name_source(name, Path(name))
    assert (source.kind, source.rank, source.host, source.attempt) == (kind, rank, host, attempt)


def test_start_up_lines_tie_ranks_to_hosts_processes_and_gpus(evidence: Read) -> None:
    case = evidence(
        {
            "job.log": "init rank=0 local_rank=0 world_size=2 host=n1 pid=100\n"
            "init rank=1 local_rank=0 world_size=2 host=n2 pid=200\n"
            "n2:200:300 [0] NCCL INFO comm 0x1 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId d1000 commId 0x2 - Init START\n"
        }
    )
    assert case.world_size == 2
    assert case.processes[0].host == "n1"
    assert (case.processes[1].host, case.processes[1].pid, case.processes[1].bus) == ("n2", 200, "0000:d1:00")


def test_a_rank_that_starts_again_begins_a_new_attempt(evidence: Read) -> None:
    start = "rank=0 world_size=1 host=n1 pid={}\nstep 1 loss 2\n"
    case = evidence({"launcher.log": start.format(10) + start.format(11)})
    assert case.last_attempt == 1


def test_a_traceback_is_read_through_the_lines_of_other_ranks(evidence: Read) -> None:
    case = evidence(
        {
            "job.log": "0: step 1 loss 1\n1: step 1 loss 1\n"
            "0: Traceback (most recent call last):\n1: step 2 loss 1\n"
            '0:   File "/app/train.py", line 7, in fit\n1: step 3 loss 1\n'
            '0:   File "/venv/lib/python3.11/site-packages/torch/x.py", line 9, in call\n'
            "0: ValueError: bad batch\n1: step 4 loss 1\n"
        }
    )
    (traceback,) = case.tracebacks
    assert (traceback.start.rank, traceback.exception, traceback.message) == (0, "ValueError", "bad batch")
    assert traceback.innermost_user_frame is not None
    assert traceback.innermost_user_frame.function == "fit"


def test_the_first_of_chained_exceptions_is_the_original(evidence: Read) -> None:
    case = evidence(
        {
            "rank-0.log": "Traceback (most recent call last):\n  File \"a.py\", line 1, in load\nKeyError: 'labels'\n\n"
            "During handling of the above exception, another exception occurred:\n\n"
            'Traceback (most recent call last):\n  File "b.py", line 2, in main\nRuntimeError: could not load\n'
        }
    )
    assert case.tracebacks[-1].exception == "RuntimeError"
    assert case.tracebacks[-1].original.exception == "KeyError"


def test_launchers_words_on_how_processes_ended(evidence: Read) -> None:
    case = evidence(
        {
            "slurm-1.out": "srun: error: n2: task 2: Exited with exit code 1\n"
            "srun: error: n1: tasks 0-1: Terminated\nsrun: error: n2: task 3: Segmentation fault (core dumped)\n",
            "mpirun.log": "mpirun noticed that process rank 5 with PID 0 on node n3 exited on signal 9 (Killed).\n",
        }
    )
    told = {found.rank: (found.code, found.host, found.by) for found in case.exits}
    assert told == {
        2: (1, "n2", "srun"),
        0: (-15, "n1", "srun"),
        1: (-15, "n1", "srun"),
        3: (-11, "n2", "srun"),
        5: (-9, "n3", "mpirun"),
    }


def test_what_srun_says_between_the_lines_of_a_traceback_is_not_its_exception(evidence: Read) -> None:
    case = evidence(
        {
            "slurm-1.out": "1: Traceback (most recent call last):\n"
            "srun: error: n2: task 1: Exited with exit code 1\n"
            '1:   File "train.py", line 7, in <module>\n'
            "slurmstepd-n2: error: *** STEP 1.0 ON n2 CANCELLED AT 2026-11-30T08:10:08 ***\n"
            "1: LookupError: no expert for token 9\n"
        }
    )
    assert [(found.exception, found.message) for found in case.tracebacks] == [("LookupError", "no expert for token 9")]


def test_srun_may_name_more_tasks_than_any_job_has(evidence: Read) -> None:
    case = evidence({"job.err": "srun: error: n1: tasks 0-99999999999: Killed\n" * 9})
    assert MOST <= len(case.exits) <= 2 * MOST


def test_packed_logs_are_unpacked(bundle: Callable[..., Path], evidence: Read) -> None:
    text = b"rank=0 world_size=2 host=n1 pid=1\n"
    case = evidence(
        {"rank-0.log.gz": gzip.compress(text), "rank-1.log.zst": zstandard.compress(text.replace(b"rank=0", b"rank=1"))}
    )
    assert set(case.processes) == {0, 1}


def test_a_large_file_is_read_at_its_ends_and_round_hits_with_true_line_numbers(tmp_path: Path) -> None:
    filler = b"2026-01-01 00:00:00 step 1 loss 1.0 tokens per second 1000\n" * ((8 << 20) // 59)
    middle = len(filler) // 2 // 59 * 59
    path = tmp_path / "large.log"
    path.write_bytes(filler[:middle] + b"Traceback (most recent call last):\n" + filler[middle:])
    with open_log(path) as stream:
        regions = list(read_regions(stream, LiteralScanner(["Traceback (most"]), ONE_RANK))
    found = [region for region in regions if b"Traceback" in region.data]
    assert len(found) == 1
    assert found[0].offset + found[0].data.index(b"Traceback") == middle
    assert sum(len(region.data) for region in regions) < len(filler) // 20
    assert all(one.offset + len(one.data) <= other.offset for one, other in itertools.pairwise(regions))


def test_what_is_searched_for_may_be_coloured_in_the_middle(evidence: Read) -> None:
    case = evidence(
        {
            "rank-0.log": "step 1\n\x1b[1mRuntimeError: CUDA \x1b[31merror\x1b[0m: an illegal memory access was encountered\n"
        }
    )
    assert "cuda-illegal-memory-access" in {hit.signature.id for hit in case.hits}


def test_in_the_middle_of_a_large_file_too_and_its_line_number_is_true(tmp_path: Path) -> None:
    filler = "\x1b[32mINFO\x1b[0m step 1 loss 1.0 tokens per second 1000\n" * 40_000
    idle = "\x1b[32mINFO\x1b[0m nothing new\n" * 40_000
    path = tmp_path / "rank-0.log"
    error = " ".join(
        f"\x1b[31m{word}\x1b[0m" for word in "CUDA error: an illegal memory access was encountered".split()
    )
    path.write_text(f"{filler}{error}\n{idle}RuntimeError: over\n")
    said = diagnose([path])
    assert said.cause.id == "illegal-memory-access"
    assert {(proof.line, proof.text) for proof in said.evidence if "illegal" in proof.text} == {
        (40_001, "CUDA error: an illegal memory access was encountered")
    }


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_a_file_is_read_once_whatever_links_lead_to_it(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    job = tmp_path / "b-job.log"
    job.write_text("0: RuntimeError: shard 17 is truncated\n1: step 2\n")
    for name in ("a-latest.log", "zz/copy.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        link(tmp_path / name, job)
    assert len(open_bundle([tmp_path]).sources) == 1
    assert len(open_bundle([tmp_path, job, tmp_path / "a-latest.log"]).sources) == 1
    if link is Path.symlink_to:
        assert open_bundle([tmp_path]).sources[0].name == "b-job.log"


@pytest.mark.parametrize("make", [lambda path: path / "nothing", lambda path: path])
def test_paths_without_evidence_are_one_clear_line(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    with pytest.raises(UnreadableEvidence) as caught:
        open_bundle([make(tmp_path)])
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_name_too_long_for_any_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UnreadableEvidence, match="too long"):
        open_bundle([tmp_path / ("x" * 300)])


@pytest.mark.parametrize("text", ["{not json", '{"nodes":' * 100_000, "[]"])
def test_a_broken_job_json_is_named(bundle: Callable[..., Path], text: str) -> None:
    folder = bundle({"rank-0.log": "x\n"}, state="FAILED")
    (folder / "job.json").write_text(text)
    with pytest.raises(UnreadableEvidence, match=r"job\.json"):
        open_bundle([folder])
