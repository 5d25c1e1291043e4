"""A site's slurm.conf: what it says, and our lines in it, which stand between two marks and nowhere else."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

BEGIN = "# begin firstfault-hook: firstfault hook install slurm --uninstall takes these lines away"
END = "# end firstfault-hook"
UNSET = {"", "(null)", "none", "jobcomp/none"}
NAMED_BY = ("Epilog", "EpilogSlurmctld", "JobCompLoc")


@dataclass(slots=True)
class SlurmConf:
    """slurm.conf as it was read, byte for byte, and the text of the files that it includes."""

    path: Path
    text: str
    included: str = ""

    @classmethod
    def read(cls, path: Path) -> SlurmConf:
        """Raises OSError where it cannot be read."""
        text = _text_of(path)
        named = re.findall(r"(?im)^[ \t]*Include[ \t]+(\S+)", text)
        others = [path.parent / name for name in named if (path.parent / name).is_file()]
        return cls(path, text, "\n".join(map(_text_of, others)))

    @property
    def _all(self) -> str:
        return f"{self.included}\n{self.text}"

    def get(self, key: str) -> str:
        """The last value of the key, or ""."""
        found = re.findall(rf"(?im)^\s*{key}\s*=\s*([^#\n]*)", self._all)
        return found[-1].strip().strip('"') if found else ""

    def is_controller(self, host: str) -> bool:
        """Whether slurmctld runs on this host."""
        named = re.findall(r"(?im)^\s*(?:SlurmctldHost|ControlMachine|BackupController)\s*=\s*([\w.-]+)", self._all)
        return _short(host) in map(_short, named)

    def is_node(self, host: str) -> bool:
        """Whether this host looks like a node; of lists such as `gpu[01-64]` any number will do."""
        lists = re.findall(r"(?im)^\s*NodeName=(\S+)|\bNodeHostname=(\S+)", self._all)
        names = [name for pair in lists for each in pair for name in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", each)]
        patterns = [re.sub(r"\\\[.*?\]", r"\\d+", re.escape(_short(name))) for name in names]
        return any(re.fullmatch(pattern, _short(host)) for pattern in patterns)

    def lines_for(self, hook: Path) -> tuple[list[str], list[str], list[str]]:
        """(lines that are missing, what a person has to join by hand, what is worth knowing).

        They are the same on all machines, as slurm.conf has to be.
        """
        lines: list[str] = []
        joins: list[str] = []
        remarks: list[str] = []
        for key in ("Epilog", "EpilogSlurmctld"):
            value = self.get(key)
            if value.lower() in UNSET:
                lines.append(f"{key}={hook}")
            elif value != str(hook) and not _calls(value, hook):
                joins.append(
                    f"{key} is {value} already: let it call {hook} with the environment it has, before it ends"
                )
        completion = self.get("JobCompType")
        if completion.lower() in UNSET:
            lines += ["JobCompType=jobcomp/script", f"JobCompLoc={hook}"]
        elif self.get("JobCompLoc") != str(hook):
            remarks.append(f"JobCompType is {completion} already and stays: the hook then asks Slurm how a job ended")
        if re.search(r"(?im)^\s*PrologFlags\s*=.*RunInJob", self.text):
            remarks.append("PrologFlags has RunInJob, which ends the hook with the job: see Limits in docs/slurm.md")
        return lines, joins, remarks

    def add(self, lines: list[str]) -> None:
        """Write the lines at the end. What the file was before stays beside it as slurm.conf.before-firstfault."""
        rest, ours = _parted(self.text)
        before = self._before
        before.touch(mode=0o600)
        before.write_bytes(rest.encode("utf-8", "surrogateescape"))
        self._replace("\n".join([rest, BEGIN, *ours, *lines, END, ""]))

    def remove(self) -> bool:
        """Take our lines away, so that the file is as if they had never been there; whether there were any."""
        rest, ours = _parted(self.text)
        if ours:
            self._replace(rest)
        if self._before.is_file() and self._before.read_bytes() == rest.encode("utf-8", "surrogateescape"):
            self._before.unlink()
        return bool(ours)

    @property
    def _before(self) -> Path:
        return self.path.with_name(self.path.name + ".before-firstfault")

    def _replace(self, text: str) -> None:
        target = self.path.resolve()
        before = target.stat()
        handle, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as new:
            new.write(text.encode("utf-8", "surrogateescape"))
        Path(part).chmod(before.st_mode & 0o7777)
        if os.geteuid() == 0:
            os.chown(part, before.st_uid, before.st_gid)
        Path(part).replace(target)
        self.text = text


def in_use(conf: Path, hook: Path) -> set[str] | None:
    """Which of `NAMED_BY` name the hook in the configuration that slurmctld runs with. None where it does not answer."""
    try:
        asked = subprocess.run(
            ["scontrol", "show", "config"],
            env={**os.environ, "SLURM_CONF": str(conf), "LC_ALL": "C"},
            capture_output=True, text=True, errors="replace", timeout=30, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return naming(asked.stdout, hook) if asked.returncode == 0 else None


def naming(config: str, hook: Path) -> set[str]:
    """Which of `NAMED_BY` name the hook in what `scontrol show config` prints; some versions number them: `Epilog[0]`."""
    found = re.findall(r"(?m)^(\w+)(?:\[\d+\])?\s*=\s*(.*?)\s*$", config)
    return {key for key, value in found if key in NAMED_BY and str(hook) in value.split(",")}


def _text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def _short(host: str) -> str:
    return host.partition(".")[0]


def _parted(text: str) -> tuple[str, list[str]]:
    """(what is the site's, our lines)."""
    found = re.search(rf"(?ms)\n?^{re.escape(BEGIN)}\n(.*?)^{re.escape(END)}\n?", text)
    if found is None:
        return text, []
    return text[: found.start()] + text[found.end() :], found[1].splitlines()


def _calls(script: str, hook: Path) -> bool:
    """Whether the site's own script names the hook."""
    try:
        return str(hook) in Path(script).read_text("utf-8", "replace")
    except OSError:
        return False
