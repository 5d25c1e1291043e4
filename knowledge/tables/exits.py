"""How processes and jobs end: signals, exit codes and the scheduler's states, `exits.yaml`, read once."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from knowledge.cache import parse_all
from knowledge.signature import Id, Text

FILE = Path(__file__).with_name("exits.yaml")

SHELL = 128
"""A shell, a pod or an MPI launcher says SHELL + number for a process that ended by a signal."""


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Signal(_Row):
    """One signal of Linux."""

    number: int = Field(ge=1, le=31)
    name: str = Field(pattern=r"^SIG[A-Z0-9]+$")
    word: Text  # what srun and shells print
    means: Text
    cause: Id  # that it stands for, where a process ended so and said nothing
    told: bool = False  # somebody else ended the process


class ExitCode(_Row):
    """One exit code that has a meaning by convention."""

    code: int = Field(ge=0, le=255)
    by: tuple[str, ...] = Field(min_length=1)  # whose convention
    means: Text


class SlurmCode(_Row):
    """A second number of sacct's ExitCode that is no signal."""

    number: int
    means: Text
    cause: Id | None = None


class Kind(StrEnum):
    """What a job's state says of its outcome."""

    WELL = "well"
    FAILED = "failed"
    STOPPED = "stopped"  # by somebody's decision
    UNFINISHED = "unfinished"  # it runs, waits, or comes back


class JobState(_Row):
    """One state of a job."""

    state: str = Field(pattern=r"^[A-Z_]+$")
    short: str = ""  # as squeue prints it
    scheduler: Literal["slurm", "kubernetes"] = "slurm"
    kind: Kind
    cause: Id | None = None  # of the whole job's end
    means: Text


class _File(_Row):
    signals: tuple[Signal, ...]
    exit_codes: tuple[ExitCode, ...]
    slurm_codes: tuple[SlurmCode, ...]
    job_states: tuple[JobState, ...]


@cache
def _file() -> _File:
    return _File.model_validate(parse_all([FILE])[0])


@cache
def signals() -> Mapping[int, Signal]:
    """Every signal by number. Raises pydantic.ValidationError for a malformed file."""
    return MappingProxyType({signal.number: signal for signal in _file().signals})


@cache
def exit_codes() -> Mapping[int, ExitCode]:
    """The exit codes that mean something by convention."""
    return MappingProxyType({code.code: code for code in _file().exit_codes})


@cache
def slurm_codes() -> Mapping[int, SlurmCode]:
    """The second numbers of sacct's ExitCode that are no signals."""
    return MappingProxyType({code.number: code for code in _file().slurm_codes})


@cache
def job_states() -> Mapping[str, JobState]:
    """Every state of a job by its full name."""
    return MappingProxyType({state.state: state for state in _file().job_states})


_CUT = 4  # letters of a state that a narrow column leaves at least


def job_state(word: str) -> JobState | None:
    """Return the state that the scheduler means.

    Understands the full name, squeue's short form, what sacct adds ("CANCELLED by 1001") and what its narrow columns
    cut off ("OUT_OF_ME+"); case and blanks do not matter.
    """
    plain = word.strip().upper().split(" BY ")[0].replace(" ", "")
    if plain in job_states():
        return job_states()[plain]
    stem = plain.removesuffix("+")
    for state in job_states().values():
        if plain and plain == state.short:
            return state
        if stem != plain and len(stem) >= _CUT and state.state.startswith(stem):
            return state
    return None


def signal_of(code: int) -> int | None:
    """The signal behind an exit code: -9 and 137 → 9; None for a code that a process chose itself."""
    if code < 0:
        return -code
    return code - SHELL if SHELL < code < SHELL + 32 else None
