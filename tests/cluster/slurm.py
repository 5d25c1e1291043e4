"""A throw-away Slurm cluster on this machine: munged, slurmctld and one slurmd for each node.

Everything it writes lies in one folder, every daemon has its own port, and the machine's own Slurm, if it has one, is
not touched. Debian builds Slurm with several slurmd on one host in mind, so no containers are needed.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tests.cluster.accounting import BINARIES, Accounts

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")


MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")


def memory_can_be_limited() -> bool:
    """Whether Slurm can give its jobs memory limits here: control groups of version 1 that we may write."""
    probe = MEMORY_GROUPS / f"firstfault-probe-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return True


def slurm_is_installed() -> bool:
    """Whether this machine has what a cluster needs."""
    return all(shutil.which(tool, path=BINARIES) for tool in NEEDED)


class ClusterError(Exception):
    """The cluster did not do what the test needs; the text holds the end of the daemon's log."""


class Cluster:
    """A running cluster of nodes n1, n2, … that ends with the `with` block, jobs and all.

    `settings` are lines of slurm.conf that replace ours, such as {"KillWait": "2"}; hooks are settings too.
    `lines` come last, such as further partitions. With `limit_memory`, jobs get no more than they asked for; with
    `accounts`, slurmdbd keeps them.
    As root the controller runs as `slurm` and jobs as `nobody`; otherwise everything runs as the caller.
    """

    def __init__(
        self,
        nodes: int = 2,
        cpus: int = 4,
        settings: Mapping[str, str] | None = None,
        lines: Sequence[str] = (),
        *,
        limit_memory: bool = False,
        accounts: bool = False,
    ) -> None:
        # Unix sockets cap the length of a path, and the job's user has to pass through each folder.
        self.folder = Path(tempfile.mkdtemp(prefix="ff-slurm-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.conf = self.folder / "slurm.conf"
        self.munge_socket = self.folder / "munge.sock"
        self.jobs = self.folder / "jobs"
        self._cpus, self._lines, self._limit_memory = cpus, list(lines), limit_memory
        self._settings = dict(settings or {})
        self._ports = _free_ports(nodes + 2)
        self._accounts = Accounts(self, self._ports[-1]) if accounts else None
        if limit_memory:
            limits = {"TaskPlugin": "task/cgroup", "SelectTypeParameters": "CR_CPU_Memory", "DefMemPerCPU": "100"}
            self._settings = limits | self._settings
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._named: dict[str, subprocess.Popen[bytes]] = {}
        self.node_user = pwd.getpwuid(os.geteuid()).pw_name
        root = os.geteuid() == 0
        self.controller_user = "slurm" if root else self.node_user
        self.job_user = "nobody" if root else self.node_user

    def __enter__(self) -> Cluster:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- what a test does with it

    def environment(self) -> dict[str, str]:
        """What a command needs to talk to this cluster and to nothing else."""
        return {"PATH": BINARIES, "LC_ALL": "C", "SLURM_CONF": str(self.conf), "HOME": str(self.jobs)}

    def run(self, *command: str) -> str:
        """Standard output of a Slurm command run as the caller. Raises ClusterError when it fails."""
        done = subprocess.run(
            command, env=self.environment(), cwd=self.jobs, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            raise ClusterError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def submit(self, script: str, *options: str) -> str:
        """Queue a batch script as the job's user; the job id."""
        path = self.jobs / f"job-{secrets.token_hex(4)}.sh"
        path.write_text(script, "utf-8")
        path.chmod(0o755)
        return self.run(*self._as_job_user(), "sbatch", "--parsable", *options, str(path)).strip()

    def cancel(self, job: str, *options: str) -> None:
        """What a person does who changes their mind."""
        self.run(*self._as_job_user(), "scancel", *options, job)

    def state(self, job: str) -> str:
        """The job's state in Slurm's word."""
        record = self.run("scontrol", "show", "job", "-o", job)
        return record.partition("JobState=")[2].split()[0]

    def wait_for(self, job: str, *states: str, seconds: float = 60) -> str:
        """The first of the states that the job is seen in. Raises ClusterError after `seconds`."""
        until = time.monotonic() + seconds
        while (state := self.state(job)) not in states:
            if time.monotonic() > until:
                raise ClusterError(f"job {job} is {state}, not {' or '.join(states)}\n{self._log('slurmctld')}")
            time.sleep(0.2)
        return state

    def wait_for_step(self, job: str, seconds: float = 60) -> None:
        """Until the job's first `srun` runs. A signal before that meets a shell that is not ready for it."""
        self.wait_until("slurmctld", lambda: f"{job}.0" in self.run("squeue", "-s", "-h", "-o", "%i").split(), seconds)

    def start_as_job_user(self, *command: str) -> subprocess.Popen[str]:
        """A command of a person at a terminal, such as `srun`, and what it says."""
        return subprocess.Popen(
            [*self._as_job_user(), *command],
            env=self.environment(),
            cwd=self.jobs,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def kill_node(self, node: str) -> None:
        """What a power cut does: the node's daemon and everything that it started are gone at once."""
        daemon = self._named.pop(f"slurmd-{node}")
        self._daemons.remove(daemon)
        daemon.kill()
        daemon.wait()
        for pid in self._step_daemons(node):
            for each in [pid, *_descendants(pid)]:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)

    def restart_controller(self) -> None:
        """What some changes of slurm.conf need."""
        daemon = self._named.pop("slurmctld")
        self._daemons.remove(daemon)
        daemon.terminate()
        daemon.wait(30)
        self.spawn("slurmctld", "-D", "-f", str(self.conf))
        self.wait_for_nodes()

    def take_down(self, node: str) -> None:
        """Let the controller hold the node for dead. A slurmd that lives registers again and is taken back at once."""
        self.run("scontrol", "update", f"nodename={node}", "state=down", "reason=rehearsal")

    def wait_for_nodes(self) -> None:
        """Until every node is idle again."""
        self.wait_until("slurmctld", self._all_nodes_idle, seconds=60)

    # --- starting and stopping

    def _start(self) -> None:
        for name in ("log", "state", "jobs", *(f"spool-{node}" for node in self.nodes)):
            (self.folder / name).mkdir()
        for name in ("log", "state"):
            shutil.chown(self.folder / name, self.controller_user)
        self.jobs.chmod(0o1777)
        self._write_configuration()
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        self.spawn("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.munge_socket}",
                    f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munged.seed")  # fmt: skip
        self.wait_until("munged", lambda: self.munge_socket.exists())
        if self._accounts:
            self._accounts.start()
        self.spawn("slurmctld", "-D", "-i", "-f", str(self.conf))
        for node in self.nodes:
            self.spawn(f"slurmd-{node}", "-D", "-N", node, "-f", str(self.conf))
        self.wait_until("slurmctld", self._all_nodes_idle)

    def _write_configuration(self) -> None:
        host = socket.gethostname().split(".")[0]
        ports = self._ports
        settings = {
            "ClusterName": "rehearsal",
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "SlurmctldPort": str(ports[0]),
            "SlurmUser": self.controller_user,
            "SlurmdUser": self.node_user,
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self.munge_socket}",
            "CredType": "cred/munge",
            "StateSaveLocation": f"{self.folder}/state",
            "SlurmdSpoolDir": f"{self.folder}/spool-%n",
            "SlurmctldPidFile": f"{self.folder}/state/slurmctld.pid",
            "SlurmdPidFile": f"{self.folder}/spool-%n/slurmd.pid",
            "SlurmctldLogFile": f"{self.folder}/log/slurmctld.log",
            "SlurmdLogFile": f"{self.folder}/log/slurmd-%n.log",
            "SlurmctldDebug": "verbose",  # logs who asked to kill a job
            "SlurmdDebug": "verbose",  # logs each task's end
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_CPU",
            "SlurmdParameters": "config_overrides",  # claims more processors than there are
            "AccountingStorageType": "accounting_storage/none",
            "MpiDefault": "none",
            "MailProg": "/bin/true",
            "ReturnToService": "2",
            "KillWait": "2",
            "SchedulerParameters": "sched_interval=1,bf_interval=1,sched_min_interval=1",
            **(self._accounts.settings if self._accounts else {}),
            **self._settings,
        }
        lines = [f"{key}={value}" for key, value in settings.items()]
        for node, port in zip(self.nodes, ports[1:-1], strict=True):
            lines.append(
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={self._cpus}"
                f" RealMemory={100 * self._cpus}"
            )
        lines.append(f"PartitionName=main Nodes={','.join(self.nodes)} Default=YES MaxTime=INFINITE State=UP")
        self.conf.write_text("\n".join(lines + self._lines) + "\n", "utf-8")
        groups = f"CgroupPlugin=cgroup/v1\nCgroupMountpoint={MEMORY_GROUPS.parent}\nConstrainRAMSpace=yes\n"
        (self.folder / "cgroup.conf").write_text(
            "CgroupAutomount=no\n" + (groups if self._limit_memory else ""), "utf-8"
        )
        (self.folder / "plugstack.conf").touch()

    def spawn(self, name: str, *options: str, user: str = "", more: Mapping[str, str] | None = None) -> None:
        """Start a daemon, as somebody else if need be; its words go to `log/NAME.out`."""
        program = name.partition("-")[0]
        command = [*_as_user(user), shutil.which(program, path=BINARIES) or program, *options]
        with (self.folder / "log" / f"{name}.out").open("wb") as out:
            # A bare environment, since Slurm hands its daemons' own on to some of the hooks.
            daemon = subprocess.Popen(
                command,
                env={"PATH": BINARIES, "LC_ALL": "C", "SLURM_CONF": str(self.conf), **(more or {})},
                cwd=self.folder / "log",
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._daemons.append(daemon)
        self._named[name] = daemon

    def wait_until(self, name: str, ready: Callable[[], bool], seconds: float = 30) -> None:
        """Until `ready()`. Raises ClusterError, with the end of the daemon `name`'s log, after `seconds`."""
        until = time.monotonic() + seconds
        while not ready():
            dead = [each for each, daemon in self._named.items() if daemon.poll() is not None]
            if dead or time.monotonic() > until:
                culprit = dead[0] if dead else name
                raise ClusterError(f"{culprit} did not come up\n{self._log(culprit)}")
            time.sleep(0.1)

    def _all_nodes_idle(self) -> bool:
        try:
            return self.run("sinfo", "-h", "-N", "-p", "main", "-t", "idle", "-o", "%N").split() == self.nodes
        except ClusterError:
            return False

    def _log(self, name: str) -> str:
        texts = [path.read_text("utf-8", "replace") for path in sorted((self.folder / "log").glob(f"{name}*"))]
        return "".join(texts)[-3000:]

    def _as_job_user(self) -> list[str]:
        return _as_user(self.job_user)

    def stop(self) -> None:
        """End jobs, daemons and what they left running, and remove the folder."""
        try:
            if len(self._daemons) > 1:
                self.run("scancel", "-s", "KILL", "-u", self.job_user)
                self.run("scancel", "-f", "-s", "KILL", "-u", self.job_user)
                until = time.monotonic() + 10
                while self.run("squeue", "-h", "-o", "%A").split() and time.monotonic() < until:
                    time.sleep(0.2)
        except ClusterError:
            pass  # the controller may be the one that is broken
        for daemon in reversed(self._daemons):  # munged last: the others say goodbye to each other
            daemon.terminate()
            try:
                daemon.wait(15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in self._step_daemons():
            os.kill(pid, signal.SIGKILL)
        if self._limit_memory:
            self._remove_memory_groups()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _remove_memory_groups(self) -> None:
        for node in self.nodes:
            for group, _, _ in os.walk(
                MEMORY_GROUPS / f"slurm_{node}", topdown=False
            ):  # passes over what goes meanwhile
                with suppress(OSError):
                    Path(group).rmdir()

    def _step_daemons(self, node: str = "") -> list[int]:
        """slurmstepd processes of this cluster, or of one of its nodes."""
        places = (f"{self.folder}/spool-{node}/", f"{self.folder}/log/slurmd-{node}.") if node else (f"{self.folder}/",)
        left = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if not (process / "comm").read_text().startswith("slurmstepd"):
                    continue
                files = [str(file.readlink()) for file in (process / "fd").iterdir()]
            except OSError:
                continue  # ended while we looked
            if any(file.startswith(places) for file in files):
                left.append(int(process.name))
        return left


def _as_user(name: str) -> list[str]:
    """What a command begins with to run as this user; nothing for ourselves."""
    user = pwd.getpwnam(name) if name else None
    if user is None or user.pw_uid == os.geteuid():
        return []
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _descendants(pid: int) -> list[int]:
    """Processes below this one."""
    parents = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    below = [pid]
    for each in below:
        below += [child for child, parent in parents.items() if parent == each]
    return below[1:]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()
