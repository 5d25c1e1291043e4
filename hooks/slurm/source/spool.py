"""The spool: reports are on disk before they are sent, and go when the service has them."""

import contextlib
import fcntl
import json
import os
import re
import stat
import tarfile
import time
from typing import IO, TYPE_CHECKING, List, Match, Optional, Tuple

from hooks.slurm.source.jobs import Job
from hooks.slurm.source.noting import note, user_name
from hooks.slurm.source.service import SAME_END, Away, InBetween, Refused, Report, Service, TooLong, Unknown
from hooks.slurm.source.settings import Settings, default_config

if TYPE_CHECKING:
    from typing import TypedDict

    class Word(TypedDict):
        """JobComp's word about one attempt, as JSON: its state, three times in seconds since 1970, and `code:signal`."""

        state: str
        submitted: Optional[float]
        started: Optional[float]
        ended: Optional[float]
        exit_code: str


UNFINISHED = 3600  # seconds after which nobody writes a report's file any more


class Spool:
    """Reports that wait for the service, and JobComp's words for the controller's worker: one folder for each user."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.folder = os.path.join(settings.spool, user_name())

    def prepare(self) -> "Spool":
        """Make the folder; raises OSError where it is not ours alone."""
        mask = os.umask(0o066)  # with its mode from the beginning, for another hook may use it at once
        try:
            os.makedirs(self.settings.spool, exist_ok=True)
        finally:
            os.umask(mask)
        for folder in (self.folder, os.path.join(self.folder, "endings")):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)
            facts = os.lstat(folder)
            if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
                raise PermissionError("%s must be a folder of %s with mode 0700" % (folder, user_name()))
        return self

    def prepare_or_none(self) -> "Optional[Spool]":
        """The same, or None where there can be no spool."""
        try:
            return self.prepare()
        except OSError as error:
            note("there is no spool: %s" % error)
            return None

    @property
    def lock(self) -> str:
        """The file on which those wait that want to ask Slurm."""
        return os.path.join(self.folder, "slurm.lock")

    def put(self, report: Report) -> None:
        """Keep the report for later, and the folder within its size and age."""
        self.hold(report).close()
        self.tidy()

    def hold(self, report: Report) -> IO[bytes]:
        """The report's file, which nobody else delivers before it is closed. Raises OSError."""
        name = "%020d-%s-%d.report" % (time.time() * 1e6, report.opening["job_id"], os.getpid())
        path = os.path.join(self.folder, name)
        target = open(path + ".part", "xb", opener=lambda name, flags: os.open(name, flags, 0o600))
        try:
            fcntl.flock(target, fcntl.LOCK_EX | fcntl.LOCK_NB)
            report.write(target)
            target.flush()
            os.rename(path + ".part", path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(path + ".part")
            with contextlib.suppress(OSError):
                target.close()
            raise
        report.path = path
        return target

    def tidy(self) -> None:
        """Keep the folder within its size and age, without what was never finished."""
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            with contextlib.suppress(OSError):
                if name.endswith(".report.part") and time.time() - os.stat(path).st_mtime > UNFINISHED:
                    self._drop(path, "it was never finished")
        found: List[Tuple[str, os.stat_result]] = []
        for waiting in self.waiting():
            with contextlib.suppress(FileNotFoundError):  # another process has just delivered it
                found.append((waiting, os.stat(waiting)))
        total = sum(facts.st_size for _, facts in found)
        for waiting, facts in found:
            if self._too_old(facts):
                self._drop(waiting, "it is too old")
            elif total > self.settings.spool_bytes:
                self._drop(waiting, "the spool is full")
            else:
                break
            total -= facts.st_size

    def waiting(self) -> List[str]:
        """Paths of the reports, the oldest first."""
        names = sorted(name for name in os.listdir(self.folder) if name.endswith(".report"))
        return [os.path.join(self.folder, name) for name in names]

    def flush(self, service: Service) -> Tuple[int, int]:
        """Deliver what waits, each report by one process. Returns (delivered, still waiting)."""
        delivered, stopped = 0, 0
        for path in self.waiting():
            try:
                with open(path, "r+b") as source:
                    fcntl.flock(source, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    facts = os.fstat(source.fileno())
                    if not facts.st_nlink:
                        continue  # another process has just delivered it
                    if self._too_old(facts):
                        self._drop(path, "it is too old")
                        continue
                    Report.read(source).send(service)
                    os.unlink(path)
                    delivered += 1
            except Away as why:
                note("the spool stays: %s" % why)
                stopped += 1
                if stopped == 3 or not isinstance(why, InBetween):
                    break
            except (BlockingIOError, FileNotFoundError):
                continue
            except OSError as error:
                note("cannot read %s: %s" % (path, error))
            except (Refused, tarfile.TarError, KeyError, ValueError) as why:
                self._drop(path, "%s: %s" % (type(why).__name__, why))
        return delivered, len(self.waiting())

    def _too_old(self, facts: os.stat_result) -> bool:
        return time.time() - facts.st_mtime > self.settings.spool_age

    def _drop(self, path: str, why: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(path)
        note("dropped the report %s: %s" % (os.path.basename(path), why))

    def put_ending(self, job: Job, word: "Word") -> None:
        """Leave JobComp's word for the controller's worker: a requeued job has one for each of its attempts."""
        path = self._ending(job.id, "%.6f.word" % job.hook_began)
        part = "%s.%d" % (path, os.getpid())
        with open(part, "x", encoding="utf-8") as target:
            json.dump(word, target)
        os.rename(part, path)

    def ending(self, job: Job) -> "Optional[Word]":
        """JobComp's word about the attempt whose EpilogSlurmctld this is, or None where it has not come yet.

        Slurm runs both once for each attempt, in the attempts' order, about when it ends.
        """
        told: "List[Tuple[float, Word]]" = []
        for found in self._endings(r"%s\.(\d+\.\d+)\.word\Z" % re.escape(job.id)):
            with contextlib.suppress(OSError, ValueError):
                with open(os.path.join(self.folder, "endings", found.group()), encoding="utf-8") as source:
                    told.append((float(found.group(1)), json.load(source)))
        words = [word for _, word in sorted(told, key=lambda word: word[0])]
        for began in sorted({job.hook_began, *(began for began, _ in self.runs(job))}):
            fit = next((word for word in words if _fits(word, began)), None)
            if began == job.hook_began:
                return fit
            if fit is not None:
                words.remove(fit)
        return None

    def note_run(self, job: Job) -> None:
        """Leave word that the job's hook has run, for those that run for its other attempts; clear away what is old."""
        folder, now = os.path.join(self.folder, "endings"), time.time()
        swept = os.path.join(folder, "swept")
        if not os.path.exists(swept) or os.stat(swept).st_mtime < now - 60:
            for name in os.listdir(folder):
                with contextlib.suppress(OSError):
                    if os.stat(os.path.join(folder, name)).st_mtime < now - 600:
                        os.unlink(os.path.join(folder, name))
            with open(swept, "w"):
                pass
        count = "-" if job.count is None else job.count
        with open(self._ending(job.id, "%.6f.%s.%s.run" % (job.hook_began, count, self._place(job))), "w"):
            pass

    def runs(self, job: Job) -> List[Tuple[float, Optional[int]]]:
        """(when it began, the restarts that it was told or None) of each other run of this hook for the job that left word."""
        pattern = r"%s\.(\d+\.\d+)\.(\d+|-)\.%s\.run\Z" % (re.escape(job.id), re.escape(self._place(job)))
        runs = [(float(found.group(1)), found.group(2)) for found in self._endings(pattern)]
        own = round(job.hook_began, 6)
        return [(began, int(count) if count != "-" else None) for began, count in runs if began != own]

    def in_charge(self, job_id: str, since: float) -> bool:
        """Whether EpilogSlurmctld's worker began on the job since then."""
        pattern = r"%s\.(\d+\.\d+)\.(?:\d+|-)\.@controller\.run\Z" % re.escape(job_id)
        return any(float(found.group(1)) >= since for found in self._endings(pattern))

    @staticmethod
    def _place(job: Job) -> str:
        """Several nodes may be one machine."""
        return re.sub(r"[^A-Za-z0-9._-]", "_", job.node) if job.role == "node" else "@controller"

    def _ending(self, job_id: str, kind: str) -> str:
        return os.path.join(self.folder, "endings", "%s.%s" % (job_id, kind))

    def _endings(self, pattern: str) -> List[Match[str]]:
        with contextlib.suppress(OSError):
            return list(filter(None, map(re.compile(pattern).match, os.listdir(os.path.join(self.folder, "endings")))))
        return []


def _fits(word: "Word", began: float) -> bool:
    """Whether JobComp may have meant the attempt at whose end EpilogSlurmctld began then."""
    return abs((word["ended"] or began) - began) <= SAME_END and (word["started"] or began) <= began


def deliver(report: Report, settings: Settings, spool: Optional[Spool], patience: float = 120) -> Tuple[bool, str]:
    """Send the report and whatever waited, or keep it for later. Never raises for the service's sake.

    The report is on disk before the service is asked, so that whoever ends us meanwhile ends no report. Returns whether
    the service has it, and that or why not in words for a person who waits for it.
    """
    job, held, lost = report.opening["job_id"], None, "there is no spool"
    try:
        if spool is not None:
            try:
                held = spool.hold(report)
            except OSError as error:
                lost = "the spool cannot take it: %s" % error
        with Service(settings, patience) as service:
            incident = report.send(service)
        note("attempt %s of job %s is incident %s" % (report.opening["attempt"], job, incident))
        told = (True, "reported: incident %s %s/v1/incidents/%s" % (incident, settings.url, incident))
    except Refused as why:
        note("job %s: the service refused the report: %s" % (job, why))
        told = (False, "the report is lost: %s does not take it: %s" % (settings.url, why))
    except (Away, TooLong) as why:
        unknown = isinstance(why, Unknown)
        trouble = "the service %s" % ("refuses the token" if unknown else "is away")
        if unknown:
            here = "%s does not know the token in %s" % (settings.url, settings.token_file)
        else:
            here = "%s cannot take it now (%s)" % (settings.url, why)
        if spool is None or held is None:
            note("job %s: %s; the report is lost, %s: %s" % (job, trouble, lost, why))
            return False, "the report is lost: %s, and %s" % (here, lost)
        note("job %s: %s; the report waits: %s" % (job, trouble, why))
        held.close()
        spool.tidy()
        return False, "%s; the report waits in %s: %s" % (here, spool.folder, flushing(settings))
    if held is not None:
        with contextlib.suppress(OSError):
            os.unlink(report.path)
        held.close()
    flush_quietly(settings, spool)
    return told


def flushing(settings: Settings) -> str:
    """How a person delivers what waits in the spool of these settings."""
    if os.environ.get("FIRSTFAULT_NAME"):  # whose settings may last as long as the command
        return "the next `firstfault watch` of a job that fails delivers it"
    given = "" if settings.path == default_config() else " --config %s" % settings.path
    return "firstfault-hook%s --flush" % given


def flush_quietly(settings: Settings, spool: Optional[Spool]) -> None:
    """Deliver what waits, where there is anything and the service takes it."""
    with contextlib.suppress(OSError, TooLong):
        if spool is not None and spool.waiting():
            with Service(settings) as service:
                spool.flush(service)
