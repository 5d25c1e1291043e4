"""`firstfault hook install slurm`: what an operator puts on a node or controller, shown first, applied, checked, taken away."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bot.cli.hook_run import HOOK, WrongOptionError, address, token_in
from bot.cli.hook_settings import Change, new, renewed, unheard
from bot.cli.slurm_conf import NAMED_BY, SlurmConf, in_use

PLACE = Path("/usr/local/sbin/firstfault-hook")
FOLDER = Path("/etc/firstfault")
SPOOL = Path("/var/spool/firstfault")


class InstallError(Exception):
    """It cannot be installed so; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Site:
    """One machine: its slurm.conf, who runs hooks on it, and below which folder everything lies (`/`, or a staged root)."""

    conf: SlurmConf
    root: Path
    controller: bool
    node: bool

    def at(self, path: Path) -> Path:
        """The path on this machine."""
        return self.root / path.relative_to("/")

    @property
    def in_use(self) -> set[str] | None:
        """By which settings the Slurm that runs names the hook. None where it does not answer; an image has none."""
        return in_use(self.conf.path, PLACE) if self.root == Path("/") else None

    @property
    def configs(self) -> dict[Path, str]:
        """Each file of settings, and the user who runs the hook with it."""
        root = pwd.getpwuid(os.geteuid()).pw_name
        if not self.controller:
            return {FOLDER / "hook.conf": root}
        user = self.conf.get("SlurmUser") or "root"
        if not self.node or user == root:
            return {FOLDER / "hook.conf": user}
        return {FOLDER / "hook.conf": root, FOLDER / f"hook-{user}.conf": user}


def install(site: Site, bot: str | None, token_file: Path | None, *, apply: bool) -> int:
    """Show what would be installed, or install it.

    An installation that exists keeps its settings, but for the address and the token that are given, and gets the new
    hook. Exit status: 0 done, 2 something has to be changed first.
    """
    try:
        changes = _changes(site, bot, token_file)
        lines, joins, remarks = site.conf.lines_for(PLACE)
        is_new = not site.at(PLACE).exists()
        deaf = {why for change in changes.values() if (why := unheard(change))}
        if apply:
            _apply(site, changes, lines)
    except (InstallError, WrongOptionError, OSError) as error:
        print(f"firstfault: {error}", file=sys.stderr)
        return 2
    verb, changing = ("wrote", "changed") if apply else ("would write", "would change")
    print(f"{verb} {site.at(PLACE)} (mode 0755)")
    for path, change in changes.items():
        what = f"{changing} {change.of_old} in" if change.of_old else verb
        rest = "; its other lines stay" if change.of_old else ""
        print(f"{what} {site.at(path)} (mode 0600, owner {site.configs[path]}){rest}")
        if not apply:
            print("\n".join(f"    {line}" for line in change.shown.splitlines()))
    if lines:
        print(f"{verb} to {site.conf.path}:\n" + "\n".join(f"    {line}" for line in lines))
    for remark in (
        joins + remarks + [f"from here the service takes no report with these settings: {why}" for why in deaf]
    ):
        print(f"note  {remark}")
    if not apply:
        print("next  the same with --apply, on every node and on the controller; nothing was changed")
        return 0
    if lines or _unused(site) or (is_new and site.in_use is None):
        print("next  once every node has the hook, for Slurm drains a node whose Epilog is missing:")
        print("    systemctl restart slurmctld    # on the controller: EpilogSlurmctld and JobCompType need it")
        print("    scontrol reconfigure           # for the nodes")
    else:
        print("next  nothing has to be restarted:")
    place = "" if site.conf.path == Path("/etc/slurm/slurm.conf") else f" --slurm-conf {site.conf.path}"
    print(f"    {Path(sys.executable).with_name('firstfault')} hook install slurm --check{place}")
    return 0


def _changes(site: Site, bot: str | None, token_file: Path | None) -> dict[Path, Change]:
    """What becomes of the files of settings: those that are missing are made, in the others what is given is replaced."""
    url = address(bot) if bot else None
    token = token_in(token_file) if token_file else None
    more = {"slurm_conf": str(site.conf.path)}
    for ours, theirs, wanted in (
        ("slurmd_log", "SlurmdLogFile", site.node),
        ("controller_log", "SlurmctldLogFile", site.controller),
    ):
        if wanted and (value := site.conf.get(theirs)):
            more[ours] = value
    changes: dict[Path, Change] = {}
    for path in site.configs:
        there = site.at(path)
        if there.exists():
            try:
                change = renewed(there.read_bytes().decode("utf-8"), url, token)
            except ValueError as error:
                why = "is no text in UTF-8" if isinstance(error, UnicodeError) else error
                raise InstallError(f"{there} {why}") from None
        elif url and token:
            change = new(url, token, more)
        else:
            raise InstallError(
                "a new installation needs --bot URL and --token-file FILE; `firstfault cluster add` prints a token"
            )
        if change:
            changes[path] = change
    return changes


def _apply(site: Site, changes: dict[Path, Change], lines: list[str]) -> None:
    write(site.at(PLACE), HOOK.read_text("utf-8"), mode=0o755)
    spool = site.at(SPOOL)
    spool.mkdir(parents=True, exist_ok=True)
    spool.chmod(0o711)
    for path, user in site.configs.items():
        if path in changes:
            write(site.at(path), changes[path].text, mode=0o600, owner=user)
        own = spool / user
        own.mkdir(exist_ok=True)
        own.chmod(0o700)
        _give(own, user)
    site.at(FOLDER).chmod(0o755)
    if lines:
        site.conf.add(lines)


