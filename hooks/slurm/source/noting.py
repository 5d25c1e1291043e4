"""The hook's own log: a file that is turned over, or syslog."""

import contextlib
import os
import pwd
import socket
import syslog
import time

LOG_FILE_BYTES = 1 << 20
SYSLOG = "/dev/log"
SYSLOG_TIME = 1  # seconds that it may take, once
_log_file = ""
_silent = False  # whether syslog hangs


def log_to(path: str) -> None:
    """Write the log into this file from now on; "" is syslog."""
    global _log_file
    _log_file = path


def note(text: str) -> None:
    """One line in the hook's own log: the file of the settings, kept small, or syslog. Never fails."""
    text = "".join(c if c.isprintable() else "?" for c in text)[:1000]
    try:
        if not _log_file:
            _to_syslog(text)
            return
        with contextlib.suppress(OSError):
            if os.lstat(_log_file).st_size > LOG_FILE_BYTES:
                os.replace(_log_file, _log_file + ".1")
        log = os.open(_log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            os.write(log, ("%s %s[%d] %s\n" % (stamp, user_name(), os.getpid(), text)).encode("utf-8", "replace"))
        finally:
            os.close(log)
    except (OSError, ValueError):
        pass


def _to_syslog(text: str) -> None:
    """As syslog(3) does, which waits for ever for one that hangs. Raises OSError."""
    global _silent
    if _silent:
        return
    stamp = time.strftime("%b %d %H:%M:%S")
    line = "<%d>%s firstfault-hook[%d]: %s" % (syslog.LOG_DAEMON | syslog.LOG_NOTICE, stamp, os.getpid(), text)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as way:
        way.settimeout(SYSLOG_TIME)
        try:
            way.connect(SYSLOG)
            way.send(line.encode("utf-8", "replace"))
        except socket.timeout:
            _silent = True


def user_name() -> str:
    """Who runs us; `uid-1001` where that user has no name here."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return "uid-%d" % os.geteuid()
