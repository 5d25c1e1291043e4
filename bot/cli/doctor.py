"""`firstfault doctor`: one line a check, and for what is wrong the remedy."""

from __future__ import annotations

import asyncio
import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from bot.cli import output
from bot.doctor.examine import examine
from bot.doctor.finding import Finding, Level, fail
from bot.settings import SettingsInvalidError, load

_COLOURS = {Level.OK: "32", Level.WARN: "33", Level.FAIL: "1;31"}


def run(config: Path | None, *, as_json: bool) -> int:
    """Print all findings; return the exit status: 0 nothing fails, 1 something does."""
    findings = _findings(config)
    good = all(finding.level is not Level.FAIL for finding in findings)
    if as_json:
        document = {"ok": good, "findings": [asdict(finding) for finding in findings]}
        output.write(json.dumps(document, ensure_ascii=False) + "\n")
    else:
        output.write("\n".join(_lines(findings)) + "\n")
    return 0 if good else 1


def _findings(config: Path | None) -> list[Finding]:
    try:
        settings = load(config)
    except SettingsInvalidError as error:
        remedy = "correct it in the settings file or the environment; docs/configuration.md lists all"
        return [fail("settings", line, remedy) for line in str(error).splitlines()]
    return asyncio.run(examine(settings))


def _lines(findings: Sequence[Finding]) -> Iterator[str]:
    wide = max(len(finding.check) for finding in findings)
    room = max(40, output.width() - wide - 8)
    for finding in findings:
        head = f"{_painted(finding.level)}  {finding.check:{wide}}  "
        lines = textwrap.wrap(finding.detail, room) or [""]
        yield head + lines[0]
        indent = " " * (wide + 8)
        yield from (indent + line for line in lines[1:])
        if finding.remedy and finding.level is not Level.OK:
            yield from (indent + line for line in textwrap.wrap(f"→ {finding.remedy}", room, subsequent_indent="  "))


def _painted(level: Level) -> str:
    text = f"{level:4}"
    return f"\x1b[{_COLOURS[level]}m{text}\x1b[0m" if output.coloured() else text
