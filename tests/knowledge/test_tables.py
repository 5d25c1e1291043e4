"""The tables of codes and the catalogue agree, in both directions: what one knows, the other speaks of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache

import pytest

from knowledge import Diagnosis
from knowledge.catalogue import load_catalogue
from knowledge.causes import load_causes
from knowledge.scanning import speakers
from knowledge.signature import Nature, Signature, SignatureRole
from knowledge.tables.cuda import CudaError, cuda_error, cuda_errors
from knowledge.tables.xids import (
    GENERATIONS,
    LinkRule,
    LinkUnit,
    Severity,
    Sxid,
    Xid,
    consequences,
    decode_nvlink4,
    decode_nvlink5,
    link_bits,
    link_units,
    sxids,
    xids,
)

ENTRIES: Mapping[str, Signature] = dict(load_catalogue().entries)
GENERAL = "xid-other"

EACH_XID = pytest.mark.parametrize("row", xids().values(), ids=map(str, xids()))
EACH_SXID = pytest.mark.parametrize("row", sxids().values(), ids=map(str, sxids()))
EACH_CUDA = pytest.mark.parametrize("error", cuda_errors().values(), ids=map(str, cuda_errors()))


def speaking(line: str) -> set[str]:
    """The entries that speak for a line."""
    matches = {name: found for name, entry in ENTRIES.items() if (found := entry.match(line)) is not None}
    return set(speakers(matches, dict(ENTRIES)))


def samples(pattern: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Entry and finding for each sample line of the catalogue that holds `pattern`."""
    wanted = re.compile(pattern)
    for entry in ENTRIES.values():
        for sample in entry.samples.match:
            if found := wanted.search(sample.text):
                yield entry.id, found


# --- Xid

FRONTS = (
    "NVRM: Xid (PCI:0000:3b:00): {}, pid=4242, name=python, ",
    "[430954.509105] NVRM: Xid (PCI:0000:52:00): {}, pid='<unknown>', name=<unknown>, ",
    "kernel: NVRM: Xid (PCI:0000:01:00 GPU-I:05): {}, ",
    "NVRM: Xid (0000:03:00): {}, ",
)
WORDS = {
    154: ["GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"],
    **{number: ["UNIT Fatal XC0 i0 Link 08 (0x0 0x0)", "UNIT Nonfatal XC0 i0 Link 08 (0x0 0x0)"] for number in range(144, 151)},
}  # fmt: skip
"""What stands behind the number, where the entry needs it."""


@EACH_XID
@pytest.mark.parametrize("front", FRONTS)
def test_every_xid_is_spoken_for_by_its_entries_and_by_no_other(row: Xid, front: str) -> None:
    lines = [front.format(row.number) + words for words in WORDS.get(row.number, ["Ch 00000008"])]

    assert {entry for line in lines for entry in speaking(line)} == set(row.entries)


def test_no_entry_claims_an_xid_that_the_table_does_not_give_it() -> None:
    claimed = {(number, entry) for number in range(1000) for entry in speaking(FRONTS[0].format(number))} - {
        (number, GENERAL) for number in range(1000)
    }

    assert claimed <= {(row.number, entry) for row in xids().values() for entry in row.entries}


def test_every_entry_about_an_xid_stands_in_the_table() -> None:
    assert {name for name in ENTRIES if name.startswith("xid-")} == {
        entry for row in xids().values() for entry in row.entries
    }


def test_sample_lines_hold_documented_xids_only() -> None:
    found = {int(line[1]) for _, line in samples(r"NVRM: Xid \([^)]*\): (\d+)")}

    assert found <= xids().keys()
    assert len(found) > 50


@EACH_XID
def test_table_and_catalogue_name_one_cause(row: Xid) -> None:
    assert row.cause in load_causes()
    assert {ENTRIES[entry].cause for entry in row.entries} == {row.cause}


@EACH_XID
def test_an_xid_follows_from_others_that_are_known(row: Xid) -> None:
    assert set(row.follows) <= xids().keys() - {row.number}
    assert set(row.gpus) <= set(GENERATIONS)
    assert row.follows or not row.consequence


