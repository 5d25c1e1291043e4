"""Leaving Slurm: it waits for a hook, kills its process group and drains the node when it fails."""

import os
import sys

VERSION = "0.1.0"


def called_by_slurm() -> "str | None":
    """Whether Slurm runs us as a hook: which one, or None for a person at a terminal."""
    if len(sys.argv) > 1:
        return None
    context = os.environ.get("SLURM_SCRIPT_CONTEXT", "")
    if not context and "JOBSTATE" in os.environ and "JOBID" in os.environ:
        return "jobcomp"
    return {"epilog_slurmd": "node", "epilog_slurmctld": "controller"}.get(context, "other" if context else None)


def detach() -> None:
    """Go on in a session of our own with no open files, while the process that Slurm waits for ends with 0."""
    ended, ends = os.pipe()
    if os.fork():
        os.close(ends)
        os.read(ended, 1)  # returns when the child has its session, or is dead
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else range(3, 256):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                pass


if __name__ == "__main__" and called_by_slurm():
    try:
        detach()
        if os.environ.get("FIRSTFAULT_DETACHED") == "no":  # the shell could not leave by itself; from here on it can
            os.environ["FIRSTFAULT_DETACHED"] = "yes"
            os.execv("/bin/sh", ["/bin/sh", os.path.abspath(sys.argv[0])])
    except BaseException:
        os._exit(0)
