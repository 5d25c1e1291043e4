"""The catalogue as a whole: entries are sound, never contradict each other, are quick, and leave healthy logs alone."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from knowledge import diagnose
from knowledge.catalogue import FOLDER, load_catalogue, read_catalogue
from knowledge.causes import load_causes
from knowledge.diagnosis import Outcome
from knowledge.reading.prefixes import Habits, strip_prefix
from knowledge.reading.text import pieces
from knowledge.scanning import speakers
from knowledge.signature import Signature, SignatureRole

BENIGN = Path(__file__).with_name("benign")

ENTRIES: Mapping[str, Signature] = dict(load_catalogue().entries)
EACH = pytest.mark.parametrize("entry", ENTRIES.values(), ids=list(ENTRIES))

HANDLED = "a real error, which the program caught; further training steps acquit it"
PLACED = "a pod that found a node later is acquitted by the attribution"
HITS_ALLOWED: Mapping[str, str] = {
    "text-encoding-invalid": HANDLED,
    "remote-service-failed": HANDLED,
    "k8s-failed-scheduling": PLACED,
}
"""Root entries that may match a healthy log, and why that does no harm."""

AT_START = "NCCL prints it once a rank while it starts, and it tells which interface the rank took"
BUSY_LITERALS_ALLOWED: Mapping[str, str] = {
    "Bootstrap: Using": AT_START,
    "; OOB ": AT_START,
    "[Proxy Service": AT_START,
}
"""Literals that may stand often in healthy logs, and why no rarer one serves."""

LARGE = 1_000_000
PER_CHARACTER = 5e-6
"""Seconds a pattern may take for a character of a hostile line; a quadratic one needs a hundred times that."""


def test_every_entry_loads_and_its_samples_hold() -> None:
    assert read_catalogue(FOLDER, checked=False).entries.keys() == ENTRIES.keys()


def test_every_file_is_named_after_its_entry_and_no_id_stands_twice() -> None:
    names = Counter(path.stem for path in FOLDER.glob("*/*.yaml"))

    assert names == Counter(ENTRIES.keys())


@EACH
def test_causes_exist(entry: Signature) -> None:
    assert {entry.cause, *entry.explained_by} <= load_causes().keys()


def test_who_yields_to_whom_has_no_circle() -> None:
    try:
        TopologicalSorter({entry.id: entry.yields_to for entry in ENTRIES.values()}).prepare()
    except CycleError as circle:
        pytest.fail(" → ".join(circle.args[1]))


def _can_meet(one: Signature, other: Signature) -> bool:
    """Whether both can count in one kind of source."""
    return not one.sources or not other.sources or bool(one.sources & other.sources)


@EACH
def test_an_entry_speaks_for_its_own_samples_and_no_other_root_beside_it(entry: Signature) -> None:
    for sample in entry.samples.match:
        matches = {
            other.id: captures
            for other in ENTRIES.values()
            if _can_meet(entry, other) and (captures := other.match(sample.text)) is not None
        }
        speaking = speakers(matches, dict(ENTRIES))
        assert entry.id in speaking, f"{sorted(set(speaking))} speaks instead for {sample.text!r}"
        rivals = [other for other in speaking if other != entry.id and ENTRIES[other].role is SignatureRole.ROOT]
        assert not rivals, f"{rivals} claims this line too, and neither yields: {sample.text!r}"


# --- patterns in linear time

FILLERS = ("0", "a", " ", "[", "a.", ": ", "/a", '"', "a,")
SIZES = (4_000, 32_000, LARGE)


def _hostile_lines(sample: str, size: int) -> Iterator[str]:
    """The sample over and over, and beginnings of it that go on and on."""
    yield (sample * (size // len(sample) + 1))[:size]
    if size > LARGE // 2:
        return
    for cut in sorted({len(sample) * part // 4 for part in range(5)}):
        yield (sample[: cut + 1] * (size // (cut + 1) + 1))[:size]
        for filler in FILLERS:
            yield sample[:cut] + filler * (size // len(filler))
    yield re.sub(r"\d+", "8" * (size // 4), sample)


@EACH
def test_no_line_is_slow(entry: Signature) -> None:
    for size in SIZES:
        for line in _hostile_lines(entry.samples.match[0].text, size):
            began = time.process_time()
            for pattern in entry.patterns:
                pattern.search(line)
            took = time.process_time() - began
            assert took < 0.05 + size * PER_CHARACTER, f"{took:.2f} s for {size} characters: {line[:80]!r}…"


@EACH
def test_no_literal_opens_the_way_to_a_slow_search(entry: Signature) -> None:
    for size in (52, 4_000):  # what grows without bounds shows in the short lines already
        for literal, filler in itertools.product(entry.literals, FILLERS):
            line = literal + filler * (size // len(filler))
            began = time.process_time()
            entry.match(line)
            took = time.process_time() - began
            assert took < 0.05 + size * PER_CHARACTER, f"{took:.2f} s for {size} characters: {line[:80]!r}…"


# --- healthy logs


@cache
def _benign_lines() -> tuple[tuple[str, str], ...]:
    """Every line of the benign corpus with its file, as the reader would clean it and without launchers' prefixes."""
    files = (file for file in sorted(BENIGN.glob("*/logs/**/*")) if file.is_file())
    return tuple(
        (file.relative_to(BENIGN).as_posix(), strip_prefix(piece, Habits())[1])
        for file in files
        for raw in file.read_bytes().split(b"\n")
        for piece in pieces(raw)
    )


