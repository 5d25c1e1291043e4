"""What somebody saved of `kubectl describe pods` tells the same as what the watcher writes."""

from __future__ import annotations

from pathlib import Path

from knowledge.reading.bundle import name_source
from knowledge.reading.evidence import Exit, Place
from knowledge.reading.pods import PodReader, exits_of

SOURCE = name_source("pods-describe.txt", Path(__file__))


def exits(text: str) -> list[tuple[int | None, int, str | None, bool]]:
    """Rank, code, host, and whether it was the first, of every exit that a description tells."""
    reader = PodReader()
    for number, line in enumerate(text.splitlines(), 1):
        reader.feed(line, Place(SOURCE, number, number, line, None, None, 0, None, 2026))
    found: list[Exit] = exits_of(reader.finish().values(), 0)
    return [(each.rank, each.code, each.host, each.first) for each in found]


def pod(name: str, labels: str, containers: str, node: str = "gpu-n1") -> str:
    """A pod as kubectl describes it."""
    return f"""\
Name:             {name}
Namespace:        train
Priority:         0
Node:             {node}/192.0.2.11
Start Time:       Thu, 05 Nov 2026 03:10:00 +0000
Labels:           app=llm
                  {labels}
Annotations:      <none>
Status:           Failed
IP:               192.0.2.107
IPs:
  IP:           192.0.2.107
Controlled By:  Job/llm
Containers:
{containers}
Conditions:
  Type              Status
  Initialized       True
Events:             <none>

"""


def container(name: str, state: str, *more: str) -> str:
    return "\n".join([f"  {name}:", "    Image:          train:1", f"    State:          {state}", *more])


def terminated(code: int, at: str = "03:12:07", reason: str = "Error", last: bool = False) -> list[str]:
    """The lines below `Terminated`, with a title of their own where it was the state before."""
    return [
        *(["    Last State:     Terminated"] if last else []),
        f"      Reason:       {reason}", f"      Exit Code:    {code}", "      Started:      Thu, 05 Nov 2026 03:10:02 +0000",
        f"      Finished:     Thu, 05 Nov 2026 {at} +0000",
    ]  # fmt: skip


GPU = ["    Limits:", "      memory:          64Gi", "      nvidia.com/gpu:  1"]
INDEX = "batch.kubernetes.io/job-completion-index={}"


def test_a_pod_s_index_is_its_rank_and_its_code_the_rank_s() -> None:
    text = pod("llm-0-a", INDEX.format(0), container("train", "Terminated", *terminated(1, "03:12:30")), "gpu-n0")
    text += pod("llm-1-b", INDEX.format(1), container("train", "Terminated", *terminated(139)))
    assert exits(text) == [(0, 1, "gpu-n0", False), (1, -11, "gpu-n1", True)]


def test_ends_that_clocks_may_have_turned_round_are_in_no_order() -> None:
    text = pod("llm-0-a", INDEX.format(0), container("train", "Terminated", *terminated(1, "03:12:10")))
    text += pod("llm-1-b", INDEX.format(1), container("train", "Terminated", *terminated(1)))
    assert [first for *_, first in exits(text)] == [False, False]


def test_the_container_with_the_accelerators_trains() -> None:
    beside, trains = container("agent", "Terminated", *terminated(137)), container("train", "Running")
    assert exits(pod("llm-1-b", INDEX.format(1), f"{beside}\n" + "\n".join([trains, *GPU]))) == []
    trains = "\n".join([container("train", "Terminated", *terminated(3)), *GPU])
    assert exits(pod("llm-1-b", INDEX.format(1), f"{beside}\n{trains}")) == [(1, 3, "gpu-n1", True)]


def test_what_ended_before_it_was_started_again_counts_only_while_it_waits() -> None:
    running = container("train", "Running", *terminated(1, last=True))
    waiting = container("train", "Waiting", "      Reason:       CrashLoopBackOff", *terminated(3, last=True))
    assert exits(pod("llm-0-a", INDEX.format(0), running)) == []
    assert exits(pod("llm-0-a", INDEX.format(0), waiting)) == [(0, 3, "gpu-n1", True)]


def test_a_pod_of_several_ranks_is_no_rank_s() -> None:
    eight = [*container("train", "Terminated", *terminated(3)).splitlines(), "    Limits:", "      nvidia.com/gpu:  8"]
    assert exits(pod("llm-0-a", INDEX.format(0), "\n".join(eight))) == []


def test_two_pods_of_one_index_are_told_apart_by_nobody() -> None:
    ended = container("train", "Terminated", *terminated(3))
    assert exits(pod("llm-0-a", INDEX.format(0), ended) + pod("llm-0-b", INDEX.format(0), ended)) == []


def test_an_index_within_one_of_many_jobs_is_no_rank() -> None:
    labels = f"{INDEX.format(0)}\n                  jobset.sigs.k8s.io/job-index=3"
    assert exits(pod("llm-w-3-0-a", labels, container("train", "Terminated", *terminated(3)))) == []


def test_what_is_described_as_a_pod_and_is_none_tells_nothing() -> None:
    node = "Name:   gpu-n1\nRanks:  0\nContainers:\n" + container("train", "Terminated", *terminated(3))
    assert exits(node) == []
    assert exits("Name:   Not A Pod\nNamespace: x\nRanks:  0\nContainers:\n" + container("a", "Terminated")) == []
    assert exits(pod("llm-0-a", INDEX.format(9999999), container("train", "Terminated", *terminated(10**12)))) == []
    assert exits(pod("llm-0-a", INDEX.format(9999999), container("train", "Terminated", *terminated(3)))) == []
