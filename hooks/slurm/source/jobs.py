"""Jobs and their attempts, as Slurm's record and the hook's environment tell of them."""

import re
import socket
import time
from typing import Callable, Dict, Iterable, Mapping, Optional, Set, Tuple

from hooks.slurm.source.words import LIVE, NOTHING, base_state, code_and_signal, duration, epoch, hosts, utc, whole


class View(Dict[str, str]):
    """One record of `scontrol show job -o`: text values by key. `attempt` is the one in question, which has ended."""

    attempt: "Optional[Attempt]" = None

    @classmethod
    def parse(cls, line: str, uid: Optional[int] = None) -> "View":
        """The record that the line holds; `uid` is its user's, where it is known from elsewhere."""
        view = cls()
        # What Slurm prints only where it is so stands at the record's beginning: further on it is a user's words.
        begin = re.match(r"(?:(?!JobName=|UserId=|JobState=)[A-Za-z]+=\S+ )*", line)
        told = dict(word.split("=", 1) for word in begin.group().split()) if begin else {}
        view.update({key: told[key] for key, form in AT_THE_BEGINNING.items() if form.match(told.get(key, ""))})
        # The job's name is as its user wrote it, as are the words at the record's end, and what follows it is known.
        begin = re.match(r"JobId=\S+ (?:[A-Za-z]+=\S+ ){0,8}?JobName=(?! UserId=)", line)
        owner = None
        if begin:
            for who in [r"\d+"] if uid is None else [str(uid), r"\d+"]:
                owner = owner or re.compile(r" UserId=[^ ()=]+\(%s\) " % who).search(line, begin.end())
        if begin and owner:
            before, name, after = line[: begin.end()], line[begin.end() : owner.start()], line[owner.start() :]
            parts = re.search(r" HetJobIdSet=[\d,\[\]-]+\Z", name) if " HetJobId=" in before else None
            if parts:  # which Slurm puts in between
                name, after = name[: parts.start()], parts.group() + after
            line, view["JobName"] = before + after, name
        pieces = re.split(r"(?:^|\s)([A-Z][A-Za-z_]*(?:[:/][A-Za-z:/]+)?)=", line)
        for key, value in zip(pieces[1::2], pieces[2::2]):
            if key not in AT_THE_BEGINNING:
                view.setdefault(key, value.strip())  # a later key of the same name stands in a user's own words
        return view

    def text(self, key: str) -> str:
        """The value; empty for a word by which Slurm means none."""
        value = self.get(key, "")
        return "" if value in NOTHING else value

    @property
    def state(self) -> str:
        """The base state, such as `FAILED`; empty where there is none."""
        return base_state(self.get("JobState"))

    @property
    def restarts(self) -> int:
        """How often Slurm has put the job back so far."""
        return whole(self.get("Restarts")) or 0

    def requeued(self, now: float) -> bool:
        """Whether this attempt was put back into the queue: then the record speaks of the next one already."""
        if self.state in LIVE:
            return True
        if self.of_later_attempt():
            return True
        end = epoch(self.get("EndTime"))
        return self.state == "COMPLETING" and "EndTime" in self and (end is None or end > now + 30)

    def of_later_attempt(self) -> bool:
        """Whether the next attempt began, and may be over, before this record was asked for."""
        if self.attempt is None:
            return False
        later = self.attempt.speaks_of_later(self)
        return self.attempt.looks_later(self) if later is None else later

    def doubtful(self, now: float) -> bool:
        """Whether waiting a little may still show if the record speaks of this attempt or of the next one."""
        end = epoch(self.get("EndTime"))
        if self.attempt is None or self.state in LIVE or end is None or now > end + DOUBT:
            return False
        return self.attempt.speaks_of_later(self) is None


NUMBER = re.compile(r"[0-9]{1,18}\Z")
AT_THE_BEGINNING = {
    "HetJobId": NUMBER, "HetJobOffset": NUMBER, "ArrayJobId": NUMBER, "ArrayTaskId": NUMBER,
    "SLUID": re.compile(r"[A-Za-z0-9]+\Z"),
}  # fmt: skip
DOUBT = 10  # seconds after an attempt's end in which its hooks have surely begun
CLOCK_SKEW = 5  # seconds that the controller's clock may differ from a node's


OtherRuns = Callable[[], Iterable[Tuple[float, Optional[int]]]]