def write(path: Path, text: str, *, mode: int, owner: str | None = None) -> None:
    """Replace the file at once: a hook that runs meanwhile sees the old one or the new one, and nobody sees a secret."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as target:
            target.write(text)
        Path(part).chmod(mode)
        if owner:
            _give(Path(part), owner)
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def _give(path: Path, user: str) -> None:
    if pwd.getpwuid(path.stat().st_uid).pw_name != user:
        try:
            shutil.chown(path, user)
        except (LookupError, PermissionError) as error:
            raise InstallError(f"cannot give {path} to {user} ({error}); run this as root") from error


def uninstall(site: Site) -> int:
    """Take everything away but the reports that wait: our lines first, and the hook once Slurm has forgotten it.

    Slurm drains a node whose Epilog is missing. Exit status: 0 done, or done so far and what is next is said; 2 a file
    could not be removed.
    """
    waiting = sum(1 for _ in site.at(SPOOL).glob("*/*.report"))
    reports = f"{waiting} report{'s' * (waiting != 1)}"
    flush = f"{site.at(PLACE)} --flush"
    try:
        removed = site.conf.remove()
        if removed:
            print(f"removed our lines from {site.conf.path}")
        if site.root == Path("/") and (removed or site.in_use):
            print(f"left {PLACE}, which Slurm may still call: it drains a node whose Epilog is missing")
            if waiting:
                print(f"left {SPOOL} with {reports}; before the hook goes: {flush}")
            print("next  restart slurmctld, scontrol reconfigure, then --uninstall again: it removes the hook")
            return 0
        found = [site.at(path) for path in (PLACE, *site.configs) if site.at(path).exists()]
        for path in found:
            path.unlink()
            print(f"removed {path}")
    except OSError as error:
        print(f"firstfault: {error}", file=sys.stderr)
        return 2
    if waiting:
        print(f"left {site.at(SPOOL)} with {reports}; before this: {flush}")
    elif site.at(SPOOL).exists():
        print(f"left {site.at(SPOOL)}, where no report waits")
    elif not removed and not found:
        print("nothing of the hook is here")
    return 0


def check(site: Site) -> int:
    """Say whether this machine is ready to report. Exit status: 0 it is, 1 something stands in the way."""
    good = True
    for said_good, text in _checks(site):
        print(("ok    " if said_good else "WRONG ") + text)
        good = good and said_good
    for path, user in site.configs.items():
        command = [str(site.at(PLACE)), "--config", str(site.at(path)), "--check"]
        if not site.at(PLACE).exists():
            continue
        print(f"--- as {user}")
        other = user if os.geteuid() == 0 and user != pwd.getpwuid(0).pw_name else None
        sys.stdout.flush()
        good = subprocess.run(command, user=other, check=False).returncode == 0 and good
    return 0 if good else 1


def _checks(site: Site) -> Iterator[tuple[bool, str]]:
    hook = site.at(PLACE)
    if not hook.exists():
        yield False, f"{hook} is missing; run the same with --apply"
    else:
        same = hook.read_bytes() == HOOK.read_bytes()
        yield same, f"{hook} is " + ("this release's" if same else "another release's; run the same with --apply")
        mode = hook.stat().st_mode & 0o777
        yield mode & 0o022 == 0 and mode & 0o111 == 0o111, f"{hook} has mode {mode:04o}"
    lines, joins, remarks = site.conf.lines_for(PLACE)
    for line in lines:
        yield False, f"{site.conf.path} lacks {line}"
    for join in joins:
        yield False, join
    for remark in remarks:
        yield True, remark
    if not lines and not joins:
        yield True, f"{site.conf.path} names the hook"
    if unused := _unused(site):
        yield False, f"Slurm does not use it yet ({', '.join(unused)}): restart slurmctld and run scontrol reconfigure"


def _unused(site: Site) -> list[str]:
    """The settings that name the hook in slurm.conf and not in the Slurm that runs."""
    used = site.in_use
    return [key for key in NAMED_BY if used is not None and key not in used and site.conf.get(key) == str(PLACE)]


def run(
    *,
    bot: str | None,
    token_file: Path | None,
    slurm_conf: Path | None,
    root: Path,
    controller: bool | None,
    deed: str,
) -> int:
    """Do one of "show", "apply", "check", "uninstall" on this machine."""
    try:
        conf = SlurmConf.read(
            (slurm_conf or Path(os.environ.get("SLURM_CONF") or root / "etc/slurm/slurm.conf")).absolute()
        )
    except OSError as error:
        print(f"firstfault: cannot read slurm.conf: {error}; name it with --slurm-conf", file=sys.stderr)
        return 2
    here = os.uname().nodename
    is_controller = conf.is_controller(here) if controller is None else controller
    site = Site(conf, root, controller=is_controller, node=conf.is_node(here) or not is_controller)
    if deed == "check":
        return check(site)
    if deed == "uninstall":
        return uninstall(site)
    return install(site, bot, token_file, apply=deed == "apply")