@cache
def _benign_text() -> str:
    return "\n".join(line for _, line in _benign_lines())


def test_the_benign_corpus_is_large_enough_to_mean_something() -> None:
    assert len(_benign_lines()) >= 10_000
    assert len([case for case in BENIGN.iterdir() if case.is_dir()]) >= 20


@pytest.mark.parametrize("case", sorted(case.name for case in BENIGN.iterdir() if case.is_dir()))
def test_a_healthy_job_is_not_reported_as_failed(case: str) -> None:
    diagnosis = diagnose([BENIGN / case])

    assert diagnosis.outcome is Outcome.NOT_A_FAILURE, diagnosis.model_dump_json(
        indent=1, include={"cause", "evidence"}
    )


@EACH
def test_a_root_entry_leaves_healthy_logs_alone(entry: Signature) -> None:
    if entry.role is not SignatureRole.ROOT or not any(literal in _benign_text() for literal in entry.literals):
        return
    hits = []
    for file, line in _benign_lines():
        if entry.match(line) is None:
            continue
        matches = {other.id: captures for other in ENTRIES.values() if (captures := other.match(line)) is not None}
        if entry.id in speakers(matches, dict(ENTRIES)):
            hits.append(f"{file}: {line[:160]}")
    if entry.id in HITS_ALLOWED:
        assert hits, "it no longer needs to be allowed"
    else:
        assert not hits, "\n".join(hits[:5])


def test_no_literal_wakes_its_entry_often_for_nothing() -> None:
    """A literal may stand once in 10,000 healthy lines that its entry then does not match.

    Nodes' reports are short and say "Not Active" of every state of every GPU: what counts is the logs that grow.
    """
    lines = [line for file, line in _benign_lines() if not file.startswith(("node-reports", "kernel-"))]
    text = "\n".join(lines)
    allowed = max(1, len(lines) // 10_000)
    busy = {}
    for entry in ENTRIES.values():
        for literal in entry.literals:
            if literal not in text or literal in BUSY_LITERALS_ALLOWED:
                continue
            woken = [line for line in lines if literal in line and entry.match(line) is None]
            if len(woken) > allowed:
                busy[f"{entry.id}: {literal!r}"] = len(woken)

    assert not busy, "\n".join(f"{count:6} {name}" for name, count in sorted(busy.items(), key=lambda item: -item[1]))
