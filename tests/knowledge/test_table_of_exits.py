"""Signals, exit codes and job states: the table, the reader of launchers' words and the verdicts agree."""

from __future__ import annotations

import signal as system
from collections.abc import Callable, Sequence

import pytest

from knowledge import Diagnosis
from knowledge.catalogue import load_catalogue
from knowledge.causes import load_causes
from knowledge.diagnosis import Outcome
from knowledge.reading.evidence import CaseEvidence
from knowledge.scanning import speakers
from knowledge.tables.exits import (
    ExitCode,
    JobState,
    Kind,
    Signal,
    exit_codes,
    job_state,
    job_states,
    signal_of,
    signals,
    slurm_codes,
)

Read = Callable[..., CaseEvidence]
Verdict = Callable[..., Diagnosis]

EACH_SIGNAL = pytest.mark.parametrize("signal", signals().values(), ids=[row.name for row in signals().values()])
EACH_CODE = pytest.mark.parametrize("code", exit_codes().values(), ids=map(str, exit_codes()))
EACH_STATE = pytest.mark.parametrize("state", job_states().values(), ids=list(job_states()))

HEALTHY = (
    "rank=0 world_size=1 host=n1 pid=100\n2026-11-30 08:00:00 step 10 loss 2.1\n2026-11-30 08:00:09 step 11 loss 2.0\n"
)
BLOCK = """\
  time      : 2026-11-30_08:00:05
  host      : n1
  rank      : 2 (local_rank: 2)
  exitcode  : {code} (pid: 102)
  error_file: <N/A>
"""
HYDRA = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 2 PID 102 RUNNING AT n1\n"


def speaking(line: str) -> set[str]:
    entries = dict(load_catalogue().entries)
    matches = {name: found for name, entry in entries.items() if (found := entry.match(line)) is not None}
    return set(speakers(matches, entries))


def ends(read: Read, text: str) -> list[tuple[int, int | None]]:
    """Code and rank of every ending that a launcher's log tells of."""
    return [(found.code, found.rank) for found in read({"slurm-1.out": text}).exits]


# --- signals


def test_the_table_holds_the_signals_of_linux_and_their_words() -> None:
    ours = [(row.number, row.name, row.word) for row in signals().values()]

    assert ours == [(number, system.Signals(number).name, system.strsignal(number)) for number in range(1, 32)]


@EACH_SIGNAL
def test_every_launchers_form_of_a_signal_is_read(signal: Signal, evidence: Read) -> None:
    number = signal.number
    forms = [
        BLOCK.format(code=-number),
        f"srun: error: n1: task 2: {signal.word}\n",
        f"srun: error: n1: task 2: {signal.word} (core dumped)\n",
        f"srun: error: n1: task 2: Exited with exit code {128 + number}\n",
        f"[2026-11-30T08:05:38.917] [4.0] task 2 (102) exited. Killed by signal {number}.\n",
        f"mpirun noticed that process rank 2 with PID 102 on node n1 exited on signal {number} ({signal.word}).\n",
        f"  Process name: [[1,1],2]\n  Exit code:    {128 + number}\n",
        f"{HYDRA}=   EXIT CODE: {128 + number}\n",
        f"{HYDRA}=   KILLED BY SIGNAL: {number} ({signal.word})\n",
        f"torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal {signal.name}\n",
    ]

    assert [ends(evidence, form) for form in forms] == [[(-number, 2)]] * len(forms)


@EACH_SIGNAL
def test_every_word_of_srun_is_spoken_for(signal: Signal) -> None:
    (entry,) = speaking(f"srun: error: gpu-n17: tasks 0-7: {signal.word} (core dumped)")

    assert entry.startswith("srun-task-")


@EACH_SIGNAL
def test_a_process_that_ends_by_a_signal_and_says_nothing_has_the_tables_cause(
    signal: Signal, verdict: Verdict
) -> None:
    said = verdict({"slurm-1.out": BLOCK.format(code=-signal.number)}, exit_code=1, state="FAILED")

    assert signal.cause in load_causes()
    if signal.name == "SIGTERM":
        assert said.initiating.ranks == [], "it was only told to stop"
    else:
        assert (said.cause.id, said.initiating.ranks) == (signal.cause, [2])


