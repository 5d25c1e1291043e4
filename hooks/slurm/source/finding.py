"""Finding logs: patterns of names that a job's user chose, searched as that user."""

import collections
import contextlib
import itertools
import os
import re
import shlex
import time
from typing import Dict, Iterable, Iterator, List, Mapping, Optional, Pattern, Sequence, Set, Tuple, Union

from hooks.slurm.source.jobs import Job
from hooks.slurm.source.words import whole

MOST_FILES = 4096
MOST_ENTRIES = 50000
LOCAL_FILESYSTEMS = {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "tmpfs", "ramfs", "overlay", "vfat"}


@contextlib.contextmanager
def as_user(job: Job) -> Iterator[None]:
    """Act as the job's user when we are root, so that no path leads to anything that user could not read, and an export
    that squashes root can be read. A root that may not do so reads what it can."""
    uid, groups = job.uid if os.getuid() == 0 else None, os.getgroups()
    try:
        if uid is not None:
            with contextlib.suppress(PermissionError):
                _become(job.user, uid, job.gid if job.gid is not None else NOBODYS_GROUP)
        yield
    finally:
        if uid is not None:
            with contextlib.suppress(PermissionError):
                os.seteuid(0)
                os.setegid(0)
                os.setgroups(groups)


def _become(user: str, uid: int, gid: int) -> None:
    try:
        os.initgroups(user, gid)
    except (OSError, TypeError):
        os.setgroups([])
    os.setegid(gid)
    os.seteuid(uid)


NOBODYS_GROUP = 65534
MOST_PATH = 4096  # characters of a path, as the kernel has it
MOST_VARYING = 8  # parts of one name that vary
MOST_SEARCH = 20  # seconds that one pattern's files may be looked for


Letters = Dict[str, str]  # what each letter of a pattern stands for
Varying = Tuple[Optional[str], Pattern[str], int, Sequence[str]]  # letter, expression, least length, other words


class Name:
    """A component of a path of which parts vary: text, and Varying for each part.

    Whatever the expression matches, it matches also when cut down to the least length.
    """

    def __init__(self, pieces: Sequence[Union[str, Varying]]) -> None:
        self.pieces = pieces
        first = pieces[0]
        self.hidden = isinstance(first, str) and first.startswith(".")

    def match(self, name: str) -> Optional[Letters]:
        """What the letters stand for, the first parts being as long as can be; None where the name is another.

        By hand and with what has failed in mind: an expression would try all ways to share a long name among the parts.
        """
        failed: Set[Tuple[int, int]] = set()

        def rest(number: int, at: int) -> Optional[Letters]:
            if number == len(self.pieces):
                return {} if at == len(name) else None
            if (number, at) in failed:
                return None
            piece = self.pieces[number]
            letter: Optional[str] = None
            if isinstance(piece, str):
                ends = [at + len(piece)] if name.startswith(piece, at) else []
            else:
                letter, run, least, words = piece
                longest = run.match(name, at)
                ends = [at + len(word) for word in words if name.startswith(word, at)]
                ends += range(longest.end(), at + least - 1, -1) if longest else ()
            for end in ends:
                found = rest(number + 1, end)
                if found is not None:
                    return dict(found, **{letter: name[at:end]}) if letter else found
            failed.add((number, at))
            return None

        return rest(0, 0)


_DIGITS, _HOST, _ANYTHING, _ONE = (
    re.compile(run) for run in (r"[0-9]*", r"(?:[A-Za-z0-9][A-Za-z0-9.-]*)?", r"[^/]*", r"[^/]?")
)
_STEP = re.compile(r"(?:\.[0-9]*)?")


