"""Literals that the reader itself looks for, beside the catalogue's: where a traceback begins, who starts, how it ended."""

from __future__ import annotations

TRACEBACK = "Traceback (most recent call last)"
STACK = "(most recent call first)"
FRAME = '  File "'

ENDS = frozenset(
    {
        "exitcode", "exit code", "Exit code:", "EXIT CODE:", "KILLED BY SIGNAL", "Process name:", "RUNNING AT", "exited on signal",
        "exits with return code", ") exited", "terminated with signal", "Root Cause (first", "  host      :", "  rank      :",
        "noticed that process rank ", "exited with code ", "terminated with code ", "srun: error: ",
        "died with ", "exited with status", "exited with rc", "exited, code", "returncode", " rc=", "exit status", "killed by signal",
        "ended with ", "failed with code", "failed with status", "the trainer process with rank=",
    }
)  # fmt: skip
"""A launcher's or the scheduler's words on how a process ended."""

STARTS = frozenset(
    {
        "world_size",
        "nranks ",
        "GLOBAL_RANK",
        "MPI rank ",
        "world_rank=",
        "Bootstrap : Using",
        "spawned with command",
        "restart_count=",
    }
)
"""A process introduces itself."""

_DONE = (
    *(f"training {verb}{how}" for verb in ("", "is ", "has ") for how in ("finished", "complete", "done", "ended")),
    "training of Epoch", "training of epoch", "finished training", "done, exiting 0", "trainer.fit", "'train_runtime'",
    "job completed successfully", "job finished successfully", "all done", "exiting program at iteration",
    "worker group successfully finished",
)  # fmt: skip

FINISHED = frozenset(form for words in _DONE for form in (words[1:], words.title()[1:], words.upper()))
"""Words without which no line says that training came to its end: in sentences, in titles and in capitals."""

MARKS = frozenset({TRACEBACK, STACK, FRAME}) | ENDS | STARTS
