"""A cluster of four nodes, the hooks, the service and the strict Slack: where the ways to end are played."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.hooks import InstalledHooks
from tests.cluster.slurm import Cluster, memory_can_be_limited
from tests.e2e.serving import TOKEN, program, serving
from tests.slack.workspace import APP_TOKEN, BOT_TOKEN, CHANNEL

PROLOGS = {"Prolog": "prolog", "PrologSlurmctld": "prolog_slurmctld"}
PROLOG = '#!/bin/sh\n[ "$SLURM_JOB_COMMENT" != fail-in-{name} ]\n'
URGENT = "PartitionName=urgent Nodes=n3,n4 PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP"


@dataclass(frozen=True)
class Stage:
    """From the cluster to the channel."""

    cluster: Cluster
    hooks: InstalledHooks
    service: str
    slack: str

    def get(self, url: str) -> Any:
        """The JSON at `url`."""
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def incident_ids(self, job: str) -> dict[int, str]:
        """The job's incidents by attempt, as far as the hooks have told of them."""
        told = re.findall(rf"attempt (\d+) of job {job} is incident (\S+)", self.hooks.log())
        return {int(attempt): incident for attempt, incident in told}

    def incident(self, job: str, attempt: int = 0, reporters: int = 2, seconds: float = 120) -> dict[str, Any]:
        """The incident once so many reporters have told all they have and that was diagnosed and posted."""
        until, seen = time.monotonic() + seconds, None
        while time.monotonic() < until:
            incident = self.incident_ids(job).get(attempt)
            seen = self.get(f"{self.service}/v1/incidents/{incident}") if incident else None
            if seen and _settled(seen, reporters):
                return dict(seen)
            time.sleep(0.5)
        raise AssertionError(f"job {job}.{attempt}: {json.dumps(seen, indent=1)}\n{self.hooks.log()[-6000:]}")

    def messages(self) -> dict[str, str]:
        """The messages in the channel, not in threads, by their ts, each with all its blocks as one text."""
        listed = self.get(f"{self.slack}/_fake/messages")
        return {each["ts"]: _words(each) for each in listed if each.get("thread_ts", each["ts"]) == each["ts"]}

    def post(self, seen: dict[str, Any]) -> tuple[str, str]:
        """The one message in the channel that an incident has: its ts and its text."""
        known = {each["ts"] for each in seen["messages"]}  # what is in its thread, and files, too
        (post,) = [post for post in self.messages().items() if post[0] in known]
        return post


def _settled(seen: dict[str, Any], reporters: int) -> bool:
    ends = [report["completed_at"] for report in seen["reports"]]
    complete = len(ends) >= reporters and all(ends)
    return bool(complete and seen["current"] and seen["messages"])


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return "\n".join(filter(None, map(_words, parts)))


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    """Everything, running, until the block ends. Jobs have limited memory where this machine can do that."""
    with ExitStack() as stack:
        slack = stack.enter_context(program(folder / "slack.log", "tests.slack.fake", "--port", "0", "--pace", "0"))
        address = _first_line(folder / "slack.log", slack)["url"]
        service = stack.enter_context(
            serving(
                folder,
                mode="socket",
                channel=CHANNEL,
                bot_token=BOT_TOKEN,
                app_token=APP_TOKEN,
                api_url=f"{address}/api/",
            )
        )
        hooks = stack.enter_context(InstalledHooks())
        for name in PROLOGS.values():
            (hooks.folder / name).write_text(PROLOG.format(name=name), "utf-8")
            (hooks.folder / name).chmod(0o755)
        settings = {
            **hooks.slurm_settings,
            **{setting: str(hooks.folder / name) for setting, name in PROLOGS.items()},
            "PreemptType": "preempt/partition_prio",
            "PreemptMode": "REQUEUE",
            "SlurmdTimeout": "15",
        }
        cluster = stack.enter_context(
            Cluster(nodes=4, cpus=64, settings=settings, lines=[URGENT], limit_memory=memory_can_be_limited())
        )
        hooks.configure(cluster, service, TOKEN, {"controller_log": f"{cluster.folder}/log/slurmctld.log"})
        yield Stage(cluster, hooks, service, address)


def _first_line(log: Path, process: subprocess.Popen[bytes]) -> dict[str, str]:
    until = time.monotonic() + 60
    while b"\n" not in (text := log.read_bytes()):
        stuck = process.poll() is not None or time.monotonic() > until
        assert not stuck, text.decode()
        time.sleep(0.1)
    return dict(json.loads(text.splitlines()[0]))
