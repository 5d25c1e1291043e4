"""How facts are put into words: short, honest, and the same everywhere. Nothing here is escaped yet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bot.slack.contract import IncidentStatus, Member, State
from knowledge.diagnosis import Diagnosis, Initiating, Outcome, Restart
from knowledge.job import JobFacts

SURE = 0.5  # below this, a verdict is called a guess
MAX_GROUPS = 6  # runs of ranks shown before "and 12 more"
MAX_HOSTS = 3

_RESTART = {
    Restart.SAFE: "safe as it is",
    Restart.AFTER_FIX: "only after the fix",
    Restart.ELSEWHERE: "safe on other nodes",
    Restart.UNSAFE: "not yet, it would do harm",
    Restart.UNKNOWN: "cannot say before more is known",
}
RESOLUTIONS = {
    "fixed": "fixed",
    "node-drained": "node drained",
    "code-fixed": "code fixed",
    "configuration": "configuration changed",
    "false-alarm": "false alarm",
    "not-worth-it": "not worth it",
    "other": "other",
}
_SCHEDULERS = {"slurm": "Slurm", "kubernetes": "Kubernetes"}


def duration(seconds: float) -> str:
    """Two units at most.

    >>> duration(22320), duration(48), duration(90061)
    ('6 h 12 m', '48 s', '1 d 1 h')
    """
    left = max(0, round(seconds))
    shown: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        whole, left = divmod(left, size)
        if whole or shown:
            shown.append(f"{whole} {unit}" if whole else "")
        if len(shown) == 2:
            break
    return " ".join(part for part in shown if part) or "0 s"


def numbers(values: Sequence[int]) -> str:
    """Ranks in runs, the first few.

    >>> numbers([8, 9, 10, 11, 3])
    '3, 8–11'
    """
    runs: list[list[int]] = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    shown = ", ".join(_run(first, last) for first, last in runs[:MAX_GROUPS])
    hidden = sum(last - first + 1 for first, last in runs[MAX_GROUPS:])
    return f"{shown} and {hidden} more" if hidden else shown


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}, {last}" if last == first + 1 else f"{first}–{last}"


def ranks(values: Sequence[int]) -> str:
    """`rank 137`, `ranks 8–15`."""
    return f"{'rank' if len(set(values)) == 1 else 'ranks'} {numbers(values)}"


def hosts(names: Sequence[str]) -> str:
    """`gpu-n17`, `gpu-n01, gpu-n02, gpu-n03 and 5 more`."""
    shown = ", ".join(names[:MAX_HOSTS])
    return f"{shown} and {len(names) - MAX_HOSTS} more" if len(names) > MAX_HOSTS else shown


def where(initiating: Initiating) -> str:
    """Who began it: `gpu-n17 (rank 137)`, `ranks 3, 9`, `gpu-n17`; empty when nobody can be named."""
    if initiating.hosts and initiating.ranks:
        return f"{hosts(initiating.hosts)} ({ranks(initiating.ranks)})"
    if initiating.hosts:
        return hosts(initiating.hosts)
    return ranks(initiating.ranks) if initiating.ranks else ""


def nobody(diagnosis: Diagnosis, *, source: str) -> str:
    """What is said where nobody is named: that there is nobody, or that it is not known who."""
    unknown = diagnosis.confidence < SURE or any(fact.startswith("Which rank") for fact in diagnosis.missing)
    return f"Nobody can be named from {source}." if unknown else "No single rank began it."


def headline(job: JobFacts, diagnosis: Diagnosis, status: IncidentStatus) -> str:
    """`llama-70b-pretrain failed after 6 h 12 m · 3 attempts`, and where it stands unless it is open."""
    if several_jobs(status) and diagnosis.outcome is Outcome.FAILED:
        said = f"{count(status.member_count, 'failure')}: {diagnosis.cause.title or 'cause unknown'}"
    else:
        name = job.name or (f"Job {job.job_id}" if job.job_id else "A job")
        ran = run_time(job)
        said = f"{name} {_verb(job, diagnosis)}{f' after {ran}' if ran else ''}"
        if status.member_count > 1:
            noun = "attempt" if len({member.job_id for member in status.members}) == 1 else "incident"
            said += f" · {count(status.member_count, noun)}"
    return f"{said} · {standing}" if (standing := stands(status)) else said


def stands(status: IncidentStatus) -> str:
    """Where it stands, in a word; empty while nobody has done anything."""
    if status.recovered_by and status.state in {State.OPEN, State.ACKNOWLEDGED}:
        return "recovered"
    return "" if status.state is State.OPEN else status.state.value


def several_jobs(status: IncidentStatus) -> bool:
    """Whether jobs of different names or people are told in one message."""
    return len({(member.name, member.owner) for member in status.members}) > 1


def job_of(member: Member) -> str:
    """`48213 llama-70b`, and which attempt unless the first."""
    words = [member.job_id, member.name if member.name != member.job_id else ""]
    shown = " ".join(word for word in words if word) or member.incident_id
    return f"{shown}, attempt {member.attempt + 1}" if member.attempt else shown


def day(at: datetime, now: datetime | None) -> str:
    """`2 Nov`; the year is added when it is not that of `now`."""
    return f"{at.day} {at:%b}" + ("" if now is None or at.year == now.year else f" {at.year}")


def _verb(job: JobFacts, diagnosis: Diagnosis) -> str:
    if diagnosis.outcome is not Outcome.FAILED:
        return "shows no failure in its logs" if diagnosis.missing else "ended without a failure"
    return "hit its time limit" if (job.state or "").upper().startswith("TIMEOUT") else "failed"


def run_time(job: JobFacts) -> str:
    """How long the attempt ran, or nothing when the scheduler's times do not tell."""
    if job.started_at is None or job.ended_at is None:
        return ""
    if (job.started_at.tzinfo is None) != (job.ended_at.tzinfo is None) or job.ended_at < job.started_at:
        return ""
    return duration((job.ended_at - job.started_at).total_seconds())


