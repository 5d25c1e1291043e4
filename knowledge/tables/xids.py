"""Every Xid and SXid that NVIDIA documents, and how to read the words of an NVLink error: `xid.yaml`, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from knowledge.cache import parse_all
from knowledge.signature import Id, Nature, Text

FILE = Path(__file__).with_name("xid.yaml")

GENERATIONS = ("A100", "H100", "B100", "GB200")
"""The GPUs that NVIDIA's catalogue tells apart."""


class Action(StrEnum):
    """What NVIDIA advises to do first."""

    NONE = "none"
    RESTART_JOB = "restart-job"
    RESTART_VM = "restart-vm"
    RESET_GPU = "reset-gpu"
    RESET_FABRIC = "reset-fabric"  # all GPUs and switches of the machine together
    RESTART_NODE = "restart-node"
    CHECK_SEATING = "check-seating"
    CHECK_COOLING = "check-cooling"
    CHECK_FABRIC_MANAGER = "check-fabric-manager"
    UPDATE_DRIVER = "update-driver"
    VENDOR = "vendor"
    FOLLOW_OTHER = "follow-other"  # act on the fault that it follows from
    FOLLOW_154 = "follow-154"  # do what the driver's Xid 154 says; without one, restart the job
    DECODE = "decode"  # the words of the line decide


ACTIONS: Mapping[Action, str] = MappingProxyType(
    {
        Action.NONE: "nothing to do now",
        Action.RESTART_JOB: "restart the job",
        Action.RESTART_VM: "restart the virtual machine",
        Action.RESET_GPU: "reset the GPU",
        Action.RESET_FABRIC: "reset all GPUs and switches of the machine",
        Action.RESTART_NODE: "restart the machine",
        Action.CHECK_SEATING: "check seating and cables",
        Action.CHECK_COOLING: "check the cooling",
        Action.CHECK_FABRIC_MANAGER: "check the fabric manager",
        Action.UPDATE_DRIVER: "update driver and firmware",
        Action.VENDOR: "ask the vendor",
        Action.FOLLOW_OTHER: "act on the fault before it",
        Action.FOLLOW_154: "do what an Xid 154 beside it says, else restart the job",
        Action.DECODE: "decode the line, which decides",
    }
)
"""The actions in words."""


class Severity(StrEnum):
    """How much is lost."""

    NON_FATAL = "non-fatal"
    LINK_FATAL = "link-fatal"  # the link is lost, the GPU is to be drained and reset
    FATAL = "fatal"
    ALWAYS_FATAL = "always-fatal"  # the switch itself is lost, not only what used it


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Xid(_Row):
    """One Xid: an event that the driver reports of a GPU."""

    number: int = Field(ge=1, le=999)
    name: Text
    means: Text
    nature: Nature
    tell: str = ""  # for `either`: what tells hardware from software
    consequence: bool = False  # it only ever follows from another fault
    follows: tuple[int, ...] = ()  # Xids that it follows from, always or often
    action: Action
    advice: Text
    entries: tuple[Id, ...] = Field(min_length=1)  # of the catalogue, which speak for its lines
    cause: Id
    gpus: tuple[str, ...] = GENERATIONS  # that report it; none of today's: deprecated
    advised_since: str = ""  # driver branch from which an Xid 154 follows it

    @model_validator(mode="after")
    def _tells(self) -> Xid:
        if self.nature is Nature.EITHER and not self.tell:
            raise ValueError(f"Xid {self.number}: say what tells hardware from software")
        return self


class Sxid(_Row):
    """One SXid: an event that the driver reports of an NVSwitch."""

    number: int = Field(ge=10000, le=99999)
    name: Text
    unit: Text
    severity: Severity  # the usual one; the line's own word decides
    action: Action
    advice: str = ""
    in_guide: bool  # the Fabric Manager guide explains it


class LinkRule(_Row):
    """What one value of a unit's words means."""

    statuses: frozenset[int] = frozenset()  # of errorStatus, bit by bit unless `exact`; empty: whatever it is
    exact: bool = False
    reasons: Mapping[int, Text] = Field(default_factory=dict)  # of a link event; empty: whatever it is
    severity: Severity
    promoted: Action | None = None  # instead of `action`, where the line says Fatal all the same
    nature: Nature
    action: Action
    means: Text
    advice: str = ""

    def holds(self, reason: int, status: int) -> bool:
        """Whether this rule speaks of the values."""
        if self.reasons and reason not in self.reasons:
            return False
        return (
            not self.statuses
            or status in self.statuses
            or (not self.exact and any(bit & status for bit in self.statuses))
        )


