"""What `firstfault hook install slurm` writes into hook.conf: a new file, or another address and token in an operator's own."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hooks.slurm.source.service import Away, Service
from hooks.slurm.source.settings import BadSettings, Settings


@dataclass(frozen=True, slots=True)
class Change:
    """One file of settings as it will be."""

    text: str
    shown: str
    """What may be seen of the change: never the token, nor what else the operator wrote."""
    of_old: str = ""
    """Which settings of a file that was there change, such as "url and token"; "" for a new file."""


def new(bot: str, token: str, more: dict[str, str]) -> Change:
    """The first settings of a machine, with `more` of them by name."""
    head = (
        f"# Made by `firstfault hook install slurm`; hooks/slurm/hook.conf lists all settings.\n[hook]\nurl = {bot}\n"
    )
    rest = "".join(f"{name} = {value}\n" for name, value in more.items())
    return Change(f"{head}token = {token}\n{rest}", f"{head}token = (from the token file)\n{rest}")


def renewed(text: str, bot: str | None, token: str | None) -> Change | None:
    """The operator's file with this address and token; every other line stays. None where nothing changes.

    A `token_file` gives way to the token, which would hide it. Raises ValueError where there is no section [hook].
    """
    found = re.search(r"(?ms)^\[hook\][^]\r\n]*\r?$\n?(?P<lines>.*?)(?=^\[|\Z)", text)
    if found is None:
        raise ValueError("has no section [hook]; mend it, or remove it to have a new one made")
    lines = found["lines"].splitlines(keepends=True)
    first = next((line for line in lines if re.match(r"[ \t]*\w", line)), "")
    changed: list[str] = []
    shown = ""
    for name, names, value in (("url", "url", bot), ("token", "token|token_file", token)):
        if value is None:
            continue
        there = _settings_in(lines)
        places = [at for at in there if re.match(rf"(?i)[ \t]*(?:{names})[ \t]*[=:]", lines[at])]
        old = [lines[at] for at in places]
        end = "\r\n" if "\r\n" in text else "\n"
        wanted = f"{_indent(old[0] if old else first)}{name} = {value}{end}"
        more = [at for place in places for at in there[place]]
        if not more and [line.rstrip() for line in old] == [wanted.rstrip()]:
            continue
        for at in sorted([*places, *more], reverse=True):
            del lines[at]
        lines.insert(places[0] if places else 0, wanted)
        changed.append(name)
        shown += f"{name} = {value if name == 'url' else '(from the token file)'}\n"
    if not changed:
        return None
    head = text[: found.start("lines")]
    head += "" if head.endswith("\n") else "\n"
    return Change(head + "".join(lines) + text[found.end("lines") :], shown, " and ".join(changed))


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _settings_in(lines: list[str]) -> dict[int, list[int]]:
    """Where each setting stands, and the lines that go on with its value: those further in than it."""
    found: dict[int, list[int]] = {}
    at: int | None = None
    for number, line in enumerate(lines):
        if not line.strip() or line.strip()[0] in "#;":
            continue
        if at is not None and len(_indent(line)) > len(_indent(lines[at])):
            found[at].append(number)
        else:
            found[at := number] = []
    return found


def unheard(change: Change) -> str | None:
    """Why the service would take no report with these settings, asked now. None where it would."""
    with tempfile.TemporaryDirectory(prefix="firstfault-") as folder:
        path = Path(folder, "hook.conf")
        path.touch(mode=0o600)
        path.write_text(change.text, "utf-8")
        try:
            with Service(Settings(str(path)), patience=0) as service:
                service.greet()
        except (Away, BadSettings, OSError) as error:
            return str(error).replace(str(path), "hook.conf")
    return None
