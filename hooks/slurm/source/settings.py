"""Settings: one file, which must be nobody else's to change, nor to read where it holds a token."""

import configparser
import os
import re
from typing import Optional

from hooks.slurm.source.noting import user_name

CONFIG_FOLDER = "/etc/firstfault"
DEFAULTS = {
    "url": "",
    "token": "",
    "token_file": "",
    "ca_file": "",
    "proxy": "",
    "timeout": "10",
    "slurm_conf": "",
    "slurm_bin": "/usr/bin",
    "slurmd_log": "/var/log/slurm/slurmd.log",
    "controller_log": "",
    "wait": "10m",
    "report_preempted": "no",
    "report_failed_steps": "no",
    "globs": "",
    "shared_paths": "",
    "kernel_log": "yes",
    "gpus": "yes",
    "file_bytes": "1M",
    "node_bytes": "10M",
    "scan_bytes": "64M",
    "scan_time": "60s",
    "spool": "/var/spool/firstfault",
    "spool_bytes": "256M",
    "spool_age": "72h",
    "log_file": "",
}
SECTION = "hook"


def default_config() -> str:
    """The settings of whoever runs us: `hook-USER.conf` where a machine is node and controller, a user's own, or the site's."""
    own = [os.path.join(CONFIG_FOLDER, "hook-%s.conf" % user_name())]
    if os.geteuid() != 0:
        own.append(os.path.join(os.path.expanduser("~"), ".config", "firstfault", "hook.conf"))
    return next((path for path in own if os.path.isfile(path)), os.path.join(CONFIG_FOLDER, "hook.conf"))


class BadSettings(Exception):
    """The configuration cannot be used; the text says what to change."""


def quantity(text: str) -> int:
    """A number with a unit: bytes (K, M, G) or seconds (s, m, h, d). Raises BadSettings."""
    found = re.match(r"^\s*(\d+(?:\.\d+)?)\s*([KMGsmhd]?)B?\s*$", text)
    if not found:
        raise BadSettings("%r is no size and no time; write for example 16M or 10m" % text)
    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "s": 1, "m": 60, "h": 3600, "d": 86400}
    return int(float(found.group(1)) * units[found.group(2)])


def unfit_to_trust(path: str, secret: bool) -> Optional[str]:
    """Why the file must not be used: others could read it (a secret) or change it. None where it is fit. Raises OSError."""
    facts = os.stat(path)
    if facts.st_uid not in (0, os.geteuid()):
        user = user_name()
        own = ", or give %s a hook-%s.conf" % (user, user) if path == os.path.join(CONFIG_FOLDER, "hook.conf") else ""
        who = "root" if user == "root" else "root or %s" % user
        return "%s belongs to uid %d; make %s its owner%s" % (path, facts.st_uid, who, own)
    if secret and facts.st_mode & 0o077:
        return "%s holds the token and others may read it; run: chmod 600 %s" % (path, path)
    if facts.st_mode & 0o022:
        return "%s may be changed by others; run: chmod go-w %s" % (path, path)
    return None


class Settings:
    """`hook.conf`, checked. Raises BadSettings."""

    def __init__(self, path: str) -> None:
        # No section has an empty name, so none gives the others their defaults.
        parser = configparser.ConfigParser(interpolation=None, default_section="")
        try:
            with open(path, encoding="utf-8") as source:
                parser.read_file(source)
        except OSError as error:
            own = os.geteuid() != 0 and not os.path.exists(path)
            hint = "; a user makes ~/.config/firstfault/hook.conf (mode 0600) as docs/reporting.md says" if own else ""
            raise BadSettings("cannot read %s: %s%s" % (path, error.strerror, hint)) from None
        except UnicodeError:
            raise BadSettings("cannot read %s: it is no text in UTF-8" % path) from None
        except configparser.Error as error:  # whose own words quote the line, and that may be the token's
            lines = [number for number, _ in getattr(error, "errors", ())] or [getattr(error, "lineno", None) or 1]
            raise BadSettings(
                "cannot read %s: line %d is amiss; below [%s], write each setting once, as NAME = VALUE"
                % (path, lines[0], SECTION)
            ) from None
        if not parser.has_section(SECTION):
            raise BadSettings("%s has no section [%s]" % (path, SECTION))
        given = dict(parser.items(SECTION))
        unknown = sorted(set(given) - set(DEFAULTS))
        if unknown:
            unknown = [
                name if re.match(r"[a-z_]{1,24}\Z", name) else "(a line that begins with no name)" for name in unknown
            ]
            raise BadSettings("%s has settings nobody knows: %s" % (path, ", ".join(unknown)))
        for name in sorted(set(given) - {"globs", "shared_paths"}):
            if "\n" in given[name]:
                raise BadSettings(
                    "%s: %s must be one line, and the line after it must not begin with a space" % (path, name)
                )
        known = dict(DEFAULTS, **given)
        unfit = unfit_to_trust(path, secret=bool(known["token"]))
        if unfit:
            raise BadSettings(unfit)
        self.path = path
        self.url = known["url"].rstrip("/")
        if not re.match(r"^https?://[^/\s@]+(?:/\S*)?$", self.url):
            shown = "" if "@" in self.url else ", not %r" % self.url
            raise BadSettings("%s: url must be https://HOST%s" % (path, shown))
        self.token_file = path if known["token"] else known["token_file"]
        self.token = (
            _one_token(known["token"], "token in " + path) if known["token"] else self._token(known["token_file"])
        )
        self.ca_file, self.proxy = known["ca_file"], known["proxy"]
        self.slurm_conf, self.slurm_bin = known["slurm_conf"], known["slurm_bin"]
        self.slurmd_log, self.controller_log = known["slurmd_log"], known["controller_log"]
        self.spool, self.log_file = known["spool"], known["log_file"]

        def amount(name: str) -> int:
            try:
                return quantity(known[name])
            except BadSettings as error:
                raise BadSettings("%s: %s: %s" % (path, name, error)) from None

        self.timeout, self.wait = amount("timeout"), amount("wait")
        self.file_bytes, self.node_bytes = amount("file_bytes"), amount("node_bytes")
        self.scan_bytes, self.scan_time = amount("scan_bytes"), amount("scan_time")
        self.spool_bytes, self.spool_age = amount("spool_bytes"), amount("spool_age")

        def wanted(name: str) -> bool:
            try:
                return parser.BOOLEAN_STATES[known[name].lower()]
            except KeyError:
                raise BadSettings("%s: %s is yes or no, not %r" % (path, name, known[name])) from None

        self.report_preempted, self.report_failed_steps = wanted("report_preempted"), wanted("report_failed_steps")
        self.kernel_log, self.gpus = wanted("kernel_log"), wanted("gpus")
        self.globs = known["globs"].split()
        self.shared_paths = known["shared_paths"].split()

    @staticmethod
    def _token(path: str) -> str:
        if not path:
            raise BadSettings("neither token nor token_file is set")
        try:
            unfit = unfit_to_trust(path, secret=True)
            with open(path, encoding="ascii") as source:
                token = source.read(4096).strip()
        except (OSError, UnicodeError) as error:
            raise BadSettings("cannot read token_file: %s" % error) from None
        if unfit:
            raise BadSettings(unfit)
        return _one_token(token, path)


def _one_token(text: str, place: str) -> str:
    if not re.match(r"[!-~]+\Z", text):
        raise BadSettings("%s must hold one token and nothing else" % place)
    return text
