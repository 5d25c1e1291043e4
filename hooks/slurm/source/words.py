"""Words and times of Slurm."""

import itertools
import re
import time

NOTHING = ("", "(null)", "None", "N/A", "Unknown", "n/a")


def hosts(hostlist, limit=100000):
    """The hosts of a Slurm host list such as `gpu[01-03,7],login`, in order, at most `limit`."""
    names = []
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", hostlist or ""):
        expanded = [""]
        for text, ranges in re.findall(r"([^\[\]]+)|\[([^\]]*)\]", part):
            choices = [text] if text else _numbers(ranges, limit)
            pairs = (left + right for left in expanded for right in choices)
            expanded = list(itertools.islice(pairs, limit))
        names += expanded
    return names[:limit]


def _numbers(ranges, limit):
    numbers = []
    for part in ranges.split(","):
        low, _, high = part.partition("-")
        if whole(low) is not None and whole(high) is not None:
            last = min(int(high), int(low) + limit - len(numbers))
            numbers += ["%0*d" % (len(low), n) for n in range(int(low), last + 1)]
        elif part:
            numbers.append(part)
    return numbers


def whole(text):
    """The number that the text is in ASCII digits, of at most 18; None for anything else."""
    return int(text) if re.match(r"[0-9]{1,18}\Z", text or "") else None


LATEST = 1 << 36  # seconds since 1970 that every clock's functions still take


def epoch(text):
    """Seconds since 1970 of Slurm's local `2026-11-30T08:16:12` or of a plain number; None for `Unknown`."""
    if not text or text in NOTHING:
        return None
    if whole(text) is not None:
        return float(text) if 0 < whole(text) < LATEST else None
    try:
        return time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def utc(seconds):
    return None if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def duration(text):
    """Seconds of `[days-]hours:minutes:seconds`; None for UNLIMITED and the like."""
    found = re.match(r"^(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})$", text or "")
    if not found:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def code_and_signal(text):
    """(exit code, signal) of Slurm's `143:0`; (0, 0) where there is none."""
    found = re.match(r"^(\d{1,9}):(\d{1,9})\b", text or "")
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def base_state(word):
    """The state without its flags: newer versions write several words, the base state first."""
    words = re.findall(r"[A-Z_]+", (word or "").partition(" by ")[0])
    return next((w for w in words if w != "COMPLETING"), "COMPLETING" if words else "")