class LinkUnit(_Row):
    """One unit of an NVLink 5 port, with its name before and since driver R575."""

    xid: int
    units: tuple[Text, ...] = Field(min_length=1)
    codes: Mapping[str, int]  # its number in intrInfo: `before_r575` (ten bits), `since_r575` (seven bits)
    rules: tuple[LinkRule, ...] = Field(min_length=1)


class LinkBits(_Row):
    """What bits of an Xid 74 mean (Hopper)."""

    word: int = Field(ge=1, le=7)  # of the seven behind the link's number
    bits: tuple[int, ...]
    action: Action
    means: Text


_Code = TypeVar("_Code", Xid, Sxid)


class _Names(_Row):
    """Codes that differ by name only."""

    model_config = ConfigDict(extra="allow", frozen=True)
    names: Mapping[int, str]


class _Switch(_Row):
    unit: str
    means: str
    always_fatal: Mapping[int, str] = Field(default_factory=dict, alias="always-fatal")
    fatal: Mapping[int, str] = Field(default_factory=dict)
    non_fatal: Mapping[int, str] = Field(default_factory=dict, alias="non-fatal")


class _File(_Row):
    xids: list[_Names]
    sxid_guide: frozenset[int]
    sxid_actions: Mapping[int, Action]
    sxid_advice: Mapping[int, Text]
    sxids: list[_Switch]
    nvlink5: tuple[LinkUnit, ...]
    nvlink4: tuple[LinkBits, ...]


@cache
def _file() -> _File:
    return _File.model_validate(parse_all([FILE])[0])


@cache
def xids() -> Mapping[int, Xid]:
    """Every Xid by number. Raises pydantic.ValidationError or ValueError when the file does not follow the format."""
    rows = [
        Xid.model_validate({**(row.model_extra or {}), "number": number, "name": name})
        for row in _file().xids
        for number, name in row.names.items()
    ]
    return _by_number(rows)


@cache
def sxids() -> Mapping[int, Sxid]:
    """Every SXid by number. Raises like `xids`."""
    file = _file()
    usual = {
        Severity.ALWAYS_FATAL: Action.RESTART_NODE,
        Severity.FATAL: Action.RESET_FABRIC,
        Severity.NON_FATAL: Action.NONE,
    }
    rows = [
        Sxid(
            number=number,
            name=name,
            unit=switch.unit,
            severity=severity,
            action=file.sxid_actions.get(number, usual[severity]),
            advice=file.sxid_advice.get(number, ""),
            in_guide=number in file.sxid_guide,
        )
        for switch in file.sxids
        for severity, names in (
            (Severity.ALWAYS_FATAL, switch.always_fatal),
            (Severity.FATAL, switch.fatal),
            (Severity.NON_FATAL, switch.non_fatal),
        )
        for number, name in names.items()
    ]
    return _by_number(sorted(rows, key=lambda row: row.number))


def switch_units() -> Mapping[str, str]:
    """The units of an NVSwitch, and what each does."""
    return {switch.unit: switch.means for switch in _file().sxids}


def _by_number(rows: Sequence[_Code]) -> Mapping[int, _Code]:
    found = {row.number: row for row in sorted(rows, key=lambda row: row.number)}
    if len(found) != len(rows):
        raise ValueError(f"{FILE.name}: a number stands twice")
    return MappingProxyType(found)


@cache
def consequences() -> frozenset[str]:
    """The catalogue's entries that speak only of Xids which never begin a failure."""
    listed = xids().values()
    return frozenset(entry for row in listed for entry in row.entries) - frozenset(
        entry for row in listed if not row.consequence for entry in row.entries
    )


def link_units() -> tuple[LinkUnit, ...]:
    """The units of an NVLink 5 port."""
    return _file().nvlink5


def link_bits() -> tuple[LinkBits, ...]:
    """What the bits of an Xid 74 mean."""
    return _file().nvlink4


def decode_nvlink5(xid: int, unit: str, intr_info: int, status: int) -> tuple[LinkRule, ...]:
    """Return what an Xid 144 to 150 says: the rules for its unit's name, intrInfo and errorStatus. Empty: not documented."""
    reason = intr_info >> 20 & 0x3F
    return tuple(
        rule
        for found in link_units()
        if found.xid == xid and not {unit, *unit.split("/")}.isdisjoint(found.units)
        for rule in found.rules
        if rule.holds(reason, status)
    )


def decode_nvlink4(words: Sequence[int]) -> tuple[LinkBits, ...]:
    """Return what the seven words of an Xid 74 say (GPUs of the Hopper generation)."""
    return tuple(
        row for row in link_bits() if row.word <= len(words) and any(words[row.word - 1] >> bit & 1 for bit in row.bits)
    )