def test_both_spellings_of_a_signal_are_one() -> None:
    for number in signals():
        assert signal_of(-number) == signal_of(128 + number) == number
    assert [signal_of(code) for code in (0, 1, 127, 128, 160, 255)] == [None] * 6


# --- exit codes


@EACH_CODE
def test_every_exit_code_is_read_as_it_is(code: ExitCode, evidence: Read) -> None:
    forms = [
        BLOCK.format(code=code.code),
        f"srun: error: n1: task 2: Exited with exit code {code.code}\n",
        f"[2026-11-30T08:05:38.917] [4.0] task 2 (102) exited with exit code {code.code}.\n",
        f"  Process name: [[1,1],2]\n  Exit code:    {code.code}\n",
        f"{HYDRA}=   EXIT CODE: {code.code}\n",
        f"torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with exit code {code.code}\n",
    ]

    assert [ends(evidence, form) for form in forms] == [[(code.code, 2)]] * len(forms)
    assert speaking(f"srun: error: n1: task 2: Exited with exit code {code.code}") == {"srun-task-exited"}


@EACH_CODE
def test_an_exit_code_by_convention_is_no_signal(code: ExitCode) -> None:
    assert signal_of(code.code) is None


def test_a_job_that_only_left_an_exit_code_failed_and_one_that_left_0_did_not(verdict: Verdict) -> None:
    for code in exit_codes():
        said = verdict({"rank-0.log": HEALTHY}, exit_code=code)
        assert (said.outcome is Outcome.FAILED) == (code != 0), code


def test_slurms_own_marks_are_no_signals_and_mean_what_its_states_mean() -> None:
    assert not slurm_codes().keys() & signals().keys()
    assert slurm_codes()[125].cause == job_states()["OUT_OF_MEMORY"].cause


# --- job states


def forms(state: JobState) -> Sequence[str]:
    cut = f"{state.state[:9]}+" if len(state.state) > 10 else state.state
    return [state.state, state.state.lower(), state.short or state.state, cut]


def test_short_forms_are_unique() -> None:
    short = [state.short for state in job_states().values() if state.short]

    assert len(short) == len(set(short))
    assert set("BF CA CD CF CG DL F NF OOM PD PR R RD RF RH RQ RS RV SE SI SO ST S TO".split()) == set(short)


@EACH_STATE
def test_every_spelling_of_a_state_is_understood(state: JobState) -> None:
    assert {job_state(form) for form in forms(state)} == {state}


def test_words_that_are_no_states_are_none() -> None:
    assert [job_state(word) for word in ("", "+", "NO+", "UNHEARD_OF", "by 1001")] == [None] * 5
    assert job_state("CANCELLED by 1001") == job_states()["CANCELLED"]


@EACH_STATE
def test_the_verdict_on_a_healthy_log_is_the_states(state: JobState, verdict: Verdict) -> None:
    for form in forms(state):
        said = verdict({"rank-0.log": HEALTHY}, state=form)
        failed = state.kind is Kind.FAILED or state.state == "PREEMPTED"
        assert (said.outcome is Outcome.FAILED) == failed, form
        if state.cause:
            assert said.cause.id == state.cause, form


@EACH_STATE
def test_a_state_with_a_cause_is_spoken_for_by_an_entry_of_that_cause(state: JobState) -> None:
    if not state.cause or state.scheduler != "slurm":
        return
    word = "CANCELLED by 1001" if state.state == "CANCELLED" else state.state
    entries = speaking(f"8812|train|{word}|0:0")

    assert {load_catalogue()[entry].cause for entry in entries} == {state.cause}


def test_causes_of_the_tables_exist() -> None:
    named = {state.cause for state in job_states().values()} | {code.cause for code in slurm_codes().values()}

    assert named - {None} <= load_causes().keys()
