"""Opening logs: as the job's user, regular files only, and none older than the job."""

import hashlib
import os
import re
import stat
from typing import Optional, Tuple

from hooks.slurm.source.finding import TooOld, Unfit

OTHER_CLOCK = 5  # seconds that the clock of a file server or a node may be behind the one that tells of the start
OWN_OTHER_CLOCK = 30  # the same for an output of the job's own, which Slurm empties as it begins


def open_log(path: str, uid: Optional[int], since: Optional[float]) -> Tuple[int, os.stat_result]:
    """(descriptor, stat) of a regular file of this user, changed since then; whenever for None. Raises Unfit or OSError.

    Looked at before it is opened, because opening a device can already do something, and again after.
    """
    _must_be_log(os.lstat(path), uid, since)
    log = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        facts = os.fstat(log)
        _must_be_log(facts, uid, since)
    except Unfit:
        os.close(log)
        raise
    return log, facts


def _must_be_log(facts: os.stat_result, uid: Optional[int], since: Optional[float]) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise Unfit("not a regular file")
    if uid is not None and facts.st_uid != uid:
        raise Unfit("it belongs to uid %d" % facts.st_uid)
    if since is not None and facts.st_mtime < since:
        raise TooOld("not written since the job began")


def log_name(path: str, work_dir: str, node: str) -> str:
    """The log's name at the service: its path inside the job's folder, under the node's name where it is local."""
    inside = os.path.normpath(path)
    root = os.path.normpath(work_dir or "/").rstrip("/") + "/"
    inside = inside[len(root) :] if root != "/" and inside.startswith(root) else "/".join(inside.split("/")[-3:])
    parts = [re.sub(r"[^A-Za-z0-9._+=,@-]", "_", part) for part in ([node] if node else []) + inside.split("/")]
    name = "/".join(part if part.strip(".") else "_" for part in parts if part)
    if len(name) > 200:
        name = hashlib.sha256(name.encode()).hexdigest()[:12] + "_" + name[-180:].lstrip("/.")
    return name
