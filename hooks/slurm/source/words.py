"""Words and times of Slurm."""

import itertools
import re
import time
from typing import List, Optional, Tuple

NOTHING = ("", "(null)", "None", "N/A", "Unknown", "n/a")
LIVE = {"PENDING", "RUNNING", "CONFIGURING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT",
        "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "POWER_UP_NODE"}  # fmt: skip


def hosts(hostlist: Optional[str], limit: int = 100000) -> List[str]:
    """The hosts of a Slurm host list such as `gpu[01-03,7],login`, in order, at most `limit`."""
    names: List[str] = []
    for each in re.finditer(r"(?:[^,\[\]]|\[[^\]]*\])+", hostlist or ""):
        part, expanded = each.group(), [""]
        for text, ranges in re.findall(r"([^\[\]]+)|\[([^\]]*)\]", part):
            choices = [text] if text else _numbers(ranges, limit)
            pairs = (left + right for left in expanded for right in choices)
            expanded = list(itertools.islice(pairs, limit))
        names += expanded
        if len(names) >= limit:
            break
    return names[:limit]


def _numbers(ranges: str, limit: int) -> List[str]:
    numbers: List[str] = []
    for part in ranges.split(","):
        low, _, high = part.partition("-")
        if whole(low) is not None and whole(high) is not None:
            last = min(int(high), int(low) + limit - len(numbers))
            numbers += ["%0*d" % (len(low), n) for n in range(int(low), last + 1)]
        elif part:
            numbers.append(part)
    return numbers


def whole(text: Optional[str]) -> Optional[int]:
    """The number that the text is in ASCII digits, of at most 18; None for anything else."""
    return int(text) if text and re.match(r"[0-9]{1,18}\Z", text) else None


LATEST = 1 << 36  # seconds since 1970 that every clock's functions still take


def epoch(text: Optional[str]) -> Optional[float]:
    """Seconds since 1970 of Slurm's local `2026-11-30T08:16:12` or of a plain number; None for `Unknown`."""
    if not text or text in NOTHING:
        return None
    number = whole(text)
    if number is not None:
        return float(number) if 0 < number < LATEST else None
    try:
        return time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def utc(seconds: Optional[float]) -> Optional[str]:
    """The time that is so many seconds after 1970 began, as `2026-11-30T08:16:12Z`; None for None."""
    return None if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def duration(text: Optional[str]) -> Optional[int]:
    """Seconds of `[days-]hours:minutes:seconds`; None for UNLIMITED and the like."""
    found = re.match(r"^(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})$", text or "")
    if not found:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def code_and_signal(text: Optional[str]) -> Tuple[int, int]:
    """(exit code, signal) of Slurm's `143:0`; (0, 0) where there is none."""
    found = re.match(r"^(\d{1,9}):(\d{1,9})\b", text or "")
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def base_state(word: Optional[str]) -> str:
    """The state without its flags: newer versions write several words, the base state first."""
    words = re.findall(r"[A-Z_]+", (word or "").partition(" by ")[0])
    return next((w for w in words if w != "COMPLETING"), "COMPLETING" if words else "")
