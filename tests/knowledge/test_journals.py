"""Nodes' journals: which host wrote a line, and which GPU it means, whatever the file is called."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge.attribution.notation import bus_key
from knowledge.diagnosis import Diagnosis
from knowledge.reading.evidence import CaseEvidence
from knowledge.reading.identity import introduce
from knowledge.signature import SourceKind

LOST = "kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
STAMPS = ["Jul 01 12:00:02", "Jul  1 12:00:02", "2026-07-01T12:00:02.119201+00:00", "2026-07-01T12:00:02Z"]


@pytest.mark.parametrize("stamp", STAMPS)
def test_a_journal_names_its_host_itself(verdict: Callable[..., Diagnosis], stamp: str) -> None:
    said = verdict({"vx-2.journal": f"{stamp} vx-2 {LOST}\n", "run.log": "step 3 loss 1.2\n"})
    assert (said.cause.id, said.initiating.hosts) == ("gpu-lost", ["vx-2"])


def test_lines_of_several_hosts_in_one_file_are_each_their_own_hosts(evidence: Callable[..., CaseEvidence]) -> None:
    text = f"Jul 01 12:00:02 vx-2 {LOST}\nJul 01 12:00:03 vx-3 {LOST}\n"
    assert [hit.place.host for hit in evidence({"central.txt": text}).hits] == ["vx-2", "vx-3"]


def test_services_and_the_kernel_in_one_file_are_the_nodes_words(evidence: Callable[..., CaseEvidence]) -> None:
    text = f"Jul 01 11:59:58 vx-2 systemd[1]: Started Session 411 of user root.\nJul 01 12:00:02 vx-2 {LOST}\n"
    (source,) = evidence({"vx-2-syslog.txt": text}).sources
    assert source.kind is SourceKind.NODE


def test_a_job_that_logs_into_the_journal_stays_a_job(evidence: Callable[..., CaseEvidence]) -> None:
    text = "Jul 01 11:59:58 vx-2 python3[811]: step 1 loss 2.3\nJul 01 11:59:59 vx-2 python3[811]: step 2 loss 2.2\n"
    (source,) = evidence({"train-service.txt": text}).sources
    assert source.kind is not SourceKind.NODE


@pytest.mark.parametrize(
    ("short", "address"),
    [("1b000", "0000:1b:00"), ("7000", "0000:07:00"), ("901000", "0009:01:00"), ("100000", "0001:00:00")],
)
def test_nccl_writes_an_address_as_one_number(short: str, address: str) -> None:
    line = (
        f"n1:71:71 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 3 nranks 8 cudaDev 0 nvmlDev 0 busId {short} commId 0x9"
    )
    who = introduce(line)
    assert who is not None
    assert who.bus == address


def test_the_same_place_in_another_pci_domain_is_another_gpu() -> None:
    assert bus_key("00000009:01:00.0") == bus_key("0009:01:00") != bus_key("0008:01:00")
    assert bus_key("0000:1B:00.0") == bus_key("1b:00")