class Attempt:
    """The attempt that has ended when the hook ran, to be told from the next one, of which Slurm's record may speak.

    Slurm counts a restart when it puts a job back, so its hooks hear the same count at the end of an attempt that was
    put back and at the end of the next one, and its times are whole seconds. Signs that are beyond doubt come first.
    `others` tells of each other run of this hook for this job: when it began, and the count that it was told.
    """

    def __init__(self, job: "Job", others: OtherRuns = lambda: ()) -> None:
        self.name, self.uid = job.name, job.uid
        self.began, self.count, self.sluid = job.hook_began, job.count, job.sluid
        self.submitted, self.started = job.submitted, job.started  # only some hooks are told
        self.nodes, self.all_nodes = {job.node} if job.role == "node" else set(job.nodes), set(job.nodes)
        self.others = others

    def speaks_of_later(self, view: View) -> Optional[bool]:
        """Whether the record is a later attempt's; None where nothing tells."""
        if not view.restarts:
            return False
        if self.sluid and view.text("SLUID"):
            return view.text("SLUID") != self.sluid
        if self.count is not None and view.restarts > self.count:
            return True
        submitted, started = epoch(view.get("SubmitTime")), epoch(view.get("StartTime"))
        if self.submitted and submitted:
            return submitted > self.submitted  # never the same for two attempts
        listed = set(hosts(view.text("NodeList")))
        runs = list(self.others())
        if any(began > self.began for began, _ in runs) or (started and started > self.began + CLOCK_SKEW):
            return True
        if self.all_nodes and not listed <= self.all_nodes:
            return True
        if view.state == "COMPLETING":
            return None  # the list of its nodes becomes shorter, and the next attempt's hooks have not all begun
        if not self.nodes <= listed or (self.started and started != self.started):
            return True
        if self.count is not None and any(count == self.count for _, count in runs):
            return False  # that one was put back
        # Slurm submits a job anew when it has put it back, and waits some seconds before it lets it begin.
        return False if submitted and submitted < self.began - CLOCK_SKEW else None

    def looks_later(self, view: View) -> bool:
        """What the times say where nothing better is known."""
        submitted = epoch(view.get("SubmitTime"))
        return view.state != "COMPLETING" and submitted is not None and submitted >= int(self.began)


NO_ID = 0xFFFFFFFF  # the uid and gid that stand for none


