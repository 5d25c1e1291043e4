"""Alertmanager's webhook: what an alert says of a failed job, for schedulers that have no hook of ours."""

from __future__ import annotations

import hashlib
import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
)

from hooks.slurm.source.words import hosts
from knowledge.job import JobFacts

MOST_ALERTS = 1000
"""Of one notification that are looked at."""
SCHEDULER = "other"
LOG = "alert.log"

_NAMES = {
    "job_id": "job_id jobid slurm_job_id",
    "attempt": "attempt restart_count retry",
    "scheduler": "scheduler",
    "name": "job_name jobname",
    "user": "user username owner",
    "account": "account project",
    "partition": "partition queue namespace",
    "state": "state job_state",
    "reason": "reason",
    "exit_code": "exit_code exitcode",
    "signal": "signal",
    "world_size": "world_size ntasks",
    "nodes": "nodes node host hostname",
}
_MAYBE_COUNTS = ("retry",)
"""Names that as often say whether, and then are no number."""
_MOST_NODES = 10_000
_SIGNALS = {each.name: each.value for each in signal.Signals}
_SIGNALS |= {name.removeprefix("SIG"): number for name, number in _SIGNALS.items()}
_TEXTS = ("summary", "message", "description", "logs", "log")


def _lowered(given: Any) -> Any:
    """Labels by the names that we know, whatever their case: `JobID`, `job-id` and `job_id` are one."""
    if not isinstance(given, Mapping):
        return given
    snake = {re.sub(r"(?<=[a-z])(?=[A-Z])|-", "_", str(name)).lower(): value for name, value in given.items()}
    return {name: value for name, value in snake.items() if value not in ("", None)}


def _in_utc(given: datetime) -> datetime:
    """One instant has one notation: by it, a firing that is sent again is known."""
    try:
        return given.astimezone(UTC)
    except OverflowError:  # at the edge of the calendar, an hour more or less means nothing
        return given.replace(tzinfo=UTC)


def _usable(fingerprint: Any) -> str:
    """The fingerprint, where it can be part of a name; "" else, for the labels name the alert as well."""
    told = str(fingerprint) if isinstance(fingerprint, str | int) else ""
    return told if re.fullmatch(r"[0-9a-zA-Z_-]{0,64}", told) else ""


_Words = Annotated[dict[str, str], BeforeValidator(_lowered)]


class Alert(BaseModel):
    """One alert of a notification."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True, hide_input_in_errors=True)

    status: Literal["firing", "resolved"]
    labels: _Words
    annotations: _Words = Field(default_factory=dict)
    starts_at: Annotated[AwareDatetime, AfterValidator(_in_utc)] = Field(alias="startsAt")
    fingerprint: Annotated[str, BeforeValidator(_usable)] = ""

    @property
    def resolved(self) -> bool:
        """Whether it tells of a failure no more."""
        return self.status == "resolved"

    @property
    def named(self) -> str:
        """The alert itself, however often it is sent."""
        told = "\n".join(f"{name}={value}" for name, value in sorted(self.labels.items()))
        return self.fingerprint or hashlib.sha256(told.encode()).hexdigest()[:16]

    @property
    def reporter(self) -> str:
        """This firing of the alert: what is sent again has the same one."""
        return f"alert-{self.named}@{self.starts_at:%Y-%m-%dT%H:%M:%S%z}"

    def told(self, fact: str) -> str:
        """What the labels or, failing that, the annotations say, or ""."""
        words = [
            (name, each.get(name, "")) for each in (self.labels, self.annotations) for name in _NAMES[fact].split()
        ]
        meant = (word for name, word in words if name not in _MAYBE_COUNTS or re.fullmatch(r"[0-9]+", word))
        return next(filter(None, meant), "")


@dataclass(frozen=True, slots=True)
class Malformed:
    """What stands among the alerts and is none."""

    named: str
    why: str
    resolved: bool


def _each(given: Any) -> Alert | Malformed:
    """One alert that nobody can read costs no other."""
    try:
        return Alert.model_validate(given)
    except ValidationError as error:
        wrong = {".".join(map(str, each["loc"])): each["msg"] for each in error.errors()[:5]}
        why = "; ".join(f"{where[:80]}: {said}" if where else said for where, said in wrong.items())
        told = given if isinstance(given, Mapping) else {}
        return Malformed(_usable(told.get("fingerprint")), why[:500], resolved=told.get("status") == "resolved")


class Notification(BaseModel):
    """What Alertmanager sends: version 4 of its webhook. Other fields are not looked at."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True, hide_input_in_errors=True)

    version: Literal["4"]
    alerts: list[Annotated[Alert | Malformed, PlainValidator(_each, json_schema_input_type=Alert)]]