def facts(job: JobFacts) -> list[str]:
    """Scheduler and job, size, owner: `Slurm 48213`, `512 ranks on 64 nodes`, `alice`."""
    scheduler = _SCHEDULERS.get((job.scheduler or "").lower(), job.scheduler or "")
    shown = [" ".join(part for part in (scheduler, job.job_id) if part)]
    if job.attempt:
        shown.append(f"attempt {job.attempt + 1}")
    shown.append(_size(job))
    shown.append(job.user or "")
    shown.append(f"cluster {job.cluster}" if job.cluster else "")
    return [part for part in shown if part]


def _size(job: JobFacts) -> str:
    nodes = count(len(job.nodes), "node") if job.nodes else ""
    if job.world_size is None:
        return nodes
    size = count(job.world_size, "rank")
    return f"{size} on {nodes}" if nodes else size


def collateral(job: JobFacts, diagnosis: Diagnosis) -> str:
    """One sentence on the ranks that failed only because others had; empty when there is nothing true to say."""
    named = diagnosis.collateral.ranks
    fallen = max(diagnosis.collateral.count, len(set(named)))
    began = len(set(diagnosis.initiating.ranks))
    alone = bool(began or diagnosis.initiating.hosts)
    if not alone:
        return (
            f"{count(fallen, 'rank')} only {'reports' if fallen == 1 else 'report'} that another failed."
            if fallen
            else ""
        )
    if fallen == 1 and named:
        return f"Rank {named[0]} failed only because of it."
    if fallen:
        return f"{count(fallen, 'other rank')} failed only because of it."
    if began and job.world_size is not None and began < job.world_size:
        return "No other rank is known to have failed."
    return ""


def certainty(diagnosis: Diagnosis) -> str:
    """`Confidence 97 % (very high)`."""
    share = min(1.0, max(0.0, diagnosis.confidence))
    word = next(
        word for least, word in ((0.9, "very high"), (0.75, "high"), (SURE, "fair"), (0.0, "low")) if share >= least
    )
    return f"Confidence {min(99, round(share * 100))} % ({word})"


def restart(diagnosis: Diagnosis) -> str:
    """Whether to start the job again, and without which nodes."""
    advice = _RESTART[diagnosis.restart]
    if diagnosis.suspect_nodes and diagnosis.restart in {Restart.ELSEWHERE, Restart.AFTER_FIX}:
        return f"{advice}, without {hosts(diagnosis.suspect_nodes)}"
    return advice


def recurrence(status: IncidentStatus, now: datetime | None) -> str:
    """`3rd time since 2 Nov, last on 14 Nov, on gpu-n17, gpu-n03`; of several at once, how often it was before."""
    earlier = status.occurrences - status.member_count
    if earlier <= 0:
        return "first time seen"
    times = (
        f"{ordinal(status.occurrences)} time" if status.member_count == 1 else f"seen {count(earlier, 'time')} before"
    )
    parts = [f"{times} since {day(status.first_seen, now)}" if status.first_seen else times]
    if status.last_seen and (status.first_seen is None or status.last_seen.date() != status.first_seen.date()):
        parts.append(f"last on {day(status.last_seen, now)}")
    if status.nodes:
        parts.append(f"on {hosts(status.nodes)}")
    return ", ".join(parts)


def reported(status: IncidentStatus) -> str:
    """`37 of 64 nodes have reported` while some have not."""
    if status.reported is None or status.expected is None or status.reported >= status.expected:
        return ""
    return f"{status.reported} of {count(status.expected, 'node')} {'has' if status.expected == 1 else 'have'} reported"


def count(number: int, noun: str) -> str:
    """`1 node`, `1 024 ranks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}".replace(",", "\u202f")


def ordinal(number: int) -> str:
    """`1st`, `22nd`, `113th`."""
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def capital(text: str) -> str:
    """The same, beginning with a capital letter."""
    return text[:1].upper() + text[1:]
