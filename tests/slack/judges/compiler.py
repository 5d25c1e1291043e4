"""The judge that Slack wrote: `@slack/types`, by which `tsc --strict` takes payloads as literals.

Types do not look at words, so of payloads that differ in nothing else one is compiled.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.slack.judges.sent import Payload
from tests.slack.npm import install, node

SOURCE = Path(__file__).parent / "typescript"
WORDS = frozenset({"text", "url", "value", "user_id", "block_id", "private_metadata", "initial_user", "name", "title"})
COMPILE_SECONDS = 300
_FLAGS = ("--strict", "--noEmit", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "--pretty", "false")
_ERROR = re.compile(r"^judged\.ts\((?P<line>\d+),\d+\): error (?P<said>.*)$", re.MULTILINE)
_IMPORTS = "import type { Message, View } from './sent.js'\n"


def problems(payloads: Iterable[Payload]) -> dict[str, list[str]]:
    """Return what the types refuse, by the names of the payloads. Raises NotInstalledError."""
    shapes = {f"{payload.kind}:{json.dumps(_shape(payload.content))}": payload for payload in payloads}
    judged = list(shapes.values())
    lines = [
        f"export const _{number}: {payload.kind.title()} = {json.dumps(_shape(payload.content))}"
        for number, payload in enumerate(judged)
    ]
    found: dict[str, list[str]] = {}
    for line, said in _compile(_IMPORTS + "\n".join(lines) + "\n"):
        name = judged[line - 2].name if line >= 2 else "the file itself"
        found.setdefault(name, []).append(said)
    return found


def _compile(source: str) -> list[tuple[int, str]]:
    """Return the errors of a file beside `sent.ts`, each with its line."""
    installed = install(SOURCE, "slack-types")
    with tempfile.TemporaryDirectory(dir=installed) as folder:
        shutil.copy(SOURCE / "sent.ts", folder)
        Path(folder, "package.json").write_text('{"type": "module"}')
        Path(folder, "judged.ts").write_text(source, encoding="utf-8")
        command = [node(), str(installed / "node_modules" / "typescript" / "bin" / "tsc"), *_FLAGS, "judged.ts"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
    errors = [(int(error["line"]), error["said"]) for error in _ERROR.finditer(done.stdout)]
    if done.returncode and not errors:
        raise RuntimeError(f"tsc failed: {(done.stdout + done.stderr)[-1_000:]}")
    return errors


def _shape(value: Any, key: str = "") -> Any:
    """The value without its words, and of like members of a list only one."""
    if isinstance(value, dict):
        return {name: _shape(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return list({json.dumps(shape): shape for shape in (_shape(inner, key) for inner in value)}.values())
    return "…" if key in WORDS and isinstance(value, str) else value
