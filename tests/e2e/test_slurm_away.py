"""A service that is down, slow or broken: jobs, nodes and the controller notice nothing, and it hears of everything later."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.cluster.hooks import InstalledHooks
from tests.cluster.slurm import Cluster, slurm_is_installed
from tests.hooks.intake import TOKEN, running_intake

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(not slurm_is_installed(), reason="no Slurm here; apt-get install slurm-wlm munge"),
]

FAILS = "#!/bin/bash\necho RuntimeError: boom of $SLURM_JOB_NAME\nexit 3\n"
NOBODY = "http://127.0.0.1:9"
HOOKS = ("epilog", "epilog_slurmctld", "jobcomp")


def test_jobs_end_as_ever_and_the_spool_delivers_later_and_once() -> None:
    with (
        running_intake() as slow,
        running_intake() as broken,
        running_intake() as fit,
        InstalledHooks() as hooks,
        Cluster(nodes=1, settings=hooks.slurm_settings) as cluster,
    ):
        slow.delay = 60
        broken.troubles = [(500, {})] * 1000
        jobs = {}
        for name, url in {"down": NOBODY, "slow": slow.url, "broken": broken.url}.items():
            hooks.configure(cluster, url, TOKEN, {"timeout": "2"})
            jobs[name] = cluster.submit(FAILS, "-J", name, "-o", "%x-%j.out")
            runs = hooks.wait_for_runs(jobs[name], *HOOKS)
            assert all(run.status == 0 and run.milliseconds < 1000 for run in runs)
            cluster.wait_for_nodes()  # nothing holds the node, and nothing drains it
            assert "ExitCode=3:0" in cluster.run("scontrol", "show", "job", "-o", jobs[name])
            hooks.wait_for_verdict(jobs[name], 2)  # both workers have read these settings
        for job in jobs.values():
            eventually(lambda job=job: hooks.log().count(f"job {job}: the service is away") == 2, hooks.log)  # type: ignore[misc]
        assert slow.requests
        assert broken.requests

        hooks.configure(cluster, fit.url, TOKEN, {"timeout": "10"})
        last = cluster.submit(FAILS, "-J", "last", "-o", "%x-%j.out")
        for name, job in {**jobs, "last": last}.items():
            seen = fit.wait_for_reports(job, 2)
            assert f"boom of {name}".encode() in seen.logs[f"{name}-{job}.out"]
        eventually(lambda: not list((hooks.folder / "spool").glob("*/*.report")), hooks.log)
        for job in jobs.values():
            seen = fit.wait_for_reports(job, 2)
            assert sorted(body["role"] for body in seen.closings) == ["controller", "node"]  # each once


def eventually(true: Callable[[], bool], why: Callable[[], str], seconds: float = 90) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, why()
        time.sleep(0.2)
