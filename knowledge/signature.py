"""The format of one catalogue entry: a failure message, what it means and what to do about it."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo, model_validator

from knowledge.diagnosis import Restart, VerifyStep

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)]
Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]

CAPTURES = frozenset(
    "rank group_rank local_rank peer peer_rank ranks host hosts pid device bus seq op pg enqueued completed numel "
    "exit_code signal xid step path port detail limit count other_rank interface gid exception job task".split()
)
"""Names that a regex may capture. `rank` and `ranks` are global ranks, `group_rank` a rank inside a process group,
`peer` an address or host name, `bus` a PCI address, `seq` a collective's sequence number, `detail` free text."""


class SignatureRole(StrEnum):
    """Whether a line can begin a failure."""

    ROOT = "root"  # standing unexplained, this is where it began
    CASCADE = "cascade"  # says that somebody else failed
    CONFIRMATION = "confirmation"  # supports another line: state, counters, kernel twins
    ADVICE = "advice"  # a hint printed by a library; never a cause
    TEARDOWN = "teardown"  # clean-up after the end
    NOISE = "noise"  # looks like an error and is none


class Scope(StrEnum):
    """What the line accuses."""

    RANK = "rank"
    NODE = "node"
    JOB = "job"


class SourceKind(StrEnum):
    """What kind of file a line stands in."""

    RANK = "rank"  # one rank's own output
    COMBINED = "combined"  # many ranks in one stream
    LAUNCHER = "launcher"  # torchrun, mpirun, srun, a Ray driver
    KERNEL = "kernel"  # dmesg, journalctl -k, kern.log
    NODE = "node"  # another log or report of a node: nvidia-smi, fabric manager, dcgm, the journal
    SCHEDULER = "scheduler"  # slurmctld.log, sacct
    KUBERNETES = "kubernetes"  # events, kubectl describe, pod lists


class Nature(StrEnum):
    """What has to be repaired."""

    HARDWARE = "hardware"
    SOFTWARE = "software"
    CONFIGURATION = "configuration"
    EITHER = "either"


class Says(StrEnum):
    """What a line tells the attribution beyond its cause."""

    WAITING = "waiting"  # this rank was alive, waited for others in a collective and gave up
    PEER_GONE = "peer-gone"  # an arrow to `peer`, `peer_rank` or `host`, which left earlier
    NAMES_RANK = "names-rank"  # `rank` or `ranks` are the guilty ones, whoever printed it
    NOTIFIED = "notified"  # this rank was told by others that something failed
    COUNTERS = "counters"  # how far this rank came: `seq`, `enqueued`, `completed`, `op`, `numel`, `pg`


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ignored_types=(cached_property,))


class MatchingSample(_Entry):
    """A line that must match, with every capture it must yield."""

    text: Text
    captures: dict[str, str] = Field(default_factory=dict)


class Samples(_Entry):
    """At least two lines that must match and two near misses that must not."""

    match: list[MatchingSample] = Field(min_length=2)
    no_match: list[str] = Field(min_length=2)


class Sibling(_Entry):
    """Another entry that is easily taken for this one."""

    id: Id
    tell: Text  # what tells it from this one


class Snippet(_Entry):
    """The least code or configuration that is right."""

    stack: Text  # where it belongs: "sbatch script", "PyTorch", "pod template"
    language: Literal["sh", "python", "yaml", "ini"]
    code: Text


class Metric(_Entry):
    """A sign of recurrence that an exporter already measures."""

    promql: Text  # non-empty while something is wrong
    needs: Text  # who exports it: "dcgm-exporter"


class Signature(_Entry):
    """One failure message. See `docs/catalogue-format.md` for how to write one."""

    id: Id
    title: Text  # a noun phrase that can head a message: "GPU fell off the bus"
    cause: Id
    role: SignatureRole
    says: frozenset[Says] = frozenset()
    scope: Scope = Scope.RANK
    sources: frozenset[SourceKind] = frozenset()  # empty: wherever it stands
    literals: list[str] = Field(min_length=1)  # a line without any of these cannot match; case matters
    regex: list[str] = Field(min_length=1)
    yields_to: frozenset[Id] = frozenset()  # where both match one line, the other speaks
    explained_by: frozenset[Id] = frozenset()  # causes which, found on the same rank or host, make this a mere symptom
    nature: Nature = Nature.EITHER
    discriminator: str = ""  # for `either`: what tells hardware from software
    summary: Text  # one sentence; {rank}, {host} and captures may stand in it
    mechanism: Text  # how the machine comes to say this, for the engineer
    fix: list[Text] = Field(min_length=1)
    verify: list[VerifyStep] = Field(min_length=1)
    restart: Restart
    node_suspect: bool = False
    watch: str = ""  # the line or metric that shows a recurrence
    prevention: str = ""
    references: list[str] = Field(default_factory=list)
    # depth, for those who read on: `firstfault explain --depth engineer` and docs/catalogue
    look_at: str = ""  # whose log, GPU or host to open first
    is_not: str = ""  # what it is wrongly taken for
    seen_on_initiator: str = ""  # what the logs show where it began
    seen_on_others: str = ""  # and everywhere else
    confirm: VerifyStep | None = None  # the cheapest way to be sure that it is this
    siblings: list[Sibling] = Field(default_factory=list)
    related: list[Id] = Field(default_factory=list)
    snippet: Snippet | None = None
    metric: Metric | None = None
    samples: Samples

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], ...]:
        """The regexes, compiled."""
        return tuple(re.compile(regex) for regex in self.regex)

    def match(self, line: str) -> dict[str, str] | None:
        """Return the captures if `line` (cleaned: no ANSI, no launcher prefix) matches, else None."""
        for literal in self.literals:
            if literal in line:
                break
        else:
            return None
        for pattern in self.patterns:
            found = pattern.search(line)
            if found:
                return {name: value for name, value in found.groupdict().items() if value is not None}
        return None

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Signature:
        """What costs time is left out for entries that the tests have checked (context `{"checked": True}`)."""
        if (info.context or {}).get("checked"):
            return self
        for literal in self.literals:
            if len(literal) < 4:
                raise ValueError(f"literal {literal!r} is too short to filter by; use at least 4 characters")
        for pattern in self.patterns:
            unknown = set(pattern.groupindex) - CAPTURES
            if unknown:
                raise ValueError(f"unknown capture names {sorted(unknown)}; known are {sorted(CAPTURES)}")
        for sample in self.samples.match:
            captures = self.match(sample.text)
            if captures is None:
                raise ValueError(f"sample does not match: {sample.text!r}")
            if captures != sample.captures:
                raise ValueError(f"sample {sample.text!r} gives {captures}, not {sample.captures}")
        for text in self.samples.no_match:
            if self.match(text) is not None:
                raise ValueError(f"sample must not match, but does: {text!r}")
        return self
