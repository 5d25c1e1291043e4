"""Timestamps in log lines: many formats, one number.

A time is seconds since the epoch as a float. Where a line gives no zone, its wall-clock reading is taken as UTC; where it
gives no year, `year` is. Such times order lines of one host; hosts are compared only after their offsets are known.
"""

from __future__ import annotations

import re
from calendar import timegm
from dataclasses import dataclass

_MONTHS = {
    name: number for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), start=1)
}

_ISO = re.compile(
    r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)[T _](?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?:[.,](?P<f>\d{1,9}))?"
    r"(?P<z>Z|[+-]\d\d:?\d\d)?"
)
_GLOG = re.compile(r"(?:^|[\[\s:])[IWEFV](?P<md>\d{3,4}) (?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)\.(?P<f>\d{1,9})")
_CTIME = re.compile(
    r"[A-Z][a-z]{2} (?P<mon>[A-Z][a-z]{2}) +(?P<d>\d{1,2}) (?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d) (?P<y>\d{4})"
)
_SYSLOG = re.compile(r"^(?P<mon>[A-Z][a-z]{2}) +(?P<d>\d{1,2}) (?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?:\.(?P<f>\d+))? ")
_SLASH = re.compile(r"(?P<y>\d{4}|\d\d)/(?P<m>\d\d)/(?P<d>\d\d) (?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)")

_YEARS = range(1970, 9000)  # which a date can hold, whatever the hours and zones say
_WINDOW = 200  # characters of a line in which its timestamp is looked for


@dataclass(slots=True, frozen=True)
class Timestamp:
    """`seconds` since the epoch, and whether the line itself gave the zone and the year."""

    seconds: float
    zoned: bool
    dated: bool


def _seconds(year: int, month: int, day: int, found: re.Match[str]) -> float | None:
    if not (1 <= month <= 12 and 1 <= day <= 31 and year in _YEARS):
        return None
    whole = timegm((year, month, day, int(found["H"]), int(found["M"]), int(found["S"]), 0, 0, 0))
    fraction = found.groupdict().get("f")
    return whole + (float("0." + fraction) if fraction else 0.0)


def _zone_offset(zone: str) -> int:
    if zone == "Z":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return (minutes if zone[0] == "+" else -minutes) * 60


def parse_time(line: str, year: int) -> Timestamp | None:
    """Find the timestamp in the first part of a clean line; None where there is none."""
    head = line[:_WINDOW]
    found = _ISO.search(head)
    if found:
        seconds = _seconds(int(found["y"]), int(found["m"]), int(found["d"]), found)
        if seconds is None:
            return None
        zone = found["z"]
        return Timestamp(seconds - (_zone_offset(zone) if zone else 0), zone is not None, dated=True)
    found = _GLOG.search(head)
    if found:
        digits = found["md"]
        seconds = _seconds(year, int(digits[:-2]), int(digits[-2:]), found)
        return None if seconds is None else Timestamp(seconds, zoned=False, dated=False)
    found = _CTIME.search(head)
    if found and found["mon"] in _MONTHS:
        seconds = _seconds(int(found["y"]), _MONTHS[found["mon"]], int(found["d"]), found)
        return None if seconds is None else Timestamp(seconds, zoned=False, dated=True)
    found = _SYSLOG.search(head)
    if found and found["mon"] in _MONTHS:
        seconds = _seconds(year, _MONTHS[found["mon"]], int(found["d"]), found)
        return None if seconds is None else Timestamp(seconds, zoned=False, dated=False)
    found = _SLASH.search(head)
    if found:
        number = int(found["y"])
        seconds = _seconds(number if number > 99 else 2000 + number, int(found["m"]), int(found["d"]), found)
        return None if seconds is None else Timestamp(seconds, zoned=False, dated=True)
    return None
