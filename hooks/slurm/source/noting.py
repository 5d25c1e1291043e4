"""The hook's own log: a file that is turned over, or syslog."""

import contextlib
import os
import pwd
import syslog
import time

LOG_FILE_BYTES = 1 << 20
_log_file = ""


def log_to(path: str) -> None:
    """Write the log into this file from now on; "" is syslog."""
    global _log_file
    _log_file = path


def note(text: str) -> None:
    """One line in the hook's own log: the file of the settings, kept small, or syslog. Never fails."""
    text = "".join(c if c.isprintable() else "?" for c in text)[:1000]
    try:
        if not _log_file:
            syslog.openlog("firstfault-hook", syslog.LOG_PID, syslog.LOG_DAEMON)
            syslog.syslog(syslog.LOG_NOTICE, text)
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
    except Exception:
        pass


def user_name() -> str:
    """Who runs us; `uid-1001` where that user has no name here."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return "uid-%d" % os.geteuid()
