"""Hosts' clocks: the right rank first although clocks or time zones differ, and nobody where nothing can tell."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from knowledge import Diagnosis
from knowledge.attribution.clocks import estimate
from knowledge.attribution.view import view_case
from knowledge.reading.evidence import CaseEvidence

Verdict = Callable[..., Diagnosis]
Read = Callable[..., CaseEvidence]

EIGHT = datetime(2026, 11, 30, 8, 0, 0)  # noqa: DTZ001 - the logs give no zone either
GONE = "RuntimeError: [/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.9]:1234."


class Host:
    """Writes logs by a clock that is `ahead` seconds before the true time."""

    def __init__(self, name: str, ahead: float = 0.0, zone: str = "") -> None:
        self.name, self.ahead, self.zone = name, ahead, zone

    def stamp(self, seconds: float) -> str:
        when = EIGHT + timedelta(seconds=seconds + self.ahead)
        return when.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + self.zone

    def log(self, rank: int, *lines: tuple[float, str], steps: bool = True, start: float = 0.0) -> str:
        """Starts at `start`, steps every 10 s until 60 s, and then `lines`, each with its true second."""
        text = f"{self.stamp(start)} rank={rank} world_size=4 host={self.name} pid={100 + rank}\n"
        if steps:
            text += "".join(f"{self.stamp(10 * step)} step {step} loss 2.0\n" for step in range(1, 7))
        return text + "".join(f"{self.stamp(second)} {line}\n" for second, line in lines)


FULL = "OSError: [Errno 28] No space left on device: '/scratch/ckpt'"
NO_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB"
)


def logs(first: Host, second: Host, steps: bool = True, start: tuple[float, float] = (0.0, 0.3)) -> dict[str, str]:
    """Rank 1 on `first` runs out of disk at 65 s; rank 2 on `second` runs out of GPU memory at 80 s."""
    return {
        "rank-0.log": first.log(0, (81, GONE), steps=steps, start=start[0]),
        "rank-1.log": first.log(1, (65, FULL), steps=steps, start=start[0]),
        "rank-2.log": second.log(2, (80, NO_MEMORY), steps=steps, start=start[1]),
        "rank-3.log": second.log(3, (81, GONE), steps=steps, start=start[1]),
    }


def test_with_equal_clocks_time_decides(verdict: Verdict) -> None:
    assert verdict(logs(Host("n1"), Host("n2"))).initiating.ranks == [1]


@pytest.mark.parametrize("ahead", [-40.0, 40.0, -7291.0, 7291.0, -10800.0, 10800.0])
def test_clocks_that_differ_are_set_right_by_the_steps_that_ranks_share(verdict: Verdict, ahead: float) -> None:
    said = verdict(logs(Host("n1"), Host("n2", ahead)))
    assert said.initiating.ranks == [1]
    assert verdict(logs(Host("n1", ahead), Host("n2"))).initiating.ranks == [1]


def test_the_first_of_several_with_the_same_error_is_told_by_corrected_times(verdict: Verdict) -> None:
    one, two = Host("n1"), Host("n2", ahead=-40.0)
    said = verdict(
        {
            "rank-0.log": one.log(0, (81, GONE)),
            "rank-1.log": one.log(1, (65, FULL)),
            "rank-2.log": two.log(2, (80, FULL)),
            "rank-3.log": two.log(3, (81, GONE)),
        }
    )
    assert said.initiating.ranks == [1]


@pytest.mark.parametrize("hours", [-9, 2, 5])
def test_hosts_in_other_time_zones_are_recognised_where_they_share_no_step(verdict: Verdict, hours: int) -> None:
    assert verdict(logs(Host("n1"), Host("n2", 3600.0 * hours), steps=False)).initiating.ranks == [1]


def test_zones_that_the_lines_tell_are_believed(verdict: Verdict) -> None:
    said = verdict(logs(Host("n1", 7200.0, "+02:00"), Host("n2", -18000.0, "-05:00"), steps=False))
    assert said.initiating.ranks == [1]


def test_a_skew_that_nothing_measures_names_nobody(verdict: Verdict) -> None:
    """By what can be seen, the second host may as well have started earlier: either rank may be the first."""
    said = verdict(logs(Host("n1"), Host("n2", -40.0), steps=False))
    assert said.initiating.ranks == []
    assert said.confidence < 0.6
    assert {said.cause.id, *(other.cause for other in said.alternatives)} >= {"disk-full", "gpu-oom"}
    assert any("clocks" in fact for fact in said.missing)


def test_a_lead_larger_than_any_possible_skew_is_one(verdict: Verdict) -> None:
    assert verdict(logs(Host("n1"), Host("n2", 40.0), steps=False)).initiating.ranks == [1]


def test_hours_apart_without_a_shared_moment_cannot_be_compared(verdict: Verdict) -> None:
    said = verdict(logs(Host("n1"), Host("n2", -5000.0), steps=False))
    assert said.initiating.ranks == []


def test_one_hosts_own_times_need_no_comparison(verdict: Verdict) -> None:
    one, two = Host("n1"), Host("n2", ahead=-5000.0)
    said = verdict(
        {
            "rank-0.log": one.log(0, (81, GONE), steps=False),
            "rank-1.log": one.log(1, (81, GONE), steps=False),
            "rank-2.log": two.log(2, (80, NO_MEMORY), steps=False),
            "rank-3.log": two.log(3, (65, FULL), steps=False),
        }
    )
    assert said.initiating.ranks == [3]


def test_where_clocks_fail_the_cause_decides(verdict: Verdict) -> None:
    """Two ranks that share one trouble come after the one that has another alone."""
    one, two = Host("n1"), Host("n2", ahead=-5000.0)
    said = verdict(
        {
            "rank-0.log": one.log(0, (81, GONE), steps=False),
            "rank-1.log": one.log(1, (65, FULL), steps=False),
            "rank-2.log": two.log(2, (80, NO_MEMORY), steps=False),
            "rank-3.log": two.log(3, (80, NO_MEMORY), steps=False),
        }
    )
    assert said.initiating.ranks == [1]


def test_the_same_timeout_of_the_same_collective_is_a_shared_moment(evidence: Read) -> None:
    line = (
        "[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=50, OpType=ALLREDUCE, NumelIn=64, "
        "NumelOut=64, Timeout(ms)=600000) ran for 600011 milliseconds before timing out."
    )
    one, two = Host("n1"), Host("n2", ahead=-40.0)
    view = view_case(
        evidence(
            {
                "rank-0.log": one.log(0, (660, line.format(rank=0)), steps=False),
                "rank-2.log": two.log(2, (661, line.format(rank=2)), steps=False, start=9.0),
            }
        )
    )
    places = [story.hits[0].place for story in view.stories.values()]
    clocks = estimate(view, places)
    here, there = (clocks.seconds(place) for place in places)
    assert here is not None
    assert there is not None
    assert abs(here - there) < 1.5
    assert clocks.doubt(places[0], places[1]) < 40
