"""`firstfault explain`: what is meant by a word, a number or a pasted line, told for three kinds of reader."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from bot.cli.explain import Depth, render, spoken
from bot.cli.lookup import find
from bot.terminal import MAX_WIDTH
from knowledge.catalogue import load_catalogue
from knowledge.causes import load_causes
from knowledge.signature import Signature
from knowledge.tables.cuda import cuda_errors
from knowledge.tables.xids import sxids, xids

from .conftest import FIRSTFAULT, Run, environment, on_a_terminal

EACH = pytest.mark.parametrize("entry", list(load_catalogue()), ids=list(load_catalogue().entries))
ASSERTED = """\
[rank3]: RuntimeError: CUDA error: device-side assert triggered
[rank0]:[E1203 04:21:09.401 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600031 milliseconds before timing out.
[rank1]:[E1203 04:21:09.402 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600031 milliseconds before timing out.
"""  # noqa: E501 - true lines are long


@pytest.mark.parametrize(
    ("asked", "entry"),
    [
        ("xid-79-gpu-lost", "xid-79-gpu-lost"),
        ("xid 79", "xid-79-gpu-lost"),
        ("Xid: 79", "xid-79-gpu-lost"),
        ("cuda 700", "cuda-illegal-memory-access"),
        ("CUDA error 999", "cuda-unknown-error"),
        ("cudaErrorECCUncorrectable", "cuda-ecc-uncorrectable"),
        ("CUDA_ERROR_ILLEGAL_ADDRESS", "cuda-illegal-memory-access"),
        ("RuntimeError: CUDA error: misaligned address", "cuda-misaligned-address"),
    ],
)
def test_what_people_type_is_understood(asked: str, entry: str) -> None:
    assert find(asked).hits[0].entry.id == entry


def test_a_cause_is_explained_with_the_lines_that_tell_of_it(firstfault: Run) -> None:
    result = firstfault("explain", "gpu-oom")
    assert result.returncode == 0
    assert load_causes()["gpu-oom"].title in result.stdout
    assert "cuda-out-of-memory: " in result.stdout


@pytest.mark.parametrize("cause", load_causes())
def test_every_cause_can_be_explained(cause: str) -> None:
    found = find(cause)
    assert found.cause or found.hits
    assert render(found, Depth.ONCALL).endswith("\n")


@pytest.mark.parametrize("number", cuda_errors())
def test_every_number_of_cuda_leads_to_an_entry_or_says_so(number: int) -> None:
    found = find(f"cuda {number}")
    assert found.hits, f"{cuda_errors()[number]} is matched by nothing"
    assert cuda_errors()[number].runtime in found.note


@pytest.mark.parametrize("number", [*xids(), *sxids()])
def test_every_xid_and_sxid_is_explained_by_its_name(number: int) -> None:
    row = xids().get(number) or sxids()[number]
    found = find(f"{'xid' if number in xids() else 'sxid'} {number}")
    assert found.told
    text = " ".join(render(found, Depth.ONCALL, width=200).split())
    assert row.name in text or (found.lead and found.lead.entry.title in text)
    assert f"id {number}" in text
    assert row.advice in text


@pytest.mark.parametrize("number", [row.number for row in xids().values() if row.consequence])
def test_an_xid_that_only_follows_is_said_to(number: int) -> None:
    assert "It never begins a failure" in render(find(f"Xid {number}"), Depth.ONCALL, width=200)


@pytest.mark.parametrize("asked", ["xid 999", "sxid 12345", "exit code 3", "cuda 998", "signal 40"])
def test_a_number_that_means_nothing_is_not_explained_away(asked: str, firstfault: Run) -> None:
    result = firstfault("explain", *asked.split())
    assert result.returncode == 1
    assert "knows nothing" in result.stdout
    assert find(asked).note in " ".join(result.stdout.split())


NVLINK = "NVRM: Xid (PCI:0018:01:00): {}, {} XC0 i0 Link 08 ({} {} 0x00000000)"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (NVLINK.format(149, "NETIR_LINK_EVT Fatal", "0x004505c6", "0x00000000"), "Alignment lost."),
        (NVLINK.format(149, "NETIR_LINK_DOWN Fatal", "0x02340011", "0x00000000"), "Peer ran too hot."),
        (NVLINK.format(145, "RLW_SRC_TRACK Nonfatal", "0x040868e2", "0x00000008"), "A request was never answered"),
        (NVLINK.format(145, "RLW_RXPIPE Fatal", "0x040868c2", "0x00000001"), "Reset the GPU."),
        (NVLINK.format(145, "RLW_CTRL Nonfatal", "0x04086862", "0x00000004"), "NVIDIA documents no rule"),
        ("NVRM: Xid (PCI:0003:00:00): 74, pid=1, NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000)", "Bit 16"),
        (
            "NVRM: Xid (PCI:0003:00:00): 74, pid=1, NVLink: fatal error detected on link 14(0x0, 0x1)",
            "No documented bit",
        ),
        ("NVRM: Xid (PCI:0008:01:00): 153, DLA timeout", "accelerator"),
    ],
)
def test_the_words_of_a_pasted_xid_are_read(line: str, said: str) -> None:
    assert said in " ".join(render(find(line), Depth.ONCALL, width=200).split())


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        ("exit code 137", "SIGKILL: Killed"),
        ("exited with code -7", "SIGBUS: Bus error"),
        ("exitcode: 1", "Exit code 1"),
        ("signal 11", "SIGSEGV: Segmentation fault"),
        ("sigterm", "SIGTERM: Terminated"),
        ("0:9", "SIGKILL: Killed"),
        ("2:0", "Exit code 2"),
        ("ExitCode=0:125", "ExitCode 0:125 of sacct"),
        ("OUT_OF_MEMORY", "Job state OUT_OF_MEMORY"),
        ("OUT_OF_ME+", "Job state OUT_OF_MEMORY"),
        ("state ca", "Job state CANCELLED"),
    ],
)
def test_how_a_process_or_a_job_ended_is_told(asked: str, title: str) -> None:
    found = find(asked)
    assert found.told
    assert found.told.title == title
    assert title in render(found, Depth.SHORT)


def test_a_time_of_day_and_a_common_word_are_no_codes() -> None:
    assert [find(text).told for text in ("12:30", "failed", "timeout", "running")] == [None] * 4


@EACH
def test_every_entry_explains_itself_from_its_own_lines(entry: Signature) -> None:
    for sample in entry.samples.match:
        assert entry.id in [hit.entry.id for hit in find(sample.text).hits], sample.text


@EACH
def test_every_entry_reads_well_at_every_depth(entry: Signature) -> None:
    texts = [render(find(entry.id), depth, width=200) for depth in Depth]
    assert [len(text) for text in texts] == sorted(len(text) for text in texts)
    for text in texts:
        assert entry.title in " ".join(text.split())
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    prose = [line for line in texts[1].split("\n") if not line.startswith(("  $ ", "    "))]
    assert not re.search(r"\{(?:rank|host|detail|peer|bus)\}", "\n".join(prose))
    assert max(map(len, prose)) <= MAX_WIDTH


def test_what_the_line_says_stands_in_the_explanation() -> None:
    line = "NVRM: Xid (PCI:0000:5d:00): 79, pid=4242, name=python, GPU has fallen off the bus."
    assert "GPU 0000:5d:00 on the host stopped answering" in render(find(line), Depth.SHORT)


def test_a_cause_leads_its_consequences_and_they_are_counted(firstfault: Run) -> None:
    result = firstfault("explain", "-", text=ASSERTED)
    assert result.returncode == 0
    assert result.stdout.index("An assertion in a GPU kernel failed") < result.stdout.index("c10d-watchdog-timeout")
    assert "(2 lines)" in result.stdout
    assert "on rank 3" in result.stdout


def test_short_is_for_whoever_asks_and_engineer_for_whoever_repairs(firstfault: Run) -> None:
    short = firstfault("explain", "--depth", "short", "nccl-ib-retry-exceeded").stdout
    oncall = firstfault("explain", "nccl-ib-retry-exceeded").stdout
    engineer = firstfault("explain", "nccl-ib-retry-exceeded", "--depth", "engineer").stdout
    assert "Fix" not in short
    assert all(f"\n{heading}\n" in oncall for heading in ("Confirm", "Fix", "Verify"))
    assert all(
        heading in engineer for heading in ("How the machine comes to say it", "What it is not", "Easily taken for")
    )


def test_what_is_not_known_is_said_and_the_closest_are_named(firstfault: Run) -> None:
    result = firstfault("explain", "the rdma retri counter was exceded")
    assert result.returncode == 1
    assert "knows nothing of this" in result.stdout
    assert "nccl-ib-retry-exceeded" in result.stdout


def test_a_healthy_line_means_nothing(firstfault: Run) -> None:
    assert firstfault("explain", "step 100 loss 2.31 lr 3e-4").returncode == 1


@pytest.mark.parametrize("asked", ["", " ", "-"])
def test_nothing_asked_is_nothing_known(firstfault: Run, asked: str) -> None:
    assert firstfault("explain", asked).returncode == 1


def test_pasted_text_cannot_steer_the_terminal(firstfault: Run) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J CUDA error: device-side assert triggered \x9b31m\u202etxet\u202c\x08"
    for text in (firstfault("explain", hostile).stdout, firstfault("explain", "-", text=hostile).stdout):
        assert "device-side assert" in text
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_places_take_what_is_known_and_words_for_what_is_not() -> None:
    assert spoken("{host} gave rank {rank} a {detail}.", {"detail": "{rank}"}) == "The host gave rank N a {rank}."


def test_colours_are_for_terminals_and_can_be_refused() -> None:
    assert "\x1b[" in on_a_terminal("explain", "xid", "79")
    assert "\x1b[" not in on_a_terminal("explain", "xid", "79", NO_COLOR="1")


def test_a_reader_who_leaves_early_is_no_error() -> None:
    command = [*FIRSTFAULT, "explain", "xid", "79", "--depth", "engineer"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


def test_the_commands_cost_diagnose_nothing_at_its_start() -> None:
    code = (
        "import sys, bot.cli.main; print([n for n in sys.modules if n.startswith(('knowledge', 'yaml', 'bot.cli.'))])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    assert result.stdout.strip() in ("['bot.cli.main']", "['bot.cli.start', 'bot.cli.main']")


@pytest.mark.parametrize(
    ("asked", "told"), [("999", "CUDA error 999"), ("79", "Xid 79"), ("-9", "SIGKILL"), ("-11", "SIGSEGV")]
)
def test_a_number_alone_is_told_where_it_can_be_one_thing_only(asked: str, told: str, firstfault: Run) -> None:
    result = firstfault("explain", asked)
    assert result.returncode == 0
    assert told in result.stdout


def test_a_number_that_may_be_several_things_is_told_as_all_of_them(firstfault: Run) -> None:
    retries = firstfault("explain", "129").stdout
    assert all(form in retries for form in ("xid 129", "vendor err 129", "exit code 129"))
    assert "exit code 137\n  SIGKILL" in firstfault("explain", "137").stdout


@pytest.mark.parametrize(
    ("asked", "entry"),
    [
        ("NCCL CUDA failure", "nccl-cuda-failure"),
        ("vendor err 129", "nccl-ib-retry-exceeded"),
        ("fabricmanager stoped", "fabricmanager-stopped"),
    ],
)
def test_a_name_in_other_words_is_enough_where_one_entry_alone_is_called_so(asked: str, entry: str) -> None:
    found = find(asked)
    assert [hit.entry.id for hit in found.hits] == [entry]
    assert asked in found.note


@pytest.mark.parametrize("asked", ["rocm", "gpu memory", "something odd went wrong"])
def test_words_that_fit_several_entries_or_none_choose_nothing(asked: str) -> None:
    assert not find(asked).hits
