"""`firstfault watch JOBID`: wait for one's own Slurm job and report it, where the site has no hook."""

from __future__ import annotations

import sys
from pathlib import Path

from bot.cli.hook_run import call


def run(job: str, bot: str | None, token_file: Path | None) -> int:
    """Exit status: 0 no attempt of the job failed, 1 one did and was reported or Slurm knows no such job, 2 a wrong option."""
    if not job.isdigit():
        print(f"firstfault: a Slurm job id is a number, not {job!r}; squeue --me shows yours", file=sys.stderr)
        return 2
    return call(bot, token_file, "watch", job)
