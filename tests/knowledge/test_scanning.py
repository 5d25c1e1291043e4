"""Search: what is found in blocks of bytes, and how a large file is read without reading it all."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from knowledge.catalogue import load_catalogue
from knowledge.rarity import rare_beginning
from knowledge.reading.compressed import open_log
from knowledge.reading.evidence import CaseEvidence
from knowledge.reading.marks import FINISHED
from knowledge.reading.progress import says_finished
from knowledge.reading.regions import MANY_RANKS, ONE_RANK, PIECE, Plan, read_regions
from knowledge.scanning import LiteralScanner

Read = Callable[..., CaseEvidence]

STEP = "2026-03-01 04:00:00 step 1 loss 1.0 tokens per second 1000\n"
CAUGHT = (
    "[rank{rank}]:[E301 04:11:08.1 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before "
    "timing out.\n"
)


def test_only_the_beginning_of_a_literal_is_looked_for_and_the_entry_decides() -> None:
    scanner = LiteralScanner(["an unusual exception", "short"])
    beginning = rare_beginning("an unusual exception")
    assert "an unusual exception".startswith(beginning)
    assert len(beginning) >= 10
    assert scanner.present(f"{beginning}…, and short".encode()) == [0, 1]


def test_a_literal_that_must_be_whole_is_looked_for_to_its_end() -> None:
    scanner = LiteralScanner([], whole=["an unusual exception"])
    assert scanner.present(b"an unusual exceptio") == []
    assert scanner.present(b"an unusual exception") == [0]


def test_a_scanner_without_some_literals_finds_the_others_by_the_same_numbers() -> None:
    scanner = LiteralScanner(["first literal", "second literal", "third literal"])
    text = b"first literal, second literal, third literal"
    assert scanner.without(frozenset({1})).present(text) == [0, 2]
    assert [number for _, number in scanner.without(frozenset({0, 2})).scan(text)] == [1]
    assert scanner.present(text) == [0, 1, 2]
    assert scanner.without(frozenset({0, 1, 2})) is scanner


@pytest.mark.parametrize("literal", ["", "abc", "ten chars.", "iteration"])
def test_short_literals_stay_whole(literal: str) -> None:
    assert rare_beginning(literal) == literal


def test_every_literal_of_the_catalogue_is_found_where_it_stands() -> None:
    literals = load_catalogue().scanner.literals
    missed = [
        literal
        for number, literal in enumerate(literals.literals)
        if number not in literals.present(f"…{literal}…".encode())
    ]
    assert missed == []


@pytest.mark.parametrize(
    "line",
    [
        "[INFO:swift] The training of Epoch 2 ends.",
        "Training completed. Do not forget to share your model",
        "TRAINING COMPLETE",
        "training has finished",
        "[after training is done] datetime: 2026-03-01 04:00:00",
        "`Trainer.fit` stopped: `max_steps=100` reached.",
        "{'train_runtime': 12.1, 'epoch': 3.0}",
        "All done",
        "Training Done!",
        "done, exiting 0",
        "job finished successfully",
        "exiting program at iteration 500 at 2026-03-01",
    ],
)
def test_whoever_says_that_training_is_over_is_marked(line: str) -> None:
    assert says_finished(line)
    assert any(hint in line for hint in FINISHED)


@pytest.mark.parametrize("packed", [False, True])
def test_line_numbers_hold_in_the_middle_of_a_large_file_that_nobody_counted(
    packed: bool, tmp_path: Path, evidence: Read
) -> None:
    before, after = 30_000, 20_000
    text = STEP * before + CAUGHT.format(rank=0) + STEP * after
    case = evidence({"rank-0.log.gz": gzip.compress(text.encode())}) if packed else evidence({"rank-0.log": text})
    assert [(hit.signature.id, hit.place.line) for hit in case.hits] == [("c10d-watchdog-timeout", before + 1)]
    story = case.stories[0, 0]
    assert story.last is not None
    assert story.last.line == before + 1 + after


@pytest.mark.parametrize("plan", [ONE_RANK, MANY_RANKS, Plan(whole=10, head=1, tail=3, storm=1)])
@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"\n\n\n", b"x" * (3 * PIECE), b"1%\r2%\r" * PIECE, (b"a line\n" * PIECE * 9)[:-1]],
    ids=["empty", "one byte", "blank", "one long line", "progress bar", "cut"],
)
def test_regions_are_parts_of_the_file_in_order(plan: Plan, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "some.log"
    path.write_bytes(content)
    with open_log(path) as stream:
        regions = list(read_regions(stream, LiteralScanner(["2%", "line"]), plan))
    position = 0
    for region in regions:
        assert region.offset >= position
        assert content[region.offset : region.offset + len(region.data)] == region.data
        position = region.offset + len(region.data)
    assert position == len(content)
    assert [region.cut for region in regions[:-1]] == [False] * (len(regions) - 1)
    assert regions[-1].cut == (bool(content) and not content.endswith(b"\n"))


def test_round_a_line_that_is_only_noise_nothing_more_is_read(tmp_path: Path) -> None:
    plan = Plan(whole=10, head=1, tail=3, storm=8)
    scanner = LiteralScanner(["Retrying in ", "out of memory"], alone={"Retrying in "})
    noise, failure = "Retrying in 3 seconds\n", "out of memory\n"
    text = STEP * 900 + noise + STEP * 900 + noise + STEP * 3 + failure + STEP * 3 + noise + STEP * 900
    path = tmp_path / "rank-0.log"
    path.write_text(text)
    with open_log(path) as stream:
        alone, around = [region for region in read_regions(stream, scanner, plan) if region.window]
    assert alone.data.decode() == noise
    assert alone.offset == len(STEP) * 900
    assert around.data.decode().startswith(STEP)
    assert f"{STEP}{noise}{STEP * 3}{failure}{STEP * 3}{noise}{STEP}" in around.data.decode()


def test_words_that_only_noise_says_stand_alone_and_others_do_not() -> None:
    literals = load_catalogue().scanner.literals
    alone = {literals.literals[number] for number in literals.alone}
    assert {"UserWarning: ", "Retrying in "} <= alone
    assert not alone & {"CUDA out of memory", "Traceback (most recent call last)", *FINISHED}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("plan", [ONE_RANK, MANY_RANKS], ids=["a rank's file", "a launcher's file"])
def test_threads_that_search_ahead_change_nothing(plan: Plan, packed: bool, tmp_path: Path) -> None:
    scanner = load_catalogue().scanner.literals
    calm = STEP * 900 + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    storm = "".join(f"{rank}: {CAUGHT.format(rank=rank)}" for rank in range(64))
    text = (calm * 90 + storm * 90 + calm * 20 + STEP * 60_000 + "x" * (2 * PIECE) + "\n" + calm * 120).encode()
    path = tmp_path / "slurm-1.out"
    path.write_bytes(gzip.compress(text, 1) if packed else text)
    with ThreadPoolExecutor(3) as threads, open_log(path) as alone, open_log(path) as together:
        expected = list(read_regions(alone, scanner, plan))
        assert list(read_regions(together, scanner, plan, threads)) == expected
    assert len(expected) > 10


def test_a_storm_in_one_ranks_file_is_read_at_its_beginning_and_end_only(evidence: Read) -> None:
    storm = STEP * 3000 + CAUGHT.format(rank=3) * 20_000
    case = evidence({"rank-3.log": storm})
    assert case.bytes < len(storm) / 20
    assert case.hits[0].place.line == 3001
    assert case.hits[-1].place.line == 23_000


def test_what_is_said_again_after_a_sign_of_life_at_the_end_of_a_large_file_is_new(evidence: Read) -> None:
    storm = CAUGHT.format(rank=3)
    case = evidence({"rank-3.log": STEP * 3000 + storm * 20_000 + STEP * 10 + storm * 20})
    assert [line for hit in case.hits if (line := hit.place.line) > 23_000] == [23_011, 23_012, 23_030]


def test_a_storm_does_not_drown_what_is_said_for_the_first_time(evidence: Read) -> None:
    storm = CAUGHT.format(rank=3) * 10_000
    other = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    case = evidence({"rank-3.log": STEP * 3000 + storm + other + storm + STEP * 3000})
    assert {hit.place.line for hit in case.hits if hit.place.text == other.strip()} == {13_001}


def test_in_a_storm_of_many_ranks_each_is_heard(evidence: Read) -> None:
    ranks = 64
    round_of_all = "".join(f"{rank}: {CAUGHT.format(rank=rank)}" for rank in range(ranks))
    start = "".join(f"{rank}: {STEP}" for rank in range(ranks))
    case = evidence({"slurm-1.out": start * 20 + round_of_all * 800})
    assert {hit.place.rank for hit in case.hits} == set(range(ranks))
    assert len(case.hits) < 200 * ranks