class Job:
    """What the hook's environment says about the job. Later views add to it. Raises ValueError without a job's id.

    Times are seconds since 1970, `time_limit` is in seconds.
    """

    def __init__(self, env: Mapping[str, str], role: str) -> None:
        get = {name: "" if value in NOTHING else value for name, value in env.items()}.get
        if role == "jobcomp":
            old = {"JOB_ID": "JOBID", "JOB_NAME": "JOBNAME", "JOB_USER": "USERNAME", "JOB_UID": "UID", "JOB_GID": "GID"}
            old.update({"JOB_EXIT_CODE2": "EXITCODE", "JOB_START_TIME": "START", "JOB_END_TIME": "END"})
            old.update({"JOB_SUBMIT_TIME": "SUBMIT", "JOB_SLUID": "SLUID"})
            old.update({"ARRAY_JOB_ID": "ARRAYJOBID", "ARRAY_TASK_ID": "ARRAYTASKID", "HET_JOB_ID": "HETJOBID"})
        else:
            old = {}

        def slurm(name: str) -> str:
            return get(old.get(name, name.replace("JOB_", "", 1)) if old else "SLURM_" + name, "")

        def number(name: str) -> Optional[int]:
            return whole(slurm(name))

        self.role = role
        self.id = slurm("JOB_ID") or slurm("JOBID")
        if whole(self.id) is None:
            raise ValueError("no job id in the environment")
        self.name, self.user = slurm("JOB_NAME"), slurm("JOB_USER")
        self.uid, self.gid = (
            n if n is not None and n < NO_ID else None for n in (number("JOB_UID"), number("JOB_GID"))
        )
        self.account, self.partition, self.comment = slurm("JOB_ACCOUNT"), slurm("JOB_PARTITION"), slurm("JOB_COMMENT")
        self.cluster = slurm("CLUSTER_NAME")
        self.nodes = hosts(slurm("JOB_NODELIST") or slurm("NODELIST") or slurm("NODES"))
        self.host = socket.gethostname().split(".")[0]
        self.node = slurm("SLURMD_NODENAME") or get("SLURMD_NODENAME", "") or self.host
        self.work_dir = slurm("JOB_WORK_DIR")
        self.stdout, self.stderr = slurm("JOB_STDOUT"), slurm("JOB_STDERR")
        self.array_job, self.array_task = slurm("ARRAY_JOB_ID"), slurm("ARRAY_TASK_ID")
        self.het_job = slurm("HET_JOB_ID").strip("0") and slurm("HET_JOB_ID")
        self.tell(epoch(slurm("JOB_START_TIME")), epoch(slurm("JOB_END_TIME")), slurm("JOB_EXIT_CODE2"))
        self.tasks = number("JOB_NTASKS")
        self.time_limit: Optional[int] = None
        self.count, self.sluid = number("JOB_RESTART_COUNT"), slurm("JOB_SLUID")
        self.submitted = epoch(slurm("JOB_SUBMIT_TIME"))
        self.restarts = self.count or 0
        self.component = ""
        began = re.match(r"\d{1,11}(?:\.\d+)?", get("FIRSTFAULT_BEGAN", ""))  # not every `date` knows fractions
        self.hook_began = float(began.group()) if began else time.time()
        self.alone = False  # whether nobody else will send the job's logs

    def tell(self, started: Optional[float], ended: Optional[float], exit_code: str) -> None:
        """What a hook was told of this very attempt."""
        self.told = self.started, self.ended, self.exit_code = started, ended, exit_code

    def learn(self, view: View, requeued: bool) -> None:
        """Take what only Slurm's own record tells."""
        self.name = self.name or view.text("JobName")
        self.account = self.account or view.text("Account")
        self.partition = self.partition or view.text("Partition")
        self.work_dir = self.work_dir or view.text("WorkDir")
        self.array_job = view.text("ArrayJobId") or self.array_job
        self.array_task = view.text("ArrayTaskId") or self.array_task
        self.het_job, self.component = view.text("HetJobId") or self.het_job, view.text("HetJobOffset")
        self.time_limit = duration(view.get("TimeLimit"))
        self.tasks = self.tasks or whole(view.get("NumTasks"))
        self.started, self.ended, self.exit_code = self.told
        if not requeued:  # a requeued job's record holds the times of its next attempt
            self.started = self.started or epoch(view.get("StartTime"))
            self.ended = epoch(view.get("EndTime")) or self.ended
            self.exit_code = view.text("ExitCode") or self.exit_code
        self.restarts = view.restarts
        if requeued:
            self.restarts = max(0, view.restarts - 1 if self.count is None else min(view.restarts - 1, self.count))

    @property
    def leads(self) -> bool:
        """Whether this node is the batch host, which sends what all nodes see."""
        return self.alone or not self.nodes or self.node == self.nodes[0]

    def values(self) -> Dict[str, str]:
        """Slurm's file name letters that stand for one exact text."""
        array = self.array_job not in ("", "0")
        exact = {
            "j": self.id,
            "A": self.array_job if array else self.id,
            "a": self.array_task if array else "4294967294",
        }
        return dict(exact, x=self.name, u=self.user, b="" if whole(exact["a"]) is None else exact["a"][-1])

    def names(self, pattern: str) -> bool:
        """Whether what the pattern stands for is this job's and no earlier one's, by the job's id in it.

        A short number may as well be a version or a rank.
        """
        letters: Set[str] = set() if "\\" in pattern else set(re.findall(r"%[0-9]*([A-Za-z%])", pattern))
        if letters & {"j", "J"} or self.id in re.findall(r"[0-9]{4,}", re.sub(r"%[0-9]*[A-Za-z%]", "%", pattern)):
            return True
        return letters >= ({"A"} if self.array_job in ("", "0") else {"A", "a"})

    def facts(self, state: str, reason: str) -> Dict[str, object]:
        """`job.json`: what the service is told, without empty fields."""
        code, number = code_and_signal(self.exit_code)
        ranks = self.tasks if self.tasks and self.tasks > len(self.nodes) else None  # else a launcher per node
        known = {
            "scheduler": "slurm", "cluster": self.cluster, "job_id": self.het_job or self.id, "attempt": self.restarts,
            "part_of": self.array_job if self.array_job not in ("0", self.id) else None,
            "name": self.name, "user": self.user, "account": self.account, "partition": self.partition,
            "comment": self.comment, "state": state, "reason": reason, "nodes": self.nodes, "world_size": ranks,
            "exit_code": code if self.exit_code else None, "signal": number or None,
            "ranks_per_node": ranks // len(self.nodes) if ranks and self.nodes and not ranks % len(self.nodes) else None,
            "started_at": utc(self.started), "ended_at": utc(self.ended), "time_limit_seconds": self.time_limit,
        }  # fmt: skip
        return {key: value for key, value in known.items() if value not in (None, "", [])}