class UnfitAlertError(Exception):
    """An alert of which no incident can be made; the text says why."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The failed job that an alert tells of. `attempt` is None where it does not say which one."""

    scheduler: str
    job_id: str
    attempt: int | None
    facts: JobFacts
    log: bytes

    @classmethod
    def of(cls, alert: Alert) -> Failure:
        """Raises UnfitAlertError where it is unclear which job attempt is meant; what else cannot be read is left out."""
        name, job_id = alert.told("name"), alert.told("job_id")
        if not job_id and not name:
            raise UnfitAlertError("it names no job: give it a label job_id or job_name")
        scheduler = alert.told("scheduler").lower() or SCHEDULER
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,39}", scheduler):
            raise UnfitAlertError("its label scheduler must be one lower-case word")
        # A name comes again with the next run, which is another failure.
        job_id = job_id or f"{name}@{alert.starts_at:%Y-%m-%dT%H:%M:%S}"
        if len(job_id) > 200 or not job_id.isprintable():
            raise UnfitAlertError("its label job_id must have at most 200 printable characters")
        known: dict[str, Any] = {fact: alert.told(fact) or None for fact in _NAMES}
        known["nodes"] = hosts(re.sub(r"\s+", ",", alert.told("nodes")), _MOST_NODES)
        known["state"] = known["state"] or "FAILED"
        known["reason"] = known["reason"] or alert.labels.get("alertname")
        known["ended_at"] = alert.starts_at
        known["signal"] = _SIGNALS.get(str(known["signal"]).upper(), known["signal"])
        known = {fact: value for fact, value in known.items() if value}
        if not re.fullmatch(r"[0-9]{1,6}", known.get("attempt", "0")):
            raise UnfitAlertError("its label attempt must be a number from 0 to 999999")
        facts = _read(known)
        return cls(scheduler, job_id, facts.attempt if "attempt" in known else None, facts, _log(alert))

    def which(self, alert: Alert, told: Iterable[tuple[int, str]]) -> int:
        """The attempt that is meant, by (attempt, reporter) of what is known of the job: one that this firing has told of;
        the next one, where the same alert told of the last; else the last one, of which another alert tells more."""
        if self.attempt is not None:
            return self.attempt
        told = list(told)
        last = max((attempt for attempt, _ in told), default=0)
        firings = sorted(
            (reporter, attempt) for attempt, reporter in told if reporter.startswith(f"alert-{alert.named}@")
        )
        for reporter, attempt in firings:
            if reporter == alert.reporter:
                return attempt
        if firings and alert.reporter < firings[-1][0]:  # it comes late
            return max((attempt for reporter, attempt in firings if reporter < alert.reporter), default=firings[0][1])
        return last + any(attempt == last for _, attempt in firings)


def _read(known: dict[str, Any]) -> JobFacts:
    """The facts, without those that cannot be read, which are named as unread."""
    try:
        return JobFacts.model_validate(known)
    except ValidationError as error:
        wrong = {str(each["loc"][0]): each["msg"] for each in error.errors()}
        readable = {fact: value for fact, value in known.items() if fact not in wrong}
        unread = [f"the alert's label {fact}: {why}" for fact, why in wrong.items()]
        return JobFacts.model_validate({**readable, "unread": unread})


def _log(alert: Alert) -> bytes:
    texts = [alert.annotations[name] for name in _TEXTS if name in alert.annotations]
    return "".join(f"{text.rstrip()}\n" for text in dict.fromkeys(texts)).encode()