def test_the_consequences_are_the_six_that_nvidia_calls_so() -> None:
    assert [row.number for row in xids().values() if row.consequence] == [43, 45, 63, 154, 171, 172]


def test_an_entry_of_consequences_begins_nothing() -> None:
    assert consequences()
    assert {ENTRIES[entry].role for entry in consequences()} <= {SignatureRole.CONFIRMATION, SignatureRole.TEARDOWN}


@pytest.mark.parametrize("number", [row.number for row in xids().values() if row.consequence])
def test_a_consequence_blames_nobody_though_it_stands_first(number: int, verdict: Callable[..., Diagnosis]) -> None:
    words = WORDS.get(number, ["Ch 00000008"])[0]
    line = f"[Mon Nov 30 08:00:05 2026] NVRM: Xid (PCI:0000:3b:00): {number}, pid=102, name=python, {words}\n"
    rank = "rank=2 world_size=4 host=n1 pid=102\n[rank2]: Traceback (most recent call last):\n"
    frame = '[rank2]:   File "/app/train.py", line 9, in fit\n[rank2]: ZeroDivisionError: division by zero\n'

    said = verdict({"dmesg-n1.txt": line, "rank-2.log": rank + frame})

    assert (said.cause.id, said.initiating.ranks) == ("app-exception", [2])
    assert said.suspect_nodes == []


def test_what_may_be_software_says_how_to_tell() -> None:
    unsure = [row for row in xids().values() if row.nature is Nature.EITHER]

    assert unsure
    assert all(row.tell for row in unsure)


# --- SXid


@EACH_SXID
def test_every_sxid_is_spoken_for_by_the_word_of_its_line(row: Sxid) -> None:
    line = f"[1111.111] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): {row.number}, {{}}, Link 32 {row.name} (First)"
    manager = (
        f"[ERROR] [tid 841] detected NVSwitch {{}} error {row.number} on fid 0 on NVSwitch pci bus id 00000000:05:00.0"
    )

    assert speaking(line.format("Fatal")) == {"sxid-fatal"}
    assert speaking(line.format("Non-fatal")) == {"sxid-nonfatal"}
    assert speaking(manager.format("fatal")) == {"fabricmanager-nvswitch-fatal"}
    assert speaking(manager.format("non-fatal")) == {"fabricmanager-nvswitch-nonfatal"}


def test_sample_lines_hold_documented_sxids_in_their_usual_class() -> None:
    found = [
        (int(line[1] or line[4]), (line[2] or line[3]).lower())
        for _, line in samples(r"SXid \([^)]*\): (\d+), (Fatal|Non-fatal)|NVSwitch (fatal|non-fatal) error (\d+)")
    ]

    assert len(found) >= 6
    for number, word in found:
        assert (sxids()[number].severity is Severity.NON_FATAL) == (word == "non-fatal"), number


def test_only_what_the_guide_calls_so_is_always_fatal() -> None:
    always = [row.number for row in sxids().values() if row.severity is Severity.ALWAYS_FATAL]

    assert always == [12020, 22003, 22011, *range(23001, 23018)]
    assert all(sxids()[number].in_guide for number in always)


# --- the words of NVLink

RULES = [(unit, rule) for unit in link_units() for rule in unit.rules]
EACH_RULE = pytest.mark.parametrize(
    ("unit", "rule"), RULES, ids=[f"{unit.units[0]}-{number}" for number, (unit, _) in enumerate(RULES)]
)


@EACH_RULE
def test_every_rule_is_found_from_the_words_of_a_line(unit: LinkUnit, rule: LinkRule) -> None:
    for name in unit.units:
        for code in unit.codes.values():
            for reason in rule.reasons or {0: ""}:
                for status in rule.statuses or {0}:
                    assert decode_nvlink5(unit.xid, name, reason << 20 | 0x40000 | code, status) == (rule,)


