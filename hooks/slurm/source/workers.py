"""The three workers: what the hooks do once Slurm no longer waits for them."""

import contextlib
import gzip
import os
import random
import signal
import sys
import time
from typing import TYPE_CHECKING, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from hooks.slurm.source.asking import Account, Slurm
from hooks.slurm.source.evidence import Evidence
from hooks.slurm.source.finding import step_patterns
from hooks.slurm.source.jobs import Attempt, Job, OtherRuns, View
from hooks.slurm.source.logs import log_name
from hooks.slurm.source.node import slurmctld_lines
from hooks.slurm.source.noting import log_to, note
from hooks.slurm.source.redaction import Redaction
from hooks.slurm.source.service import Away, Log, Refused, Report, Service, TooLong
from hooks.slurm.source.settings import BadSettings, Settings, default_config
from hooks.slurm.source.spool import Spool, deliver, flush_quietly
from hooks.slurm.source.verdict import Signs, cancelled, judge, killer_in_log
from hooks.slurm.source.words import base_state

if TYPE_CHECKING:
    from hooks.slurm.source.spool import Word


def watch(
    slurm: Slurm,
    job: Job,
    settings: Settings,
    last: Optional[View] = None,
    each: Callable[[Optional[View]], None] = lambda view: None,
) -> Optional[View]:
    """The job's View when it has settled, or the latest one when `wait` is over; None where Slurm knows nothing.

    Slurm says COMPLETING until the last hook of the last node has ended. The pauses grow, differ from node to node,
    and are longer in a big job, for the controller's sake.
    """
    until = time.time() + settings.wait
    pause, silent = 0.5 + len(job.nodes) / 200.0, 0
    while True:
        view = slurm.show(job.id)
        silent = 0 if view else silent + 1
        last = view or last
        each(view)
        settled = view and view.state != "COMPLETING" and not view.doubtful(time.time())
        if settled or silent >= 8 or time.time() > until:
            return last
        pause = 15 if slurm.hung else pause
        time.sleep(pause * (0.75 + random.random() / 2))
        pause = min(pause * 1.5, 15)


def decide(signs: Signs, job: Job, slurm: Slurm, settings: Settings) -> Tuple[str, str, str]:
    """judge(), after asking what only an undecided ending needs."""
    now = time.time()
    if signs.undecided(now):
        signs.accounting = slurm.accounting(job).state
        signs.nodes = slurm.nodes(job.nodes) if signs.requeued(now) else ()
    return judge(signs, now, settings.report_preempted, settings.report_failed_steps)


def others_of(job: Job, spool: Optional[Spool]) -> OtherRuns:
    """What tells of the hook's runs for the job's other attempts, once it has told of this one."""
    with contextlib.suppress(OSError):
        if spool is not None:
            if job.role != "node" or job.count != 0:  # an attempt that nothing can be confused with
                spool.note_run(job)
            return lambda: spool.runs(job)
    return lambda: ()


def work_for_node(settings: Settings, spool: Optional[Spool], env: Dict[str, str]) -> None:
    """Epilog: this node's logs and facts. What a requeue would overwrite is read before the verdict is known."""
    job = Job(env, "node")
    slurm = Slurm(settings, spool.lock if spool else None, Attempt(job, others_of(job, spool)))
    if not job.leads:
        time.sleep(random.random() * min(5.0, len(job.nodes) / 100.0))
    first = slurm.show(job.id)
    if first is not None:
        job.learn(first, first.requeued(time.time()))
    evidence = Evidence(settings, job)
    evidence.collect(evidence.patterns())
    tail = evidence.batch_tail()
    last = watch(slurm, job, settings, first)
    signs = Signs(first or last, last, exit_code=job.told[2])
    requeued = signs.requeued(time.time())
    if last is not None:
        job.learn(last, requeued)
    if not requeued:
        tail = evidence.batch_tail()
    signs.output = None if tail is None else cancelled(tail, job.id)
    verdict, state, reason = decide(signs, job, slurm, settings)
    note("job %s attempt %d ended: %s (%s, %s)" % (job.id, job.restarts, verdict, state, reason or "no reason"))
    if verdict != "failure":
        flush_quietly(settings, spool)
        return
    try:
        if not requeued:
            evidence.collect(evidence.patterns() + step_patterns(slurm.scripts(job.id), job), failed=True)
        elif last is None or last.state != "RUNNING":  # else these are the next attempt's
            evidence.collect(step_patterns(slurm.scripts(job.id), job), failed=True)
        evidence.add_node_facts(slurm.env)
    except TooLong as why:
        note("job %s: told without all that was looked for: %s" % (job.id, why))
    facts = evidence.facts(state, reason)
    deliver(Report.about(job, facts, job.node, "node", evidence.logs()), settings, spool)