def expand(pattern: str, values: Mapping[str, str], wildcards: bool = False) -> List[Union[str, Name]]:
    """A file name pattern of Slurm as path components: text, or a Name for what varies from task to task. Raises Unfit.

    `values` are the letters known exactly. `%t %n %s` stand for numbers and `%N` for a host, padded as in `%2t`;
    with `wildcards`, `*` and `?` are meant too. A backslash switches all letters off, as Slurm has it.
    """
    if len(pattern) > MOST_PATH:
        raise Unfit("its name is too long")
    if "\\" in pattern:
        return list(pattern.replace("\\", "").split("/"))
    text = ""
    varying: List[Varying] = []

    def hold(letter: Optional[str], run: Pattern[str], least: int, words: Sequence[str] = ()) -> str:
        varying.append((letter, run, least, words))
        return "\0"

    for width, letter, other in re.findall(r"%([0-9]*)([A-Za-z%])|(.)", pattern.replace("\0", "?"), re.DOTALL):
        least = max(1, min(int(width[:3] or 1), 10))
        if len(text) > MOST_PATH:
            raise Unfit("its name is too long")
        if other:
            meant = wildcards and other in "*?"
            text += hold(None, _ANYTHING if other == "*" else _ONE, int(other == "?")) if meant else other
        elif letter == "%":
            text += "%"
        elif letter in values:
            exact = values[letter].replace("\0", "")
            text += exact if whole(exact) is None else exact.zfill(least)
        elif letter in "tn":
            text += hold(letter, _DIGITS, least)
        elif letter == "s":
            text += hold(None, _DIGITS, least, ("batch", "interactive", "extern"))
        elif letter == "J":
            text += values.get("j", "") + hold(None, _STEP, 2, (".batch", ""))
        elif letter == "N":
            text += hold("N", _HOST, 1)
        else:
            text += "%" + width + letter
    components: List[Union[str, Name]] = []
    parts = iter(varying)
    for component in text.split("/"):
        if component.count("\0") > MOST_VARYING:
            raise Unfit("more than %d parts of its name vary" % MOST_VARYING)
        pieces: List[Union[str, Varying]] = [
            piece if piece != "\0" else next(parts) for piece in re.split("(\0)", component)
        ]
        components.append(component if len(pieces) == 1 else Name(pieces))
    return components


def matching(
    components: Sequence[Union[str, Name]], work_dir: str, denied: Optional[Dict[str, str]] = None
) -> List[Tuple[str, Letters]]:
    """(path, what the letters stood for) of the files that exist, at most MOST_FILES. What may not be looked at goes into
    `denied`, with the reason."""
    denied, until = {} if denied is None else denied, time.time() + MOST_SEARCH
    found: List[Tuple[str, Letters]] = [("/" if components[0] == "" else work_dir, {})]
    for component in components:
        step: List[Tuple[str, Letters]] = []
        for folder, letters in found:
            if isinstance(component, str):
                step.append((os.path.join(folder, component) if component else folder, letters))
                continue
            try:
                names = os.listdir(folder)[:MOST_ENTRIES]
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as why:
                denied[folder] = why.strerror or str(why)
                continue
            for name in sorted(names):
                if time.time() > until:
                    denied[folder] = "it takes too long to look through"
                    break
                match = component.match(name)
                if match is not None and (component.hidden or not name.startswith(".")):
                    step.append((os.path.join(folder, name), dict(letters, **match)))
        found = step[:MOST_FILES]
    return [(path, letters) for path, letters in found if _exists(path, denied)]


def _exists(path: str, denied: Dict[str, str]) -> bool:
    try:
        os.lstat(path)
    except OSError as why:
        if not isinstance(why, (FileNotFoundError, NotADirectoryError)):
            denied[path] = why.strerror or str(why)
        return False
    return True


