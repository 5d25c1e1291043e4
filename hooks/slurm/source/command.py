"""The command line, and where all begins."""

import argparse
import contextlib
import gzip
import json
import os
import socket
import sys
import time
from typing import Any, Dict, List, Sequence

from hooks.slurm.source.asking import Slurm
from hooks.slurm.source.by_user import follow, wrap
from hooks.slurm.source.finding import Unfit
from hooks.slurm.source.leaving import VERSION, called_by_slurm
from hooks.slurm.source.logs import log_name, open_log
from hooks.slurm.source.noting import log_to, user_name
from hooks.slurm.source.redaction import Redaction
from hooks.slurm.source.service import Away, Log, Refused, Report, Service, Unknown
from hooks.slurm.source.settings import CONFIG_FOLDER, BadSettings, Settings, default_config
from hooks.slurm.source.spool import Spool
from hooks.slurm.source.trimming import trim
from hooks.slurm.source.workers import work


def main(arguments: Sequence[str]) -> int:
    """What a person typed. Returns the status with which to end: 0 where it is done, 2 for a command that is none."""
    parser = argparse.ArgumentParser(
        prog="firstfault-hook",
        description="Firstfault's Slurm hook. Slurm runs it without arguments; see docs/slurm.md.",
    )
    parser.add_argument("--version", action="version", version="firstfault-hook " + VERSION)
    parser.add_argument(
        "--config", default=os.environ.get("FIRSTFAULT_HOOK_CONFIG") or default_config(), metavar="FILE"
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--flush", action="store_true", help="deliver the reports that wait in the spool")
    group.add_argument("--check", action="store_true", help="say whether this machine is ready to report")
    group.add_argument("--replay", metavar="FOLDER", help="send a recorded job: FOLDER/job.json and FOLDER/logs/")
    parser.add_argument(
        "deed", nargs="?", choices=["wrap", "watch"], help="for users whose site has no hook: see docs/reporting.md"
    )
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND | JOBID")
    options = parser.parse_args(arguments)
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if options.deed == "wrap" and words:
        return wrap(options.config, words)
    if not (options.flush or options.check or options.replay or (options.deed == "watch" and len(words) == 1)):
        parser.print_usage(sys.stderr)
        return 2
    if os.environ.get("FIRSTFAULT_NAME") and not os.path.exists(options.config):
        own = CONFIG_FOLDER if os.geteuid() == 0 else "~/.config/firstfault"
        tell("name the service: --bot URL --token-file FILE, or make %s/hook.conf (docs/reporting.md)" % own)
        return 2
    os.umask(0o077)
    try:
        settings = Settings(options.config)
        log_to(settings.log_file)
        if options.check:
            return check(settings)
        if options.replay:
            return replay(settings, options.replay)
        if options.deed == "watch":
            return follow(settings, Spool(settings).prepare_or_none(), words[0])
        with Service(settings) as service:
            delivered, waiting = Spool(settings).prepare().flush(service)
        print("delivered %d, waiting %d" % (delivered, waiting))
        return 1 if waiting else 0
    except (BadSettings, OSError, ValueError) as error:
        tell(error)
    except Unknown:
        tell(
            "%s does not know the token in %s; `firstfault cluster add NAME` makes one"
            % (settings.url, settings.token_file)
        )
    except Away as error:
        tell("%s cannot take it now: %s" % (settings.url, error))
    except Refused as error:
        tell("%s does not take it: %s" % (settings.url, error))
    except KeyboardInterrupt:
        tell("stopped; the job goes on")
        return 130
    return 1


def tell(trouble: object) -> None:
    """Say it to whoever typed the command, which may be one of `firstfault`."""
    print("%s: %s" % (os.environ.get("FIRSTFAULT_NAME") or "firstfault-hook", trouble), file=sys.stderr)


def replay(settings: Settings, folder: str) -> int:
    """Send a recorded job through trimming, redaction and delivery as if it had just failed here; returns 0.

    Raises ValueError where no logs can be read, and what Service.call and reading a file raise.
    """
    facts: Dict[str, Any] = {}  # as whoever wrote the file has it
    with contextlib.suppress(FileNotFoundError):
        with open(os.path.join(folder, "job.json"), encoding="utf-8") as source:
            try:
                facts = json.load(source)
            except ValueError as error:
                raise ValueError("%s is no JSON: %s" % (source.name, error)) from None
    if not isinstance(facts, dict):
        raise ValueError("%s must be one JSON object" % os.path.join(folder, "job.json"))
    facts.setdefault("scheduler", "slurm")
    facts.setdefault("attempt", 0)
    facts["job_id"] = str(facts.get("job_id") or "replay-%d" % time.time())
    root = os.path.join(folder, "logs")
    paths = sorted(os.path.join(top, name) for top, _, names in os.walk(root) for name in names)
    if not paths:
        raise ValueError("%s has no logs" % root)
    redact, over = Redaction(settings.token), time.time() + settings.scan_time
    logs: List[Log] = []
    for done, path in enumerate(paths):
        try:
            log, found = open_log(path, None, None)
        except (OSError, Unfit) as why:
            tell("%s is left out: %s" % (log_name(path, root, ""), getattr(why, "strerror", None) or why))
            continue
        try:
            share, now = min(settings.file_bytes, settings.node_bytes // len(paths)), time.time()
            until = now + max(0, over - now) / (len(paths) - done)
            text = trim(log, found.st_size, share, found.st_size, redact.fit, until)
        finally:
            os.close(log)
        logs.append((redact.name(log_name(path, root, "")), gzip.compress(redact(text), 6)))
    if not logs:
        raise ValueError("none of the logs can be read")
    reporter = (facts.get("nodes") or [socket.gethostname().split(".")[0]])[0]
    report = Report(
        {"schema": 1, "scheduler": facts["scheduler"], "job_id": facts["job_id"], "attempt": facts["attempt"],
         "reporter": reporter, "role": "node", "job": redact.words(facts), "expected_reporters": 1},
        {"reporter": reporter, "role": "node", "job": redact.words(facts)}, logs)  # fmt: skip
    with Service(settings) as service:
        incident = report.send(service)
    print("incident %s %s/v1/incidents/%s" % (incident, settings.url, incident))
    return 0


MOST_CLOCK_ERROR = 10  # seconds


def check(settings: Settings) -> int:
    """Print what stands in the way of reporting, one line each; 1 where something does."""
    wrong: List[str] = []

    def say(good: bool, text: str) -> None:
        print(("ok    " if good else "WRONG ") + text)
        wrong.extend([] if good else [text])

    say(True, "Python %s, %s" % (sys.version.split()[0], settings.path))
    try:
        waiting = len(Spool(settings).prepare().waiting())
        say(True, "spool %s/%s, %d waiting" % (settings.spool, user_name(), waiting))
    except OSError as error:
        say(False, "spool: %s" % error)
    slurm = Slurm(settings)
    answer = slurm.run("scontrol", "ping")
    say(bool(answer and "UP" in answer), "scontrol ping with SLURM_CONF=%s" % slurm.conf)
    with Service(settings, patience=0) as service:
        try:
            service.greet()
            say(True, "service %s answers and takes the token" % settings.url)
        except Away as error:
            say(False, "service %s: %s" % (settings.url, error))
    if service.clock_ahead is not None:
        ahead = round(service.clock_ahead)
        how = "%d s %s the service's" % (abs(ahead), "ahead of" if ahead > 0 else "behind")
        say(abs(ahead) <= MOST_CLOCK_ERROR, "clock is " + (how if abs(ahead) > 1 else "the service's"))
    if settings.url.startswith("http://"):
        print("note  the token goes over plain http; use https outside a trusted network")
    return 1 if wrong else 0


if __name__ == "__main__":
    _role = called_by_slurm()
    if _role is None:
        sys.exit(main(sys.argv[1:]))
    try:
        work(_role)
    except BaseException:
        pass
    os._exit(0)