def work_for_controller(
    settings: Settings,
    spool: Optional[Spool],
    env: Dict[str, str],
    role: str = "controller",
    word: "Optional[Word]" = None,
) -> None:
    """EpilogSlurmctld or JobComp: the scheduler's facts, at once where JobComp gave its word, and when settled."""
    job, began = Job(env, role), time.time()
    attempt = Attempt(job, others_of(job, spool if role == "controller" else None))
    slurm, redact = Slurm(settings, spool.lock if spool else None, attempt), Redaction(settings.token)
    signs = Signs(exit_code=job.exit_code)
    told: List[Tuple[str, str, str]] = []

    def report(
        state: str, reason: str, logs: Sequence[Log] = (), more: Optional[Mapping[str, object]] = None
    ) -> Report:
        facts = dict(job.facts(state, reason), **(more or {}))
        return Report.about(job, redact.words(facts), reporter(), "controller", logs)

    def reporter() -> str:
        return job.host + ("+" + job.component if job.component not in ("", "0") else "")

    def controllers_logs(account: Account) -> List[Log]:
        log = slurmctld_lines(settings.controller_log, job, settings.file_bytes) if settings.controller_log else b""
        texts = {"slurmctld.log": log, "sacct.txt": account.table()[: settings.file_bytes]}
        return [
            (log_name(name, "", reporter()), gzip.compress(redact(text), 6)) for name, text in texts.items() if text
        ]

    def each(view: Optional[View]) -> None:
        signs.first, signs.last = signs.first or view, view or signs.last
        given = word or (spool and spool.ending(job))
        if given:
            attempt.submitted = given["submitted"]
            signs.jobcomp, signs.exit_code = given["state"], given["exit_code"]
            job.tell(given["started"], given["ended"], given["exit_code"])
        if view is not None:
            job.learn(view, signs.requeued(time.time()))
        over = signs.jobcomp or (view is not None and view.state != "COMPLETING")
        if settings.controller_log and over and signs.killer is None:
            signs.killer = killer_in_log(settings.controller_log, job.id, job.ended)
        if signs.jobcomp and not told:
            told.append(judge(signs, time.time(), settings.report_preempted, settings.report_failed_steps))
            if told[0][0] == "failure":
                with contextlib.suppress(Away, Refused), Service(settings, patience=0) as service:
                    report(told[0][1], told[0][2]).open(service)

    watch(slurm, job, settings, each=each)
    while signs.undecided(time.time()) and not signs.jobcomp and time.time() < began + 5:
        time.sleep(0.5)  # JobComp may be about to tell what a requeue hides
        each(None)
    if settings.controller_log and not signs.killer:  # slurmctld writes some lines after it has called us
        signs.killer = killer_in_log(settings.controller_log, job.id, job.ended)
    verdict, state, reason = decide(signs, job, slurm, settings)
    failed = verdict == "failure" or bool(told and told[0][0] == "failure")
    who = signs.killer if (signs.killer or "").isdigit() else ""
    account = slurm.accounting(job) if failed or (state == "CANCELLED" and not who) else Account([], job.id, began)
    if state == "CANCELLED":
        who = account.canceller or who
        reason = "cancelled by uid %s" % who if who else reason
    note("job %s attempt %d ended: %s (%s, %s)" % (job.id, job.restarts, verdict, state, reason or "no reason"))
    if failed:
        deliver(report(state, reason, controllers_logs(account), account.facts()), settings, spool)
    else:
        flush_quietly(settings, spool)