def mounts() -> List[Tuple[str, str]]:
    """(mount point, file system type), the longest mount point first; none where the kernel does not tell."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as table:
            rows = [line.split(" - ") for line in table]
        points = [(left.split()[4].replace("\\040", " "), right.split()[0]) for left, right in rows]
    except (OSError, ValueError, IndexError):
        return []
    return sorted(points, key=lambda row: -len(row[0]))


def is_local(path: str, table: Sequence[Tuple[str, str]], shared_paths: Iterable[str]) -> bool:
    """Whether other nodes cannot see this file; `table` as of mounts()."""
    path = os.path.realpath(path)

    def under(point: str) -> bool:
        return path == point or path.startswith(point.rstrip("/") + "/")

    if any(under(os.path.realpath(shared)) for shared in shared_paths):
        return False
    return next((kind in LOCAL_FILESYSTEMS for point, kind in table if under(point)), False)


def ours_to_send(job: Job, letters: Mapping[str, str], local: bool) -> bool:
    """Each file is sent by one node: its own where it is local or named after a node, else the batch host."""
    if local or job.alone:
        return True
    if letters.get("N"):
        return letters["N"].split(".")[0] in (job.node, job.host)
    if letters.get("n") is not None:
        number = int(letters["n"][-9:])
        return job.nodes[number] == job.node if number < len(job.nodes) else job.leads
    return job.leads


def step_patterns(script: str, job: Job) -> List[Tuple[str, bool]]:
    """Patterns (see Evidence.patterns) of what a batch script names: `srun -o` and `-e`, torchrun's folder of logs, error
    files and dumps. Slurm itself never tells them.

    Variables of the job and simple assignments of the script are filled in; a pattern with any other is left out.
    """
    known = {"SLURM_JOB_ID": job.id, "SLURM_JOBID": job.id, "SLURM_JOB_NAME": job.name, "USER": job.user,
             "SLURM_SUBMIT_DIR": job.work_dir, "PWD": job.work_dir, "SLURM_JOB_USER": job.user,
             "SLURM_ARRAY_JOB_ID": job.array_job, "SLURM_ARRAY_TASK_ID": job.array_task}  # fmt: skip
    patterns: List[Tuple[str, bool]] = []

    def fill(text: str) -> str:  # what grows beyond a path's length is left out, as an unknown variable is
        if len(text) > MOST_PATH:
            return "$"
        text = re.sub(
            r"\$(?:\{(\w+)\}|(\w+))", lambda m: known.get(m.group(1) or m.group(2), m.group(0))[: MOST_PATH + 1], text
        )
        return text if len(text) <= MOST_PATH else "$"

    def given(option: Pattern[str], words: Sequence[str]) -> Iterator[str]:
        return itertools.islice(each_given(option, words), MOST_PATTERNS)

    def each_given(option: Pattern[str], words: Sequence[str]) -> Iterator[str]:
        for place, word in enumerate(words):
            found = option.match(word)
            value = found and (found.group(1) or found.group(2) or (words[place + 1] if place + 1 < len(words) else ""))
            if value:
                yield fill(value)

    for line in script[: 1 << 20].replace("\\\n", " ").splitlines():
        if len(patterns) > 4 * MOST_PATTERNS:
            break
        line = line[: 4 * MOST_PATH]
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = line.split()  # a quotation that goes on in the next line
        for word in words:
            assigned = re.match(r"^(\w+)=(.*)$", word)
            if not assigned:
                if word in ("export", "local", "readonly", "env"):
                    continue
                break
            if len(known) < MOST_VARIABLES:
                known[assigned.group(1)] = fill(assigned.group(2))
        names = [word.rpartition("/")[2] for word in words]
        if "srun" in names:
            values = given(OUTPUT_OPTION, words[names.index("srun") + 1 :])
            patterns += [(value, False) for value in values if value not in ("none", "all", "/dev/null")]
        for folder in given(LOG_DIR_OPTION, words):
            patterns += [(folder + below, True) for below in TORCHRUN_LOGS]
    for variable in DUMP_VARIABLES:
        if known.get(variable):
            patterns.append((known[variable] + "*", True))
    patterns = [(pattern, wild) for pattern, wild in patterns if "$" not in pattern and "`" not in pattern]
    return list(collections.OrderedDict.fromkeys(patterns))[:MOST_PATTERNS]


MOST_PATTERNS, MOST_VARIABLES = 64, 1000

OUTPUT_OPTION = re.compile(r"^(?:--(?:output|error)(?:=(.+))?|-[oe](.+)?)$")
LOG_DIR_OPTION = re.compile(r"^--log[-_]dir(?:=(.+))?()$")
# Below torchrun's --log-dir: run, attempt, local rank.
TORCHRUN_LOGS = ["/*/attempt_*/*/%s" % name for name in ("stderr.log", "stdout.log", "error.json")]
# Where a rank leaves the traceback that ended it, and what the beginning of a flight recorder's file is called.
DUMP_VARIABLES = ("TORCHELASTIC_ERROR_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE")
DUMPS = [folder + name + "*" for folder in ("/tmp/", "") for name in ("nccl_trace_rank_", "comm_lib_trace_rank_")]


class Unfit(Exception):
    """A file that is not the job's own log."""


class TooOld(Unfit):
    """A log of an earlier job."""
