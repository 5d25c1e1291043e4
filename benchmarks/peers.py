"""Other diagnosers that work offline, on the cases of the tests: how often each is right, and how long it takes.

They are installed from the package index into `.cache/peers`; what cannot be installed is left out, with a word.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.section import Section
from benchmarks.told import Answer, Told, earliest_error, odd_one_out, one, tell, torchelastic
from knowledge import diagnose
from tests.accuracy.cases import Case, Truth, find_cases

HOME = Path(__file__).parents[1] / ".cache" / "peers"
_TIMEOUT = 120.0  # seconds for one case

_KINDS = {  # the words of others, and our causes: the first that match are meant
    "GPU memory": (r"cuda out of memory|cuda[ _-]?oom|OutOfMemoryError|GPU (?:ran )?out[ -]of[ -]memory", "gpu-oom"),
    "host memory": (
        r"oom[_ -]kill|Killed process|System out-of-memory|linux_oom|SIGKILL|Signal 9|exitcode -9",
        "host-oom|killed|shm",
    ),
    "GPU": (
        r"\becc\b|\bxid\b|fallen off the bus|gpu_hardware|nvlink|illegal memory|device-side assert",
        "gpu-|nvlink|gsp|illegal|index-out|cuda-|fabric",
    ),
    "time limit": (r"time[_ ]limit", "time-limit"),
    "scheduler": (r"preempt|node[_ ]fail|cancel", "preempt|node-fail|cancel"),
    "not finite": (r"\bnan\b|nan_or_inf|not finite|non[-_ ]?finite", "loss-not-finite"),
    "storage": (r"no space|input/output error|stale file|disk", "disk|storage|checkpoint|quota"),
    "waiting": (
        (
            r"watchdog|collective.operation timeout|distributed_operation_timeout|nccl|DistBackendError|SIGABRT|Signal 6"
            r"|missing rank"
        ),
        "hang|straggler|timeout|peer-lost|mismatch|interface|roce|rdma|connection|slow|missing-rank|master|network",
    ),
    "exception": (r"\w+(?:Error|Exception)\b|observed_(?:failure|exception)|traceback|assertion", "error|exception"),
}

_PACKAGES = ("gpualert", "slurmpast", "NVIDIA restart agent")  # what has to be installed, as the names of peers begin

_GPUALERT = (
    "import sys\nfrom gpualert.parse_errors import parse_errors\n"
    "print(parse_errors('', sys.stdin.read(), 1).split('\\nSuggestion: ')[0])"
)
_SLURMPAST = (
    "import sys\nfrom slurmpast import model\nfrom slurmpast.diagnose import diagnose\n"
    "job = model.Job(job_id='1', state='FAILED', exit_code=1, elapsed=700.0, alloc_tres='cpu=64,gres/gpu=8,node=1')\n"
    "found = diagnose(job, sys.stdin.read()[-262144:]).findings\n"
    "worst = [one for one in found if 'CRIT' in str(one.severity).upper()] or found\n"
    "print(worst[0].code, worst[0].title) if worst else None"
)


def compare(limit: int | None = None) -> Section:
    """Let everybody answer on all cases with a known cause (or the first `limit`), and us too."""
    cases = [case for case in find_cases() if case.truth.outcome == "failed"][:limit]
    told = [tell(case.folder) for case in cases]
    peers: dict[str, Callable[[Told], Answer]] = {
        "earliest error by time": earliest_error,
        "odd one out": odd_one_out,
        "torchrun's own word (torchelastic)": torchelastic,
        **_installed(),
    }
    absent = [name for name in _PACKAGES if not any(peer.startswith(name) for peer in peers)]
    truths = [case.truth for case in cases]
    answers, seconds = _ours(cases)
    rows = [_row("**Firstfault**", truths, answers, seconds, side=1)]
    for name, ask in peers.items():
        answers, began = [], time.perf_counter()
        for case in told:
            try:
                answers.append(ask(case))
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                print(f"{name}: {str(error)[:200]}", file=sys.stderr)
                answers.append(Answer())
        rows.append(_row(name, truths, answers, time.perf_counter() - began))
    return Section(
        "Others that diagnose offline",
        f"{len(cases)} failed jobs of `tests/cases`. The others get every line with the rank that wrote it, as our reader "
        "tells it. A rank is right when it is one that may be named, or nobody is named where that is right; a cause when "
        "it is of the right kind of nine. NVIDIA's agent was made to decide on restarts from one log, without its "
        "language model here; gpualert and slurmpast name no ranks. Our own figures are on cases that we could tune to."
        + (f" Could not be installed here, so not asked: {', '.join(absent)}." if absent else ""),
        ["", "rank right", "rank right where one must be named", "kind of cause right", "answers at all", "ms a case"],
        rows,
    )


def _row(name: str, truths: Sequence[Truth], answers: Sequence[Answer], seconds: float, side: int = 0) -> list[str]:
    pairs = list(zip(truths, answers, strict=True))
    asked = [(truth, answer) for truth, answer in pairs if truth.ranks != "any"]
    strict = [(truth, answer) for truth, answer in asked if all(truth.ranks)]
    causes = [
        _kind(answer.words, side) in {_kind(cause, 1) for cause in truth.causes}
        for truth, answer in pairs
        if answer.words
    ]
    return [
        name,
        _share([_rank_right(*pair) for pair in asked]),
        _share([_rank_right(*pair) for pair in strict]),
        _share(causes),
        f"{len(causes)} of {len(pairs)}",
        f"{1000 * seconds / len(pairs):,.0f}",
    ]


def _share(right: Sequence[bool]) -> str:
    return f"{sum(right)} of {len(right)} ({sum(right) / len(right):.0%})" if right else "-"


def _rank_right(truth: Truth, answer: Answer) -> bool:
    """Whether one of the acceptable sets was named. Who names a single rank need only name one of a set."""
    named = {str(rank) for rank in answer.ranks}
    return any(named == set(names) or (len(named) == 1 and named <= set(names)) for names in truth.ranks)


def _kind(words: str | None, side: int) -> str | None:
    text = words or ""
    return next((kind for kind, patterns in _KINDS.items() if re.search(patterns[side], text, re.IGNORECASE)), None)


def _ours(cases: Sequence[Case]) -> tuple[list[Answer], float]:
    answers: list[Answer] = []
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases:
            verdict = diagnose([case.stage(Path(scratch))])
            words = None if verdict.cause.id == "unknown" else verdict.cause.id
            answers.append(Answer(frozenset(verdict.initiating.ranks), words))
    return answers, time.perf_counter() - began


def _installed() -> dict[str, Callable[[Told], Answer]]:
    """The peers that could be installed."""
    found: dict[str, Callable[[Told], Answer]] = {}
    if python := _environment("gpualert", "gpualert==0.1.6"):
        found["gpualert 0.1.6"] = lambda told: Answer(
            words=_ask([python, "-c", _GPUALERT], told.as_collected()) or None
        )
    if other := _environment("slurmpast", "slurmpast==0.9.0"):
        found["slurmpast 0.9.0"] = lambda told: Answer(
            words=_ask([other, "-c", _SLURMPAST], told.as_collected()) or None
        )
    if agent := _restart_agent():
        found["NVIDIA restart agent 0.7.0, lines in order of time"] = lambda told: _nvidia(agent, told.merged())
        found["NVIDIA restart agent 0.7.0, files as collected"] = lambda told: _nvidia(agent, told.as_collected())
    return found


def _environment(name: str, *packages: str) -> str | None:
    """The Python of a virtual environment with some packages, made when it is not there; None where it cannot be."""
    home = HOME / name
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, capture_output=True)
            subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True, capture_output=True)
            (home / ".ready").touch()
        except (OSError, subprocess.CalledProcessError):
            print(f"{name} cannot be installed here ({' '.join(packages)}): left out", file=sys.stderr)
            return None
    return str(python)


def _restart_agent() -> str | None:
    """Its wheel asks for a newer C library than many systems have, but the part in question is Python."""
    python = _environment("nvidia", "httpx", "pyyaml", "numpy", "pydantic", "packaging")
    home = HOME / "nvidia-wheel"
    if python and not (home / "nvidia_resiliency_ext").exists():
        where = ["--python-version", "3.12", "--platform", "manylinux_2_39_x86_64", "--only-binary=:all:"]
        try:
            subprocess.run(
                [
                    python,
                    "-m",
                    "pip",
                    "download",
                    "-q",
                    "--no-deps",
                    *where,
                    "-d",
                    str(home),
                    "nvidia-resiliency-ext==0.7.0",
                ],
                check=True,
                capture_output=True,
            )
            with zipfile.ZipFile(next(home.glob("*.whl"))) as wheel:
                wheel.extractall(home)
        except (OSError, StopIteration, subprocess.CalledProcessError):
            print("nvidia-resiliency-ext cannot be fetched here: left out", file=sys.stderr)
            return None
    return python


def _ask(command: Sequence[str], text: str, **environment: str) -> str:
    done = subprocess.run(
        list(command),
        input=text,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        env={**os.environ, **environment},
        check=False,
    )
    if done.returncode and not done.stdout:
        raise ValueError((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
    return done.stdout.strip()


def _nvidia(python: str, text: str) -> Answer:
    with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
        log.write(text)
        log.flush()
        module = "nvidia_resiliency_ext.attribution.restart_agent.cli"
        told = _ask([python, "-m", module, "--disable-l1", log.name], "", PYTHONPATH=str(HOME / "nvidia-wheel"))
    line = next((line for line in told.splitlines() if line.startswith("{")), "{}")
    failure = json.loads(line).get("primary_failure") or {}
    rank = str(failure.get("rank", ""))
    words = f"{failure.get('failure_class')} {failure.get('signature')}" if failure else None
    return Answer(one(int(rank) if rank.isdigit() else None), words)