@EACH_RULE
def test_every_rule_is_spoken_for_by_the_entry_of_its_severity(unit: LinkUnit, rule: LinkRule) -> None:
    fatal = rule.severity is not Severity.NON_FATAL
    word, entry = ("Fatal", "xid-144-150-nvlink5-fatal") if fatal else ("Nonfatal", "xid-144-150-nvlink5-nonfatal")
    for name in unit.units:
        line = f"NVRM: Xid (PCI:0018:01:00): {unit.xid}, {name} {word} XC0 i0 Link 08 (0x00000000 0x00000000 0x0 0x0)"
        assert speaking(line) == {entry}


def test_sample_lines_hold_words_that_can_be_decoded() -> None:
    found = list(samples(r"\): (\d+),.* (\w+) (Fatal|Nonfatal) XC\d i\d Link \d+ \((0x\w+) (0x\w+)"))

    assert len(found) >= 4
    for _, line in found:
        info, status = int(line[4], 16), int(line[5], 16)
        (rule,) = decode_nvlink5(int(line[1]), line[2], info, status)
        assert (rule.severity is Severity.NON_FATAL) == (line[3] == "Nonfatal"), line[0]
        assert info & 0x3FF in {unit.codes["before_r575"] for unit in link_units() if line[2] in unit.units}, line[0]


def test_a_unit_or_a_value_that_nobody_documented_decodes_to_nothing() -> None:
    assert decode_nvlink5(145, "RLW_NOWHERE", 0, 1) == ()
    assert decode_nvlink5(145, "RLW_CTRL", 0x62, 0x4) == ()
    assert decode_nvlink5(146, "RLW_CTRL", 0x62, 0x80000000) == ()


def test_several_bits_of_a_status_give_several_rules() -> None:
    severities = [rule.severity for rule in decode_nvlink5(144, "SAW_MVB", 0x21, 0x2 | 0x4)]

    assert severities == [Severity.FATAL, Severity.NON_FATAL]


def test_every_bit_of_an_xid_74_is_found_in_its_word() -> None:
    for row in link_bits():
        for bit in row.bits:
            words = [0] * 7
            words[row.word - 1] = 1 << bit
            assert decode_nvlink4(words) == (row,)


# --- CUDA


@EACH_CUDA
def test_every_text_of_cuda_is_spoken_for_by_the_entry_of_its_number(error: CudaError) -> None:
    assert speaking(f"RuntimeError: CUDA error: {error.text}") == {error.entry}
    assert speaking(f"torch.AcceleratorError: CUDA error: {error.text}") == {error.entry}
    assert speaking(f"[rank3]: RuntimeError: CUDA driver error: {error.text}") == {error.entry}


@EACH_CUDA
def test_every_number_that_nccl_prints_is_spoken_for(error: CudaError) -> None:
    line = f"n1:1:2 [0] init.cc:1 NCCL WARN Cuda failure {error.number} '{error.text}'"

    assert speaking(line) in ({error.entry}, {"nccl-cuda-failure"})


@EACH_CUDA
def test_every_name_of_cuda_leads_to_its_number(error: CudaError) -> None:
    assert cuda_error(error.runtime) == error
    assert not error.driver or cuda_error(error.driver) == error


def test_names_and_numbers_of_cuda_in_sample_lines_are_those_of_the_table() -> None:
    names = {line[0] for _, line in samples(r"\bcudaError[A-Z]\w+|\bCUDA_ERROR_[A-Z_]+")}
    numbers = {(int(line[1]), line[2]) for _, line in samples(r"[Cc]uda failure (\d+) '([^']+)'")}

    assert names
    assert [name for name in names if cuda_error(name) is None] == []
    assert numbers
    assert [(number, text) for number, text in numbers if cuda_errors()[number].text != text] == []


@cache
def _entries_of_cuda() -> frozenset[str]:
    return frozenset(error.entry for error in cuda_errors().values())


def test_what_often_ends_a_training_job_has_an_entry_of_its_own() -> None:
    often = (
        1,
        2,
        3,
        9,
        35,
        46,
        100,
        101,
        209,
        214,
        220,
        226,
        304,
        400,
        700,
        701,
        702,
        710,
        715,
        716,
        718,
        719,
        802,
        803,
        804,
        901,
        999,
    )

    assert [number for number in often if cuda_errors()[number].entry == "cuda-error-other"] == []
    assert _entries_of_cuda() <= ENTRIES.keys()
