"""Evidence with gaps: what is lost is named, and nobody is blamed for sure in its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge import Diagnosis
from knowledge.attribution.view import view_case
from knowledge.reading.evidence import CaseEvidence
from tests.knowledge.test_attribution import CLOSED, closed, raised, start, timed_out

Verdict = Callable[..., Diagnosis]
Read = Callable[..., CaseEvidence]

SURE = 0.8


def steps(rank: int, last: int) -> str:
    lines = "".join(f"2026-11-30 08:00:{step:02d} step {step} loss 2.1\n" for step in range(1, last + 1))
    return f"rank={rank} world_size=4 host=n1 pid={100 + rank}\n{lines}"


def lost(rank: int, last: int = 40) -> str:
    return steps(rank, last) + CLOSED.format(rank=rank)


def test_a_log_that_ends_in_mid_line_is_torn(evidence: Read) -> None:
    view = view_case(evidence({"rank-0.log": closed(0), "rank-1.log": start(1) + "2026-11-30 08:00:09 step 1"}))

    assert list(view.gaps.torn) == [1]


def test_a_log_that_ends_in_mid_traceback_is_torn_though_its_last_line_is_whole(evidence: Read) -> None:
    cut = raised(1, "WidgetError: no widget left").rsplit("\n", 2)[0] + "\n"
    view = view_case(evidence({"rank-0.log": closed(0), "rank-1.log": cut}))

    assert list(view.gaps.torn) == [1]
    assert view.stories[1].unfinished is not None


@pytest.mark.parametrize(
    "end", [CLOSED.format(rank=1), "[rank1]: done\n", "\r 17%|#         | 120/700 [02:48<13:32,  1.40s/it]"]
)
def test_a_whole_message_or_a_progress_bar_at_the_end_is_no_tear(evidence: Read, end: str) -> None:
    view = view_case(evidence({"rank-0.log": closed(0), "rank-1.log": start(1) + end}))

    assert not view.gaps.torn


def test_a_rank_that_trains_cannot_be_far_behind_the_others_so_its_log_is_not_whole(evidence: Read) -> None:
    files = {f"rank-{rank}.log": lost(rank) for rank in range(3)} | {"rank-3.log": steps(3, 12)}
    view = view_case(evidence(files))

    assert view.gaps.torn == {3: "ends at step 12, 28 before the other ranks"}


def test_a_rank_one_step_behind_is_not_torn(evidence: Read) -> None:
    files = {f"rank-{rank}.log": lost(rank) for rank in range(3)} | {"rank-3.log": steps(3, 39)}

    assert not view_case(evidence(files)).gaps.torn


def test_silence_in_a_torn_log_is_no_proof_of_a_hang(verdict: Verdict) -> None:
    waiting = {f"rank-{rank}.log": timed_out(rank) for rank in (0, 1, 3)}

    whole = verdict(waiting | {"rank-2.log": start(2)})
    torn = verdict(waiting | {"rank-2.log": start(2) + "2026-11-30 08:00:09 step 11 lo"})

    assert whole.initiating.ranks == torn.initiating.ranks == [2]
    assert whole.confidence >= SURE > torn.confidence
    assert "rank-2.log ends in the middle of a message" in torn.missing[0]


def test_a_traceback_without_its_end_is_a_better_suspect_than_a_silent_rank(verdict: Verdict) -> None:
    cut = raised(2, "WidgetError: no widget left").rsplit("\n", 2)[0] + "\n"
    said = verdict({"rank-0.log": closed(0), "rank-1.log": closed(1), "rank-2.log": cut, "rank-3.log": start(3)})

    assert said.initiating.ranks == [2]
    assert said.confidence < SURE
    assert any("rank-2.log ends in the middle of a message" in fact for fact in said.missing)


def test_another_file_of_the_rank_that_is_whole_is_believed(verdict: Verdict) -> None:
    error = raised(2, "WidgetError: no widget left")
    said = verdict(
        {
            "rank-0.log": closed(0),
            "rank-1.log": closed(1),
            "rank-2.log": error[:-18],
            "launcher.log": "".join(f"[default2]:{line}\n" for line in error.splitlines()),
        }
    )

    assert said.initiating.ranks == [2]
    assert "no widget left" in said.cause.summary


def test_an_error_that_a_warning_announces_was_got_over(verdict: Verdict) -> None:
    tolerated = (
        start(1)
        + "2026-11-30 08:00:05 WARNING data failed to decode sample 7, skipping\n"
        + raised(1, "ValueError: bad sample").removeprefix(start(1))
    )
    said = verdict({"rank-0.log": closed(0), "rank-1.log": tolerated, "rank-2.log": closed(2), "rank-3.log": closed(3)})

    assert said.confidence < SURE


def test_the_same_error_on_all_ranks_that_were_heard_of_is_a_common_cause(verdict: Verdict) -> None:
    said = verdict({f"rank-{rank}.log": raised(rank, "WidgetError: none") for rank in (0, 2)}, world_size=4)

    assert said.initiating.ranks == []
    assert any("ranks 1, 3" in fact for fact in said.missing)


def test_a_rank_without_a_log_is_no_missing_rank_once_training_had_begun(verdict: Verdict) -> None:
    said = verdict({f"rank-{rank}.log": timed_out(rank) for rank in (0, 1, 3)})

    assert said.cause.id != "missing-rank"
    assert said.confidence < SURE
    assert any("rank 2" in fact for fact in said.missing)


def test_healthy_logs_that_are_torn_say_little(verdict: Verdict) -> None:
    said = verdict({f"rank-{rank}.log": steps(rank, 20)[:-9] for rank in range(4)})

    assert said.confidence <= 0.3
    assert any("ranks 0–3 wrote last" in fact for fact in said.missing)


KILLED = (
    "2026-11-30T08:02:10+0000 n1 kernel: Out of memory: Killed process {pid} ({name}) total-vm:812kB, anon-rss:300kB\n"
)


@pytest.mark.parametrize(
    ("pid", "name", "cause"), [(102, "python", "host-oom"), (912, "node_exporter", "killed-unknown")]
)
def test_the_kernel_is_believed_only_about_processes_that_can_be_the_jobs(
    verdict: Verdict, pid: int, name: str, cause: str
) -> None:
    files = {f"rank-{rank}.log": closed(rank) for rank in (0, 1, 3)} | {"rank-2.log": start(2)}
    said = verdict(files | {"dmesg-n1.log": KILLED.format(pid=pid, name=name)})

    assert said.cause.id == cause
    assert said.initiating.ranks == [2]


def test_a_state_that_tells_of_one_place_takes_the_place_from_the_kernel(verdict: Verdict) -> None:
    files = {f"rank-{rank}.log": closed(rank) for rank in (0, 1, 3)} | {"rank-2.log": start(2)}
    said = verdict(files | {"dmesg-n1.log": KILLED.format(pid=102, name="python")}, state="OUT_OF_MEMORY", nodes=["n1"])

    assert said.cause.id == "host-oom"
    assert said.initiating.ranks == [2]


def test_a_full_quota_that_one_rank_met_began_there(verdict: Verdict) -> None:
    full = "OSError: [Errno 122] Disk quota exceeded: '/scratch/step20.pt'"
    alone = verdict({"rank-0.log": closed(0), "rank-1.log": closed(1), "rank-2.log": raised(2, full)})

    assert alone.cause.id == "quota-exceeded"
    assert alone.initiating.ranks == [2]


def test_a_machine_check_explains_the_panic_and_a_corrected_error_explains_nothing(verdict: Verdict) -> None:
    ranks = {f"rank-{rank}.log": timed_out(rank) for rank in (0, 1)} | {
        f"rank-{rank}.log": start(rank, host="n2") for rank in (2, 3)
    }
    fatal = (
        "[77123.118921] mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000001010092\n"
        "[77123.120001] Kernel panic - not syncing: Fatal machine check\n"
    )
    corrected = "[77123.118921] mce: [Hardware Error]: CPU 4: Machine Check: 0 Bank 9: 8c000040000800c0\n"

    failed = verdict(ranks | {"dmesg-n2.log": fatal})
    assert failed.cause.id == "host-hardware"
    assert failed.suspect_nodes == failed.initiating.hosts == ["n2"]
    assert verdict(ranks | {"dmesg-n2.log": corrected}).cause.id != "host-hardware"