def work_for_jobcomp(settings: Settings, spool: Optional[Spool], env: Dict[str, str]) -> None:
    """JobComp: leave the word to EpilogSlurmctld's worker, or do its work where the site has no such hook."""
    job, began = Job(env, "jobcomp"), time.time()
    word: "Word" = {
        "state": env["JOBSTATE"], "submitted": job.submitted, "started": job.started, "ended": job.ended,
        "exit_code": job.exit_code,
    }  # fmt: skip
    if spool is not None:
        try:
            spool.put_ending(job, word)
        except OSError as why:  # a full disk: the other worker, if there is one, does without
            note("job %s: its end is not left to the other hook: %s" % (job.id, why))
        time.sleep(5)
        if spool.in_charge(job.id, began - 5):
            return
    if base_state(word["state"]) not in ("COMPLETED", "CANCELLED"):
        work_for_controller(settings, spool, env, "jobcomp", word)


def work(role: str) -> None:
    """The detached part, from settings to delivery. Whatever goes wrong ends up in the log and nowhere else."""
    env = dict(os.environ)
    settings: Optional[Settings] = None
    spool: Optional[Spool] = None
    os.chdir("/")
    os.umask(0o077)
    with contextlib.suppress(OSError):
        os.nice(10)
    try:
        settings = Settings(env.get("FIRSTFAULT_HOOK_CONFIG") or default_config())
        log_to(settings.log_file)
        signal.signal(signal.SIGALRM, too_long)
        signal.setitimer(signal.ITIMER_REAL, settings.wait + OVERTIME, OVERTIME)
        spool = Spool(settings).prepare_or_none()
        workers: Dict[str, Callable[[Settings, Optional[Spool], Dict[str, str]], None]] = {
            "node": work_for_node, "controller": work_for_controller, "jobcomp": work_for_jobcomp
        }  # fmt: skip
        if role in workers:
            workers[role](settings, spool, env)
        else:
            note("installed as a hook it knows nothing of: %s" % env.get("SLURM_SCRIPT_CONTEXT"))
    except BadSettings as error:
        note(str(error))
    except TooLong as why:
        note("gave up: %s" % why)
        if settings is not None:
            last_words(settings, spool, env, role)
    except Exception as error:
        where = sys.exc_info()[2]
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        note("gave up: %s: %s (line %d)" % (type(error).__name__, error, where.tb_lineno if where else 0))


OVERTIME = 600  # seconds beyond `wait` that a worker may take


def too_long(*_: object) -> None:
    """What SIGALRM does: raises TooLong."""
    raise TooLong("it took too long")


def last_words(settings: Settings, spool: Optional[Spool], env: Mapping[str, str], role: str) -> None:
    """Leave in the spool what the hook's environment alone tells, where that is a failure."""
    job = Job(env, role)
    signs = Signs(jobcomp=env.get("JOBSTATE", "") if role == "jobcomp" else "", exit_code=job.exit_code)
    verdict, state, reason = judge(signs, time.time(), settings.report_preempted, settings.report_failed_steps)
    if verdict == "none":
        note("job %s: nobody could tell in time how it ended" % job.id)
    elif spool is None:
        note("job %s: the report is lost, there is no spool" % job.id)
    else:
        facts = Redaction(settings.token).words(job.facts("FAILED" if verdict == "unsure" else state, reason))
        of_node = role == "node"
        spool.put(Report.about(job, facts, job.node if of_node else job.host, "node" if of_node else "controller"))
