"""Evidence: all that one node sends about a job, within its budget."""

import collections
import contextlib
import errno
import gzip
import os
import time
from typing import Dict, List, Optional, Sequence, Set, Tuple

from hooks.slurm.source.finding import DUMPS, TooOld, Unfit, as_user, expand, is_local, matching, mounts, ours_to_send
from hooks.slurm.source.jobs import Job
from hooks.slurm.source.logs import OTHER_CLOCK, OWN_OTHER_CLOCK, log_name, open_log
from hooks.slurm.source.node import daemons_log, gpu_state, kernel_log, of_this_job, slurmd_lines
from hooks.slurm.source.noting import note, user_name
from hooks.slurm.source.redaction import Redaction
from hooks.slurm.source.settings import Settings
from hooks.slurm.source.trimming import trim

MOST_UNREAD = 20

Stamp = Tuple[object, ...]  # where a text comes from, and what shows that it is still the same
Chosen = Dict[str, Tuple[int, str, Optional[float]]]  # by path: size, name at the service, see Evidence.since


class Evidence:
    """The logs of a job on this node: found, trimmed, redacted and packed."""

    def __init__(self, settings: Settings, job: Job) -> None:
        self.settings, self.job = settings, job
        self.redact = Redaction(settings.token)
        self.packed: Dict[str, Tuple[Stamp, bytes]] = collections.OrderedDict()  # by name, the text as gzip bytes
        self.own: Set[object] = set()  # paths of what Slurm itself makes for the batch script
        self.logs_bytes = settings.node_bytes // 8 * 7  # the rest is for what the node says of itself
        self.remarks: List[str] = []
        # path -> why what stands there is not in the report
        self.unread: Dict[str, str] = collections.OrderedDict()
        self.behind = 0.0  # seconds that the file server's clock was seen to be behind the controller's

    def since(self, pattern: str) -> Optional[float]:
        """The time of last writing, by its file system's clock, before which a file of this pattern is no log of this attempt;
        None where its name or Slurm's silence leaves no doubt."""
        job = self.job
        if job.started is None or (job.names(pattern) and not job.restarts):
            return None
        own = pattern in self.outputs() and not job.restarts
        return job.started - max(OWN_OTHER_CLOCK if own else OTHER_CLOCK, self.behind)

    def learn_clock(self, pattern: str, written: float) -> None:
        """Of an output that Slurm itself has made for this job, how far its file system's clock is behind."""
        job = self.job
        if job.started and not job.restarts and pattern in self.outputs() and job.names(pattern):
            self.behind = max(self.behind, job.started - written + OTHER_CLOCK)

    def facts(self, state: str, reason: str) -> Dict[str, object]:
        """The job's facts, with what could not be read."""
        unread = ["%s: %s: %s" % (self.job.node, path, why) for path, why in self.unread.items()]
        if len(unread) > MOST_UNREAD:
            unread[MOST_UNREAD:] = ["%s: and %d more" % (self.job.node, len(unread) - MOST_UNREAD)]
        return self.redact.words(dict(self.job.facts(state, reason), **({"unread": unread} if unread else {})))

    def outputs(self) -> List[str]:
        """The patterns of what Slurm itself makes for the batch script."""
        default = "slurm-%A_%a.out" if self.job.array_job not in ("", "0") else "slurm-%j.out"
        return [p for p in (self.job.stdout or (default if self.job.work_dir else ""), self.job.stderr) if p]

    def patterns(self) -> List[Tuple[str, bool]]:
        """(pattern, whether `*` is one) of the files that Slurm itself or the site names."""
        return [(p, False) for p in self.outputs()] + [(p, True) for p in self.settings.globs + DUMPS]

    def collect(self, patterns: Sequence[Tuple[str, bool]], failed: bool = False) -> None:
        """Read what is there now; a second call takes what has changed since. Once it is known that the job `failed`, its
        logs are searched for as long as `scan_time` allows, else only their ends: most jobs do not fail."""
        if self.job.uid is None:
            self.unread["the job's files"] = "Slurm did not tell the uid of the job's user"
            return
        table = mounts()
        chosen: Chosen = collections.OrderedDict()
        with as_user(self.job):
            for pattern, wildcards in patterns:
                try:
                    components = expand(pattern, self.job.values(), wildcards)
                except Unfit as why:
                    self.unread[pattern[:200]] = str(why)
                    continue
                if not (components[0] == "" or self.job.work_dir.startswith("/")):
                    continue
                denied: Dict[str, str] = {}
                found = matching(components, self.job.work_dir, denied)
                if pattern not in DUMPS:  # those are guesses
                    self.unread.update(denied)
                has_script = self.job.leads and self.job.component in ("", "0")
                if pattern == self.job.stdout and has_script and not found and not denied:
                    named = "/".join(part if isinstance(part, str) else "*" for part in components)
                    self.unread[os.path.join(self.job.work_dir, named)] = os.strerror(errno.ENOENT)
                for path, letters in found:
                    local = is_local(path, table, self.settings.shared_paths)
                    if path in chosen or not ours_to_send(self.job, letters, local):
                        continue
                    try:
                        since = self.since(pattern)
                        log, facts = open_log(path, self.job.uid, since)
                    except (Unfit, OSError) as why:
                        own = pattern in (self.job.stdout, self.job.stderr)  # else it may be any job's, or a guess
                        if own or not isinstance(why, TooOld):
                            self.remarks.append("%s is left out: %s" % (path, why))
                        if isinstance(why, OSError) or own:
                            self.unread[path] = getattr(why, "strerror", None) or str(why)
                        continue
                    os.close(log)
                    self.learn_clock(pattern, facts.st_mtime)
                    self.unread.pop(path, None)
                    name = log_name(path, self.job.work_dir, self.job.node if local else "")
                    if pattern in self.outputs():
                        self.own.add(path)
                    chosen[path] = (facts.st_size, self.redact.name(name), since)
            self._pack(chosen, failed)
        for remark in self.remarks:  # now, because the job's user cannot write our log
            note("job %s: %s" % (self.job.id, remark))
        self.remarks = []

    def _pack(self, chosen: Chosen, failed: bool) -> None:
        left, waiting, over = self.logs_bytes, len(chosen), time.time() + self.settings.scan_time
        for path, (size, name, since) in sorted(chosen.items(), key=lambda item: item[1][0]):
            share, now = min(self.settings.file_bytes, left // waiting), time.time()
            scan = self.settings.scan_bytes // len(chosen)
            until: Optional[float] = None
            if failed:
                scan, until = size, now + max(0, over - now) / waiting
            waiting -= 1
            try:
                log, facts = open_log(path, self.job.uid, since)
            except (OSError, Unfit):
                continue
            try:
                stamp = (path, facts.st_size, facts.st_mtime, failed and facts.st_size > share)
                if share < 512 and facts.st_size > share:
                    self.remarks.append("%s is left out: node_bytes is used up" % path)
                    self.unread[path] = "left out, since node_bytes is used up"
                elif "_trace_rank_" in os.path.basename(path) and facts.st_size > share:
                    self.remarks.append("%s is left out: half a dump says nothing; raise file_bytes" % path)
                    self.unread[path] = "left out, since half a dump says nothing; raise file_bytes"
                elif self.packed.get(name, (None,))[0] != stamp:
                    text = trim(log, facts.st_size, share, scan, self.redact.fit, until)
                    self._keep(name, stamp, text)
                    left -= len(text)
                else:
                    left -= min(size, share)
            except OSError as error:
                self.remarks.append("cannot read %s: %s" % (path, error))
                self.unread[path] = error.strerror or str(error)
            finally:
                os.close(log)

    def logs(self) -> List[Tuple[str, bytes]]:
        """What is packed: the job's own output first, then what the node says, since a slow service may not get all."""

        def place(stamp: Stamp) -> int:
            return 0 if stamp[0] in self.own else 1 if len(stamp) == 1 else 2

        kept = sorted(self.packed.items(), key=lambda item: place(item[1][0]))
        return [(name, packed) for name, (_, packed) in kept]

    def keep_text(self, name: str, text: bytes) -> None:
        """Keep lines that come from no file."""
        self._keep(name, (name,), text)

    def _keep(self, name: str, stamp: Stamp, text: bytes) -> None:
        while name in self.packed and self.packed[name][0][0] != stamp[0]:
            name += "+"  # two paths, one name
        self.packed[name] = (stamp, gzip.compress(self.redact(text), 6))

    def add_node_facts(self, env: Dict[str, str]) -> None:
        """Lines of kernel and slurmd, state of the GPUs."""
        job, settings = self.job, self.settings
        since = job.started or time.time() - 3600
        kernel = kernel_log(env, since) if settings.kernel_log else b""
        if kernel is None and not job.alone:
            self.unread["the kernel's log"] = "neither dmesg nor journalctl gives it to %s" % user_name()
        if settings.slurmd_log and not job.alone:
            path = daemons_log(settings.slurmd_log, job)
            try:
                open(path, "rb").close()
            except FileNotFoundError:
                pass
            except OSError as why:
                self.unread[path] = why.strerror or str(why)
        facts = {
            "kernel.log": of_this_job(kernel or b"", job.id),
            "nvidia-smi.txt": gpu_state(env) if settings.gpus else b"",
            "slurmd.log": slurmd_lines(settings.slurmd_log, job) if settings.slurmd_log else b"",
        }
        for name, text in facts.items():
            if text.strip():
                most = min(settings.file_bytes, settings.node_bytes // 24)
                if len(text) > most:
                    text = text[-most:].partition(b"\n")[2]
                self._keep(log_name(name, "", job.node), (name,), text)

    def batch_tail(self) -> Optional[bytes]:
        """The end of the batch script's own output, or None where this node cannot read it."""
        if self.job.uid is None:
            return None
        texts, patterns = [], [pattern for pattern, wildcards in self.patterns() if not wildcards]
        with as_user(self.job):
            for pattern in patterns:
                try:
                    found = matching(expand(pattern, self.job.values()), self.job.work_dir or "/")
                except Unfit:
                    continue
                for path, _ in found:
                    with contextlib.suppress(OSError, Unfit):
                        log, facts = open_log(path, self.job.uid, self.since(pattern))
                        texts.append(os.pread(log, 65536, max(0, facts.st_size - 65536)))
                        os.close(log)
        return b"\n".join(texts) if texts else None
