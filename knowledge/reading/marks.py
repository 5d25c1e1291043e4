"""Literals that the reader itself looks for, beside the catalogue's: where a traceback begins, who starts, how it ended."""

TRACEBACK = "Traceback (most recent call last)"

MARKS = (
    TRACEBACK,
    "(most recent call first)",
    "exitcode  :",
    "failed (exitcode",
    "srun: error: ",
    "Exit code:",
    "EXIT CODE:",
    "KILLED BY SIGNAL",
    "Process name:",
    "RUNNING AT",
    "exited on signal",
    "exits with return code",
    ") exited",
    "terminated with signal",
    "world_size=",
    "nranks ",
    "GLOBAL_RANK",
    "MPI rank ",
    "world_rank=",
    "Bootstrap : Using",
    "spawned with command",
    "Successfully assigned",
)
